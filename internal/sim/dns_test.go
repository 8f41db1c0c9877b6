package sim

import (
	"fmt"
	"strings"

	"github.com/spillway-dev/spillway/internal/zone"
)

// resolved is what a resolver is told of a name.
type resolved struct {
	code      zone.RCode
	addresses []string
	ttl       uint32
}

// resolve asks as a resolver of which nothing is known.
func (w *world) resolve(name string, typ zone.Type) (resolved, error) {
	n, err := zone.ParseName(name)
	if err != nil {
		return resolved{}, err
	}
	r := zone.Answer(w.plane.DNS, zone.Question{Name: []byte(n), Type: typ, Class: zone.ClassIN}, zone.Client{})
	out := resolved{code: r.RCode}
	for _, a := range r.Answer {
		out.addresses = append(out.addresses, a.Addr.String())
		out.ttl = a.TTL
	}
	return out, nil
}

// String is "NOERROR 192.0.2.1 192.0.2.2 ttl 5", or the code alone; "NODATA" if
// the name is there and has no address.
func (r resolved) String() string {
	switch {
	case r.code == zone.NoError && len(r.addresses) == 0:
		return "NODATA"
	case len(r.addresses) == 0:
		return r.code.String()
	}
	return fmt.Sprintf("%s ttl %d", strings.Join(r.addresses, " "), r.ttl)
}

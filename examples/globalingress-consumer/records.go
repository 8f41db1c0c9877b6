package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// record is one of a zone file.
type record struct{ host, kind, value string }

// recordsOf are those of a GlobalIngress: of each host, the addresses of the sites that
// serve it. A name that has an alias may have nothing else (RFC 1034, 3.6.2), so a site
// with a host name is used only where no site has addresses, and then the first one.
func recordsOf(o *v1alpha1.GlobalIngress) []record {
	var out []record
	for _, host := range o.Spec.Hosts {
		var addresses, names []record
		for _, site := range o.Spec.Sites {
			if !site.Serving || slices.Contains(site.ExceptHosts, host) {
				continue
			}
			for _, a := range site.Addresses {
				switch ip, err := netip.ParseAddr(a.Value); {
				case err != nil:
					names = append(names, record{host, "CNAME", a.Value + "."})
				case ip.Unmap().Is4():
					addresses = append(addresses, record{host, "A", a.Value})
				default:
					addresses = append(addresses, record{host, "AAAA", a.Value})
				}
			}
		}
		if len(addresses) == 0 && len(names) > 0 {
			addresses = names[:1]
		}
		out = append(out, addresses...)
	}
	return out
}

// zoneFile holds the records of all GlobalIngresses, by namespace and name.
type zoneFile struct {
	path    string
	ttl     int
	records map[string][]record
	written *string // nil: nothing yet, so what there is may be of another run
}

// set has the records of an object in the file; none: it goes from it.
func (z *zoneFile) set(key string, records []record) error {
	if z.records == nil {
		z.records = map[string][]record{}
	}
	if len(records) == 0 {
		delete(z.records, key)
	} else {
		z.records[key] = records
	}
	return z.write()
}

// write writes the file, if it says something else by now: a new one that takes the
// place of the old one, so that nobody reads half of it.
func (z *zoneFile) write() error {
	all := slices.Concat(slices.Collect(maps.Values(z.records))...)
	slices.SortFunc(all, func(a, b record) int {
		return cmp.Or(strings.Compare(a.host, b.host), strings.Compare(a.kind, b.kind), strings.Compare(a.value, b.value))
	})
	var text strings.Builder
	for _, r := range slices.Compact(all) {
		fmt.Fprintf(&text, "%s.\t%d\tIN\t%s\t%s\n", r.host, z.ttl, r.kind, r.value)
	}
	now := text.String()
	if z.written != nil && *z.written == now {
		return nil
	}
	next, err := os.CreateTemp(filepath.Dir(z.path), ".records-*")
	if err != nil {
		return err
	}
	_, err = next.WriteString(now)
	if err2 := next.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(next.Name(), z.path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return err
	}
	z.written = &now
	return nil
}

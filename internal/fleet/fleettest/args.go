package fleettest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// args are the words of a command: key=value, and the rest in order.
type args struct {
	words   []string
	options map[string]string
	err     error
}

// parse takes the options with these keys out of the words; a key that stands
// alone has the value "true".
func parse(words []string, keys ...string) *args {
	a := &args{options: map[string]string{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !slices.Contains(keys, key) {
			a.words = append(a.words, w)
			continue
		}
		if !ok {
			value = "true"
		}
		a.options[key] = value
	}
	return a
}

func (a *args) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// word is the n-th word that is no option.
func (a *args) word(n int) string {
	if n >= len(a.words) {
		a.fail("word %d is missing", n+1)
		return ""
	}
	return a.words[n]
}

// rest are the words from the n-th on.
func (a *args) rest(n int) []string { return a.words[min(n, len(a.words)):] }

func (a *args) has(key string) bool { return a.options[key] != "" }

func (a *args) number(key string, otherwise int64) int64 {
	text, ok := a.options[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		a.fail("%s: %w", key, err)
	}
	return n
}

// list is a sorted value with commas.
func (a *args) list(key string, otherwise ...string) []string {
	text, ok := a.options[key]
	if !ok {
		return otherwise
	}
	if text == "" {
		return nil
	}
	out := strings.Split(text, ",")
	slices.Sort(out)
	return out
}

// place reads region=, zone=, provider= and at=LATITUDE,LONGITUDE.
func (a *args) place() model.Place {
	p := model.Place{Region: a.options["region"], Zone: a.options["zone"], Provider: a.options["provider"]}
	if at, ok := a.options["at"]; ok {
		p.Located = true
		if _, err := fmt.Sscanf(at, "%g,%g", &p.Latitude, &p.Longitude); err != nil {
			a.fail("at: %w", err)
		}
	}
	return p
}

var placeOptions = []string{"region", "zone", "provider", "at"}

// service reads "shop/web", or "web" of the namespace.
func (a *args) service(text, namespace string) model.Service {
	if ns, name, ok := strings.Cut(text, "/"); ok {
		return model.Service{Namespace: ns, Name: name}
	}
	return model.Service{Namespace: namespace, Name: text}
}

// portRef reads "http" or "80".
func portRef(text string) model.PortRef {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return model.PortRef{Number: int32(n)}
	}
	return model.PortRef{Name: text}
}

// Backend reads "SERVICE:PORT": "web:http", "web:80" or "shop/web:80".
func (a *args) backend(text, namespace string) model.Backend {
	service, port, ok := strings.Cut(text, ":")
	if !ok {
		a.fail("%q is no SERVICE:PORT", text)
	}
	return model.Backend{Service: a.service(service, namespace), Port: portRef(port)}
}

// endpoint reads "10.1.0.1", "10.1.0.1@zone" and either with "~" for one that drains.
func (a *args) endpoint(text string) model.Endpoint {
	text, drains := strings.CutSuffix(text, "~")
	ip, zone, _ := strings.Cut(text, "@")
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		a.fail("%w", err)
	}
	e := model.Endpoint{Addr: addr, Zone: model.ZoneOf(zone)}
	if drains {
		e.State = model.EndpointDraining
	}
	return e
}

package fleettest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// Args are the words of a command of a story: key=value, and the rest in order.
type Args struct {
	Words   []string
	Options map[string]string
	Err     error // the first thing that is wrong with them
}

// Parse takes the options with these keys out of the words; a key that stands
// alone has the value "true".
func Parse(words []string, keys ...string) *Args {
	a := &Args{Options: map[string]string{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !slices.Contains(keys, key) {
			a.Words = append(a.Words, w)
			continue
		}
		if !ok {
			value = "true"
		}
		a.Options[key] = value
	}
	return a
}

// Fail notes what is wrong.
func (a *Args) Fail(format string, args ...any) {
	if a.Err == nil {
		a.Err = fmt.Errorf(format, args...)
	}
}

// Word is the n-th word that is no option.
func (a *Args) Word(n int) string {
	if n >= len(a.Words) {
		a.Fail("word %d is missing", n+1)
		return ""
	}
	return a.Words[n]
}

// Rest are the words from the n-th on.
func (a *Args) Rest(n int) []string { return a.Words[min(n, len(a.Words)):] }

// Has reports whether an option is there.
func (a *Args) Has(key string) bool { return a.Options[key] != "" }

// Number is an option that is a whole number.
func (a *Args) Number(key string, otherwise int64) int64 {
	text, ok := a.Options[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		a.Fail("%s: %w", key, err)
	}
	return n
}

// List is an option with commas, sorted.
func (a *Args) List(key string, otherwise ...string) []string {
	text, ok := a.Options[key]
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
func (a *Args) place() model.Place {
	p := model.Place{Region: a.Options["region"], Zone: a.Options["zone"], Provider: a.Options["provider"]}
	if at, ok := a.Options["at"]; ok {
		p.Located = true
		if _, err := fmt.Sscanf(at, "%g,%g", &p.Latitude, &p.Longitude); err != nil {
			a.Fail("at: %w", err)
		}
	}
	return p
}

var placeOptions = []string{"region", "zone", "provider", "at"}

// labels reads labels=KEY:VALUE,….
func (a *Args) labels() map[string]string {
	var out map[string]string
	for _, l := range a.List("labels") {
		key, value, _ := strings.Cut(l, ":")
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

// service reads "shop/web", or "web" of the namespace; with "^" before it, it is a
// ServiceImport.
func (a *Args) service(text, namespace string) model.Service {
	text, imported := strings.CutPrefix(text, "^")
	ns, name, ok := strings.Cut(text, "/")
	if !ok {
		ns, name = namespace, text
	}
	if imported {
		return model.ImportOf(ns, name)
	}
	return model.ServiceOf(ns, name)
}

// portRef reads "http" or "80".
func portRef(text string) model.PortRef {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return model.PortRef{Number: int32(n)}
	}
	return model.PortRef{Name: text}
}

// Backend reads "SERVICE:PORT": "web:http", "web:80", "shop/web:80" or "^web:80".
func (a *Args) backend(text, namespace string) model.Backend {
	service, port, ok := strings.Cut(text, ":")
	if !ok {
		a.Fail("%q is no SERVICE:PORT", text)
	}
	return model.BackendKey{Service: a.service(service, namespace), Port: portRef(port)}.Backend()
}

// endpoint reads "10.1.0.1", "10.1.0.1@zone" and either with "~" for one that drains.
func (a *Args) endpoint(text string) model.Endpoint {
	text, drains := strings.CutSuffix(text, "~")
	ip, zone, _ := strings.Cut(text, "@")
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		a.Fail("%w", err)
	}
	e := model.Endpoint{Addr: addr, Zone: model.ZoneOf(zone)}
	if drains {
		e.State = model.EndpointDraining
	}
	return e
}

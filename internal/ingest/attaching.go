package ingest

import (
	"cmp"
	"slices"
	"strings"
)

// Front is a Gateway, or listeners of it, by which a route is asked for, as a route in a
// member names it.
type Front struct {
	Gateway  string // namespace/name
	Section  string // the listener; empty: any
	Port     int64  // of the listener; 0: any
	Own      bool   // the Gateway is in the namespace of the route
	Refused  bool   // its controller says that it does not accept the route
	Accepted bool   // it says that it does
}

func (a Front) compare(b Front) int {
	return cmp.Or(cmp.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Section, b.Section), cmp.Compare(a.Port, b.Port))
}

// Listener is one of a Gateway in a member.
type Listener struct {
	Name  string
	Port  int64
	Host  string // as it is asked for; empty: all
	Kinds string // of routes that it takes, with commas around each
	From  string // the namespaces of such: Same, All or Selector
}

// kindsTaken are the kinds that listeners of a protocol take if they name none.
var kindsTaken = map[string]string{"HTTP": ",HTTPRoute,GRPCRoute,", "HTTPS": ",HTTPRoute,GRPCRoute,", "TLS": ",TLSRoute,"}

// Attaches reports whether a route of a kind attaches to a listener of a front, if it is
// known. Whom a selector of namespaces lets in, the controller says of the one listener that
// the route names.
func (a Front) Attaches(kind string, l Listener) bool {
	switch {
	case a.Refused, a.Section != "" && a.Section != l.Name, a.Port != 0 && a.Port != l.Port, !strings.Contains(l.Kinds, ","+kind+","):
		return false
	case l.From == "Same":
		return a.Own
	case l.From == "Selector":
		return a.Accepted && a.Section != ""
	}
	return l.From == "All"
}

// listenersIn are those of a Gateway, given as JSON has it.
func listenersIn(spec map[string]any) (out []Listener) {
	for _, of := range MapsIn(spec, "listeners") {
		if len(out) == mostListeners {
			break
		}
		allowed := mapIn(of, "allowedRoutes")
		l := Listener{
			Name: TextIn(of, "name"), Port: numberIn(of, "port"), Host: strings.ToLower(TextIn(of, "hostname")),
			Kinds: kindsTaken[TextIn(of, "protocol")], From: cmp.Or(TextIn(mapIn(allowed, "namespaces"), "from"), "Same"),
		}
		if kinds := MapsIn(allowed, "kinds"); len(kinds) > 0 {
			l.Kinds = ","
			for _, k := range kinds {
				l.Kinds += TextIn(k, "kind") + ","
			}
		}
		out = append(out, l)
	}
	return out
}

// frontsIn are those of a route that are Gateways, sorted, each once.
func frontsIn(o map[string]any) (out []Front) {
	own, said := TextIn(mapIn(o, "metadata"), "namespace"), MapsIn(mapIn(o, "status"), "parents")
	read := func(ref map[string]any) Front {
		namespace := cmp.Or(TextIn(ref, "namespace"), own)
		return Front{Gateway: namespace + "/" + TextIn(ref, "name"), Section: TextIn(ref, "sectionName"), Port: numberIn(ref, "port"), Own: namespace == own}
	}
	for _, ref := range MapsIn(mapIn(o, "spec"), "parentRefs") {
		if cmp.Or(TextIn(ref, "kind"), "Gateway") != "Gateway" {
			continue
		}
		if len(out) == mostParents {
			break
		}
		p := read(ref)
		for _, s := range said {
			if p.compare(read(mapIn(s, "parentRef"))) != 0 {
				continue
			}
			for _, c := range MapsIn(s, "conditions") {
				if TextIn(c, "type") == "Accepted" {
					p.Refused = p.Refused || TextIn(c, "status") == "False"
					p.Accepted = p.Accepted || TextIn(c, "status") == "True"
				}
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, Front.compare)
	return slices.CompactFunc(out, func(a, b Front) bool { return a.compare(b) == 0 })
}

// With is what a route asks for, given the listeners of Gateways: one without host names
// asks for theirs. A listener without one is for what nobody names, and claims none.
func (a Asking) With(listeners func(gateway string) []Listener) []string {
	if len(a.Paths) == 0 {
		return a.Asks
	}
	var out Asking
	for _, p := range a.Fronts {
		for _, l := range listeners(p.Gateway) {
			if p.Attaches(a.Kind, l) {
				out.ask(l.Host, a.Paths)
			}
		}
		out = out.sorted() // so that many of a Gateway are no more than one
	}
	return out.Asks
}

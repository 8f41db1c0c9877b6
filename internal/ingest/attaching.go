package ingest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// Front is a Gateway or a ListenerSet, or listeners of it, by which a route is asked for, as
// a route in a member names it.
type Front struct {
	Of       string // "Gateway namespace/name"
	Section  string // the listener; empty: any
	Port     int64  // of the listener; 0: any
	Own      bool   // what has the listeners is in the namespace of the route
	Refused  bool   // its controller says that it does not accept the route
	Accepted bool   // it says that it does
}

func (a Front) compare(b Front) int {
	return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Section, b.Section), cmp.Compare(a.Port, b.Port))
}

// FrontOf is how a front of a kind is called.
func FrontOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// Listener is one of a Gateway, or of a ListenerSet, in a member.
type Listener struct {
	Name  string
	Port  int64
	Host  string // as it is asked for; empty: all
	Kinds string // of routes that it takes, with commas around each
	From  string // the namespaces of such: Same, All or Selector

	Refused bool // its controller says that it does not serve it
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

// listenersIn are those of a Gateway or a ListenerSet, given as JSON has it.
func listenersIn(o map[string]any) (out []Listener) {
	refused := refusedListeners(mapIn(o, "status"))
	for _, of := range MapsIn(mapIn(o, "spec"), "listeners") {
		if len(out) == mostListeners {
			break
		}
		allowed := mapIn(of, "allowedRoutes")
		l := Listener{
			Name: TextIn(of, "name"), Port: numberIn(of, "port"), Host: strings.ToLower(TextIn(of, "hostname")),
			Kinds: kindsTaken[TextIn(of, "protocol")], From: cmp.Or(TextIn(mapIn(allowed, "namespaces"), "from"), "Same"),
		}
		l.Refused = refused[l.Name]
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

// refusedListeners are the names of those that a status says are not accepted, or are in
// conflict with others, which have what they ask for.
func refusedListeners(status map[string]any) map[string]bool {
	out := map[string]bool{}
	for _, l := range MapsIn(status, "listeners") {
		_, refused := saidIn(l, "Accepted")
		conflicted, _ := saidIn(l, "Conflicted")
		out[TextIn(l, "name")] = refused || conflicted
	}
	return out
}

// frontsIn are those of a route that are Gateways or ListenerSets, sorted, each once.
func frontsIn(o map[string]any) (out []Front) {
	own, said := TextIn(mapIn(o, "metadata"), "namespace"), MapsIn(mapIn(o, "status"), "parents")
	read := func(ref map[string]any) Front {
		namespace := cmp.Or(TextIn(ref, "namespace"), own)
		kind := cmp.Or(TextIn(ref, "kind"), model.GatewayKind)
		return Front{Of: FrontOf(kind, namespace, TextIn(ref, "name")), Section: TextIn(ref, "sectionName"), Port: numberIn(ref, "port"), Own: namespace == own}
	}
	for _, ref := range MapsIn(mapIn(o, "spec"), "parentRefs") {
		if kind := cmp.Or(TextIn(ref, "kind"), model.GatewayKind); kind != model.GatewayKind && kind != model.ListenerSetKind {
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
			accepted, refused := saidIn(s, "Accepted")
			p.Accepted, p.Refused = p.Accepted || accepted, p.Refused || refused
		}
		out = append(out, p)
	}
	slices.SortFunc(out, Front.compare)
	return slices.CompactFunc(out, func(a, b Front) bool { return a.compare(b) == 0 })
}

// saidIn is what conditions say of a type.
func saidIn(status map[string]any, kind string) (yes, no bool) {
	for _, c := range MapsIn(status, "conditions") {
		if TextIn(c, "type") == kind {
			yes, no = yes || TextIn(c, "status") == "True", no || TextIn(c, "status") == "False"
		}
	}
	return yes, no
}

// With is what a route asks for, given the listeners of fronts: one without host names
// asks for theirs. A listener without one is for what nobody names, and claims none.
func (a Asking) With(listeners func(front string) []Listener) []string {
	if len(a.Paths) == 0 {
		return a.Asks
	}
	var out Asking
	for _, p := range a.Fronts {
		for _, l := range listeners(p.Of) {
			if p.Attaches(a.Kind, l) {
				out.ask(l.Host, a.Paths)
			}
		}
		out = out.sorted() // so that many of a front are no more than one
	}
	return out.Asks
}

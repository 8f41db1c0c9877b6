package model

import "testing"

// TestCollectionsHaveNames: no two collections have the same name, nor the same
// order.
func TestCollectionsHaveNames(t *testing.T) {
	eu := VantageKey{Networks: "default", Place: Place{Region: "eu"}}.Vantage()
	us := VantageKey{Networks: "default", Place: Place{Region: "us"}}.Vantage()
	contest := func(kind Kind, classes, table string) Collection {
		return CollectionKey{Kind: kind, ViewKey: ViewKey{Classes: classes}, Table: table}.Collection()
	}
	sockets := func(s Socket, ipv6 bool, table string) Collection {
		return CollectionKey{Kind: Sockets, ViewKey: ViewKey{IPv6: ipv6}, Socket: s, Table: table}.Collection()
	}
	view := ViewKey{Classes: "a", VantageKey: eu.Key()}
	six := view
	six.IPv6 = true
	list := []Collection{
		{}, FrontOf("a", ""), FrontOf("a", "8080"), FrontOf("b", ""), contest(Contest, "a,b", ""), contest(Contest, "a,b", "8080"),
		contest(Disputes, "a,b", ""), contest(Wildcards, "a,b", ""), contest(Wildcards, "a,b", "8080"), LookupsOf("a", eu), LookupsOf("a", us), LookupsOf("b", eu), eu.Pools(), us.Pools(), view.View().Clients(), six.View().Clients(),
		sockets(Socket{Number: 80}, false, ""), sockets(Socket{Number: 80}, true, ""), sockets(Socket{Number: 80}, false, "80"), sockets(Socket{Number: 81}, false, ""),
		sockets(Socket{Number: 80, TLS: true}, false, ""), sockets(Socket{Number: 80, TLS: true, OnDemand: true}, false, ""),
		sockets(Socket{Number: 80, Deep: true}, false, ""),
		CollectionKey{Kind: Sockets, ViewKey: ViewKey{Classes: "a"}, Socket: Socket{Number: 80, TLS: true}}.Collection(),
	}
	names := map[string]Collection{}
	for _, a := range list {
		if other, twice := names[a.String()]; twice {
			t.Errorf("two collections are called %q: %v and %v", a, a.Key(), other.Key())
		}
		names[a.String()] = a
		for _, b := range list {
			if (a.Compare(b) == 0) != (a == b) || a.Compare(b) != -b.Compare(a) {
				t.Errorf("%s and %s compare as %d and %d", a, b, a.Compare(b), b.Compare(a))
			}
		}
	}
	if at := LookupsOf("a", eu).Vantage(); at != eu {
		t.Errorf("looked up from %s, want %s", at, eu)
	}
}

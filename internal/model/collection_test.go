package model

import "testing"

// TestCollectionsHaveNames: views share a collection where what it depends on is
// the same, and else no two have the same name, nor the same order.
func TestCollectionsHaveNames(t *testing.T) {
	base := ViewKey{Classes: "a", VantageKey: VantageKey{Networks: "default", Place: Place{Region: "eu"}}}
	classes, place, six := base, base, base
	classes.Classes, place.Place.Region, six.IPv6 = "a,b", "us", true
	all := map[string]Collection{}
	for _, k := range []ViewKey{base, classes, place, six} {
		v := k.View()
		for _, c := range append(v.Collections(), v.In(Clients)) {
			if other, twice := all[c.String()]; twice && other != c {
				t.Errorf("two collections are called %s", c)
			}
			all[c.String()] = c
		}
	}
	// Fronts a and a,b; sockets of both, and of a with IPv6; lookups of both, and
	// of a in us; pools of eu and us; clients of each view.
	if len(all) != 2+3+3+2+4 {
		t.Errorf("%d collections: %v", len(all), all)
	}
	for _, a := range all {
		for _, b := range all {
			if (a.Compare(b) == 0) != (a == b) || a.Compare(b) != -b.Compare(a) {
				t.Errorf("%s and %s compare as %d and %d", a, b, a.Compare(b), b.Compare(a))
			}
		}
		for _, of := range a.Needs() {
			if of.Kind() != Front && of.Kind() != Pools {
				t.Errorf("%s needs %s", a, of)
			}
		}
	}
	if v := base.View(); v.In(Front) != FrontOf("a") || v.In(Pools) != v.Vantage().Pools() || v.In(Lookups).Vantage() != v.Vantage() {
		t.Errorf("%s has %v", v, v.Collections())
	}
}

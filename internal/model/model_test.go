package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOriginBreaksTies(t *testing.T) {
	in := []Origin{
		{2, Object{Workspace: "a", Namespace: "a", Name: "a", Kind: "Ingress"}},
		{1, Object{Workspace: "b", Namespace: "a", Name: "a", Kind: "Ingress"}},
		{1, Object{Workspace: "a", Namespace: "b", Name: "a", Kind: "Ingress"}},
		{1, Object{Workspace: "a", Namespace: "a", Name: "b", Kind: "HTTPRoute"}},
		{1, Object{Workspace: "a", Namespace: "a", Name: "a", Kind: "Route"}},
		{1, Object{Workspace: "a", Namespace: "a", Name: "a", Kind: "Ingress"}},
	}
	want := []int{5, 4, 3, 2, 1, 0}
	got := slices.Clone(in)
	slices.SortFunc(got, Origin.Compare)
	for i, w := range want {
		if got[i] != in[w] {
			t.Errorf("place %d: %v, want %v", i, got[i], in[w])
		}
	}
}

func TestKilometres(t *testing.T) {
	fra := Place{Latitude: 50.11, Longitude: 8.68, Located: true}
	nyc := Place{Latitude: 40.71, Longitude: -74.01, Located: true}
	km, ok := Kilometres(fra, nyc)
	if !ok || math.Abs(km-6206) > 10 {
		t.Errorf("Frankfurt to New York: %.0f km, %v", km, ok)
	}
	if _, ok := Kilometres(fra, Place{}); ok {
		t.Error("a place without coordinates has no distance")
	}
}

func TestKilometresIsSymmetric(t *testing.T) {
	place := rapid.Custom(func(t *rapid.T) Place {
		return Place{Latitude: rapid.Float64Range(-90, 90).Draw(t, "lat"), Longitude: rapid.Float64Range(-180, 180).Draw(t, "lon"), Located: true}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := place.Draw(t, "a"), place.Draw(t, "b")
		ab, _ := Kilometres(a, b)
		ba, _ := Kilometres(b, a)
		if math.Abs(ab-ba) > 1e-6 || ab < 0 || ab > math.Pi*earthRadius+1 {
			t.Fatalf("%v km there, %v km back", ab, ba)
		}
	})
}

func TestCertificateNeverShowsItsKey(t *testing.T) {
	c := Certificate{Chain: []byte("chain"), Key: []byte("hidden")}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%v", &c)} {
		if strings.Contains(text, "hidden") || strings.Contains(text, fmt.Sprintf("%d", c.Key)) {
			t.Errorf("key shown in %q", text)
		}
	}
}

func TestFindingsSorted(t *testing.T) {
	a, b := Finding{Reason: "A"}, Finding{Reason: "B"}
	got := Findings{b, a, b}.Sorted()
	if !got.Equal(Findings{a, b}) {
		t.Errorf("got %v", got)
	}
}

// TestViewsHaveNames: no two views have the same name, nor the same order. The
// xDS store knows them by it. Their vantages differ where their places or networks do.
func TestViewsHaveNames(t *testing.T) {
	base := ViewKey{Classes: "a", VantageKey: VantageKey{Networks: "default", Place: Place{Region: "eu", Latitude: 1, Longitude: 2, Located: true}}}
	views := []View{base.View()}
	for _, other := range []func(*ViewKey){
		func(k *ViewKey) { k.Classes = "a,b" },
		func(k *ViewKey) { k.Networks = "other" },
		func(k *ViewKey) { k.IPv6 = true },
		func(k *ViewKey) { k.TrustedHops = 1 },
		func(k *ViewKey) { k.Place.Region = "us" },
		func(k *ViewKey) { k.Place.Zone = "a" },
		func(k *ViewKey) { k.Place.SubZone = "a" },
		func(k *ViewKey) { k.Place.Provider = "a" },
		func(k *ViewKey) { k.Place.Latitude = 3 },
		func(k *ViewKey) { k.Place.Longitude = 3 },
		func(k *ViewKey) { k.Place.Latitude, k.Place.Longitude, k.Place.Located = 0, 0, false },
	} {
		k := base
		other(&k)
		views = append(views, k.View())
	}
	for i, a := range views {
		for _, b := range views[:i] {
			if a.String() == b.String() || a.Compare(b) == 0 || a.Compare(b) != -b.Compare(a) {
				t.Errorf("%q and %q compare as %d and %d", a, b, a.Compare(b), b.Compare(a))
			}
			x, y := a.Vantage(), b.Vantage()
			same := a.Key().Place == b.Key().Place && a.Key().Networks == b.Key().Networks
			if (x == y) != same || (x.String() == y.String()) != same || (x.Compare(y) == 0) != same || x.Compare(y) != -y.Compare(x) {
				t.Errorf("%q and %q are at %q and %q, which compare as %d and %d", a, b, x, y, x.Compare(y), y.Compare(x))
			}
		}
	}
}

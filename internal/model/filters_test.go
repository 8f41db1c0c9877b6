package model

import (
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

func allFilters() FiltersKey {
	web := BackendKey{Workspace: "w", Service: ServiceOf("shop", "web"), Port: PortRef{Name: "http"}}.Backend()
	changes := HeaderChanges{Set: PackedOf(Header{"x-a", "1%"}), Add: PackedOf(Header{"x-b", "ü"}), Remove: PackedOf("x-c", "x-d")}
	return FiltersKey{
		Request: changes, Response: changes,
		Rewrite:  Rewrite{Host: "other.example", Path: "/x", Prefix: true},
		Mirrors:  PackedOf(Mirror{web, 1, 3}, Mirror{web, 1, 1}),
		CORS:     CORS{Origins: PackedOf("https://*.example"), Methods: PackedOf("*"), Headers: PackedOf("x-h"), Expose: PackedOf("x-e"), Credentials: true, MaxAge: 5},
		Timeouts: Timeouts{Request: NoTimeout, Backend: 200},
		Retry:    Retry{Own: true, Codes: PackedOf[uint16](500, 503), Attempts: 2},
		Auth:     Auth{Backend: web, Calls: true, Path: "/check", Send: PackedOf("x-s"), Take: PackedOf("x-t"), Body: 7},
		Session:  Session{Name: "s", Path: "/x", Age: 3600, First: web},
	}
}

// TestFiltersInCheckpoints: filters are what they were, and a rule without them
// is written as before there were any.
func TestFiltersInCheckpoints(t *testing.T) {
	for _, want := range []Filters{{}, FiltersKey{Rewrite: Rewrite{Host: "h"}}.Filters(), allFilters().Filters()} {
		data, err := cbor.Marshal(want)
		var got Filters
		if err == nil {
			err = cbor.Unmarshal(data, &got)
		}
		if err != nil || got != want {
			t.Errorf("%v became %v: %v", want.Key(), got.Key(), err)
		}
	}
	type backendBefore struct {
		Backend Backend
		Weight  uint32
	}
	now, err1 := cbor.Marshal(WeightedBackend{Weight: 3})
	before, err2 := cbor.Marshal(backendBefore{Weight: 3})
	if err1 != nil || err2 != nil || string(now) != string(before) {
		t.Errorf("%x, before %x: %v %v", now, before, err1, err2)
	}
	// A later version may know more of a mirror.
	type mirrorLater struct {
		Backend        Backend
		Part, Of, More uint32
	}
	data, _ := cbor.Marshal([]mirrorLater{{Part: 1, Of: 2, More: 3}})
	var all Packed[Mirror]
	if err := cbor.Unmarshal(data, &all); err != nil || all != PackedOf(Mirror{Part: 1, Of: 2}) {
		t.Errorf("%v: %v", all.List(), err)
	}
}

// TestThen: what a rule and then its backend do to headers is what both do, one
// after the other.
func TestThen(t *testing.T) {
	names := []string{"a", "A", "b"}
	draw := func(t *rapid.T) HeaderChanges {
		one := rapid.Custom(func(t *rapid.T) Header {
			return Header{rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")}
		})
		some := rapid.SliceOfN(one, 0, 2)
		return HeaderChanges{
			Set: PackedOf(some.Draw(t, "set")...), Add: PackedOf(some.Draw(t, "add")...),
			Remove: PackedOf(rapid.SliceOfN(rapid.SampledFrom(names), 0, 1).Draw(t, "remove")...),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		both := FiltersKey{Request: a, Response: b}.Filters().Then(FiltersKey{Request: b, Response: a}.Filters()).Key()
		h := map[string]string{"a": "0"}
		want := applied(applied(h, a), b)
		for _, c := range []HeaderChanges{both.Request, both.Response} {
			if got := applied(h, c); got["a"] != want["a"] || got["b"] != want["b"] {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	})
}

// applied removes, sets and adds.
func applied(h map[string]string, c HeaderChanges) map[string]string {
	out := map[string]string{"a": h["a"], "b": h["b"]}
	lower := map[string]string{"a": "a", "A": "a", "b": "b"}
	for _, name := range c.Remove.List() {
		out[lower[name]] = ""
	}
	for _, x := range c.Set.List() {
		out[lower[x.Name]] = x.Value
	}
	for _, x := range c.Add.List() {
		out[lower[x.Name]] += x.Value
	}
	return out
}

// TestRewriteOfABackend: what a backend says goes before what its rule says.
func TestRewriteOfABackend(t *testing.T) {
	rule := FiltersKey{Rewrite: Rewrite{Host: "h", Path: "/p", Prefix: true}}.Filters()
	for _, c := range []struct{ of, want Rewrite }{
		{Rewrite{}, Rewrite{"h", "/p", true}},
		{Rewrite{Host: "b"}, Rewrite{"b", "/p", true}},
		{Rewrite{Path: "/b"}, Rewrite{"h", "/b", false}},
	} {
		if got := rule.Then(FiltersKey{Rewrite: c.of}.Filters()).Key().Rewrite; got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestOnlyMirrors(t *testing.T) {
	all := allFilters().Filters()
	if all.OnlyMirrors(func(Mirror) bool { return true }) != all {
		t.Error("all are kept, and it is another")
	}
	if got := all.OnlyMirrors(func(m Mirror) bool { return m.Of == 1 }); len(got.Mirrors()) != 1 || got.Key().Retry != all.Key().Retry {
		t.Errorf("%v", got)
	}
}

// TestOnlyWhoCanAskReadsAuth: filters are read as they were written, and those that ask
// whether a request may go on by no version that would leave that out.
func TestOnlyWhoCanAskReadsAuth(t *testing.T) {
	plain := FiltersKey{Rewrite: Rewrite{Host: "a.example"}}
	asking := plain
	asking.Auth = allFilters().Auth
	for name, k := range map[string]FiltersKey{"plain": plain, "asking": asking, "none": {}} {
		data, err := cbor.Marshal(k.Filters())
		if err != nil {
			t.Fatal(name, err)
		}
		var back Filters
		if err := cbor.Unmarshal(data, &back); err != nil || back != k.Filters() {
			t.Errorf("%s comes back as %v, %v", name, back, err)
		}
		var before FiltersKey // as the version before read it
		if err := cbor.Unmarshal(data, &before); (err != nil) != (k.Auth != Auth{}) {
			t.Errorf("%s is read by those who can't ask: %v", name, err)
		}
	}
}

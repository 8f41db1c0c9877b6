package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

// TestPrecedence: the matches that a request may fit, best first, and what the
// standards do not order.
func TestPrecedence(t *testing.T) {
	when := func(method string, headers, query int) Conditions {
		some := func(n int) Values {
			var list []ValueMatch
			for i := range n {
				list = append(list, ValueMatch{Name: strings.Repeat("x", i+1), Value: "1"})
			}
			return ValuesOf(list...)
		}
		return ConditionsKey{Method: method, Headers: some(headers), Query: some(query)}.Conditions()
	}
	order := []Match{
		{PathExact, "/a/b", when("GET", 0, 0)},
		{PathExact, "/a/b", when("", 3, 3)},
		{PathExact, "/a/b", Conditions{}},
		{PathRegex, "/a/[b-c]", Conditions{}},
		{PathRegex, "/a/.*", when("GET", 0, 0)},
		{PathRegex, "/a/.*", Conditions{}},
		{PathPrefix, "/a/b", when("GET", 1, 0)},
		{PathPrefix, "/a/b", when("GET", 0, 9)},
		{PathPrefix, "/a/b", when("", 2, 0)},
		{PathPrefix, "/a/b", when("", 1, 1)},
		{PathPrefix, "/a/b", when("", 1, 0)},
		{PathPrefix, "/a/b", when("", 0, 2)},
		{PathPrefix, "/a/b", when("", 0, 1)},
		{PathPrefix, "/a/b", Conditions{}},
		{PathPrefix, "/a", when("GET", 5, 5)},
		{PathPrefix, "/a", Conditions{}},
		{PathPrefix, "/", when("GET", 5, 5)},
		Everything,
	}
	for i, a := range order {
		for j, b := range order {
			if got := a.Precedence(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v to %v: %d", a, b, got)
			}
		}
	}
	for _, same := range [][2]Match{
		{{PathPrefix, "/a", ConditionsKey{Method: "GET"}.Conditions()}, {PathPrefix, "/a", ConditionsKey{Method: "POST"}.Conditions()}},
		{{PathRegex, "/a.", Conditions{}}, {PathRegex, "/b.", Conditions{}}},
	} {
		if same[0].Precedence(same[1]) != 0 {
			t.Errorf("%v and %v: the older object's goes first", same[0], same[1])
		}
	}
}

// TestValues: conditions on values are what they were made of, whatever text is in them.
func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.OneOf(rapid.SampledFrom([]string{"a", "b = \"c\"\n", ""}), rapid.String()), func(s string) string { return s }).Draw(t, "names")
		var want []ValueMatch
		for _, name := range names {
			want = append(want, ValueMatch{name, rapid.String().Draw(t, "value"), rapid.Bool().Draw(t, "regex")})
		}
		all := ValuesOf(want...)
		got := all.List()
		slices.SortFunc(want, func(a, b ValueMatch) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(got, want) || all.Len() != len(want) {
			t.Fatalf("%q is %+v, not %+v", all, got, want)
		}
		m := Match{Path: "/", When: ConditionsKey{Headers: all}.Conditions()}
		data, err := cbor.Marshal(m)
		var back Match
		if err == nil {
			err = cbor.Unmarshal(data, &back)
		}
		if err != nil || back != m {
			t.Fatalf("%v became %v: %v", m, back, err)
		}
	})
}

// TestMatchInCheckpoints: a match of a path is written as before there were
// other conditions.
func TestMatchInCheckpoints(t *testing.T) {
	type match struct {
		Kind PathKind
		Path string
	}
	now, err1 := cbor.Marshal(Match{Kind: PathPrefix, Path: "/a"})
	before, err2 := cbor.Marshal(match{PathPrefix, "/a"})
	if err1 != nil || err2 != nil || string(now) != string(before) {
		t.Errorf("%x, before %x: %v %v", now, before, err1, err2)
	}
}

// TestBegins: whatever fits a match begins so.
func TestBegins(t *testing.T) {
	for _, c := range []struct {
		m    Match
		want string
	}{
		{Everything, "/"},
		{Match{Kind: PathPrefix, Path: "/a"}, "/a"},
		{Match{Kind: PathExact, Path: "/a/"}, "/a/"},
		{Match{Kind: PathRegex, Path: "/a/b.*"}, "/a/b"},
		{Match{Kind: PathRegex, Path: "(?i)/a"}, "/"},
		{Match{Kind: PathRegex, Path: "/a|/b"}, "/"},
		{Match{Kind: PathRegex, Path: ".*x"}, "/"},
	} {
		if got := c.m.Begins(); got != c.want {
			t.Errorf("%v begins with %q, not %q", c.m, got, c.want)
		}
	}
}

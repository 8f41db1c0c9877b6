package model

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/fxamacker/cbor/v2"
)

// EdgeSet is a set of edges. It is interned, 8 bytes, since most hosts have the
// same edges; the zero value is the empty set.
type EdgeSet struct{ h unique.Handle[string] } // names, sorted, each followed by a comma, which no name has

// EdgesOf is the set of these edges.
func EdgesOf(edges ...Edge) EdgeSet {
	edges = slices.Clone(edges)
	slices.SortFunc(edges, Edge.Compare)
	var b strings.Builder
	for _, e := range slices.Compact(edges) {
		b.WriteString(string(e))
		b.WriteByte(',')
	}
	return edgeSet(b.String())
}

func edgeSet(names string) EdgeSet {
	if names == "" {
		return EdgeSet{}
	}
	return EdgeSet{unique.Make(names)}
}

func (a EdgeSet) names() string {
	if a == (EdgeSet{}) {
		return ""
	}
	return a.h.Value()
}

// Compare orders sets by the names in them.
func (a EdgeSet) Compare(b EdgeSet) int {
	if a == b {
		return 0
	}
	return strings.Compare(a.names(), b.names())
}

// Equal reports whether both hold the same.
func (a EdgeSet) Equal(b EdgeSet) bool { return a == b }

// Has reports whether the set has an edge.
func (a EdgeSet) Has(e Edge) bool {
	_, _, ok := find(a.names(), e)
	return ok
}

// With is the set and an edge.
func (a EdgeSet) With(e Edge) EdgeSet {
	names := a.names()
	at, _, ok := find(names, e)
	if ok {
		return a
	}
	return edgeSet(names[:at] + string(e) + "," + names[at:])
}

// Without is the set but for an edge.
func (a EdgeSet) Without(e Edge) EdgeSet {
	names := a.names()
	at, end, ok := find(names, e)
	if !ok {
		return a
	}
	return edgeSet(names[:at] + names[end:])
}

// Minus are the edges of the set that b has not, sorted.
func (a EdgeSet) Minus(b EdgeSet) []Edge {
	if a == b {
		return nil
	}
	return slices.DeleteFunc(a.Edges(), b.Has)
}

// find returns from where to where an edge's name and its comma are, or where
// they belong. It halves what is left, without a list of the names.
func find(names string, e Edge) (at, end int, ok bool) {
	lo, hi := 0, len(names) // it is between these
	for lo < hi {
		at = lo + strings.LastIndexByte(names[lo:lo+(hi-lo)/2], ',') + 1
		end = at + strings.IndexByte(names[at:hi], ',') + 1
		switch c := strings.Compare(names[at:end-1], string(e)); {
		case c == 0:
			return at, end, true
		case c < 0:
			lo = end
		default:
			hi = at
		}
	}
	return lo, lo, false
}

// Edges are those of the set, sorted.
func (a EdgeSet) Edges() []Edge {
	if a == (EdgeSet{}) {
		return nil
	}
	names := a.names()
	out := make([]Edge, 0, strings.Count(names, ","))
	for name := range strings.SplitSeq(names[:len(names)-1], ",") {
		out = append(out, Edge(name))
	}
	return out
}

// Len is how many edges there are.
func (a EdgeSet) Len() int { return strings.Count(a.names(), ",") }

// String is "fra nyc".
func (a EdgeSet) String() string {
	return strings.ReplaceAll(strings.TrimSuffix(a.names(), ","), ",", " ")
}

// MarshalCBOR is the list of edges: a checkpoint can't hold what is interned.
func (a EdgeSet) MarshalCBOR() ([]byte, error) { return cbor.Marshal(a.Edges()) }

// UnmarshalCBOR interns the list.
func (a *EdgeSet) UnmarshalCBOR(data []byte) error {
	var list []Edge
	if err := cbor.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("edges: %w", err)
	}
	*a = EdgesOf(list...)
	return nil
}

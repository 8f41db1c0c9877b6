package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/fxamacker/cbor/v2"
)

// ConditionsKey is what a match asks of a request besides its path. All of it
// has to hold.
type ConditionsKey struct {
	Method  string `cbor:",omitempty"` // empty: any
	Headers Values `cbor:",omitempty"` // names in lower case
	Query   Values `cbor:",omitempty"` // parameters; of one that is there twice, the first counts
}

// Conditions is an interned ConditionsKey, 8 bytes; the zero value asks for nothing.
type Conditions struct{ h unique.Handle[ConditionsKey] }

// Conditions interns the key.
func (k ConditionsKey) Conditions() Conditions {
	if k == (ConditionsKey{}) {
		return Conditions{}
	}
	return Conditions{unique.Make(k)}
}

// Key is what the conditions were made of.
func (a Conditions) Key() ConditionsKey {
	if a == (Conditions{}) {
		return ConditionsKey{}
	}
	return a.h.Value()
}

// precedence is the part of Match.Precedence that looks at conditions.
func (a Conditions) precedence(b Conditions) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(cmp.Compare(min(len(y.Method), 1), min(len(x.Method), 1)), cmp.Compare(y.Headers.Len(), x.Headers.Len()), cmp.Compare(y.Query.Len(), x.Query.Len()))
}

// String is "method GET, header "x" = "1", query "q" ~ "[0-9]+"".
func (a Conditions) String() string {
	var out []string
	k := a.Key()
	if k.Method != "" {
		out = append(out, "method "+k.Method)
	}
	for _, v := range k.Headers.List() {
		out = append(out, "header "+v.String())
	}
	for _, v := range k.Query.List() {
		out = append(out, "query "+v.String())
	}
	return strings.Join(out, ", ")
}

// MarshalCBOR is the key: a checkpoint can't hold what is interned.
func (a Conditions) MarshalCBOR() ([]byte, error) { return cbor.Marshal(a.Key()) }

// UnmarshalCBOR interns the key.
func (a *Conditions) UnmarshalCBOR(data []byte) error {
	var k ConditionsKey
	if err := cbor.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("conditions: %w", err)
	}
	*a = k.Conditions()
	return nil
}

// ValueMatch is a condition on a named value: it is there, and is the text or of
// the regular expression (RE2) as a whole.
type ValueMatch struct {
	Name  string
	Value string
	Regex bool
}

// String is `"name" = "value"`, with "~" of a regular expression.
func (a ValueMatch) String() string {
	return strconv.Quote(a.Name) + map[bool]string{false: " = ", true: " ~ "}[a.Regex] + strconv.Quote(a.Value)
}

// Values is conditions on several values, sorted by name, each name once, as
// comparable text.
type Values string

// ValuesOf are these, of which no two are of one name.
func ValuesOf(list ...ValueMatch) Values {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b ValueMatch) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	for _, v := range sorted {
		out.WriteString(v.String() + "\n")
	}
	return Values(out.String())
}

// Len is how many there are.
func (a Values) Len() int { return strings.Count(string(a), "\n") }

// List is the conditions, sorted by name.
func (a Values) List() []ValueMatch {
	var out []ValueMatch
	for line := range strings.Lines(string(a)) {
		name, err := strconv.QuotedPrefix(line)
		if err != nil || len(line) < len(name)+len(" = ") {
			panic("model: no conditions on values: " + string(a))
		}
		v := ValueMatch{Regex: line[len(name)+1] == '~'}
		v.Name = unquote(name)
		v.Value = unquote(strings.TrimSuffix(line[len(name)+len(" = "):], "\n"))
		out = append(out, v)
	}
	return out
}

func unquote(s string) string {
	out, err := strconv.Unquote(s)
	if err != nil {
		panic("model: no conditions on values: " + s)
	}
	return out
}

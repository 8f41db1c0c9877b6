package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// RulesID names the rules that a root has for a host.
type RulesID struct {
	Root Object
	Host Host
}

// Compare orders by root and host.
func (a RulesID) Compare(b RulesID) int {
	return cmp.Or(a.Root.Compare(b.Root), a.Host.Compare(b.Host))
}

// String is "Ingress shop/web shop.example".
func (a RulesID) String() string { return a.Root.String() + " " + string(a.Host) }

// Rules are those that a root has for one host, in the order of the object: no
// two have a match in common. A host without any is one that the object names and
// has nothing valid for.
type Rules []Rule

// Rule says what becomes of requests that fit one of its matches.
type Rule struct {
	Name    string  // as the object calls it; empty: it has none
	Matches []Match // at least one, no two alike
	Action
	Field Field // where the rule is written, for findings
}

// Action is what becomes of a request: it is sent to backends, or answered.
type Action struct {
	Backends []WeightedBackend // none: answered as the kind's standard says
	Reply    *Reply            // the proxy's own answer; nil: a backend answers
	Filters  Filters           `cbor:",omitzero"` // what else is done; to a Reply only what changes headers of responses, and who may ask for it
}

// Over says by which of HTTP and HTTPS clients may ask for what a rule has.
type Over uint8

// The ways. Checkpoints have the numbers.
const (
	Both           Over = iota
	OnlyHTTP            // requests over TLS are answered 404
	OnlyHTTPS           // those without are
	MovedToHTTPS        // those without are led to HTTPS
	Passed              // connections for the host are for its backends, unread; requests without TLS are answered 404
	PassedAndMoved      // the same, but these are led to HTTPS
)

var overs = [...]string{"both", "HTTP", "HTTPS", "HTTPS, moved", "passed", "passed, moved"}

// String is what is let in.
func (a Over) String() string { return overs[a] }

// Passes reports whether TLS ends at the backends.
func (a Over) Passes() bool { return a == Passed || a == PassedAndMoved }

// WeightedBackend is a backend and its part of a rule's traffic.
type WeightedBackend struct {
	Backend Backend
	Weight  uint32
	Filters Filters `cbor:",omitzero"` // done after the rule's: headers and a rewrite alone
}

// Reply is an answer of the proxy itself.
type Reply struct {
	Status   uint16    // of HTTP
	Body     string    // text; empty for a redirect
	Redirect *Redirect // where the client is sent instead; nil: nowhere
}

// Redirect is what of a request's URL is replaced. The query stays.
type Redirect struct {
	Scheme string // "http" or "https"; empty: as requested
	Host   string // without a port; empty: as requested
	Port   uint16 // 0: that of the scheme if that is set, else as requested
	Path   string // begins with "/"; empty: as requested
	Prefix bool   // Path replaces only the prefix by which the rule matched
}

// PathKind says how a path is compared.
type PathKind uint8

// The kinds of paths. Checkpoints have the numbers.
const (
	PathExact  PathKind = iota // the whole path is equal
	PathPrefix                 // equal element by element, split at "/"
	PathRegex                  // the whole path is of a regular expression (RE2)
	PathLate                   // the same, but after all prefixes that are not "/"
)

// Regex reports whether the path is a regular expression.
func (a PathKind) Regex() bool { return a == PathRegex || a == PathLate }

// Match is a condition on a request; the zero value is never one.
type Match struct {
	Kind PathKind
	Path string     // begins with "/"; a prefix has no trailing "/" unless it is "/"
	When Conditions `cbor:",omitzero"` // on the rest of the request
}

// Everything is the match of all requests.
var Everything = Match{Kind: PathPrefix, Path: "/"}

// ranks are the order of kinds of paths. The Gateway API leaves the place of
// regular expressions open; most take them between the two others. A method of gRPC
// whose service is not named goes after a service (GRPCRouteRule.matches).
var ranks = [...]int{PathExact: 0, PathRegex: 1, PathPrefix: 2, PathLate: 3}

// rank is the place of the match's path. What every path fits is the last.
func (a Match) rank() int {
	if a.AllPaths() {
		return len(ranks)
	}
	return ranks[a.Kind]
}

// Precedence compares two matches that a request may both fit: the one that
// compares lower has it. Of two that compare equal the one of the older object
// has it, and in one object that of the first rule.
//
// Ingress v1 ("Multiple matches") says: exact paths before prefixes, and longer
// prefixes first. The Gateway API (HTTPRouteRule.matches) says the same, and
// then: those with a method first, then those with more headers, then with more
// query parameters. Where they count the length of a prefix, one in elements and
// one in characters, it is the same: two prefixes of one path.
func (a Match) Precedence(b Match) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.length(), a.length()), a.comparePath(b), a.When.precedence(b.When))
}

// length is the number of elements of a prefix, and of characters of a regular
// expression. The order of exact paths is that of text.
func (a Match) length() int {
	switch {
	case a.Kind.Regex():
		return len(a.Path)
	case a.Kind == PathExact || a.Path == "/":
		return 0
	}
	return strings.Count(a.Path, "/")
}

// comparePath orders different paths of which no request has both.
func (a Match) comparePath(b Match) int {
	if a.Kind.Regex() {
		return 0
	}
	return strings.Compare(a.Path, b.Path)
}

// All reports whether every request fits.
func (a Match) All() bool { return a.AllPaths() && a.When == Conditions{} }

// AllPaths reports whether every path fits.
func (a Match) AllPaths() bool { return a.Kind == PathPrefix && strings.Trim(a.Path, "/") == "" }

// Begins is what every path that fits begins with.
func (a Match) Begins() string {
	switch {
	case a.AllPaths():
		return "/"
	case a.Kind.Regex():
		prefix, _ := regexp.MustCompile(a.Path).LiteralPrefix()
		return cmp.Or(prefix, "/")
	}
	return a.Path
}

// Of describes what a match takes of a host, for messages.
func (a Match) Of(h Host) string { return a.String() + " of " + h.Described() }

var pathWords = map[PathKind]string{PathExact: "exact path", PathPrefix: "prefix", PathRegex: "regular expression", PathLate: "late regular expression"}

// String is "prefix /a", with the conditions behind it.
func (a Match) String() string {
	s := pathWords[a.Kind] + " " + a.Path
	if a.When != (Conditions{}) {
		s += " with " + a.When.String()
	}
	return s
}

// In has all backends as a Placement limits them.
func (a Rules) In(p Placed) Rules {
	if p == "" {
		return a
	}
	out := slices.Clone(a)
	for i := range out {
		out[i].Backends = slices.Clone(out[i].Backends)
		for j := range out[i].Backends {
			out[i].Backends[j].Backend = out[i].Backends[j].Backend.In(p)
		}
		out[i].Filters = out[i].Filters.In(p)
	}
	return out
}

// Equal reports whether both are the same.
func (a Rules) Equal(b Rules) bool { return slices.EqualFunc(a, b, Rule.Equal) }

// Equal reports whether both rules are the same.
func (a Rule) Equal(b Rule) bool {
	return a.Name == b.Name && slices.Equal(a.Matches, b.Matches) && a.Action.Equal(b.Action) && a.Field == b.Field
}

// Equal reports whether the same becomes of requests.
func (a Action) Equal(b Action) bool {
	return a.Filters == b.Filters && slices.Equal(a.Backends, b.Backends) && (a.Reply == nil) == (b.Reply == nil) && (a.Reply == nil || a.Reply.Equal(*b.Reply))
}

// Equal reports whether both answers are the same.
func (a Reply) Equal(b Reply) bool {
	return a.Status == b.Status && a.Body == b.Body && EqualPtr(a.Redirect, b.Redirect)
}

// String is "redirect 308" or "answer 404".
func (a Reply) String() string {
	if a.Redirect != nil {
		return fmt.Sprintf("redirect %d", a.Status)
	}
	return fmt.Sprintf("answer %d", a.Status)
}

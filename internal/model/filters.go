package model

import (
	"fmt"
	"hash/crc32"
	"strings"
	"unique"

	"github.com/fxamacker/cbor/v2"
)

// FiltersKey is what a rule does with a request besides choosing a backend, or
// what is done for one backend: then it has headers and a rewrite alone.
type FiltersKey struct {
	Request  HeaderChanges  `cbor:",omitzero"` // what a backend sees
	Response HeaderChanges  `cbor:",omitzero"` // what a client sees, of a Reply too
	Rewrite  Rewrite        `cbor:",omitzero"`
	Mirrors  Packed[Mirror] `cbor:",omitzero"` // that are sent a copy, and whose answers nobody reads
	CORS     CORS           `cbor:",omitzero"`
	Timeouts Timeouts       `cbor:",omitzero"`
	Retry    Retry          `cbor:",omitzero"`
	Auth     Auth           `cbor:",omitzero"`
	Session  Session        `cbor:",omitzero"` // a version before leaves it out, and serves without
	Over     Over           `cbor:",omitempty"`
}

// HeaderChanges are made in this order. No name is of a pseudo-header or "host".
type HeaderChanges struct {
	Remove Packed[string] `cbor:",omitzero"`
	Set    Packed[Header] `cbor:",omitzero"`
	Add    Packed[Header] `cbor:",omitzero"` // beside values that are there
}

// Header is a header field.
type Header struct{ Name, Value string }

// Rewrite is what of a request's URL a backend sees changed. The query stays.
type Rewrite struct {
	Host   string `cbor:",omitempty"` // empty: as requested
	Path   string `cbor:",omitempty"` // begins with "/"; empty: as requested
	Prefix bool   `cbor:",omitempty"` // Path replaces only the prefix by which the rule matched
}

// Mirror is a backend that gets a copy of some requests: of Of, as many as Part.
type Mirror struct {
	Backend  Backend
	Part, Of uint32
}

// Auth is who is asked of each request whether it may go on, before anything but
// CORS. Whatever is not a yes ends the request. Without a Backend nobody is asked.
type Auth struct {
	Backend Backend
	Calls   bool           `cbor:",omitempty"` // it speaks the gRPC protocol ext_authz; else HTTP, and 200 is a yes
	Path    string         `cbor:",omitempty"` // HTTP: goes before the path of the request; begins with "/", and does not end so
	Send    Packed[string] `cbor:",omitzero"`  // names of headers that it sees; none: of a call all, of HTTP those that it always sees
	Take    Packed[string] `cbor:",omitzero"`  // HTTP: names of headers of its yes that the backend sees; none: all
	Body    uint32         `cbor:",omitempty"` // bytes that it sees of a body; what has more is refused. 0: no body
}

// Session is how a client goes back to the endpoint that answered it before: it shows a
// cookie or a header that it got with the answer. Without a Name there is none.
type Session struct {
	Name   string
	Header bool    `cbor:",omitempty"` // it is a header; else a cookie
	Path   string  `cbor:",omitempty"` // of the cookie, begins with "/"
	Age    int64   `cbor:",omitempty"` // seconds for which a client keeps the cookie; 0: until it ends
	First  Backend `cbor:",omitzero"`  // the one whose cookie has just this name
}

// Of is the name for one backend of a rule. Each has a cookie of its own: which backend
// a request goes to is chosen before, and one cookie for all would forget the endpoint of
// each as soon as another is chosen.
func (a Session) Of(b Backend) string {
	b = b.In("") // a Placement that comes or goes changes no cookie
	if a.Header || b == a.First {
		return a.Name
	}
	return fmt.Sprintf("%s-%08x", a.Name, crc32.ChecksumIEEE([]byte(b.String())))
}

// SecureCookie reports whether browsers take a cookie of this name over TLS alone, and
// only if it says so (RFC 6265bis, 4.1.3).
func SecureCookie(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(lower, "__secure-") || HostCookie(name)
}

// HostCookie reports whether they take it, besides, for the path "/" alone.
func HostCookie(name string) bool { return strings.HasPrefix(strings.ToLower(name), "__host-") }

// String is what keeps it, and for how long.
func (a Session) String() string {
	if a.Header {
		return "session by header " + a.Name
	}
	out := "session by cookie " + a.Name + " of " + a.Path
	if a.Age > 0 {
		out += fmt.Sprintf(" for %d s", a.Age)
	}
	if a.First != (Backend{}) {
		out += ", first of " + a.First.String()
	}
	return out
}

// OfOneMessage is a regular expression for the headers that say how one message is sent,
// and what its body is (RFC 9110, 7.6.1 and 8): no answer has them for another message.
const OfOneMessage = "(content|keep|proxy|transfer)-.*|connection|te|trailer|upgrade"

// CORS says which scripts of other origins a browser lets read answers (the
// Fetch standard, "CORS protocol"). Without an origin it says nothing.
type CORS struct {
	Origins     Packed[string] `cbor:",omitzero"` // "*", or SCHEME://HOST[:PORT]; each "*" in one stands for any characters, also none
	Methods     Packed[string] `cbor:",omitzero"` // "*": all
	Headers     Packed[string] `cbor:",omitzero"` // that a request may have; "*": all
	Expose      Packed[string] `cbor:",omitzero"` // that a script may read of an answer; "*": all
	Credentials bool           `cbor:",omitempty"`
	MaxAge      int64          `cbor:",omitempty"` // seconds; 0: as the browser has it
}

// Timeouts are in milliseconds; 0: as the proxy has it.
type Timeouts struct {
	Request int64 `cbor:",omitempty"` // from the end of a request to the end of its answer, retries included
	Backend int64 `cbor:",omitempty"` // for each attempt
}

// NoTimeout is the timeout that never comes.
const NoTimeout int64 = -1

// Retry says when a request is sent again, of any method, in place of what the
// proxy does by itself: after connections that fail, are reset, or give no answer in
// time, and after some answers.
type Retry struct {
	Own      bool           `cbor:",omitempty"` // false: as the proxy has it
	Codes    Packed[uint16] `cbor:",omitzero"`  // of such answers
	Attempts uint32         `cbor:",omitempty"` // after the first; 0: none
}

// Filters is an interned FiltersKey, 8 bytes; the zero value does nothing.
type Filters struct{ h unique.Handle[FiltersKey] }

// Filters interns the key.
func (k FiltersKey) Filters() Filters {
	if k == (FiltersKey{}) {
		return Filters{}
	}
	return Filters{unique.Make(k)}
}

// Key is what the filters were made of.
func (a Filters) Key() FiltersKey {
	if a == (Filters{}) {
		return FiltersKey{}
	}
	return a.h.Value()
}

// Mirrors are those that get copies.
func (a Filters) Mirrors() []Mirror { return a.Key().Mirrors.List() }

// Session is how a client goes back to an endpoint.
func (a Filters) Session() Session {
	if a == (Filters{}) {
		return Session{}
	}
	return a.h.Value().Session
}

// Over is by which of HTTP and HTTPS clients may ask.
func (a Filters) Over() Over {
	if a == (Filters{}) {
		return Both
	}
	return a.h.Value().Over
}

// By is the same for clients that ask otherwise.
func (a Filters) By(over Over) Filters {
	if a.Over() == over {
		return a
	}
	k := a.Key()
	k.Over = over
	return k.Filters()
}

// Auth is who is asked first.
func (a Filters) Auth() Auth { return a.Key().Auth }

// OnlyMirrors leaves out the mirrors that are not kept.
func (a Filters) OnlyMirrors(keep func(Mirror) bool) Filters {
	all := a.Mirrors()
	var kept []Mirror
	for _, m := range all {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	if len(kept) == len(all) {
		return a
	}
	k := a.Key()
	k.Mirrors = PackedOf(kept...)
	return k.Filters()
}

// In has the backends that get copies, or are asked, as a Placement limits them.
func (a Filters) In(p Placed) Filters {
	k := a.Key()
	if k.Mirrors == "" && k.Auth == (Auth{}) {
		return a
	}
	mirrors := k.Mirrors.List()
	for i := range mirrors {
		mirrors[i].Backend = mirrors[i].Backend.In(p)
	}
	k.Mirrors = PackedOf(mirrors...)
	k.Auth.Backend = k.Auth.Backend.In(p)
	return k.Filters()
}

// Then is what becomes of a request to which first a does something, and then b:
// of a rule and one of its backends. An answer goes the other way.
func (a Filters) Then(b Filters) Filters {
	if b == (Filters{}) {
		return a
	}
	x, y := a.Key(), b.Key()
	x.Request = x.Request.then(y.Request)
	x.Response = y.Response.then(x.Response)
	if y.Rewrite.Host != "" {
		x.Rewrite.Host = y.Rewrite.Host
	}
	if y.Rewrite.Path != "" {
		x.Rewrite.Path, x.Rewrite.Prefix = y.Rewrite.Path, y.Rewrite.Prefix
	}
	return x.Filters()
}

// then is both: of what the first sets or adds, nothing stays that the second
// removes or sets.
func (a HeaderChanges) then(b HeaderChanges) HeaderChanges {
	if a == (HeaderChanges{}) || b == (HeaderChanges{}) {
		return HeaderChanges{a.Remove + b.Remove, a.Set + b.Set, a.Add + b.Add} // one of each is empty
	}
	over := map[string]bool{}
	for _, name := range b.Remove.List() {
		over[strings.ToLower(name)] = true
	}
	for _, h := range b.Set.List() {
		over[strings.ToLower(h.Name)] = true
	}
	left := func(all Packed[Header], more Packed[Header]) Packed[Header] {
		var out []Header
		for _, h := range all.List() {
			if !over[strings.ToLower(h.Name)] {
				out = append(out, h)
			}
		}
		return PackedOf(append(out, more.List()...)...)
	}
	return HeaderChanges{PackedOf(append(a.Remove.List(), b.Remove.List()...)...), left(a.Set, b.Set), left(a.Add, b.Add)}
}

// String is what is done, in a few words each.
func (a Filters) String() string {
	k := a.Key()
	var out []string
	say := func(on bool, format string, args ...any) {
		if on {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(k.Request != HeaderChanges{}, "request headers")
	say(k.Response != HeaderChanges{}, "response headers")
	say(k.Rewrite.Host != "", "host %s", k.Rewrite.Host)
	say(k.Rewrite.Path != "", "path %s", k.Rewrite.Path)
	for _, m := range k.Mirrors.List() {
		say(true, "mirrored to %s (%d/%d)", m.Backend, m.Part, m.Of)
	}
	say(k.CORS.Origins != "", "CORS")
	say(k.Timeouts != Timeouts{}, "timeouts")
	say(k.Retry.Own, "%d retries", k.Retry.Attempts)
	say(k.Auth != Auth{}, "%s", k.Auth)
	say(k.Session != Session{}, "%s", k.Session)
	say(k.Over != Both, "over %s", k.Over)
	return strings.Join(out, ", ")
}

// String is who is asked, and how.
func (a Auth) String() string {
	var out []string
	say := func(on bool, format string, args ...any) {
		if on {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(true, "if %s says yes", a.Backend)
	say(a.Calls, "by gRPC")
	say(a.Path != "", "at %s", a.Path)
	say(a.Send != "", "sees %s", strings.Join(a.Send.List(), " "))
	say(a.Take != "", "says %s", strings.Join(a.Take.List(), " "))
	say(a.Body > 0, "%d bytes", a.Body)
	return strings.Join(out, " ")
}

// MarshalCBOR is the key: a checkpoint can't hold what is interned. One that asks whether
// a request may go on is in a list, which no version can read that does not know how to
// ask: it would leave that out, and let everybody in.
func (a Filters) MarshalCBOR() ([]byte, error) {
	k := a.Key()
	if k.Auth != (Auth{}) {
		return cbor.Marshal([]FiltersKey{k})
	}
	return cbor.Marshal(k)
}

// UnmarshalCBOR interns the key.
func (a *Filters) UnmarshalCBOR(data []byte) error {
	var one [1]FiltersKey
	var into any = &one[0]
	if len(data) > 0 && data[0]>>5 == cborList {
		into = &one
	}
	if err := cbor.Unmarshal(data, into); err != nil {
		return fmt.Errorf("filters: %w", err)
	}
	*a = one[0].Filters()
	return nil
}

// cborList is the major type of a list (RFC 8949, 3.1).
const cborList = 4

// Packed is a list as comparable text: its CBOR. Empty: the empty list.
type Packed[T any] string

// PackedOf is the list of these.
func PackedOf[T any](list ...T) Packed[T] {
	if len(list) == 0 {
		return ""
	}
	data, err := cbor.Marshal(list)
	if err != nil {
		panic("model: " + err.Error()) // T is one of ours
	}
	return Packed[T](data)
}

// List is the list, nil if it is empty.
func (a Packed[T]) List() []T {
	if a == "" {
		return nil
	}
	var out []T
	if err := cbor.Unmarshal([]byte(a), &out); err != nil {
		panic("model: " + err.Error()) // we made it
	}
	return out
}

// MarshalCBOR is the list.
func (a Packed[T]) MarshalCBOR() ([]byte, error) {
	if a == "" {
		return cbor.Marshal([]T{})
	}
	return []byte(a), nil
}

// UnmarshalCBOR is the inverse. What another version has more of is left out.
func (a *Packed[T]) UnmarshalCBOR(data []byte) error {
	var list []T
	if err := cbor.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("a list: %w", err)
	}
	*a = PackedOf(list...)
	return nil
}

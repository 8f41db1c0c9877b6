package model

import (
	"fmt"
	"slices"
)

// TypeURL names a type of Envoy's resources as xDS messages do.
type TypeURL string

// Short is a type's last word, such as Cluster.
func (t TypeURL) Short() string {
	for i := len(t) - 1; i >= 0; i-- {
		if t[i] == '.' {
			return string(t[i+1:])
		}
	}
	return string(t)
}

// Ref names a resource of the same views that another one uses: a listener its
// route configurations and secrets, a route configuration its clusters, a
// cluster its assignment.
type Ref struct {
	Type TypeURL
	Name string
}

// Resource is what a collection has under a name. It is there once, for the
// tables and for all streams, and never changes. Its text form shows nothing of
// the body, which may be a key.
type Resource struct {
	Name    string
	Version string // content hash, never empty: equal versions mean equal content
	Body    Body   // nil: there is nothing of it
}

// Body is what a resource says beside its name. Its bytes are made each time
// that somebody takes them, so that what many resources repeat is there once.
// All methods are pure, and may be called from any goroutine.
type Body interface {
	// Append appends a serialized google.protobuf.Any, Size its length.
	Append(b []byte, name string) []byte
	Size(name string) int
	// Refs is what the resource uses, as far as order matters, each once.
	Refs(name string) []Ref
}

// Append appends the body: a serialized google.protobuf.Any.
func (r *Resource) Append(b []byte) []byte {
	if r.Body == nil {
		return b
	}
	return r.Body.Append(b, r.Name)
}

// Size is the length of the body.
func (r *Resource) Size() int {
	if r.Body == nil {
		return 0
	}
	return r.Body.Size(r.Name)
}

// Bytes is the body, made for the caller.
func (r *Resource) Bytes() []byte { return r.Append(make([]byte, 0, r.Size())) }

// Refs is what it uses, as far as order matters: a cluster its assignment (of an
// EDS cluster), a route configuration its clusters, a scope its route
// configuration, a listener its secrets.
func (r *Resource) Refs() []Ref {
	if r.Body == nil {
		return nil
	}
	return r.Body.Refs(r.Name)
}

// Unsure says that more may be part of it than was known when it was made. A
// client that has a version which was not keeps that, until it is sure.
func (r *Resource) Unsure() bool {
	_, unsure := r.Body.(Doubtful)
	return unsure
}

// Family says, if not empty, that other names of this family may turn out to be
// right: as long as such a resource is there, absent clusters and assignments of
// the family are not known to be absent.
func (r *Resource) Family() string {
	d, _ := r.Body.(Doubtful)
	return d.Family
}

// Hosts is what a proxy serves once it has this, sorted: of route configurations, and of
// listeners that say themselves what becomes of connections.
func (r *Resource) Hosts() []HostKey {
	if s, ok := r.Body.(Serving); ok {
		return s.Hosts()
	}
	return nil
}

// Held says that Envoy would refuse it: it is not to be published.
func (r *Resource) Held() bool {
	s, ok := r.Body.(Serving)
	return ok && s.Held()
}

// Equal reports whether both are the same to a proxy, and serve the same hosts.
func (r *Resource) Equal(b *Resource) bool {
	if r == b {
		return true
	}
	if r == nil || b == nil {
		return false
	}
	return r.Name == b.Name && r.Version == b.Version && r.Held() == b.Held() &&
		r.Unsure() == b.Unsure() && r.Family() == b.Family() && slices.Equal(r.Hosts(), b.Hosts())
}

// String is the name and the version.
func (r *Resource) String() string {
	if r == nil {
		return "nothing"
	}
	s := r.Name + " " + r.Version
	if r.Held() {
		s += " held"
	}
	if r.Unsure() {
		s += " unsure"
	}
	if f := r.Family(); f != "" {
		s += " of " + f
	}
	return s
}

// GoString is String: %#v must not show a key either.
func (r *Resource) GoString() string { return r.String() }

// Serving is the body of a route configuration, or of such a listener.
type Serving interface {
	Hosts() []HostKey
	Held() bool
}

// Bytes is a body that is kept as it is, and uses nothing.
type Bytes string

// Append appends the bytes.
func (a Bytes) Append(b []byte, _ string) []byte { return append(b, a...) }

// Size is their number.
func (a Bytes) Size(string) int { return len(a) }

// Refs are none.
func (a Bytes) Refs(string) []Ref { return nil }

// String shows no bytes: they may be a key.
func (a Bytes) String() string { return fmt.Sprintf("%d bytes", len(a)) }

// GoString is String.
func (a Bytes) GoString() string { return a.String() }

// Using is a body that is kept as it is, and what it uses.
type Using struct {
	Bytes
	Uses []Ref
}

// Refs is what it uses.
func (a *Using) Refs(string) []Ref { return a.Uses }

// BodyOf keeps bytes, and what they use.
func BodyOf(b []byte, uses ...Ref) Body {
	if len(uses) == 0 {
		return Bytes(b)
	}
	return &Using{Bytes(b), uses}
}

// Doubtful is a body that may not be right, since nobody is sure what is part of it.
type Doubtful struct {
	Body
	Family string
}

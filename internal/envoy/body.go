package envoy

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-dev/spillway/internal/model"
)

// Most resources begin with their name, field 1, and go on with what others have
// too. Of those nothing else is kept.

// appendNamed appends an Any of a message that has a name and this besides.
func appendNamed(b []byte, typeURL, name string, rest []byte) []byte {
	b = openAny(b, typeURL, sizeText(name)+len(rest))
	return append(appendText(b, 1, name), rest...)
}

func sizeNamed(typeURL, name string, rest int) int {
	return sizeAny(typeURL, sizeText(name)+rest)
}

// template is the body of all clusters that differ by their names alone, and
// whose endpoints are an assignment of that name.
type template struct{ rest []byte }

// templateOf is that of a cluster, whatever its name is.
func templateOf(m message) *template {
	mustBeValid(m)
	whole := encode(m)
	field, _, n := protowire.ConsumeField(whole)
	if field != 1 {
		panic("envoy: a cluster that does not begin with its name")
	}
	return &template{whole[n:]}
}

// Append appends a cluster.
func (t *template) Append(b []byte, name string) []byte {
	return appendNamed(b, ClusterType, name, t.rest)
}

// Size is the length of one.
func (t *template) Size(name string) int { return sizeNamed(ClusterType, name, len(t.rest)) }

// Refs is the assignment.
func (t *template) Refs(name string) []Ref { return []Ref{{Type: AssignmentType, Name: name}} }

// Append appends a RouteConfiguration.
func (f *fragment) Append(b []byte, name string) []byte {
	return appendNamed(b, RouteType, name, f.config)
}

// Size is the length of one.
func (f *fragment) Size(name string) int { return sizeNamed(RouteType, name, len(f.config)) }

// Refs are the clusters.
func (f *fragment) Refs(string) []Ref { return refs(ClusterType, f.clusters) }

// Hosts is the one that it serves.
func (f *fragment) Hosts() []model.HostKey { return f.host[:] }

// Held says that Envoy would refuse it.
func (f *fragment) Held() bool { return f.invalid != "" }

package envoy

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Type URLs of the resources made here.
const (
	ListenerType   = "type.googleapis.com/envoy.config.listener.v3.Listener"
	ScopeType      = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
	RouteType      = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	ClusterType    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	AssignmentType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	SecretType     = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// Key names a resource of one type in a collection.
type Key struct {
	Collection model.Collection
	Name       string
}

// Compare orders by collection and name.
func (a Key) Compare(b Key) int {
	return cmp.Or(a.Collection.Compare(b.Collection), strings.Compare(a.Name, b.Name))
}

// String is the collection and the name.
func (a Key) String() string { return a.Collection.String() + " " + a.Name }

// Resource is what a collection has under a name: the same one for who has it in
// a table and for who sends it.
type Resource struct{ *model.Resource }

// Equal reports whether both are the same to a proxy, and serve the same hosts.
func (a Resource) Equal(b Resource) bool { return a.Resource.Equal(b.Resource) }

// Ref names a resource of the same views that another one uses.
type Ref = model.Ref

func refs(typeURL model.TypeURL, names []string) []Ref {
	out := make([]Ref, len(names))
	for i, name := range names {
		out[i] = Ref{Type: typeURL, Name: name}
	}
	return out
}

// doubted marks what was made of a plan that a member may change whose rows are
// missing: it may have more endpoints, speak another protocol, make more parts.
func doubted(body model.Body, plan steer.Plan, b model.Backend) model.Body {
	if plan.Unsure {
		return model.Doubtful{Body: body, Family: family(b)}
	}
	return body
}

// made gives a body its version, which is a hash of its bytes.
func (d *derivation) made(name string, body model.Body) Resource {
	d.scratch = body.Append(d.scratch[:0], name)
	return versioned(name, d.scratch, body)
}

// versioned is made of a body that is rendered already.
func versioned(name string, rendered []byte, body model.Body) Resource {
	sum := sha256.Sum256(rendered)
	return Resource{&model.Resource{Name: name, Version: base64.RawURLEncoding.EncodeToString(sum[:8]), Body: body}}
}

// kept is a resource of a body that is kept as it is.
func kept(name string, body []byte, uses ...Ref) Resource {
	return versioned(name, body, model.BodyOf(body, uses...))
}

// message is one of Envoy's API, with the rules that the API states for it.
type message interface {
	proto.Message
	Validate() error
}

// seal serializes m. The result depends on m alone: our messages have one
// writer, the pinned module.
func seal(name string, m message, uses ...Ref) Resource {
	return kept(name, sealed(m), uses...)
}

// sealed is a serialized Any of m.
func sealed(m message) []byte {
	mustBeValid(m)
	value := encode(m)
	return append(openAny(make([]byte, 0, sizeAny(typeURL(m), len(value))), typeURL(m), len(value)), value...)
}

// mustBeValid panics where Envoy would refuse a message that has nothing of a
// user in it but names: this costs its row, which keeps the value it had.
func mustBeValid(m message) {
	if err := m.Validate(); err != nil {
		panic("envoy: breaks a rule of Envoy's API: " + err.Error())
	}
}

func typeURL(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

func encode(m proto.Message) []byte {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("envoy: " + err.Error()) // a string that is not UTF-8: costs this row only
	}
	return body
}

func pack(m message) *anypb.Any {
	mustBeValid(m)
	return &anypb.Any{TypeUrl: typeURL(m), Value: encode(m)}
}

// brief packs what every host or every cluster of a proxy repeats. Of a type URL
// only what is after its last "/" counts (google/protobuf/any.proto), so one
// letter is enough for the 19 bytes before it; without any, Envoy does not dump
// its configuration. It is not for the resource itself, whose type Envoy
// compares with that of the response, and not for gRPC clients, which compare
// every type as a whole.
func brief(m message) *anypb.Any {
	mustBeValid(m)
	return &anypb.Any{TypeUrl: "t/" + string(m.ProtoReflect().Descriptor().FullName()), Value: encode(m)}
}

package envoy

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
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

// Resource is what a collection has under a name. Its bytes are shared and are
// never written; its text form shows none of them, since they may be a key.
type Resource struct {
	Name    string
	Version string          // hash of Body: 11 bytes of text
	Body    []byte          // a serialized google.protobuf.Any
	Held    bool            // Envoy would refuse it: not to be published
	Unsure  bool            // a member whose rows are missing may be part of it: not for streams that have a sure version
	Family  string          // if not empty: the backend's clusters may turn out to have other names of this family
	Refs    []Ref           // what it uses, sorted, each once
	Hosts   []model.HostKey // that a proxy serves once it has this, sorted: of route configurations only
}

// Ref names a resource of the same views that another one uses: a listener its
// route configurations and secrets, a route configuration its clusters, a
// cluster its assignment.
type Ref struct{ Type, Name string }

func refs(typeURL string, names []string) []Ref {
	out := make([]Ref, len(names))
	for i, name := range names {
		out[i] = Ref{typeURL, name}
	}
	return out
}

// Equal reports whether both are the same to a proxy, and serve the same hosts.
func (a Resource) Equal(b Resource) bool {
	return a.Name == b.Name && a.Version == b.Version && a.Held == b.Held && a.Unsure == b.Unsure && a.Family == b.Family && sameHosts(a.Hosts, b.Hosts)
}

// doubt marks what was made of a plan that a member may change whose rows are
// missing: it may have more endpoints, speak another protocol, make more parts.
func (a *Resource) doubt(plan steer.Plan, b model.Backend) {
	if plan.Unsure {
		a.Unsure, a.Family = true, family(b)
	}
}

// sameHosts costs nothing for versions that share the list.
func sameHosts(a, b []model.HostKey) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// String is the name and the version.
func (a Resource) String() string {
	s := a.Name + " " + a.Version
	if a.Held {
		s += " held"
	}
	if a.Unsure {
		s += " unsure"
	}
	if a.Family != "" {
		s += " of " + a.Family
	}
	return s
}

// GoString is String: %#v must not show a key either.
func (a Resource) GoString() string { return a.String() }

// sealed is a serialized message and its version.
type sealed struct {
	version string
	body    []byte
}

func (a sealed) Equal(b sealed) bool { return a.version == b.version }

// String is the version only: the body may be a key.
func (a sealed) String() string { return a.version }

func (a sealed) GoString() string { return a.version }

// message is one of Envoy's API, with the rules that the API states for it.
type message interface {
	proto.Message
	Validate() error
}

// seal serializes m. The result depends on m alone: our messages have one
// writer, the pinned module.
func seal(m message) sealed {
	mustBeValid(m)
	return sealBytes(typeURL(m), encode(m))
}

// mustBeValid panics where Envoy would refuse a message that has nothing of a
// user in it but names: this costs its row, which keeps the value it had.
func mustBeValid(m message) {
	if err := m.Validate(); err != nil {
		panic("envoy: breaks a rule of Envoy's API: " + err.Error())
	}
}

// sealBytes wraps a serialized message into a serialized Any.
func sealBytes(typeURL string, value []byte) sealed {
	body := appendText(make([]byte, 0, len(typeURL)+len(value)+16), 1, typeURL)
	body = protowire.AppendTag(body, 2, protowire.BytesType)
	return hashed(protowire.AppendBytes(body, value))
}

// hashed gives a serialized Any its version.
func hashed(body []byte) sealed {
	sum := sha256.Sum256(body)
	return sealed{base64.RawURLEncoding.EncodeToString(sum[:8]), body}
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

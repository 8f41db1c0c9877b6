package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unique"

	"github.com/fxamacker/cbor/v2"
)

// ServiceKey names a Service, or what has ports and endpoints as one.
type ServiceKey struct {
	Kind      string `cbor:",omitempty"` // empty: a Service; else ImportKind
	Namespace string
	Name      string
}

// Service is an interned ServiceKey, 8 bytes; the zero value is that of the zero
// key. In a member it names what is there, whoever has it on the hub.
type Service struct{ h unique.Handle[ServiceKey] }

// Service interns the key.
func (k ServiceKey) Service() Service {
	if k == (ServiceKey{}) {
		return Service{}
	}
	return Service{unique.Make(k)}
}

// ServiceOf names a Service of Kubernetes.
func ServiceOf(namespace, name string) Service {
	return ServiceKey{Namespace: namespace, Name: name}.Service()
}

// Key is what the service was made of.
func (a Service) Key() ServiceKey {
	if a == (Service{}) {
		return ServiceKey{}
	}
	return a.h.Value()
}

// Namespace is that of the service.
func (a Service) Namespace() string { return a.Key().Namespace }

// Name is that of the service.
func (a Service) Name() string { return a.Key().Name }

// Compare orders services by namespace, name and kind.
func (a Service) Compare(b Service) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name), strings.Compare(x.Kind, y.Kind))
}

// String is "shop/web", or "Kind.shop/web" of another kind.
func (a Service) String() string {
	k := a.Key()
	if k.Kind == "" {
		return k.Namespace + "/" + k.Name
	}
	return k.Kind + "." + k.Namespace + "/" + k.Name
}

// MarshalCBOR is the key: a checkpoint can't hold what is interned.
func (a Service) MarshalCBOR() ([]byte, error) { return cbor.Marshal(a.Key()) }

// UnmarshalCBOR interns the key.
func (a *Service) UnmarshalCBOR(data []byte) error {
	var k ServiceKey
	if err := cbor.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	*a = k.Service()
	return nil
}

// BackendKey names a port of a service, as an object of a workspace names it.
type BackendKey struct {
	Workspace string  `cbor:",omitempty"` // empty on a hub without workspaces
	Service   Service // its namespace is the hub's
	Port      PortRef
	Placed    Placed `cbor:",omitempty"` // whose Placement says which members are part of it
}

// Backend is a port of a service, in all members at once: what a route sends
// requests to. It is an interned BackendKey, 8 bytes; the zero value is that of
// the zero key.
type Backend struct{ h unique.Handle[heldBackend] }

// heldBackend is a BackendKey as it is kept: what few have is a handle in each.
type heldBackend struct {
	service Service
	name    string // of the port, like the next
	number  int32
	traffic Traffic
	pass    bool
	pods    bool
	rare    unique.Handle[rareBackend]
}

// rareBackend is what few backends have.
type rareBackend struct {
	workspace string
	placed    Placed
	route     string // of the port
}

// Backend interns the key.
func (k BackendKey) Backend() Backend {
	if k == (BackendKey{}) {
		return Backend{}
	}
	p := k.Port
	held := heldBackend{service: k.Service, name: p.Name, number: p.Number, traffic: p.For, pass: p.Pass, pods: p.Pods}
	if rare := (rareBackend{k.Workspace, k.Placed, p.Route}); rare != (rareBackend{}) {
		held.rare = unique.Make(rare)
	}
	return Backend{unique.Make(held)}
}

// Key is what the backend was made of.
func (a Backend) Key() BackendKey {
	if a == (Backend{}) {
		return BackendKey{}
	}
	held := a.h.Value()
	k := BackendKey{Service: held.service, Port: PortRef{Name: held.name, Number: held.number, For: held.traffic, Pass: held.pass, Pods: held.pods}}
	if held.rare != (unique.Handle[rareBackend]{}) {
		rare := held.rare.Value()
		k.Workspace, k.Placed, k.Port.Route = rare.workspace, rare.placed, rare.route
	}
	return k
}

// Placed is whose Placement says which members are part of it; empty: all may be.
func (a Backend) Placed() Placed { return a.Key().Placed }

// In is the backend as a Placement limits it, or, in none, as none does. That of the
// zero key stays so.
func (a Backend) In(p Placed) Backend {
	k := a.Key()
	if k == (BackendKey{}) || k.Placed == p {
		return a
	}
	k.Placed = p
	return k.Backend()
}

// Port is the port of the service.
func (a Backend) Port() PortRef { return a.Key().Port }

// MemberNamespace is what members call a namespace of the hub. They know no
// workspaces: the namespace NS of workspace WS is WS--NS in members. Where that is too
// long for a name, or another pair has the same, it ends in a hash, behind "---", which
// no other one has. Nothing else maps the names of the hub to those of members.
func MemberNamespace(workspace, namespace string) string {
	const between, longest, digits = "--", 63, 16
	name := workspace + between + namespace
	switch {
	case workspace == "":
		return namespace
	case len(name) <= longest && !strings.Contains(workspace, between) && !strings.Contains(namespace, between):
		return name
	}
	sum := sha256.Sum256([]byte(workspace + "/" + namespace))
	begin := strings.TrimRight(name[:min(len(name), longest-len("---")-digits)], "-")
	return begin + "---" + hex.EncodeToString(sum[:digits/2])
}

// Service is what members call the service. What is imported is the Service of that
// name that they export.
func (a Backend) Service() Service {
	k := a.Key()
	of := k.Service.Key()
	if k.Workspace == "" && of.Kind != ImportKind {
		return k.Service
	}
	if of.Kind == ImportKind {
		of.Kind = ""
	}
	of.Namespace = MemberNamespace(k.Workspace, of.Namespace)
	return of.Service()
}

// Imported reports whether the backend is of a ServiceImport.
func (a Backend) Imported() bool { return a.Key().Service.Key().Kind == ImportKind }

// Described is "Service shop/web", or "ServiceImport shop/web", as members call it.
func (a Backend) Described() string {
	kind := "Service"
	if a.Imported() {
		kind = ImportKind
	}
	return kind + " " + a.Service().String()
}

// Compare orders backends by workspace, service, port and whose Placement limits them.
func (a Backend) Compare(b Backend) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(strings.Compare(x.Workspace, y.Workspace), x.Service.Compare(y.Service), x.Port.Compare(y.Port), strings.Compare(string(x.Placed), string(y.Placed)))
}

// String is "shop/web/http", with the workspace in front if there is one, and whose
// Placement limits it behind: "shop/web/http@HTTPRoute.shop.web".
func (a Backend) String() string {
	k := a.Key()
	s := k.Service.String() + "/" + k.Port.String()
	if k.Placed != "" {
		s += "@" + string(k.Placed)
	}
	if k.Workspace != "" {
		s = k.Workspace + ":" + s
	}
	return s
}

// MarshalCBOR is the key: a checkpoint can't hold what is interned.
func (a Backend) MarshalCBOR() ([]byte, error) { return cbor.Marshal(a.Key()) }

// UnmarshalCBOR interns the key.
func (a *Backend) UnmarshalCBOR(data []byte) error {
	var k BackendKey
	if err := cbor.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	*a = k.Backend()
	return nil
}

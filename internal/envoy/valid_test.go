package envoy

import (
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// reporter is a test, plain or of rapid.
type reporter interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// decode returns the message of a resource.
func decode(t reporter, r Resource) proto.Message {
	t.Helper()
	body := r.Bytes()
	if r.Size() != len(body) {
		t.Errorf("%s: %d bytes, Size says %d", r.Name, len(body), r.Size())
	}
	var packed anypb.Any
	if err := proto.Unmarshal(body, &packed); err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	return m
}

// validate applies the rules that Envoy's API states, to the message and to
// every message packed in it.
func validate(t reporter, name string, m proto.Message) {
	t.Helper()
	if _, plain := m.(*wrapperspb.StringValue); plain {
		return
	}
	v, ok := m.(interface{ ValidateAll() error })
	if !ok {
		t.Fatalf("%T has no validation", m)
	}
	if err := v.ValidateAll(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	eachAny(m.ProtoReflect(), func(a *anypb.Any) {
		inner, err := a.UnmarshalNew()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		validate(t, name+" "+a.TypeUrl, inner)
	})
}

func eachAny(m protoreflect.Message, f func(*anypb.Any)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		visit := func(v protoreflect.Value) {
			if a, ok := v.Message().Interface().(*anypb.Any); ok {
				f(a)
				return
			}
			eachAny(v.Message(), f)
		}
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { visit(v); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				visit(v.List().Get(i))
			}
		default:
			visit(v)
		}
		return true
	})
}

// validateAll checks every resource of a world, and that all that one refers to is there.
func validateAll(t reporter, w *world) {
	t.Helper()
	validateTypes(t, w.t.Types())
	validateTypes(t, w.t.Clients.Types())
	unions(t, w, w.p.Spreads.Waiting() > 0)
	for _, f := range w.g.Faults() {
		t.Errorf("fault in %s %s: %s at %s", f.Table, f.Key, f.Panic, f.At)
	}
}

func validateTypes(t reporter, types []Type) {
	t.Helper()
	seen := map[string]Key{}
	for _, typ := range types {
		for _, key := range typ.Table.Keys() {
			res, _ := typ.Table.Get(nil, key)
			if res.Name != key.Name {
				t.Errorf("%s is called %s", key, res.Name)
			}
			m := decode(t, res)
			if got := typeURL(m); got != typ.URL {
				t.Errorf("%s is a %s, want %s", key, got, typ.URL)
			}
			validate(t, key.String(), m)
			agrees(t, key, m, seen)
		}
	}
}

// agrees checks what the API's rules leave to Envoy: addresses are addresses,
// and nothing is there twice that must be unique.
func agrees(t reporter, key Key, m proto.Message, seen map[string]Key) {
	t.Helper()
	once := func(what ...string) {
		id := strings.Join(append(what, key.Collection.String()), " ")
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s both have %s", other, key, id)
		}
		seen[id] = key
	}
	address := func(a *corev3.Address) {
		if _, err := netip.ParseAddr(a.GetSocketAddress().GetAddress()); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	switch m := m.(type) {
	case *routev3.ScopedRouteConfiguration:
		once("scope", m.Key.Fragments[0].GetStringKey())
	case *routev3.RouteConfiguration:
		for _, vh := range m.VirtualHosts {
			for _, d := range vh.Domains {
				once("domain", m.Name, d)
			}
		}
	case *listenerv3.Listener:
		if m.ApiListener == nil {
			address(m.Address)
		}
		for _, c := range m.FilterChains {
			once("chain", m.Name, c.Name)
			for _, name := range c.GetFilterChainMatch().GetServerNames() {
				once("server name", m.Name, name)
			}
		}
	case *endpointv3.ClusterLoadAssignment:
		for _, l := range m.Endpoints {
			for _, e := range l.LbEndpoints {
				address(e.GetEndpoint().Address)
			}
		}
	}
}

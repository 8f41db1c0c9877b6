package fleettest

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
)

// EqualKnowsEveryField changes one field of each value at a time: an Equal that
// forgets a field would let a change go unnoticed for ever.
func EqualKnowsEveryField(t *testing.T, values ...any) {
	t.Helper()
	for _, v := range values {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			a, b := reflect.New(typ).Elem(), reflect.New(typ).Elem()
			other(b.Field(i))
			if equal(a, b) || equal(b, a) {
				t.Errorf("%s.Equal does not see a change of %s", typ, typ.Field(i).Name)
			}
			if !equal(b, b) {
				t.Errorf("%s is not equal to itself with %s set", typ, typ.Field(i).Name)
			}
		}
	}
}

func equal(a, b reflect.Value) bool {
	return a.MethodByName("Equal").Call([]reflect.Value{b})[0].Bool()
}

// other gives v a value that is not its zero value.
func other(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *netip.Addr:
		*x = netip.MustParseAddr("192.0.2.1")
		return
	case *model.Endpoints:
		*x = model.EndpointsOf(model.Endpoint{Addr: netip.MustParseAddr("192.0.2.1")})
		return
	case *model.Zone:
		*x = model.ZoneOf("a")
		return
	case *model.Service:
		*x = model.ServiceOf("a", "b")
		return
	case *model.Backend:
		*x = model.BackendKey{Service: model.ServiceOf("a", "b")}.Backend()
		return
	case *model.Texts:
		*x = model.TextsOf([]string{"a"})
		return
	case *model.UpstreamTLS:
		*x = model.UpstreamTLSKey{Host: "a"}.UpstreamTLS()
		return
	case *model.ClientTrust:
		*x = model.ClientTrustKey{CA: "a"}.ClientTrust()
		return
	case *model.Dial:
		*x = model.DialKey{Connect: 7}.Dial()
		return
	case *model.EdgeSet:
		*x = model.EdgesOf("a")
		return
	case *model.View:
		*x = model.ViewKey{Classes: "a"}.View()
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		other(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		other(v.Field(0))
	default:
		panic("no other value for " + v.Type().String())
	}
}

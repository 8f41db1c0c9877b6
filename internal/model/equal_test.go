package model

import (
	"net/netip"
	"reflect"
	"testing"
	"unique"
)

// values are one of each value that a table can hold.
var values = []any{
	Root{}, Rule{}, Action{}, Reply{}, TLS{}, MemberSpec{}, Source{}, Contact{}, ServiceSpec{}, Slice{}, EdgeSpec{}, ClassSpec{},
	ConfigSpec{}, Certificate{}, Report{}, Streams{}, Rejection{}, Reachability{}, ZoneSpec{}, oneFinding{},
	GatewaySpec{}, Listener{}, ListenerSetSpec{}, LeafMember{}, LeafState{}, LeafAddresses{}, Manifest{}, Global{}, GlobalSeen{}, KeyState{},
}

// TestEqualKnowsEveryField changes one field at a time: an Equal that forgets a
// field would let a change go unnoticed for ever.
func TestEqualKnowsEveryField(t *testing.T) {
	for _, v := range values {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			a, b := reflect.New(typ).Elem(), reflect.New(typ).Elem()
			other(b.Field(i))
			if equal(a, b) || equal(b, a) {
				t.Errorf("%s.Equal does not see a change of %s", typ.Name(), typ.Field(i).Name)
			}
			if !equal(b, b) {
				t.Errorf("%s is not equal to itself with %s set", typ.Name(), typ.Field(i).Name)
			}
		}
	}
}

// oneFinding is a finding with the equality of the list that holds it.
type oneFinding Finding

func (a oneFinding) Equal(b oneFinding) bool { return Findings{Finding(a)}.Equal(Findings{Finding(b)}) }

func equal(a, b reflect.Value) bool {
	return a.MethodByName("Equal").Call([]reflect.Value{b})[0].Bool()
}

// other gives v a value that is not its zero value.
func other(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *netip.Addr:
		*x = netip.MustParseAddr("192.0.2.1")
		return
	case *netip.Prefix:
		*x = netip.MustParsePrefix("192.0.2.0/24")
		return
	case *Texts:
		*x = TextsOf([]string{"a"})
		return
	case *Service:
		*x = ServiceOf("a", "b")
		return
	case *Backend:
		*x = BackendKey{Service: ServiceOf("a", "b")}.Backend()
		return
	case *Filters:
		*x = FiltersKey{Rewrite: Rewrite{Host: "x"}}.Filters()
		return
	case *Endpoints:
		*x = EndpointsOf(Endpoint{Addr: netip.MustParseAddr("192.0.2.1")})
		return
	case *Zone:
		*x = Zone{unique.Make("a")}
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
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		other(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		other(key)
		v.SetMapIndex(key, val)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		other(v.Field(0))
	default:
		panic("no other value for " + v.Type().String())
	}
}

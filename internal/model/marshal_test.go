package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// TestInterned: what is interned survives being written down.
func TestInterned(t *testing.T) {
	for _, want := range []Zone{{}, ZoneOf("eu-a")} {
		data, err := json.Marshal(want)
		var got Zone
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || got != want {
			t.Errorf("%v became %v by way of %s: %v", want, got, data, err)
		}
	}
	for _, want := range []View{{}, ViewKey{Classes: "a,b", VantageKey: VantageKey{Place: Place{Region: "eu", Latitude: 1.5, Located: true}}}.View()} {
		data, err := want.MarshalBinary()
		var got View
		if err == nil {
			err = got.UnmarshalBinary(data)
		}
		if err != nil || got != want {
			t.Errorf("%v became %v by way of %s: %v", want, got, data, err)
		}
	}
	var v View
	const old = `{"Classes":"a","Networks":"n","Place":{"Provider":"","Region":"eu","Zone":"","SubZone":"","Latitude":0,"Longitude":0,"Located":false},"IPv6":true}`
	want := ViewKey{Classes: "a", VantageKey: VantageKey{Networks: "n", Place: Place{Region: "eu"}}, IPv6: true}.View()
	if err := v.UnmarshalBinary([]byte(old)); err != nil || v != want {
		t.Errorf("a checkpoint from before there were vantages: %v, %v", v, err)
	}
	if data, _ := want.MarshalBinary(); string(data) != old {
		t.Errorf("written as %s, which a version from before reads otherwise", data)
	}
	if v.UnmarshalBinary([]byte("nonsense")) == nil {
		t.Error("nonsense is no view")
	}
}

// TestInternedInCheckpoints: services and backends are written as the versions
// before wrote them, when they were not interned and knew neither kinds nor
// workspaces.
func TestInternedInCheckpoints(t *testing.T) {
	type service struct{ Namespace, Name string }
	type backend struct {
		Service service
		Port    PortRef
	}
	port := PortRef{Name: "http", Number: 80}
	web := BackendKey{Service: ServiceOf("shop", "web"), Port: port}
	now, err1 := cbor.Marshal(web.Backend())
	before, err2 := cbor.Marshal(backend{service{"shop", "web"}, port})
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(now, before) {
		t.Errorf("written as %x, before as %x: %v", now, before, err)
	}
	tenant := BackendKey{Workspace: "w", Service: ServiceKey{Kind: "Other", Namespace: "shop", Name: "web"}.Service(), Port: port}
	for _, want := range []Backend{{}, web.Backend(), tenant.Backend()} {
		data, err := cbor.Marshal(want)
		var got Backend
		if err = errors.Join(err, cbor.Unmarshal(data, &got)); err != nil || got != want {
			t.Errorf("%v became %v: %v", want, got, err)
		}
	}
}

// TestBackendsOfWorkspaces: what two tenants call the same is two backends, in
// two namespaces of members.
func TestBackendsOfWorkspaces(t *testing.T) {
	for _, c := range []struct {
		of            BackendKey
		name, service string
	}{
		{BackendKey{Service: ServiceOf("shop", "web"), Port: PortRef{Number: 80}}, "shop/web/80", "shop/web"},
		{BackendKey{Workspace: "one", Service: ServiceOf("shop", "web"), Port: PortRef{Number: 80}}, "one:shop/web/80", "one--shop/web"},
		{BackendKey{Workspace: "two", Service: ServiceKey{"Other", "shop", "web"}.Service(), Port: PortRef{Name: "http"}}, "two:Other.shop/web/http", "Other.two--shop/web"},
	} {
		b := c.of.Backend()
		if b.String() != c.name || b.Service().String() != c.service || b.Key() != c.of {
			t.Errorf("%+v is %s, in members %s", c.of, b, b.Service())
		}
	}
}

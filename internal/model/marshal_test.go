package model

import (
	"encoding/json"
	"testing"
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

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
	for _, want := range []View{{}, ViewKey{Classes: "a,b", Place: Place{Region: "eu", Latitude: 1.5, Located: true}}.View()} {
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
	if v.UnmarshalBinary([]byte("nonsense")) == nil {
		t.Error("nonsense is no view")
	}
}

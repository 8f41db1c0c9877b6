package checkpoint

import (
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
)

// TestEndpointsOfTheVersionBefore: which kept them as a plain list. Each reads the other's.
func TestEndpointsOfTheVersionBefore(t *testing.T) {
	type endpoint struct {
		Addr  netip.Addr
		Zone  model.Zone
		Port  uint16
		State model.EndpointState
	}
	type slice struct {
		Ports     []model.SlicePort
		Endpoints []endpoint
	}
	all := []endpoint{
		{netip.MustParseAddr("10.0.0.1"), model.ZoneOf("eu-a"), 8080, model.EndpointReady},
		{netip.MustParseAddr("fd00::1"), model.Zone{}, 0, model.EndpointDraining},
	}
	for n := range len(all) + 1 {
		before := slice{Endpoints: all[:n]}
		var want []model.Endpoint
		for _, e := range before.Endpoints {
			want = append(want, model.Endpoint(e))
		}
		now := model.Slice{Endpoints: model.EndpointsOf(want...)}
		data, err := encoder.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []interface{ Unmarshal([]byte, any) error }{decoder, plainDecoder} {
			var got model.Slice
			if err := d.Unmarshal(data, &got); err != nil || !got.Equal(now) {
				t.Errorf("%d of before: %v, %v", n, got.Endpoints.List(), err)
			}
		}
		if data, err = encoder.Marshal(now); err != nil {
			t.Fatal(err)
		}
		var got slice
		if err := decoder.Unmarshal(data, &got); err != nil || len(got.Endpoints) != n || n > 0 && got.Endpoints[n-1] != all[n-1] {
			t.Errorf("%d of now: %+v, %v", n, got, err)
		}
	}
}

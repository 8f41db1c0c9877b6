package fanout

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/xds"
)

// TestMeasure: every stream is told of each change in one response, and the
// response does not grow with the number of names.
func TestMeasure(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, typ := range []xds.TypeURL{xds.ClusterLoadAssignment, xds.RouteConfiguration} {
		for _, names := range []int{10, 1000} {
			r, err := Measure(t.Context(), Params{Type: typ, Streams: 3, Names: names, Endpoints: 10, Changes: 20})
			if err != nil {
				t.Fatal(err)
			}
			if r.ChangeResponses != 1 || r.ChangeBytes < 300 || r.ChangeBytes > 600 {
				t.Errorf("%s, %d names: %+v", typ, names, r)
			}
		}
	}
}

func BenchmarkFanout(b *testing.B) {
	for _, p := range []Params{
		{Type: xds.ClusterLoadAssignment, Streams: 1, Names: 10_000, Endpoints: 10, Changes: 300},
		{Type: xds.ClusterLoadAssignment, Streams: 200, Names: 10_000, Endpoints: 10, Changes: 300},
		{Type: xds.RouteConfiguration, Streams: 200, Names: 10_000, Endpoints: 10, Changes: 300},
	} {
		b.Run(fmt.Sprintf("%s/streams=%d", p.Type[strings.LastIndexByte(string(p.Type), '.')+1:], p.Streams), func(b *testing.B) {
			for b.Loop() {
				r, err := Measure(b.Context(), p)
				if err != nil {
					b.Fatal(err)
				}
				b.Logf("%+v", r)
			}
		})
	}
}

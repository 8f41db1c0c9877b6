package fanout

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

// TestMeasure: every stream is told of each change in one response, and the
// response does not grow with the number of names.
func TestMeasure(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, names := range []int{10, 1000} {
		r, err := Measure(t.Context(), Params{Streams: 3, Names: names, Endpoints: 10, Changes: 20})
		if err != nil {
			t.Fatal(err)
		}
		if r.ChangeResponses != 1 || r.ChangeBytes < 300 || r.ChangeBytes > 600 {
			t.Errorf("%d names: %+v", names, r)
		}
	}
}

func BenchmarkFanout(b *testing.B) {
	for _, p := range []Params{
		{Streams: 1, Names: 10_000, Endpoints: 10, Changes: 300},
		{Streams: 200, Names: 10_000, Endpoints: 10, Changes: 300},
	} {
		b.Run(fmt.Sprintf("streams=%d", p.Streams), func(b *testing.B) {
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

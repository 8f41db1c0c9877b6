package sim

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
)

// TestStories tells testdata/*.txt. The commands are listed at commands.
func TestStories(t *testing.T) {
	fleettest.Stories(t, "testdata/*.txt", func(t *testing.T) fleettest.Teller {
		w, err := newWorld(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return fleettest.Teller{Do: w.do, End: func() {
			if faults := w.plane.Tables().Graph.Faults(); len(faults) > 0 {
				t.Errorf("at fault: %+v", faults)
			}
		}}
	})
}

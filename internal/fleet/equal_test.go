package fleet_test

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/steer"
)

func TestEqualKnowsEveryField(t *testing.T) {
	fleettest.EqualKnowsEveryField(t, fleet.Attachment{}, fleet.ClassInfo{}, fleet.View{}, fleet.Host{}, fleet.Target{},
		fleet.Chain{}, fleet.Group{}, fleet.Shape{}, fleet.Backend{}, fleet.Kept{}, fleet.PathHealth{}, fleet.Missing{}, fleet.Guard{}, fleet.Reach{}, steer.Plan{})
}

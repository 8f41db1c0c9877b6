package fleet_test

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
)

func TestStories(t *testing.T) { fleettest.Run(t, new(keys).declare) }

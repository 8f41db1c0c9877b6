package leaf_test

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/leaf"
)

func TestEqualKnowsEveryField(t *testing.T) {
	fleettest.EqualKnowsEveryField(t, leaf.RootStatus{}, leaf.MemberStatus{}, leaf.EdgeStatus{}, leaf.ConfigStatus{}, leaf.ZoneStatus{},
		leaf.GatewayClassStatus{}, leaf.GatewayStatus{}, leaf.ListenerSetStatus{}, leaf.RouteStatus{}, leaf.PlacementStatus{}, leaf.Leaf{}, leaf.GlobalRow{}, leaf.Rollout{})
}

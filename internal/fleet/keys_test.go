package fleet_test

import (
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// keys are what a program gives to tables of others as their keys, as tables.
type keys struct {
	needs *inc.Table[fleet.NeedID, model.There]
	uses  *inc.Table[fleet.UseID, model.There]
}

func (k *keys) declare(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
	k.needs = inc.Derive(g, "needs", func(*inc.Reader, fleet.NeedID) (model.There, bool) { return model.There{}, true }, p.Needs)
	k.uses = inc.Derive(g, "uses", func(*inc.Reader, fleet.UseID) (model.There, bool) { return model.There{}, true }, p.Uses)
	return nil
}

package leaf

import (
	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A ListenerSet of a Gateway that members serve has a leaf wherever the Gateway has one. A
// member that does not know the kind has the Gateway without it.

// setCast is that of a ListenerSet.
func (d *derivation) setCast(r *inc.Reader, k model.Object) (*cast, bool) {
	p, ours := d.p.Parts.Get(r, k)
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !ours || !read {
		return nil, false
	}
	of, ours := d.leaves.gateways.Get(r, p.Gateway.Object())
	if !ours {
		return nil, false
	}
	out := castOf(manifest, of.spec)
	out.body, out.members = manifest.Body, of.members
	spec, _ := d.p.In.ListenerSets.Get(r, k)
	out.secrets, out.denied = d.permitted(r, k, sortedSecrets(model.ListenerSecrets(spec.Listeners)))
	return out, true
}

// leafSet is the status of a ListenerSet that members serve. Nothing is said of one that
// was not read in full.
func (d *derivation) leafSet(r *inc.Reader, k model.Object, p *fleet.Part) (ListenerSetStatus, bool) {
	c, read := d.leaves.sets.Get(r, k)
	accepted := acceptedSet(p)
	if !read {
		if c = (&cast{}); accepted.Status == model.Up {
			return ListenerSetStatus{}, false
		}
	}
	out := ListenerSetStatus{Generation: p.Generation, Listeners: d.leafListeners(r, k, p, c.members)}
	if accepted.Status != model.Up {
		out.Conditions = Conditions{accepted, programmedSet(p, nil)}
		return out, true
	}
	whole := d.voices(r, k, c.members, func(s model.LeafReport) []model.LeafCondition { return s.Conditions })
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		out.Conditions = out.Conditions.told(merged(kind, whole))
	}
	return out, true
}

package fleet

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A host may be one of a listener that a ListenerSet adds to a Gateway which members
// serve. A member that does not have the set has the Gateway, and its addresses, and
// nothing there for the host; one that refuses an edit of the set has an older one.

// setOf is the ListenerSet whose listener has a host; zero: the Gateway itself has it, or
// its class is none of Gateways.
func (d *program) setOf(r *inc.Reader, k model.HostKey) model.Object {
	if !k.Class.OfGateway() {
		return model.Object{}
	}
	out, _ := d.gw.listeners.Get(r, model.HostKey{Class: k.Class, Host: d.gw.listenerOf(r, k)})
	return out.set
}

// through is where clients are sent for what a ListenerSet has, given where its Gateway is.
func (d *program) through(r *inc.Reader, set model.Object, m model.Member, at LeafAt) LeafAt {
	if set == (model.Object{}) || at.Why != "" {
		return at
	}
	state, told := d.In.LeafStates.Get(r, model.LeafID{Member: m, Root: set})
	if why, unknown := standsIn(state, told); why != "" {
		return LeafAt{Why: why, Unknown: unknown}
	}
	return at.by(state)
}

package model

import "slices"

// ListenerSetKind is the kind of ListenerSets.
const ListenerSetKind = "ListenerSet"

// ListenerSetSpec is what a ListenerSet says: listeners that it adds to a Gateway.
// Whose it is follows from the Gateway.
type ListenerSetSpec struct {
	Created    int64 // Unix seconds
	Generation int64
	Gateway    GatewayID  // zero: it refers to something else
	Listeners  []Listener // in the order of the object
	Ours       bool       // we wrote its status: a recorded fact, see leaf
}

// Equal reports whether both say the same.
func (a ListenerSetSpec) Equal(b ListenerSetSpec) bool {
	return a.Created == b.Created && a.Generation == b.Generation && a.Gateway == b.Gateway && slices.EqualFunc(a.Listeners, b.Listeners, Listener.Equal) && a.Ours == b.Ours
}

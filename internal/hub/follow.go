package hub

import (
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// Follower tells a writer what the tables of package leaf want. It belongs to
// the goroutine of their graph.
type Follower struct {
	w       *Writer
	counts  *leaf.Counts
	members map[model.Member]leaf.MemberStatus
}

// Follow makes a writer do what the tables want, from the next commit on.
func Follow(w *Writer, t *leaf.Tables) *Follower {
	f := &Follower{w: w, counts: t.Counts, members: map[model.Member]leaf.MemberStatus{}}
	watch(t.Roots, func(o model.Object, s *leaf.RootStatus) {
		switch {
		case s == nil || s.Settled:
			w.forget(addresses, o)
		case s.Left:
			w.Withdraw(o)
		default:
			w.Addresses(o, s.Addresses.List())
		}
	})
	watch(t.Members, f.member)
	watch(t.Edges, func(e model.Edge, s *leaf.EdgeStatus) {
		o := model.Object{Kind: "Edge", Name: string(e)}
		status(w, o, s, func() Status { return edgeStatus(s) })
	})
	watch(t.Configs, func(c model.Config, s *leaf.ConfigStatus) {
		status(w, c.Object(), s, func() Status {
			return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions)}
		})
	})
	watch(t.Zones, func(z model.ZoneID, s *leaf.ZoneStatus) {
		o := model.Object{Kind: "DNSZone", Workspace: z.Workspace, Namespace: z.Namespace, Name: z.Name}
		status(w, o, s, func() Status {
			return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions)}
		})
	})
	watch(t.GatewayClasses, func(c model.GatewayClass, s *leaf.GatewayClassStatus) {
		status(w, c.Object(), s, func() Status {
			return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions), Fields: supported, Each: true}
		})
	})
	watch(t.Gateways, func(g model.GatewayID, s *leaf.GatewayStatus) {
		status(w, g.Object(), s, func() Status { return gatewayStatus(s) })
	})
	watch(t.ListenerSets, func(o model.Object, s *leaf.ListenerSetStatus) {
		status(w, o, s, func() Status {
			return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions), Listeners: wantedListeners(s.Listeners), Each: true}
		})
	})
	entries := func(o model.Object, s *leaf.RouteStatus) {
		if s == nil || s.Settled {
			w.forget(parents, o)
			return
		}
		w.Parents(o, s.Parents)
	}
	watch(t.Routes, entries)
	watch(t.TLSPolicies, entries)
	watch(t.Targets, entries)
	watch(t.Placements, func(o model.Object, s *leaf.PlacementStatus) {
		status(w, o, s, func() Status { return placementStatus(s) })
	})
	watch(t.Tombstones, func(k model.TombstoneID, s *leaf.TombstoneStatus) {
		status(w, k.Object(), s, func() Status {
			return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions)}
		})
	})
	watch(t.Admissions, func(o model.Object, s *leaf.AdmissionStatus) {
		switch {
		case s == nil || s.Settled:
			w.forget(admitted, o)
		case s.Left:
			w.Admission(o, nil)
		default:
			w.Admission(o, &s.Says)
		}
	})
	watch(t.Globals, func(o model.Object, row *leaf.GlobalRow) {
		if row == nil || row.Settled {
			w.forget(global, o)
			return
		}
		w.Global(o, *row)
	})
	watch(t.Findings, func(o model.Object, now *model.Findings) {
		if now == nil {
			now = new(model.Findings)
		}
		w.Findings(o, *now)
	})
	return f
}

// status tells the writer what a row wants, or that it wants nothing any more.
func status[V any](w *Writer, o model.Object, row *V, want func() Status) {
	if row == nil {
		w.forget(conditions, o)
		return
	}
	w.Status(o, want())
}

// watch calls f with each row that changed, nil where it is gone.
func watch[K inc.Key[K], V inc.Value[V]](t *inc.Table[K, V], f func(K, *V)) {
	t.Watch(func(changes []inc.Change[K, V]) {
		for _, c := range changes {
			f(c.Key, c.New)
		}
	})
}

// Recount does what is not done at each commit: it writes the sizes of members
// that changed since their status was last written. Call it every few seconds,
// between commits.
func (f *Follower) Recount() {
	for m, s := range f.members {
		f.member(m, &s)
	}
}

func (f *Follower) member(m model.Member, s *leaf.MemberStatus) {
	o := model.Object{Kind: "MemberCluster", Name: string(m)}
	if s == nil {
		delete(f.members, m)
		f.w.forget(conditions, o)
		return
	}
	f.members[m] = *s
	fields := map[string]any{"staleSince": moment(s.StaleSince), "credentialExpiry": moment(s.CredentialExpiry)}
	if s.Read {
		n := f.counts.Of(m)
		fields["services"], fields["endpoints"] = n.Services, n.Endpoints
	}
	if n, known := f.counts.Leaves(m); known {
		fields["leaves"] = n
	}
	f.w.Status(o, Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions), Fields: fields})
}

func edgeStatus(s *leaf.EdgeStatus) Status {
	fields := map[string]any{"addresses": s.Addresses}
	if s.Heard {
		fields["connectedProxies"] = s.Proxies
	}
	return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions), Fields: fields}
}

func gatewayStatus(s *leaf.GatewayStatus) Status {
	fields := map[string]any{"addresses": gatewayAddresses(s.Addresses, s.Scoped), "attachedListenerSets": nil}
	if s.Allows { // else an older definition need not have the field
		fields["attachedListenerSets"] = s.Sets
	}
	return Status{Generation: s.Generation, Conditions: wantedConditions(s.Conditions), Listeners: wantedListeners(s.Listeners), Fields: fields, Each: true}
}

func wantedListeners(list []leaf.ListenerStatus) []Listener {
	out := make([]Listener, len(list))
	for i, l := range list {
		out[i] = Listener{l.Name, l.Kinds.List(), l.Attached, wantedConditions(l.Conditions)}
	}
	return out
}

func wantedConditions(list leaf.Conditions) map[string]Condition {
	out := make(map[string]Condition, len(list))
	for _, c := range list {
		out[c.Type] = Condition{Type: c.Type, Status: c.Status.String(), Reason: c.Reason, Message: clip(c.Message, maxMessage)}
	}
	return out
}

// maxMessage is the longest message of a condition, in bytes (metav1.Condition).
const maxMessage = 32768

// moment is a time as an API writes it; nil for none.
func moment(unix int64) any {
	if unix == 0 {
		return nil
	}
	return time.Unix(unix, 0).UTC().Format(time.RFC3339)
}

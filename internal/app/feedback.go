package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// input is a table that the loop writes: a fact that a shell reads somewhere, or
// feedback, which follows from the program's own outputs.
type input struct {
	table string
	of    string                                // feedback: the output, and who carries it back
	saved string                                // its name in the checkpoint, which never changes; empty: it is not there
	why   string                                // why it is not
	save  func(*checkpoint.Store)               // registers it
	tell  func(*checkpoint.Store, cluster.Past) // says what was found of it; nil: no watch asks
	carry func(put func(any, func(*inc.Tx)))    // has it follow the output; nil: whoever of names does
}

// saved is an input that outlives the process.
func saved[K inc.Key[K], V inc.Value[V]](name string, t *inc.Table[K, V]) input {
	return input{table: t.Name(), saved: name, save: func(s *checkpoint.Store) { checkpoint.Register(s, name, t) }}
}

// read is a saved input whose rows are read of an API server: watches go on from
// what is found of it.
func read[K inc.Key[K], V inc.Value[V]](name string, t *inc.Table[K, V]) input {
	i := saved(name, t)
	i.tell = func(s *checkpoint.Store, p cluster.Past) { cluster.Recall(p, t, checkpoint.Rows[K, V](s, name)) }
	return i
}

// savedAcks is one whose rows are written otherwise than they are kept.
func savedAcks(name string, t *inc.Table[model.HostKey, model.EdgeSet]) input {
	return input{table: t.Name(), saved: name, save: func(s *checkpoint.Store) { checkpoint.RegisterAcks(s, name, t) }}
}

// readRoots is what is read of route objects: two tables, which are written as one.
func readRoots(name string, p *fleet.Program) []input {
	roots := input{table: p.In.Roots.Name(), saved: name}
	roots.save = func(s *checkpoint.Store) { checkpoint.RegisterRoots(s, name, p.In.Roots, p.In.Rules, p.RulesOf) }
	roots.tell = func(s *checkpoint.Store, past cluster.Past) {
		cluster.Recall(past, p.In.Roots, checkpoint.Roots(s, name))
		cluster.Recall(past, p.In.Rules, checkpoint.Rules(s, name))
	}
	return []input{roots, {table: p.In.Rules.Name(), why: "they are written with " + name}}
}

// unsaved is one that does not, and why.
func unsaved[K inc.Key[K], V inc.Value[V]](t *inc.Table[K, V], why string) input {
	return input{table: t.Name(), why: why}
}

// from names what feedback follows from.
func (i input) from(output string) input {
	i.of = output
	return i
}

// follow is what an input does about a row that it follows.
type follow uint8

const (
	leave  follow = iota // it stays as it is
	keep                 // it holds what the row says
	forget               // it holds nothing
)

// carried has an input follow a table that is computed from it: what a row of it
// says now is in the input from the next commit on, as far as as wants that. A
// row that is gone is gone there, too.
func carried[K inc.Key[K], V inc.Value[V], W inc.Value[W]](i input, out *inc.Table[K, V], in *inc.Table[K, W], as func(V) (W, follow)) input {
	type rowKey struct {
		table string
		key   K
	}
	i.of = out.Name()
	i.carry = func(put func(any, func(*inc.Tx))) {
		out.Watch(func(changes []inc.Change[K, V]) {
			for _, c := range changes {
				row, what := *new(W), forget
				if c.New != nil {
					row, what = as(*c.New)
				}
				switch what {
				case keep:
					put(rowKey{i.table, c.Key}, func(tx *inc.Tx) { in.Set(tx, c.Key, row) })
				case forget:
					put(rowKey{i.table, c.Key}, func(tx *inc.Tx) { in.Delete(tx, c.Key) })
				}
			}
		})
	}
	return i
}

// lastParts keeps in how many parts each backend is, so that a few endpoints
// more or less do not change it.
func lastParts(t *envoy.Tables) input {
	return carried(saved("parts-last", t.LastParts), t.Parts, t.LastParts, func(p envoy.Parts) (envoy.Parts, follow) { return p, keep })
}

// lastAnswer keeps the last edges of a host: when none is left, that is what is
// answered.
func lastAnswer(t *zone.Tables) input {
	return carried(saved("dns-last", t.Last), t.Records, t.Last, func(r zone.RecordRow) (model.EdgeSet, follow) {
		switch {
		case r.Set == nil:
			return r.Edges, forget
		case r.Edges == model.EdgeSet{}:
			return r.Edges, leave
		}
		return r.Edges, keep
	})
}

// lastTenures keeps which addresses classes have for themselves, so that they have
// the same when others come and go, and until when those are waited for that a
// class has left.
func lastTenures(p *fleet.Program, now func() time.Time) input {
	return carried(saved("tenures", p.In.Tenures), p.Tenures, p.In.Tenures, func(t fleet.Tenure) (model.Tenure, follow) {
		switch {
		case !t.Left:
			return t.Tenure, keep
		case t.Until != 0:
			return t.Tenure, leave
		}
		t.Until = t.Ending(now())
		return t.Tenure, keep
	})
}

// lastKept keeps who has places that Placements hold, and since when those lack the
// Service that do.
func lastKept(p *fleet.Program, now func() time.Time) input {
	return carried(saved("kept", p.In.Kept), p.Kept, p.In.Kept, func(k fleet.Kept) (model.Kept, follow) {
		return k.At(now().UnixMilli()), keep
	})
}

// lastRollouts keeps which editions of roots members have, and since when all is well in
// the waves that have the last one.
func lastRollouts(p *fleet.Program, t *leaf.Tables, now func() time.Time) input {
	return carried(saved("rollouts", p.In.Rollouts), t.Rollouts, p.In.Rollouts, func(o leaf.Rollout) (model.Rollout, follow) {
		return o.At(now().UnixMilli()), keep
	})
}

// feedback lists what the loop writes back, all of it. Results depend on the
// past through these inputs and no others: what is saved makes a restart go on
// from it, what is not is known anew before the first publish or soon after.
func (s *server) feedback() []input {
	in := &s.prog.In
	return []input{
		lastParts(s.envoy),
		lastAnswer(s.zones),
		lastTenures(s.prog, s.now),
		lastKept(s.prog, s.now),
		lastRollouts(s.prog, s.leaf, s.now),
		savedAcks("acks", in.Acks).from("what proxies acknowledge: acks"),
		saved("rejections", in.Rejections).from("what proxies refuse: acks"),
		saved("reports", in.Reports).from("what proxies see of canaries: evidence"),
		unsaved(in.Streams, "which streams this process has").from("streams: witnesses"),
		unsaved(in.Reachable, "what this process sees").from("probes of edges: witnesses"),
		unsaved(s.zones.Witnesses, "what this process sees").from("streams and probes: witnesses"),
		unsaved(s.envoy.Clients.Demand, "which streams this process has").from("streams of gRPC clients: clients"),
		unsaved(in.Awaited, "a start from a checkpoint awaits nobody").from("the hub's first list: unread"),
		unsaved(in.Overdue, "members are waited for anew").from(s.prog.Missing.Name() + ": unread"),
		saved("stale", in.Stale).from(in.Sources.Name() + ": stales"),
		unsaved(in.Expired, "certificates say so anew").from(in.Certificates.Name() + ": expiries"),
		unsaved(s.zones.Starting, "each process starts").from("the hub's first list: unread"),
		unsaved(s.zones.Unlisted, "each process reads its lists").from("the first lists: first"),
		saved("dns-names", s.zones.Names).from(s.zones.Lookups.Name() + ": names"),
		saved("leaf-states", in.LeafStates).from("what members say of leaves: leaves"),
		saved("held-keys", in.HeldKeys).from("what members say of keys: leaves"),
		unsaved(in.LeavesWaiting, "the syncers of this process say so").from("what members say of leaves: leaves"),
		unsaved(in.GlobalsOverdue, "those that leave are timed anew").from(in.Globals.Name() + ": globals"),
		unsaved(in.Holdings, "the syncers of this process say so").from("what members say of leaves: leaves"),
		unsaved(in.LastSites, "who leaves is looked at anew").from(s.prog.Plans.Name() + ": departures"),
		unsaved(in.Diggings, "this process looks").from("what is found at tombstones: graves"),
		unsaved(s.aged, "which streams this process has").from("streams of old proxies: oldProxies"),
		unsaved(s.broken, "the first commit finds them again").from("functions that panicked: faults"),
	}
}

// facts lists what is read of API servers, and of the hub's kubeconfig.
func (s *server) facts() []input {
	in := &s.prog.In
	return append(readRoots("roots", s.prog), []input{
		read("problems", in.Problems), read("classes", in.Classes), read("configs", in.Configs),
		read("edges", in.Edges), read("zones", in.Zones), read("certificates", in.Certificates), read("members", in.Members),
		read("sources", in.Sources), read("outdated", in.Outdated), read("contacts", in.Contacts), read("clusters", in.Clusters),
		read("services", in.Services), read("slices", in.Slices), read("exports", in.Exports), read("service-imports", in.Imports),
		read("gateway-classes", in.GatewayClasses), read("gateways", in.Gateways), read("listener-sets", in.ListenerSets), read("grants", in.Grants), read("namespaces", in.Namespaces), read("bundles", in.Bundles),
		read("tls-policies", in.TLSPolicies), read("manifests", in.Manifests), read("placements", in.Placements), read("globals", in.Globals), read("tombstones", in.Tombstones), read("releases", in.Releases),
		read("kubeconfigs", s.caches.Kubeconfigs), read("identities", s.caches.Identities),
		unsaved(in.Guarded, "each process reads its kubeconfig"),
		unsaved(in.SecretSpaces, "each process is told"),
	}...)
}

// carry has feedback that follows from tables follow them; DNS only where it is
// answered.
func (s *server) carry() {
	for _, i := range s.feedback() {
		if i.carry != nil && (s.answers != nil || i.table != s.zones.Last.Name()) {
			i.carry(s.put)
		}
	}
}

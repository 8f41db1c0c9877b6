package cluster

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil // one of them measures time across the bubbles of tests
	goleak.VerifyTestMain(m)
}

// limit is how long a test waits for what must happen; it is no measure of anything.
const limit = time.Minute

// rig is a graph with its loop, fed by hub and members.
type rig struct {
	t       testing.TB
	g       *inc.Graph
	in      *fleet.Inputs
	tables  *Tables
	mail    *Mailbox
	members *Members
	known   bool // set by the hub
	commits int
	hub     *Hub
	secrets []string // namespaces whose Secrets are read; nil: all

	ctx   context.Context
	end   context.CancelFunc
	asks  chan func()
	conds chan func() bool
	all   sync.WaitGroup
}

func inputs(g *inc.Graph) *fleet.Inputs {
	return &fleet.Inputs{
		Roots:        inc.Input[model.Object, model.Root](g, "roots"),
		Problems:     inc.Input[model.Object, model.Findings](g, "problems"),
		Classes:      inc.Input[model.Class, model.ClassSpec](g, "classes"),
		Configs:      inc.Input[model.Config, model.ConfigSpec](g, "configs"),
		Edges:        inc.Input[model.Edge, model.EdgeSpec](g, "edges"),
		Zones:        inc.Input[model.ZoneID, model.ZoneSpec](g, "zones"),
		Certificates: inc.Input[model.SecretID, model.Certificate](g, "certificates"),
		Members:      inc.Input[model.Member, model.MemberSpec](g, "members"),
		Sources:      inc.Input[model.Member, model.Source](g, "sources"),
		Outdated:     inc.Input[model.Member, model.There](g, "outdated"),
		Clusters:     inc.Input[model.Member, inc.Val[model.ClusterID]](g, "clusters of members"),
		Contacts:     inc.Input[model.Member, model.Contact](g, "contacts"),
		Services:     inc.Input[model.MemberService, model.ServiceSpec](g, "services"),
		Slices:       inc.Input[model.SliceID, model.Slice](g, "slices"),
		Exports:      inc.Input[model.MemberService, model.Export](g, "exports"),
		Imports:      inc.Input[model.Object, model.ImportSpec](g, "service imports"),

		Rules:          inc.Input[model.RulesID, model.Rules](g, "rules"),
		GatewayClasses: inc.Input[model.GatewayClass, model.GatewayClassSpec](g, "gateway classes"),
		Gateways:       inc.Input[model.GatewayID, model.GatewaySpec](g, "gateways"),
		ListenerSets:   inc.Input[model.Object, model.ListenerSetSpec](g, "listener sets"),
		Grants:         inc.Input[model.Object, model.Grant](g, "grants"),
		Namespaces:     inc.Input[model.NamespaceID, model.Labels](g, "namespaces"),
		Bundles:        inc.Input[model.Object, model.Bundle](g, "bundles"),
		Releases:       inc.Input[model.Object, model.Release](g, "releases"),
		TLSPolicies:    inc.Input[model.Object, model.BackendTLSSpec](g, "tls policies"),
		Globals:        inc.Input[model.Object, model.GlobalSeen](g, "globals"),
		Placements:     inc.Input[model.Object, model.PlacementSpec](g, "placements"),
		Tombstones:     inc.Input[model.TombstoneID, model.Tombstone](g, "tombstones"),
		Manifests:      inc.Input[model.Object, model.Manifest](g, "manifests"),
	}
}

// newRig makes a graph. load fills it as a checkpoint would.
func newRig(t testing.TB, load func(*inc.Tx, *fleet.Inputs, *Tables)) *rig {
	r := &rig{t: t, g: inc.New(), mail: NewMailbox(), asks: make(chan func()), conds: make(chan func() bool)}
	r.in, r.tables = inputs(r.g), Declare(r.g)
	r.g.Commit(func(tx *inc.Tx) {
		if load != nil {
			load(tx, r.in, r.tables)
		}
	})
	r.ctx, r.end = context.WithCancel(context.Background())
	r.members = NewMembers(r.ctx, r.in, r.tables, r.mail, slog.New(slog.DiscardHandler))
	t.Cleanup(r.stop)
	return r
}

// watch connects the rig to a hub.
func (r *rig) watch(hub *fakeAPI) *rig {
	var err error
	r.hub, err = NewHub(HubOptions{
		Config: &rest.Config{Host: hub.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, Namespace: "spillway-system", SecretNamespaces: r.secrets,
		Inputs: r.in, Tables: r.tables, Mailbox: r.mail, Members: r.members,
		Log:   slog.New(slog.DiscardHandler),
		Known: func(*inc.Tx) { r.known = true },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return r
}

// past is the rows that the tables hold.
func (r *rig) past() Past {
	p := Past{}
	recall(p, r.in.Roots)
	recall(p, r.in.Rules)
	recall(p, r.in.GatewayClasses)
	recall(p, r.in.Gateways)
	recall(p, r.in.ListenerSets)
	recall(p, r.in.Grants)
	recall(p, r.in.Namespaces)
	recall(p, r.in.Tombstones)
	recall(p, r.in.Bundles)
	recall(p, r.in.Releases)
	recall(p, r.in.Problems)
	recall(p, r.in.Classes)
	recall(p, r.in.Configs)
	recall(p, r.in.Edges)
	recall(p, r.in.Zones)
	recall(p, r.in.Certificates)
	recall(p, r.in.Members)
	recall(p, r.in.Sources)
	recall(p, r.in.Outdated)
	recall(p, r.in.Contacts)
	recall(p, r.in.Clusters)
	recall(p, r.in.Services)
	recall(p, r.in.Slices)
	recall(p, r.in.Manifests)
	recall(p, r.in.Exports)
	recall(p, r.in.Imports)
	recall(p, r.tables.Kubeconfigs)
	recall(p, r.tables.Identities)
	return p
}

func recall[K inc.Key[K], V inc.Value[V]](p Past, t *inc.Table[K, V]) {
	Recall(p, t, func(yield func(K, V) bool) {
		for _, k := range t.Keys() {
			if v, _ := t.Get(nil, k); !yield(k, v) {
				return
			}
		}
	})
}

// start runs everything, from the rows that the tables hold.
func (r *rig) start() *rig {
	past := r.past()
	r.members.Adopt(past, time.Unix(1000, 0))
	if r.hub != nil {
		r.hub.Adopt(past)
		r.all.Go(func() { r.hub.Run(r.ctx) })
	}
	r.all.Go(r.loop)
	return r
}

func (r *rig) stop() {
	r.end()
	r.members.Wait()
	r.all.Wait()
}

func (r *rig) loop() {
	var waiting []func() bool
	check := func() {
		kept := waiting[:0]
		for _, w := range waiting {
			if !w() {
				kept = append(kept, w)
			}
		}
		waiting = kept
	}
	for {
		select {
		case <-r.ctx.Done():
			return
		case f := <-r.asks:
			f()
		case <-r.mail.Wake():
			r.g.Commit(func(tx *inc.Tx) {
				for _, w := range r.mail.Take() {
					w(tx)
				}
			})
			r.commits++
		case w := <-r.conds:
			waiting = append(waiting, w)
		}
		check()
	}
}

// ask runs f between two commits.
func (r *rig) ask(f func()) {
	done := make(chan struct{})
	r.asks <- func() { f(); close(done) }
	<-done
}

// await waits until cond holds after some commit: it looks at each, so that it sees
// what lasts for one only. Package eventually would not.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	done := make(chan struct{})
	r.conds <- func() bool {
		if cond() {
			close(done)
			return true
		}
		return false
	}
	select {
	case <-done:
	case <-time.After(limit):
		r.t.Fatalf("never: %s", what)
	}
}

func get[K inc.Key[K], V inc.Value[V]](t *inc.Table[K, V], k K) V {
	v, _ := t.Get(nil, k)
	return v
}

// linkOf prepares to read a member over a connection that nothing was sent over.
func linkOf(m *member) (*link, error) {
	a, err := m.dial(&rest.Config{Host: "https://eu-1.example:6443"})
	if err != nil {
		return nil, err
	}
	return m.link(a, "")
}

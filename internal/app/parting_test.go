package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// parting is a rig with one member that has leaves, of one root.
func parting(t *testing.T, spec model.MemberSpec) (r *leafRig, id model.LeafID) {
	r = newLeafRig(t)
	in := &r.prog.In
	id = model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}}
	r.leaves.Engaged("eu-1", &cluster.Way{})
	r.leaves.listed = true
	spec.Guarded = true
	r.commit(func(tx *inc.Tx) {
		in.Members.Set(tx, "eu-1", spec)
		in.Sources.Set(tx, "eu-1", model.Source{Connected: true})
		in.Contacts.Set(tx, "eu-1", model.Contact{Reason: v1alpha1.ReasonConnected})
		in.Clusters.Set(tx, "eu-1", inc.ValOf(model.ClusterID("c-1")))
	})
	return r, id
}

// edit changes the member.
func (r *leafRig) edit(f func(*model.MemberSpec)) {
	r.commit(func(tx *inc.Tx) {
		spec, _ := r.prog.In.Members.Get(nil, "eu-1")
		f(&spec)
		r.prog.In.Members.Set(tx, "eu-1", spec)
	})
}

// counted has the member's syncer say how many leaves there are.
func (r *leafRig) counted(c syncer.Count) {
	r.leaves.runs["eu-1"].counted(c)
	r.commit(func(*inc.Tx) {})
}

// contact says how the member is reached.
func (r *leafRig) contact(reason string) {
	r.commit(func(tx *inc.Tx) { r.prog.In.Contacts.Set(tx, "eu-1", model.Contact{Reason: reason}) })
}

// TestAForgottenMember: what the hub remembers of a member has a run begin though no class
// and no checkpoint tells of leaves, and it is remembered until the member is clear.
func TestAForgottenMember(t *testing.T) {
	r, _ := parting(t, model.MemberSpec{})
	if run := r.leaves.runs["eu-1"]; run == nil || !run.complete {
		t.Fatal("nobody looks")
	}
	r.counted(syncer.Count{Leaves: 2, Known: true})
	r.guarded.none(t)
	if n, known := r.leaf.Counts.Leaves("eu-1"); n != 2 || !known {
		t.Errorf("%d leaves, known: %v", n, known)
	}
	r.counted(syncer.Count{Known: true, Clear: true})
	r.guarded.said(t, "release eu-1")
	r.edit(func(s *model.MemberSpec) { s.Guarded = false })
	if len(r.leaves.runs) > 0 {
		t.Error("somebody looks still")
	}
	r.guarded.none(t)
}

// TestDeparture: a MemberCluster that is deleted goes when its leaves are gone, or
// released; that of a member that is away goes at once, and what is left is written down.
func TestDeparture(t *testing.T) {
	leaves, none := syncer.Count{Leaves: 12, Known: true}, syncer.Count{Known: true, Clear: true}
	for _, c := range []struct {
		name   string
		spec   model.MemberSpec
		reason string
		then   syncer.Count
		want   []string
		finds  string // while it has leaves
	}{
		{"reached", model.MemberSpec{}, v1alpha1.ReasonConnected, none, []string{"release eu-1"}, "12 leaves are there yet"},
		{"reached, and something stays", model.MemberSpec{}, v1alpha1.ReasonConnected, leaves, nil, "12 leaves are there yet"},
		{"reached, they stay", model.MemberSpec{Orphans: true}, v1alpha1.ReasonConnected, none, []string{"release eu-1"}, "12 leaves are there yet"},
		{"away", model.MemberSpec{}, v1alpha1.ReasonUnreachable, leaves, []string{"bury eu-1 c-1 hub 12"}, ""},
		{"without a kubeconfig", model.MemberSpec{}, v1alpha1.ReasonSecretNotFound, leaves, []string{"bury eu-1 c-1 hub 12"}, "spec.connection"},
		{"away, they stay", model.MemberSpec{Orphans: true}, v1alpha1.ReasonUnreachable, leaves, []string{"release eu-1"}, ""},
		{"not asked yet", model.MemberSpec{}, v1alpha1.ReasonPending, leaves, nil, "12 leaves are there yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := parting(t, c.spec)
			r.counted(leaves)
			r.contact(c.reason)
			r.edit(func(s *model.MemberSpec) { s.Leaving = true })
			found, _ := r.leaf.Findings.Get(nil, model.Object{Kind: "MemberCluster", Name: "eu-1"})
			if text := found.Text(); !strings.Contains(text, c.finds) || c.finds == "" && text != "" {
				t.Errorf("found %q", text)
			}
			r.counted(c.then)
			r.guarded.said(t, c.want...)
		})
	}
}

// TestTheLastLeaf: a member that has the last leaf of a root stays, unless it is forced.
func TestTheLastLeaf(t *testing.T) {
	r, id := parting(t, model.MemberSpec{})
	in := &r.prog.In
	r.commit(func(tx *inc.Tx) {
		in.Configs.Set(tx, "c", model.ConfigSpec{Leaf: &model.LeafSpec{}})
		in.Classes.Set(tx, "members", model.ClassSpec{Config: "c"})
		backend := model.BackendKey{Service: model.ServiceOf("shop", "web"), Port: model.PortRef{Number: 80}}.Backend()
		in.Roots.Set(tx, id.Root, model.Root{Classes: "members", Default: &backend})
		in.Manifests.Set(tx, id.Root, model.Manifest{UID: "u", Body: `{"metadata":{},"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}}`})
		in.LeafStates.Set(tx, id, model.LeafState{Reason: string(syncer.Applied), There: true})
	})
	r.counted(syncer.Count{Leaves: 1, Known: true})
	r.edit(func(s *model.MemberSpec) { s.Leaving = true })
	found, _ := r.leaf.Findings.Get(nil, model.Object{Kind: "MemberCluster", Name: "eu-1"})
	if text := found.Text(); !strings.Contains(text, "the last leaves of Ingress shop/web") {
		t.Errorf("found %q", text)
	}
	r.guarded.none(t)
	r.edit(func(s *model.MemberSpec) { s.Forced = true })
	if _, wanted := r.leaf.Leaves.Get(nil, id); wanted {
		t.Error("the last leaf is wanted though it is forced")
	}
	r.leaves.runs["eu-1"].report(keyIn(id, ""), syncer.State{Reason: syncer.Gone})
	r.counted(syncer.Count{Known: true, Clear: true})
	r.guarded.said(t, "release eu-1")
}

// TestAnotherLife: a cluster that is a member again has the leaves of its tombstone, and
// that goes once its syncer knows what is there.
func TestAnotherLife(t *testing.T) {
	r, _ := parting(t, model.MemberSpec{})
	r.counted(syncer.Count{Known: true, Clear: true})
	r.edit(func(s *model.MemberSpec) { s.Guarded = false })
	r.guarded.said(t, "release eu-1")
	r.commit(func(tx *inc.Tx) {
		r.prog.In.Tombstones.Set(tx, "eu-0-x", model.Tombstone{Member: "eu-0", Cluster: "c-1", Hub: "hub", Leaves: 3})
		r.prog.In.Tombstones.Set(tx, "eu-1-x", model.Tombstone{Member: "eu-1", Cluster: "c-2", Hub: "hub", Leaves: 3})
	})
	r.guarded.said(t, "guard eu-1")
	if m, known := r.leaves.grave("eu-0-x"); m != "eu-1" || !known {
		t.Errorf("the leaves are of %q, %v", m, known)
	}
	if m, _ := r.leaves.grave("eu-1-x"); m != "" {
		t.Errorf("leaves in another cluster are of %q", m)
	}
	r.edit(func(s *model.MemberSpec) { s.Guarded = true })
	r.guarded.none(t)
	r.counted(syncer.Count{Leaves: 3, Known: true})
	r.guarded.said(t, "unbury eu-0-x")
}

// TestGraves: what is found when leaves that stayed behind are looked for.
func TestGraves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLeafRig(t)
		ctx, end := context.WithCancel(t.Context())
		g := newGraves(ctx, &r.prog.In, r.put, slog.New(slog.DiscardHandler))
		defer func() { end(); g.all.Wait() }()
		type world struct {
			hub     string
			member  model.Member
			reason  string
			id      model.ClusterID
			failure error
		}
		var (
			mu    sync.Mutex // who looks is a goroutine of its own
			is    world
			asked int
		)
		now := func() world { mu.Lock(); defer mu.Unlock(); return is }
		g.hub, g.grave = func() string { return now().hub }, func(model.TombstoneID) (model.Member, bool) { return now().member, true }
		g.reach = func(ingest.Connection) (*rest.Config, string, string) {
			if reason := now().reason; reason != "" {
				return nil, reason, "why"
			}
			return &rest.Config{}, "", ""
		}
		g.identify = func(context.Context, *rest.Config) (model.ClusterID, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return is.id, is.failure
		}
		g.unbury = func(model.TombstoneID) { t.Error("it is gone") }
		const k = model.TombstoneID("eu-1-x")
		r.commit(func(tx *inc.Tx) {
			r.prog.In.Tombstones.Set(tx, k, model.Tombstone{Member: "eu-1", Secret: "eu-1", Key: "kubeconfig", Cluster: "c-1", Hub: "hub", Leaves: 3})
		})
		found := func() string {
			time.Sleep(2 * graveLast)
			synctest.Wait()
			r.commit(func(*inc.Tx) {})
			row, _ := r.prog.In.Diggings.Get(nil, k)
			return row.Reason
		}
		for _, c := range []struct {
			is   world
			want string
		}{
			{world{}, ""},
			{world{hub: "another"}, v1alpha1.ReasonAnotherHub},
			{world{hub: "hub", member: "eu-2"}, v1alpha1.ReasonRegistered},
			{world{hub: "hub", reason: v1alpha1.ReasonSecretNotFound}, v1alpha1.ReasonSecretNotFound},
			{world{hub: "hub", failure: errors.New("no route")}, v1alpha1.ReasonUnreachable},
			{world{hub: "hub", failure: apierrors.NewUnauthorized("")}, v1alpha1.ReasonUnauthorized},
			{world{hub: "hub", id: "c-2"}, v1alpha1.ReasonAnotherCluster},
			{world{hub: "hub"}, v1alpha1.ReasonAnotherCluster},
		} {
			mu.Lock()
			is = c.is
			mu.Unlock()
			if got := found(); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		}
		mu.Lock()
		asked = 0
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked > int(time.Hour/graveLast)+1 {
			t.Errorf("asked %d times in an hour", asked)
		}
		findings, _ := r.leaf.Findings.Get(nil, k.Object())
		if text := findings.Text(); !strings.Contains(text, "3 leaves of member eu-1") || !strings.Contains(text, "--forget") {
			t.Errorf("told %q", text)
		}
		r.commit(func(tx *inc.Tx) { r.prog.In.Tombstones.Delete(tx, k) })
		if found() != "" || r.prog.In.Diggings.Len() > 0 {
			t.Error("a tombstone that is gone is told of")
		}
	})
}

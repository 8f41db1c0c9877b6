package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// How often leaves that stayed behind are looked for.
const (
	graveFirst = 15 * time.Second
	graveLast  = 5 * time.Minute
	graveAsk   = 10 * time.Second // until a member that does not answer is away still
	graveWork  = time.Minute      // to delete what is there
	gravesAt   = 4                // once
)

// graves looks, for each MemberTombstone, whether the member is reached again, and then
// deletes all that has our mark there, and the tombstone. To delete the MemberCluster was
// the consent.
//
// Its map belongs to the loop's goroutine.
type graves struct {
	in       *fleet.Inputs
	put      func(key any, write func(*inc.Tx))
	hub      func() string                                                     // which hub it is; empty: it does not say
	grave    func(model.TombstoneID) (model.Member, bool)                      // which member has its leaves now, and whether that is known
	reach    func(ingest.Connection) (config *rest.Config, reason, why string) // as cluster.Members.Reach
	identify func(context.Context, *rest.Config) (model.ClusterID, error)
	unbury   func(model.TombstoneID)
	log      *slog.Logger

	digs  map[model.TombstoneID]context.CancelFunc
	turns chan struct{}
	all   sync.WaitGroup
}

// newGraves looks until ctx ends.
func newGraves(ctx context.Context, in *fleet.Inputs, put func(any, func(*inc.Tx)), log *slog.Logger) *graves {
	g := &graves{in: in, put: put, log: log, identify: cluster.Identify, digs: map[model.TombstoneID]context.CancelFunc{}, turns: make(chan struct{}, gravesAt)}
	in.Tombstones.Watch(func(changes []inc.Change[model.TombstoneID, model.Tombstone]) {
		for _, c := range changes {
			g.follow(ctx, c.Key, c.New)
		}
	})
	return g
}

// follow has somebody look, as long as there is a tombstone.
func (g *graves) follow(ctx context.Context, k model.TombstoneID, stone *model.Tombstone) {
	if end := g.digs[k]; end != nil {
		end()
		delete(g.digs, k)
	}
	if stone == nil {
		g.tell(k, nil)
		return
	}
	ctx, end := context.WithCancel(ctx)
	g.digs[k] = end
	spec := *stone
	g.all.Go(func() { g.watch(ctx, k, spec) })
}

// watch looks again and again, later each time.
func (g *graves) watch(ctx context.Context, k model.TombstoneID, stone model.Tombstone) {
	for wait := graveFirst; ; wait = min(2*wait, graveLast) {
		select {
		case g.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		found, over := g.dig(ctx, k, stone)
		<-g.turns
		switch {
		case ctx.Err() != nil:
			return
		case over:
			g.log.Info("leaves that a member kept when it left are gone", "member", string(stone.Member), "tombstone", string(k))
			g.unbury(k)
			return
		case found.Reason == v1alpha1.ReasonPending:
			wait = graveFirst / 2 // it is known soon
		default:
			g.tell(k, &found)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell says what was found; nil: there is nothing to say any more.
func (g *graves) tell(k model.TombstoneID, found *model.Digging) {
	type digKey struct{ model.TombstoneID }
	g.put(digKey{k}, func(tx *inc.Tx) {
		if _, there := g.in.Tombstones.Get(nil, k); found == nil || !there {
			g.in.Diggings.Delete(tx, k)
			return
		}
		g.in.Diggings.Set(tx, k, *found)
	})
}

// dig looks once, and reports whether all is done.
func (g *graves) dig(ctx context.Context, k model.TombstoneID, stone model.Tombstone) (found model.Digging, over bool) {
	hub := g.hub()
	member, known := g.grave(k)
	switch {
	case hub == "" || !known:
		return model.Digging{Reason: v1alpha1.ReasonPending}, false
	case hub != stone.Hub:
		return model.Digging{Reason: v1alpha1.ReasonAnotherHub, Message: "they are leaves of hub " + stone.Hub + ", and this is hub " + hub}, false
	case member != "":
		return model.Digging{Reason: v1alpha1.ReasonRegistered, Message: fmt.Sprintf("the cluster is MemberCluster %s now, which has its leaves", member)}, false
	}
	config, reason, why := g.reach(ingest.Connection{Secret: stone.Secret, Key: stone.Key, Proxied: stone.Proxied})
	switch {
	case config == nil && reason == "":
		return model.Digging{Reason: v1alpha1.ReasonPending}, false
	case config == nil:
		return model.Digging{Reason: reason, Message: why}, false
	}
	if found, same := g.same(ctx, config, stone); !same {
		return found, false
	}
	return g.prune(ctx, config, stone)
}

// same reports whether the cluster that answers is the one that is meant.
func (g *graves) same(ctx context.Context, config *rest.Config, stone model.Tombstone) (model.Digging, bool) {
	ctx, cancel := context.WithTimeout(ctx, graveAsk)
	defer cancel()
	id, err := g.identify(ctx, config)
	switch {
	case apierrors.IsUnauthorized(err):
		return model.Digging{Reason: v1alpha1.ReasonUnauthorized, Message: "its API refuses the credentials"}, false
	case err != nil:
		return model.Digging{Reason: v1alpha1.ReasonUnreachable, Message: cluster.Cause(err)}, false
	case stone.Cluster == "" || id == stone.Cluster:
		return model.Digging{}, true
	case id == "":
		return model.Digging{Reason: v1alpha1.ReasonAnotherCluster, Message: "what answers does not tell which cluster it is: grant get on the namespace kube-system, as deploy/rbac/member.yaml does"}, false
	}
	return model.Digging{Reason: v1alpha1.ReasonAnotherCluster, Message: fmt.Sprintf("what answers is cluster %s, and the leaves are in %s", id, stone.Cluster)}, false
}

// prune deletes all that has our mark.
func (g *graves) prune(ctx context.Context, config *rest.Config, stone model.Tombstone) (model.Digging, bool) {
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, graveWork)
	defer cancel()
	way, err := cluster.Dial(config)
	if err != nil {
		return model.Digging{Reason: v1alpha1.ReasonInvalidKubeconfig, Message: "it can't be used"}, false
	}
	defer way.HangUp()
	client, err := way.Writer()
	if err != nil {
		return model.Digging{Reason: v1alpha1.ReasonInvalidKubeconfig, Message: "it can't be used"}, false
	}
	p := pruning{cancel: cancel, spaces: map[string]bool{}}
	p.syncer, err = syncer.New(syncer.Options{
		Hub: stone.Hub, Client: client, Kinds: LeafResources(), Budget: cluster.NewBudget(), Log: g.log.With("tombstone", string(stone.Member)),
		Report: p.report, Counted: p.counted,
	})
	if err != nil {
		return model.Digging{Reason: v1alpha1.ReasonAnotherHub, Message: err.Error()}, false
	}
	p.syncer.Complete()
	p.syncer.Run(ctx)
	found, over := p.found()
	if over && stone.Keys > 0 {
		return unlocked(outer, client, stone, p.spaces)
	}
	return found, over
}

// unlocked deletes copies of Secrets, once no leaf names them: where they were when the
// member left, and where leaves were found.
func unlocked(ctx context.Context, client dynamic.Interface, stone model.Tombstone, spaces map[string]bool) (model.Digging, bool) {
	ctx, cancel := context.WithTimeout(ctx, graveWork)
	defer cancel()
	for _, space := range stone.KeySpaces.List() {
		spaces[space] = true
	}
	left, why := syncer.SweepKeys(ctx, client, stone.Hub, slices.Sorted(maps.Keys(spaces)))
	if left == 0 {
		return model.Digging{}, true
	}
	return model.Digging{Reason: v1alpha1.ReasonKeysLeft, Message: fmt.Sprintf("its leaves are gone, and keys in %d namespaces can't be deleted (%s): our account needs deploy/rbac/member-keys.yaml there", left, why)}, false
}

// pruning is one try to delete all.
type pruning struct {
	syncer *syncer.Syncer
	cancel func()

	mu     sync.Mutex
	count  syncer.Count
	words  string          // of the member, why not
	spaces map[string]bool // in which there were leaves
}

func (p *pruning) report(key syncer.Key, s syncer.State) {
	p.mu.Lock()
	p.spaces[key.Namespace] = true
	p.mu.Unlock()
	if s.Reason == syncer.Waiting {
		p.syncer.Consent()
		return
	}
	if s.Message != "" {
		p.mu.Lock()
		p.words = s.Message
		p.mu.Unlock()
	}
}

func (p *pruning) counted(c syncer.Count) {
	p.mu.Lock()
	p.count = c
	p.mu.Unlock()
	if c.Clear {
		p.cancel()
	}
}

func (p *pruning) found() (model.Digging, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.count.Clear:
		return model.Digging{}, true
	case !p.count.Known:
		return model.Digging{Reason: v1alpha1.ReasonUnauthorized, Message: "it is reached, and its Ingresses, or what else may be a leaf, can't be listed: our account needs deploy/rbac/member-leaves.yaml there"}, false
	case p.words != "":
		return model.Digging{Reason: v1alpha1.ReasonLeavesLeft, Message: fmt.Sprintf("%d are left: %s", p.count.Leaves, p.words)}, false
	}
	return model.Digging{Reason: v1alpha1.ReasonLeavesLeft, Message: fmt.Sprintf("%d are left", p.count.Leaves)}, false
}

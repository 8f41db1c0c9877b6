package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
)

const (
	lifeHub  = "hub-uid"
	lifeZone = "shop" // the namespace of all roots
)

var lifeKey = leafKinds["Ingress"]

// life is a random one of a fleet whose members have controllers: a hub and members in
// memory, the whole control plane between them but for its connections to proxies and the
// hub, and what people and machines do to all of these.
type life struct {
	t       *testing.T
	rand    *rand.Rand
	log     []string
	began   time.Time
	hubAway bool
	objects map[string]map[string]metav1.Object // of the hub, by plural and name
	members map[model.Member]*lifeMember
	happens []int               // what does in this one: each kind of thing in half of all lives
	calm    bool                // nothing happens any more
	said    map[string][]string // what statuses said since then
	writes  int                 // of statuses

	plane *Offline
	state *checkpoint.Store
	dir   string
	runs  int
	mind  *mind
}

// lifeMember is a member: its API server, and what runs there.
type lifeMember struct {
	name     model.Member
	api      *syncertest.API
	people   dynamic.ResourceInterface // what others than Spillway do
	away     atomic.Bool
	services map[string]metav1.Object
	foreign  map[string]string // objects of others, and what they say
	kept     map[string]*unstructured.Unstructured
	keptToo  map[string]string
	turn     int // of addresses
}

// mind is one process: its requests end with it.
type mind struct {
	gone atomic.Bool
	die  atomic.Int64 // requests until it ends; less than 1: it does not
	end  context.CancelFunc
}

// wire carries requests of a process to a member.
type wire struct {
	mind *mind
	to   *lifeMember
}

var errLife = errors.New("no route to host")

// RoundTrip lets a process end before its request arrives, or before it has the answer.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	n := w.mind.die.Add(-1)
	if n == 0 {
		w.mind.gone.Store(true)
	}
	if w.mind.gone.Load() || w.to.away.Load() {
		return nil, errLife
	}
	r = r.Clone(r.Context())
	r.Header.Set(syncertest.HubHeader, lifeHub)
	answer, err := w.to.api.RoundTrip(r)
	if n == 1 && r.Method != http.MethodGet {
		w.mind.gone.Store(true)
		return nil, errLife
	}
	return answer, err
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{t: t, rand: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), objects: map[string]map[string]metav1.Object{}, members: map[model.Member]*lifeMember{}, said: map[string][]string{}, dir: t.TempDir()}
	for what := range lifeKinds {
		if what < 6 || l.rand.IntN(2) == 0 { // roots come and go in all
			l.happens = append(l.happens, what)
		}
	}
	for i := range 3 {
		name := model.Member("m-" + strconv.Itoa(i))
		api := syncertest.New(networkingv1.SchemeGroupVersion.WithKind("Ingress"), lifeKey)
		client := dynamic.NewForConfigOrDie(&rest.Config{Host: "http://member.example", Transport: api, QPS: -1})
		l.members[name] = &lifeMember{name: name, api: api, people: client.Resource(lifeKey).Namespace(lifeZone), services: map[string]metav1.Object{}, foreign: map[string]string{}}
		for s := range 2 {
			l.service(name, s, true)
		}
	}
	config := &v1alpha1.GatewayClassConfig{ObjectMeta: l.meta("", "members")}
	config.Spec.DataPlane = v1alpha1.DataPlaneLeaf
	config.Spec.Leaf = &v1alpha1.LeafOptions{IngressClassName: "nginx"}
	class := &networkingv1.IngressClass{ObjectMeta: l.meta("", "members")}
	class.Spec.Controller = "spillway.dev/ingress"
	class.Spec.Parameters = &networkingv1.IngressClassParametersReference{APIGroup: new("spillway.dev"), Kind: "GatewayClassConfig", Name: "members", Scope: new("Cluster")}
	l.set("gatewayclassconfigs", config)
	l.set("ingressclasses", class)
	for name := range l.members {
		m := &v1alpha1.MemberCluster{ObjectMeta: l.meta("", string(name))}
		m.Spec.Connection.KubeconfigSecretRef = &v1alpha1.SecretKeyRef{Name: string(name)}
		m.Spec.LeafAddresses = []v1alpha1.LeafAddress{"192.0.2.0/24"}
		m.Spec.Taints = []v1alpha1.Taint{}
		l.set("memberclusters", m)
	}
	l.start("")
	return l
}

func (l *life) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, l.rand.Int32())), Generation: 1, CreationTimestamp: metav1.NewTime(time.Now())}
}

func (l *life) note(format string, args ...any) {
	l.log = append(l.log, time.Since(l.began).String()+" "+fmt.Sprintf(format, args...))
}

func (l *life) must(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		l.t.Helper()
		l.t.Fatal(err)
	}
}

// set makes or changes an object of the hub, which tells who watches it.
func (l *life) set(plural string, o metav1.Object) {
	if l.objects[plural] == nil {
		l.objects[plural] = map[string]metav1.Object{}
	}
	l.objects[plural][o.GetName()] = o
	if l.plane != nil && !l.hubAway {
		l.must(l.plane.Feed.Put(plural, o))
	}
}

func (l *life) drop(plural, name string) {
	o := l.objects[plural][name]
	delete(l.objects[plural], name)
	if o != nil && !l.hubAway {
		l.must(l.plane.Feed.Delete(plural, o))
	}
}

// start begins a process that goes on from a checkpoint; "": from none.
func (l *life) start(from string) {
	l.runs++
	dir := filepath.Join(l.dir, strconv.Itoa(l.runs))
	if from != "" {
		l.must(os.CopyFS(dir, os.DirFS(from)))
	}
	var err error
	if l.state, err = checkpoint.Open(checkpoint.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Now: time.Now}); err != nil {
		l.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	mind := &mind{end: end}
	l.mind = mind
	l.plane = NewOffline(OfflineOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler), State: l.state})
	own := l.plane.s.leaves
	own.guards, own.hub = lifeGuards{l}, func() string { return lifeHub }
	own.start = func(m model.Member, run *leafRun) {
		client := dynamic.NewForConfigOrDie(&rest.Config{Host: "http://member.example", Transport: wire{mind, l.members[m]}, QPS: -1})
		var err error
		if run.syncer, err = syncer.New(syncer.Options{Hub: run.hub, Client: client, Kinds: run.resources(), Report: run.report, Counted: run.counted}); err != nil {
			l.t.Fatal(err)
		}
		over, cancel := context.WithCancel(ctx)
		run.cancel = cancel
		own.all.Go(func() { run.syncer.Run(over) })
	}
	if !l.hubAway {
		l.listHub()
	}
	for _, m := range l.sorted() {
		l.contact(m)
	}
}

func (l *life) listHub() {
	for range 2 { // Ingresses are read in full when it is known of which classes
		for _, kind := range l.plane.Feed.Kinds() {
			list := make([]metav1.Object, 0, len(l.objects[kind]))
			for _, name := range slices.Sorted(maps.Keys(l.objects[kind])) {
				list = append(list, l.objects[kind][name])
			}
			l.must(l.plane.Feed.List(kind, list))
		}
		l.plane.Turn()
	}
}

func (l *life) sorted() []*lifeMember {
	var out []*lifeMember
	for _, name := range slices.Sorted(maps.Keys(l.members)) {
		out = append(out, l.members[name])
	}
	return out
}

// contact has a member be read, or not.
func (l *life) contact(m *lifeMember) {
	if m.away.Load() {
		l.plane.Feed.Tell(m.name, model.Contact{Reason: v1alpha1.ReasonUnreachable, Message: "no route"})
		l.plane.s.leaves.Ended(m.name)
		return
	}
	services := slices.Collect(maps.Values(m.services))
	l.must(errors.Join(l.plane.Feed.ListServices(m.name, services), l.plane.Feed.ListSlices(m.name, nil), l.plane.Feed.ListExports(m.name, nil)))
	l.plane.Feed.Tell(m.name, model.Contact{Reason: v1alpha1.ReasonConnected})
	l.plane.s.leaves.Engaged(m.name, &cluster.Way{})
}

// kill ends the process as a crash does, and begins another.
func (l *life) kill(from string) {
	l.mind.gone.Store(true)
	l.mind.end()
	l.plane.s.leaves.all.Wait()
	if from == "last" {
		l.must(l.state.Flush())
		from = filepath.Join(l.dir, strconv.Itoa(l.runs))
	}
	over, end := context.WithCancel(context.Background())
	end()
	l.state.Run(over)
	l.start(from)
}

// lifeGuards are finalizers of MemberClusters.
type lifeGuards struct{ l *life }

func (g lifeGuards) GuardLeaves(m model.Member)       { g.guard(m, true) }
func (g lifeGuards) ReleaseLeaves(m model.Member)     { g.guard(m, false) }
func (g lifeGuards) Bury(m model.Member, _ hub.Grave) { g.l.t.Errorf("%s is buried", m) }
func (g lifeGuards) ForgetLeaves(model.Member)        {}
func (g lifeGuards) Unbury(k model.TombstoneID)       { g.l.t.Errorf("%s is dug up", k) }
func (g lifeGuards) guard(m model.Member, is bool) {
	old, _ := g.l.objects["memberclusters"][string(m)].(*v1alpha1.MemberCluster)
	o := old.DeepCopy()
	o.Finalizers = nil
	if is {
		o.Finalizers = []string{v1alpha1.FinalizerLeaves}
	}
	g.l.set("memberclusters", o)
}

package cluster

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// limited has members give rows only of what something refers to, as of a checkpoint that
// refers to nothing.
func (r *rig) limited() *rig {
	r.members.Remember(Past{})
	return r
}

// gives are the Services of a member that have rows, and the EndpointSlices, by Service.
func (r *rig) gives() string {
	all := map[string]int{}
	for _, k := range r.in.Services.Keys() {
		all[string(k.Member)+" "+k.Service.String()] += 0
	}
	for _, k := range r.in.Slices.Keys() {
		v, _ := r.in.Slices.Get(nil, k)
		all[string(k.Member)+" "+k.Service.String()] += v.Endpoints.Len()
	}
	var out []string
	for k, n := range all {
		out = append(out, fmt.Sprintf("%s: %d", k, n))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (r *rig) awaitRows(want string) {
	r.t.Helper()
	last := ""
	defer func() {
		if r.t.Failed() {
			r.t.Logf("last:\n%s\nwant:\n%s", last, want)
		}
	}()
	r.await("these rows", func() bool { last = r.gives(); return last == want })
}

// refersTo reports whether the row of a root names a Service as its default.
func (r *rig) refersTo(name, service string) bool {
	v, ok := r.in.Roots.Get(nil, rootID(name))
	return ok && v.Default != nil && v.Default.Service() == model.ServiceOf("shop", service)
}

// TestReads: of a member only what something refers to gives rows. A root that refers to
// another Service is there when its EndpointSlices are, and never before.
func TestReads(t *testing.T) {
	hub, api := fleetOf(t)
	api.apply(service("api"), slice("api", "10.1.1.1"))
	hub.apply(ingress("a", "web"))
	r := newRig(t, nil).watch(hub).hasty().limited().start()
	r.await("connected", r.connected("eu-1"))
	r.awaitRows("eu-1 shop/web: 2")
	early := false
	go hub.apply(ingress("a", "api"))
	r.await("the root refers to the other one", func() bool {
		is := r.refersTo("a", "api")
		early = early || is && r.gives() != "eu-1 shop/api: 1\neu-1 shop/web: 2"
		return is
	})
	if early {
		t.Error("a root was there before what it refers to")
	}
	api.apply(slice("api", "10.1.1.1", "10.1.1.2"))
	r.awaitRows("eu-1 shop/api: 2\neu-1 shop/web: 2")
	api.remove(slice("api"))
	api.remove(service("api"))
	r.awaitRows("eu-1 shop/web: 2")
	hub.apply(ingress("b", "later"))
	r.await("a Service that is nowhere keeps nobody", func() bool { return r.refersTo("b", "later") })
	api.apply(service("later"), slice("later", "10.1.2.1"))
	r.awaitRows("eu-1 shop/later: 1\neu-1 shop/web: 2")
}

// TestReadsSpared: a Service that nothing refers to any more gives no rows after a while,
// and gives them again as soon as something does. What a root names lately stays.
func TestReadsSpared(t *testing.T) {
	hub, api := fleetOf(t)
	hub.apply(ingress("a", "web"))
	var late atomic.Int64
	r := newRig(t, nil)
	r.members.now = func() time.Time { return time.Unix(5000+late.Load(), 0) }
	r.watch(hub).hasty().limited().start()
	r.awaitRows("eu-1 shop/web: 2")
	web := model.ServiceOf("shop", "web")
	spare := func() (did bool) {
		r.ask(func() {
			r.g.Commit(func(*inc.Tx) { did = r.members.Spare(web) })
		})
		r.members.Sweep()
		return did
	}
	if spare() {
		t.Fatal("it was named just now")
	}
	hub.remove(ingress("a", "web"))
	r.await("the root is gone", func() bool { return !r.refersTo("a", "web") })
	late.Store(int64(SpareAfter / time.Second))
	if !spare() {
		t.Fatal("it is still read")
	}
	r.awaitRows("")
	api.apply(slice("web", "10.1.0.9"))
	hub.apply(ingress("a", "web"))
	r.await("the root is back", func() bool { return r.refersTo("a", "web") })
	r.ask(func() {
		if is := r.gives(); is != "eu-1 shop/web: 1" {
			t.Errorf("with the root there is %q", is)
		}
	})
}

// TestReadsLimited: what was read before anything was known of the hub is spared.
func TestReadsLimited(t *testing.T) {
	hub, api := fleetOf(t)
	api.apply(service("api"), slice("api", "10.1.1.1"))
	hub.apply(ingress("a", "web"))
	r := newRig(t, nil).watch(hub).hasty().start()
	r.awaitRows("eu-1 shop/api: 1\neu-1 shop/web: 2")
	r.await("the root", func() bool { return r.refersTo("a", "web") })
	r.ask(func() { r.g.Commit(func(*inc.Tx) { r.members.Limit() }) })
	r.awaitRows("eu-1 shop/web: 2")
	hub.apply(ingress("b", "api"))
	r.awaitRows("eu-1 shop/api: 1\neu-1 shop/web: 2")
}

// TestReadsMany: more Services at once than are asked about one by one.
func TestReadsMany(t *testing.T) {
	hub, api := fleetOf(t)
	var want []string
	all := &networkingv1.Ingress{ObjectMeta: at("shop", "all")}
	for i := range mostQuestions + 8 {
		n := fmt.Sprintf("s%02d", i)
		api.apply(service(n), slice(n, "10.1.1.1"))
		want = append(want, "eu-1 shop/"+n+": 1")
		rule := networkingv1.IngressRule{Host: n + ".example"}
		kind := networkingv1.PathTypePrefix
		rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &kind, Backend: *ingress("", n).Spec.DefaultBackend}}}
		all.Spec.Rules = append(all.Spec.Rules, rule)
	}
	r := newRig(t, nil).watch(hub).hasty().limited().start()
	r.await("connected", r.connected("eu-1"))
	hub.apply(all)
	r.await("the root is there with all", func() bool {
		_, ok := r.in.Roots.Get(nil, rootID("all"))
		return ok
	})
	r.awaitRows(strings.Join(want, "\n"))
}

// TestReadsLarge: a Service with more endpoints than an event of a watch may tell of.
func TestReadsLarge(t *testing.T) {
	hub, api := fleetOf(t)
	api.apply(service("large"))
	const parts, each = 250, 1000
	for i := range parts {
		addresses := make([]string, each)
		for j := range addresses {
			addresses[j] = fmt.Sprintf("10.%d.%d.%d", i, j/200, 1+j%200)
		}
		part := slice("large", addresses...)
		part.Name = fmt.Sprintf("large-%d", i)
		api.apply(part)
	}
	r := newRig(t, nil).watch(hub).hasty()
	r.members.asks.patience = limit
	r.limited().start()
	r.await("connected", r.connected("eu-1"))
	hub.apply(ingress("a", "large"))
	r.await("the root", func() bool { return r.refersTo("a", "large") })
	r.ask(func() {
		if is, want := r.gives(), fmt.Sprintf("eu-1 shop/large: %d", parts*each); is != want {
			t.Errorf("with the root there is %q, want %q", is, want)
		}
	})
}

// TestReadsSilent: a member that says nothing holds a root up for so long, and takes part
// in it when it answers. One that is away holds nobody up.
func TestReadsSilent(t *testing.T) {
	hub, api := fleetOf(t)
	api.apply(service("api"), slice("api", "10.1.1.1"), service("more"), slice("more", "10.1.2.1"))
	r := newRig(t, nil).watch(hub).hasty()
	r.members.asks.patience = 10 * time.Millisecond
	r.limited().start()
	r.await("connected", r.connected("eu-1"))
	api.do(func() { api.hang = true })
	hub.apply(ingress("a", "api"))
	r.await("the root waits no more", func() bool { return r.refersTo("a", "api") })
	r.await("away", func() bool { return !get(r.in.Sources, "eu-1").Connected })
	hub.apply(ingress("b", "more"))
	r.await("nobody waits", func() bool { return r.refersTo("b", "more") })
	api.do(func() { api.hang = false })
	api.sever()
	r.awaitRows("eu-1 shop/api: 1\neu-1 shop/more: 1")
}

// TestReadsWhileOneLeaves: an export that comes refers to another Service, under the lock
// of its store, while its member leaves, which takes that lock under the one of Members.
func TestReadsWhileOneLeaves(t *testing.T) {
	f := newRig(t, nil).members
	f.member("eu-1")
	f.reads.limit()
	f.mu.Lock()
	defer f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.need([]model.Service{model.ServiceOf("shop", "new")}, newWaiter(func() {}))
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("who has a store's lock waits for that of Members")
	}
}

// TestReadsExported: what a member exports is read, and the export waits for it.
func TestReadsExported(t *testing.T) {
	hub, api := fleetOf(t)
	r := newRig(t, nil).watch(hub).hasty().limited().start()
	r.await("connected", r.connected("eu-1"))
	r.awaitRows("")
	api.apply(export("web"))
	r.await("the export", func() bool { return r.in.Exports.Len() == 1 })
	r.ask(func() {
		if is := r.gives(); is != "eu-1 shop/web: 2" {
			t.Errorf("with the export there is %q", is)
		}
	})
}

// TestReadsMoved: a member calls a namespace otherwise from now on, at any time.
func TestReadsMoved(t *testing.T) {
	for _, listed := range []bool{false, true} {
		for _, more := range []int{0, mostQuestions} {
			t.Run(fmt.Sprint(listed, more), func(t *testing.T) { readsMoved(t, listed, more) })
		}
	}
}

func readsMoved(t *testing.T, listed bool, more int) {
	hub, api := fleetOf(t)
	names, want := []string{"web"}, []string{"eu-1 store/web: 3"}
	for i := range more {
		names, want = append(names, fmt.Sprintf("s%02d", i)), append(want, fmt.Sprintf("eu-1 store/s%02d: 3", i))
	}
	for i, n := range names {
		other, moved := service(n), slice(n, "10.1.3.1", "10.1.3.2", "10.1.3.3")
		other.Namespace, moved.Namespace = "store", "store"
		api.apply(other, moved)
		hub.apply(ingress(fmt.Sprint("r", i), n))
	}
	r := newRig(t, nil).watch(hub).hasty().limited().start()
	if listed {
		r.await("connected", r.connected("eu-1"))
	}
	r.await("the Service as it is called first", func() bool { return strings.Contains(r.gives(), "eu-1 shop/web: 2") })
	m := memberCluster("eu-1", "eu-1")
	m.Spec.Namespaces = []v1alpha1.MemberNamespace{{Namespace: "shop", As: "store"}}
	hub.apply(m)
	r.await("it calls it otherwise", func() bool { return len(get(r.in.Members, "eu-1").Spaces) > 0 })
	slices.Sort(want)
	all := strings.Join(want, "\n")
	if listed {
		r.ask(func() {
			if is := r.gives(); !strings.Contains(is, all) {
				t.Errorf("then there is %q", is)
			}
		})
	}
	r.await("all of them", func() bool { return strings.Contains(r.gives(), all) })
}

// TestAnswersAreUrgent: what objects wait for is with them in the next commit, also where it
// came in a list of so much that the rest is bulk.
func TestAnswersAreUrgent(t *testing.T) {
	mail := NewMailbox()
	m := newMember("eu-1", inputs(inc.New()), mail, slog.New(slog.DiscardHandler), usual)
	sliceOf := func(n string) any { return slice(n, "10.1.0.1") }
	if err := m.slices.all().Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	var list []any
	const many = largeDifference + 10
	for i := range many {
		list = append(list, sliceOf(fmt.Sprint("asked-", i)), sliceOf(fmt.Sprint("other-", i)))
		for _, n := range []string{"asked-", "other-"} {
			m.reads.add([]model.Service{model.ServiceOf("shop", fmt.Sprint(n, i))})
		}
		m.slices.ask(model.ServiceOf("shop", fmt.Sprint("asked-", i)), 1, false)
	}
	if err := m.slices.all().Replace(list, "2"); err != nil {
		t.Fatal(err)
	}
	if n := len(mail.TakeUrgent()); n != many {
		t.Errorf("%d of %d facts that are waited for are urgent", n, many)
	}
}

// TestReadsRandom: whatever comes in which order, the rows are in the end those of what
// is referred to, as if it had been read now.
func TestReadsRandom(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { readsRandom(t, rand.New(rand.NewPCG(seed, 16))) })
	}
}

func readsRandom(t *testing.T, rnd *rand.Rand) {
	hub, api := fleetOf(t)
	var late atomic.Int64
	r := newRig(t, nil)
	r.members.now = func() time.Time { return time.Unix(5000+late.Load(), 0) }
	r.watch(hub).hasty().limited().start()
	names := []string{"s0", "s1", "s2", "s3", "s4", "s5"}
	roots, endpoints, there := map[string]string{}, map[string]int{}, map[string]bool{"web": true}
	endpoints["web"] = 2
	for range 120 {
		n := names[rnd.IntN(len(names))]
		switch rnd.IntN(10) {
		case 0, 1, 2:
			root := fmt.Sprintf("r%d", rnd.IntN(3))
			roots[root] = n
			hub.apply(ingress(root, n))
		case 3:
			root := fmt.Sprintf("r%d", rnd.IntN(3))
			if _, ok := roots[root]; ok {
				delete(roots, root)
				hub.remove(ingress(root, n))
			}
		case 4, 5, 6:
			endpoints[n] = 1 + rnd.IntN(4)
			api.apply(slice(n, []string{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"}[:endpoints[n]]...))
		case 7:
			if there[n] = !there[n]; there[n] {
				api.apply(service(n))
			} else {
				api.remove(service(n))
			}
		case 8:
			if endpoints[n] > 0 {
				endpoints[n] = 0
				api.remove(slice(n))
			}
		case 9:
			switch rnd.IntN(5) {
			case 0:
				api.sever()
			case 1:
				hub.sever()
			case 2:
				late.Add(int64(SpareAfter / time.Second))
				s := model.ServiceOf("shop", n)
				if !slices.Contains(refs(roots), n) {
					r.ask(func() { r.g.Commit(func(*inc.Tx) { r.members.Spare(s) }) })
					r.members.Sweep()
				}
			case 3:
				hub.apply(readsOnly([][]v1alpha1.NamespaceName{nil, {"shop"}, {"other"}, {"other", "shop"}}[rnd.IntN(4)]...))
			default:
				r.ask(func() {}) // everybody gets a turn
			}
		}
	}
	hub.apply(readsOnly([][]v1alpha1.NamespaceName{nil, {"shop"}, {"other", "shop"}}[rnd.IntN(3)]...))
	r.await("all roots", func() bool {
		for root, n := range roots {
			if !r.refersTo(root, n) {
				return false
			}
		}
		return r.in.Roots.Len() == len(roots)
	})
	r.await("connected", r.connected("eu-1"))
	// EndpointSlices without their Service are nobody's.
	lines := func(of func(string) string) string {
		var out []string
		for _, n := range names {
			if there[n] {
				out = append(out, of(n))
			}
		}
		return strings.Join(out, "\n")
	}
	want := lines(func(n string) string {
		if !slices.Contains(refs(roots), n) {
			return n + " is not read"
		}
		return fmt.Sprintf("%s has %d", n, endpoints[n])
	})
	have := func(n string) string {
		id := model.MemberService{Service: model.ServiceOf("shop", n), Member: "eu-1"}
		v, is := r.in.Slices.Get(nil, model.SliceID{MemberService: id, Name: n + "-1"})
		if _, ok := r.in.Services.Get(nil, id); !ok && !is {
			return n + " is not read"
		}
		return fmt.Sprintf("%s has %d", n, v.Endpoints.Len())
	}
	late.Add(int64(SpareAfter / time.Second))
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("last:\n%s\nwant:\n%s", last, want)
		}
	}()
	r.await("these rows", func() bool {
		for _, n := range names {
			if !slices.Contains(refs(roots), n) {
				s := model.ServiceOf("shop", n)
				r.g.Commit(func(*inc.Tx) { r.members.Spare(s) })
			}
		}
		r.members.Sweep()
		if last = lines(have); last == want {
			return true
		}
		r.mail.Put(Bulk, t.Name(), func(*inc.Tx) {}) // look again
		return false
	})
}

// refs are the Services that roots name, sorted, each once.
func refs(roots map[string]string) []string {
	var out []string
	for _, n := range roots {
		out = append(out, n)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

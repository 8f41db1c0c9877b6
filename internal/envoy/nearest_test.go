package envoy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// Places at growing distance from the edge fra.
var (
	sameZone   = model.Place{Region: "eu", Zone: "eu-a"}
	sameRegion = model.Place{Region: "eu", Zone: "eu-b"}
	away       = model.Place{Region: "us", Zone: "us-a"}
)

// site is where a member has pods.
type site struct {
	member model.Member
	place  model.Place
	pods   int
}

// region serves shop.example from several members, by the plan that steer makes
// of their places and health.
type region struct {
	*twoMembers // without its members
	sites       []site
	pods        map[model.Member][]*pod

	mu    sync.Mutex
	tried map[string][]string // path of a request: the members that saw it, in order
}

// newRegion starts the pods. In parts, a site has one pod in each.
func newRegion(t *testing.T, timing model.Timing, of sizes, sites ...site) *region {
	t.Helper()
	r := &region{
		twoMembers: &twoMembers{rig: newRigOf(t, timing, of)}, sites: sites,
		pods: map[model.Member][]*pod{}, tried: map[string][]string{},
	}
	groups := map[model.Member][]model.Endpoint{}
	for _, s := range sites {
		for i := range s.pods {
			p := newPodOfPart(t, fmt.Sprintf("web@%s/%d", s.member, len(r.pods[s.member])), i)
			heard := func(q *http.Request) { r.hears(s.member, q) }
			p.heard.Store(&heard)
			r.pods[s.member] = append(r.pods[s.member], p)
			e := p.endpoint()
			e.Zone = model.ZoneOf(s.place.Zone)
			groups[s.member] = append(groups[s.member], e)
		}
	}
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/http")
		r.host(tx, testClass, "shop.example", &def)
		r.use(tx, testView, "shop/web/http", "")
		for member, at := range groups {
			r.group(tx, "shop/web/http", member, at...)
		}
	})
	r.lose(nil)
	r.settled(t)
	return r
}

func (r *region) hears(by model.Member, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried[q.URL.Path] = append(r.tried[q.URL.Path], string(by))
}

// lose plans with the paths to these members down, and to all others up.
func (r *region) lose(down []model.Member) {
	var all []steer.Candidate
	for _, s := range r.sites {
		c := steer.Candidate{Member: s.member, Place: s.place, Ready: s.pods, Serves: true, Health: model.Up}
		if slices.Contains(down, s.member) {
			c.Health = model.Down
		}
		all = append(all, c)
	}
	r.commit(func(tx *inc.Tx) { r.plan(tx, testView, "shop/web/http", steer.Tiers(fra, all).Shares...) })
}

// left waits until Envoy has no endpoint of the member.
func (r *region) left(t *testing.T, m model.Member) {
	t.Helper()
	envoytest.Until(t, "Envoy to leave "+string(m), func() bool {
		clusters := r.proc.Get(t, "/clusters")
		return clusters != "" && !slices.ContainsFunc(r.pods[m], func(p *pod) bool { return strings.Contains(clusters, p.addr.String()) })
	})
}

// triedBy are the members that saw a request, in order.
func (r *region) triedBy(path string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tried[path])
}

// retries checks where the requests of these paths went when near had failed.
func (r *region) retries(t *testing.T, paths []string, want ...string) {
	t.Helper()
	for _, path := range paths {
		got := slices.DeleteFunc(r.triedBy(path), func(m string) bool { return m == "near" })
		if len(got) == 0 || !slices.Contains(want, got[0]) {
			t.Errorf("%s was tried by %v, want the first retry at %v", path, r.triedBy(path), want)
		}
	}
}

// patient never sends a request elsewhere by itself.
var patient = model.Timing{ConnectTimeout: 10_000, PerTryTimeout: 600_000}

// Requests wait for a member when its path is found to be down. Its endpoints
// leave, and so does its tier; the first retry goes to the nearest member that
// is left, and not past it.
func TestRetryAfterTheMemberLeft(t *testing.T) {
	inParts := sizes{treeFrom: treeFrom, part: 3} // twelve endpoints are four parts
	for name, c := range map[string]struct {
		of    sizes
		sites []site
	}{
		"each in a tier":  {usual, []site{{"near", sameZone, 2}, {"mid", sameRegion, 2}, {"far", away, 2}}},
		"one tier":        {usual, []site{{"near", sameZone, 2}, {"mid", sameZone, 2}, {"far", away, 2}}},
		"two zones":       {usual, []site{{"near", sameZone, 1}, {"near", sameRegion, 1}, {"mid", sameRegion, 2}, {"far", away, 2}}},
		"in parts":        {inParts, []site{{"near", sameZone, 4}, {"mid", sameRegion, 4}, {"far", away, 4}}},
		"parts, one tier": {inParts, []site{{"near", sameZone, 4}, {"mid", sameZone, 4}, {"far", away, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, patient, c.of, c.sites...)
			var paths []string
			replies := make(chan reply)
			for n := 0; len(paths) < 8; n++ {
				q := shopRequest
				q.path = fmt.Sprintf("/%d?hold=web@near&reset=web@near", n)
				path := fmt.Sprintf("/%d", n)
				done := make(chan reply, 1)
				go func() { done <- r.ask(t, q) }()
				envoytest.Until(t, "the request to arrive", func() bool { return len(r.triedBy(path)) > 0 })
				if r.triedBy(path)[0] != "near" {
					<-done
					continue // of a tier that they share
				}
				paths = append(paths, path)
				go func() { replies <- <-done }()
			}
			r.lose([]model.Member{"near"})
			r.left(t, "near")
			for _, p := range r.pods["near"] {
				close(p.held)
			}
			for range paths {
				if got := <-replies; got.status != 200 {
					t.Errorf("%+v", got)
				}
			}
			r.retries(t, paths, "mid")
		})
	}
}

// A member whose packets are lost and whose path nobody reported yet: the first
// retry goes to the next tier, and to the one after only when that is lost too.
// Requests on open connections are sent again by hedging, others when they
// could not connect.
func TestRetryAfterSilentLoss(t *testing.T) {
	r := newRegion(t, timingForTests, usual, site{"near", sameZone, 2}, site{"mid", sameRegion, 2}, site{"far", away, 2})
	r.load(t, 50, 8, shopRequest, -1, nil)
	for _, lost := range []struct {
		member string
		next   string
	}{{"near", "mid"}, {"mid", "far"}} {
		for _, p := range r.pods[model.Member(lost.member)] {
			p.drop(t)
		}
		var paths []string
		for n := range 4 {
			q := shopRequest
			q.path = "/" + lost.member + itoa(uint32(n))
			if got := r.ask(t, q); got.status != 200 {
				t.Errorf("%+v", got)
			}
			paths = append(paths, q.path)
		}
		r.retries(t, paths, lost.next)
	}
}

// hold sends a GET that the members hold, and waits until they have seen it.
func (r *region) hold(t *testing.T, path string, members ...string) chan reply {
	t.Helper()
	q := shopRequest
	q.path = path + "?"
	for _, m := range members {
		q.path += "&hold=web@" + m
	}
	done := make(chan reply, 1)
	go func() { done <- r.ask(t, q) }()
	envoytest.Until(t, strings.Join(members, " and ")+" to see the request", func() bool { return len(r.triedBy(path)) >= len(members) })
	return done
}

// Nobody resets the connection on which a request waits, and no answer comes on
// it: only hedging sends the request elsewhere, and to the nearest.
func TestSilentMemberIsHedged(t *testing.T) {
	r := newRegion(t, timingForTests, usual, site{"near", sameZone, 1}, site{"mid", sameRegion, 1}, site{"far", away, 1})
	if got := <-r.hold(t, "/", "near"); got.status != 200 || got.by == "web@near/0" {
		t.Errorf("%+v", got)
	}
	r.retries(t, []string{"/"}, "mid")
}

// The first attempt goes on beside the second, and its answer is taken.
func TestHedgedAttemptGoesOn(t *testing.T) {
	r := newRegion(t, timingForTests, usual, site{"near", sameZone, 1}, site{"mid", sameRegion, 1})
	done, near := r.hold(t, "/", "near", "mid"), r.pods["near"][0]
	envoytest.Until(t, "near to go on", func() bool {
		select {
		case near.held <- struct{}{}:
			return true
		default:
			return false
		}
	})
	if got := <-done; got.by != near.name || got.header.Get("X-Nth") != "1" {
		t.Errorf("answered by %s, which saw it for the %s. time", got.by, got.header.Get("X-Nth"))
	}
}

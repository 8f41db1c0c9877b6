package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// blind is a world whose control plane could not read some members since it was
// started, and what was so before.
type blind struct {
	*world
	unread []model.Member
	saved  bool // there is a checkpoint: what that remembers was sure once
	since  time.Time
	before map[string]map[string][]string // proxy, then host, to the endpoints that it had of the unread members
	names  map[string]map[string]string   // proxy to what it held
	status map[string][]string            // Ingress to its addresses
}

func (w *world) blinded(unread ...model.Member) (*blind, error) {
	b := &blind{world: w, unread: unread, since: w.now, before: map[string]map[string][]string{}, names: map[string]map[string]string{}, status: map[string][]string{}}
	for name, p := range w.proxies {
		b.before[name], b.names[name] = map[string][]string{}, p.content()
		for _, host := range w.hosts() {
			got, err := w.served(p, host)
			if err != nil {
				return nil, err
			}
			b.before[name][host] = got.of(w, unread...)
		}
	}
	for name := range w.hub["ingresses"] {
		b.status[name] = w.published(name)
	}
	return b, nil
}

// answer is who may answer a request, or the status.
type answer struct {
	status uint32
	ips    []string
}

func (a answer) of(w *world, members ...model.Member) []string {
	return slices.DeleteFunc(slices.Clone(a.ips), func(ip string) bool { return !slices.Contains(members, w.memberOf(ip)) })
}

func (w *world) served(p *proxy, host string) (answer, error) {
	out, _, err := p.route(routetest.Request{Port: 80, Method: "GET", Host: host, Path: "/"}, nil)
	a := answer{status: out.Status}
	for _, at := range out.Endpoints {
		ip, _, _ := strings.Cut(at, ":")
		a.ips = append(a.ips, ip)
	}
	return a, err
}

// serviceOf is the Service that a host leads to, as the Ingress that has it
// says; the oldest, if several do.
func (w *world) serviceOf(host string) string {
	var first *networkingv1.Ingress
	for _, o := range w.hub["ingresses"] {
		o := o.(*networkingv1.Ingress)
		if o.Spec.Rules[0].Host == host && (first == nil || o.CreationTimestamp.Before(&first.CreationTimestamp)) {
			first = o
		}
	}
	return first.Namespace + "/" + first.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name
}

// dials reports whether an edge reaches the pods of a member.
func (w *world) dials(edge string, m model.Member) bool {
	e, ok := w.hub["edges"]["/"+edge].(*v1alpha1.Edge)
	o, ok2 := w.hub["memberclusters"]["/"+string(m)].(*v1alpha1.MemberCluster)
	networks := func(n []v1alpha1.NetworkName) []v1alpha1.NetworkName {
		if len(n) == 0 {
			return []v1alpha1.NetworkName{v1alpha1.DefaultNetwork}
		}
		return n
	}
	return ok && ok2 && slices.ContainsFunc(networks(e.Spec.Networks), func(n v1alpha1.NetworkName) bool {
		return slices.Contains(networks(o.Spec.Networks), n)
	})
}

// dialsUnread reports whether an edge reaches the pods of an unread member.
func (b *blind) dialsUnread(edge string) bool {
	return slices.ContainsFunc(b.unread, func(m model.Member) bool { return b.dials(edge, m) })
}

// known are the ready pods of a Service that the control plane knows of and
// the edge dials.
func (w *world) known(edge, service string) (out []string) {
	for name, m := range w.members {
		if !m.read || !m.seen[service] || !w.dials(edge, name) {
			continue
		}
		if o, ok := m.told[service].(*discoveryv1.EndpointSlice); ok {
			for _, e := range o.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					out = append(out, e.Addresses[0])
				}
			}
		}
	}
	return out
}

// oldKeeps: an old proxy loses nothing because of what is not known: no
// endpoint of the unread member, no cluster, route or host.
func (b *blind) oldKeeps() error {
	for _, name := range slices.Sorted(maps.Keys(b.before)) {
		p := b.proxies[name]
		if p == nil || !b.dialsUnread(p.id.Edge) {
			continue
		}
		for host, had := range b.before[name] {
			got, err := b.served(p, host)
			if err != nil {
				return err
			}
			if lost := less(had, got.of(b.world, b.unread...)); len(lost) > 0 {
				return fmt.Errorf("proxy %s lost %v of %s for %s; it has %v, status %d", name, lost, b.unread, host, got.ips, got.status)
			}
		}
	}
	return nil
}

// startGrace is how long after a start DNS may say that it does not know yet.
const startGrace = 30 * time.Second

// dnsTells: DNS names every edge that surely serves a host, and never says that
// there is nothing where the unread member may have it.
func (b *blind) dnsTells() error {
	for _, host := range b.hosts() {
		got, err := b.resolve(host, zone.TypeA)
		if err != nil {
			return err
		}
		sure, unsure := b.standing(host)
		switch {
		case got.code == zone.NXDomain:
			return fmt.Errorf("%s is said not to be", host)
		case got.code == zone.NoError && len(got.addresses) == 0 && len(sure)+len(unsure) > 0:
			return fmt.Errorf("%s is said to have no address; sure %v, unsure %v", host, sure, unsure)
		case got.code == zone.NoError && len(less(sure, got.addresses)) > 0:
			return fmt.Errorf("%s resolves to %v without the sure %v", host, got.addresses, less(sure, got.addresses))
		case got.code == zone.ServFail && len(sure) > 0 && b.now.Sub(b.since) > startGrace:
			return fmt.Errorf("%s is SERVFAIL after %s, though %v are sure", host, b.now.Sub(b.since), sure)
		}
	}
	return nil
}

// standing are the addresses of edges that surely serve a host, and of those
// of which nobody can know.
func (b *blind) standing(host string) (sure, unsure []string) {
	for _, edge := range b.edges() {
		switch {
		case len(b.known(edge, b.serviceOf(host))) > 0:
			sure = append(sure, b.addressOf(edge))
		case b.dialsUnread(edge):
			unsure = append(unsure, b.addressOf(edge))
		}
	}
	return sure, unsure
}

func (w *world) edges() []string {
	var out []string
	for name := range w.hub["edges"] {
		out = append(out, strings.TrimPrefix(name, "/"))
	}
	slices.Sort(out)
	return out
}

func (w *world) addressOf(edge string) string {
	return w.hub["edges"]["/"+edge].(*v1alpha1.Edge).Spec.Addresses[0].Value
}

// statusesStay: no Ingress loses an address, and no owner is told that nobody has
// a Service which the unread member may have.
func (b *blind) statusesStay() error {
	for name, had := range b.status {
		if lost := less(had, b.published(name)); b.hub["ingresses"][name] != nil && len(lost) > 0 {
			return fmt.Errorf("the status of %s lost %v", name, lost)
		}
	}
	if found := b.findings("Ingress"); strings.Contains(found, "ServiceNotFound") {
		return fmt.Errorf("owners are told: %s", found)
	}
	return nil
}

// less is what is in a and not in b.
func less(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// promises hold at every step while a member is not read.
var promises = map[string]func(*blind) error{
	"old proxies keep what they had":                        (*blind).oldKeeps,
	"DNS names who is sure":                                 (*blind).dnsTells,
	"statuses stay and nobody is told what nobody can know": (*blind).statusesStay,
}

// TestUnread: a control plane without a checkpoint, while one member was never
// read and others may lie or answer in part.
func TestUnread(t *testing.T) {
	for name, promise := range promises {
		t.Run(name, func(t *testing.T) {
			hold(t, 40, unreadScript, func(s script) error { return unread(s, promise) })
		})
	}
}

// unreadScript is a fleet, a restart, and what happens then.
func unreadScript(t *rapid.T) script {
	gone := some(t, memberNames...)
	s := append(fleetOf(t), "answers "+gone+" "+some(t, "not", "part"))
	if other := some(t, memberNames...); other != gone && chance(t, 3) {
		s = append(s, "answers "+other+" "+some(t, "lies", "well"))
	}
	s = append(s, "restart", some(t, "tick 1s", "tick 6s", "tick 31s"))
	for range rapid.IntRange(0, 8).Draw(t, "steps") {
		s = append(s, edit(t))
	}
	return s
}

// unread plays a script, and looks at a promise from its restart on. At the end
// the member is read, and all is as from scratch.
func unread(s script, promise func(*blind) error) error {
	var b *blind
	var gone model.Member
	at := slices.Index(s, "restart")
	for _, line := range s[:max(at, 0)] {
		if words := strings.Fields(line); words[0] == "answers" && (words[2] == "not" || words[2] == "part") {
			gone = model.Member(words[1])
		}
	}
	if at < 0 || gone == "" {
		return nil
	}
	w, err := play(s, func(w *world, line string) (err error) {
		if line == "answers "+string(gone)+" not" || line == "answers "+string(gone)+" part" {
			b, err = w.blinded(gone)
			return err
		}
		if w.runs == 1 || b == nil {
			return nil
		}
		if line == "restart" {
			b.since = w.now
		}
		b.forget(line)
		return promise(b)
	})
	if err != nil || b == nil {
		return err
	}
	for _, line := range comeBack {
		if _, err := w.do(line); err != nil {
			return err
		}
	}
	return w.asFromScratch()
}

// forget lets go of what a line changed for known reasons.
func (b *blind) forget(line string) {
	words := strings.Fields(line)
	if words[0] != "ingress" {
		return
	}
	for _, hosts := range b.before {
		host, _, _ := strings.Cut(words[2], "/")
		delete(hosts, host)
	}
}

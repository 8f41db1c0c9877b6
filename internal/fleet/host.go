package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareRoots decides which roots are ours, and what they ask for.
func (d *program) declareRoots(g *inc.Graph) {
	d.RulesOf = inc.IndexBy(d.In.Rules, func(k model.RulesID, _ model.Rules) []model.Object { return []model.Object{k.Root} })
	d.gw.declareParents(g)
	d.Attachments = inc.Derive(g, "attachments", d.attachment, d.In.Roots)
	inc.Shared(d.Attachments, d.In.Classes, d.defaultClass, d.placedOver, d.placing, d.Leafy, d.Global)
	d.Claims = inc.Derive(g, "claims", func(r *inc.Reader, k model.RulesID) (Claim, bool) {
		rules, ok := d.In.Rules.Get(r, k)
		a, ours := d.Attachments.Get(r, k.Root)
		out := Claim{Classes: a.Classes, Created: a.Created, Default: a.Default, Rules: rules, Placed: a.Placed}
		if a.Attached {
			out.places = d.gw.places(r, k.Root, k.Host)
		}
		return out, ok && ours
	}, d.In.Rules)
	d.claims = inc.IndexBy(d.Claims, func(k model.RulesID, c Claim) []model.HostKey { return c.keys(k.Host) })
	d.ruled = inc.IndexBy(d.Claims, func(k model.RulesID, c Claim) []model.Backend {
		var out []model.Backend
		for _, rules := range c.allRules() {
			out = append(out, NamedBy(k.Root, rules)...)
		}
		return out
	})
	d.defaults = inc.IndexBy(d.Attachments, func(_ model.Object, a Attachment) []model.Backend {
		if a.Default == nil {
			return nil
		}
		return []model.Backend{*a.Default}
	})
	d.declareFallbacks(g)
}

// NamedBy are all backends that rules of a root name.
func NamedBy(root model.Object, rules model.Rules) []model.Backend {
	var out []model.Backend
	for _, rule := range rules {
		for _, b := range rule.Backends {
			if b.Backend != (model.Backend{}) {
				out = append(out, b.Backend)
			}
			if root.Kind == tlsKind {
				out = append(out, passed(b.Backend)) // its listeners say which it is
			}
		}
		for _, m := range rule.Filters.Mirrors() {
			out = append(out, m.Backend)
		}
		if a := rule.Filters.Auth(); a.Backend != (model.Backend{}) {
			out = append(out, a.Backend)
		}
	}
	return out
}

func (d *program) attachment(r *inc.Reader, k model.Object) (Attachment, bool) {
	root, ok := d.In.Roots.Get(r, k)
	if !ok {
		return Attachment{}, false
	}
	if root.Route != nil {
		parents, _ := d.Parents.Get(r, k)
		fronts := parents.fronts()
		return Attachment{Classes: fronts, Created: root.Created, Attached: true, Leaf: parents.leafy(), Global: d.global(r, fronts.List()), Placed: d.placements(r, k, fronts.List())}, fronts != ""
	}
	classes := root.Classes
	if classes == "" {
		c, _ := d.defaultClass.Get(r, model.Workspace(k.Workspace))
		classes = model.ClassesOf(c.class)
	}
	ours := slices.DeleteFunc(classes.List(), func(c model.Class) bool { return !d.ours(r, c) })
	out := Attachment{Classes: model.ClassesOf(ours...), Created: root.Created, Default: root.Default, TLS: root.TLS, Global: d.global(r, ours)}
	for _, c := range ours {
		_, leaf := d.Leafy.Get(r, c)
		out.Leaf = out.Leaf || leaf
	}
	if out.Placed = d.placements(r, k, out.Classes.List()); out.Placed.Len() > 0 && out.Default != nil {
		out.Default = new(out.Default.In(model.Placed(out.Placed.List()[0]))) // the same in each class
	}
	return out, len(ours) > 0
}

// keysOf is a host in each of some classes.
func keysOf(classes model.Classes, h model.Host) []model.HostKey {
	list := classes.List()
	out := make([]model.HostKey, len(list))
	for i, c := range list {
		out[i] = model.HostKey{Class: c, Host: h}
	}
	return out
}

// aged is what a root has, with the root and its age.
type aged[V any] struct {
	origin model.Origin
	has    V
}

// byAge are rows of an index, that of the oldest root first.
func byAge[K, V any](keys []K, rows []V, origin func(K, V) model.Origin) []aged[V] {
	out := make([]aged[V], len(keys))
	for i, k := range keys {
		out[i] = aged[V]{origin(k, rows[i]), rows[i]}
	}
	slices.SortFunc(out, func(a, b aged[V]) int { return a.origin.Compare(b.origin) })
	return out
}

// claimants are the claims for a host.
func (d *program) claimants(r *inc.Reader, k model.HostKey) []aged[claimant] {
	ids, claims := d.claims.Keys(r, k), d.claims.Get(r, k)
	all := make([]claimant, len(ids))
	for i, id := range ids {
		all[i] = claimant{claims[i], id.Host}
	}
	return byAge(ids, all, func(id model.RulesID, c claimant) model.Origin {
		return model.Origin{Created: c.Created, Object: id.Root}
	})
}

// oldest is the oldest claim for a host of those that count; nil: there is none.
func (d *program) oldest(r *inc.Reader, k model.HostKey, counts func(Claim) bool) *aged[claimant] {
	var first *aged[claimant]
	claims := d.claims.Get(r, k)
	for i, id := range d.claims.Keys(r, k) {
		origin := model.Origin{Created: claims[i].Created, Object: id.Root}
		if counts(claims[i]) && (first == nil || origin.Compare(first.origin) < 0) {
			first = &aged[claimant]{origin, claimant{claims[i], id.Host}}
		}
	}
	return first
}

// fallback is a default backend as a claim to the hosts that nobody names.
type fallback struct {
	origin  model.Origin
	backend model.Backend
}

func (a fallback) Equal(b fallback) bool { return a == b }

// declareFallbacks finds the oldest default backend of each class. Roots
// without one get no row, and other changes of a root end at its own.
func (d *program) declareFallbacks(g *inc.Graph) {
	having := inc.IndexBy(d.Attachments, func(k model.Object, a Attachment) []model.Object {
		if a.Default == nil {
			return nil
		}
		return []model.Object{k}
	})
	type claim = classFallback
	each := inc.Derive(g, "default backends", func(r *inc.Reader, k model.Object) (claim, bool) {
		a, ok := d.Attachments.Get(r, k)
		if !ok || a.Default == nil {
			return claim{}, false
		}
		return claim{a.Classes, fallback{model.Origin{Created: a.Created, Object: k}, *a.Default}}, true
	}, having)
	ofClass := inc.IndexBy(each, func(_ model.Object, c claim) []model.HostKey { return keysOf(c.classes, "") })
	d.fallbacks = inc.Derive(g, "fallbacks", func(r *inc.Reader, k model.HostKey) (fallback, bool) {
		claims := ofClass.Get(r, k)
		first := claims[0].fallback
		for _, c := range claims[1:] {
			if c.origin.Compare(first.origin) < 0 {
				first = c.fallback
			}
		}
		return first, true
	}, ofClass)
}

type classFallback struct {
	classes model.Classes
	fallback
}

func (a classFallback) Equal(b classFallback) bool { return a == b }

func (d *program) declareHosts(g *inc.Graph) {
	d.Hosts = inc.Derive(g, "hosts", d.host, d.claims, d.fallbacks, d.gw.listeners)
	inc.MayWait(d.Hosts, d.policies, d.anyMissing)
	inc.Shared(d.Hosts, d.served, d.policies, d.anyMissing)
	d.declareChains(g)
}

// host decides who owns what of a host: of several that ask for one match, the
// root that names the more specific host, then the oldest. Of two matches with the
// same precedence, that of the older root comes first, and in one root that of the
// first rule.
func (d *program) host(r *inc.Reader, k model.HostKey) (Host, bool) {
	if _, ok := d.served.Get(r, k.Class); !ok { // this never waits, what the policy says may
		return Host{}, false
	}
	policy, _ := d.policies.Get(r, k.Class)
	if line := d.gw.lineOf(r, policy, k); line.traffic != model.Requests {
		return d.relayed(r, policy, k, line), true
	}
	claims, kind := ofOneKind(d.ofOneOwner(r, k, d.claimants(r, k)))
	claims, layered := inLayers(claims)
	out := Host{Dial: policy.dial, Continues: d.continues(r, policy, k), Layered: layered, Leaf: policy.leaf}
	if kind == callKind {
		out.Dial = out.Dial.OverHTTP2()
	}
	taken := map[model.Match]bool{}
	layer := 0 // where its routes begin
	for i, c := range claims {
		if i > 0 && c.has.own != claims[i-1].has.own {
			byPrecedence(out.Routes[layer:])
			layer = len(out.Routes)
		}
		root, won := c.origin.Object, false
		for _, rule := range c.has.rulesIn(k.Class) {
			to := Target{Root: root, Rule: rule.Name, Action: rule.Action}
			to.Filters = d.allowed(r, policy, root, rule.Filters, &out)
			switch {
			case c.has.places != nil:
				to.Backends, to.Nowhere = d.resolvable(r, policy, root, rule.Backends, &out)
			case rule.Filters.Over().Passes():
				to.Backends = d.others(r, rule.Backends)
				to = d.pass(r, policy, to, &out)
			case root.Kind == model.OpenShiftRoute:
				to.Backends, to.Nowhere = d.usable(r, policy, d.others(r, rule.Backends), &out)
			default:
				to.Backends, to.Nowhere = d.usable(r, policy, rule.Backends, &out)
			}
			if rule.Filters.Over() == model.MovedToHTTPS {
				out.Secure = policy.secure
			}
			if !d.askable(r, policy, root, rule.Filters.Auth(), &out) {
				to.Reply = &model.Reply{Status: Unguarded}
			}
			for _, m := range rule.Matches {
				if taken[m] {
					continue
				}
				taken[m], won = true, true
				out.Routes = append(out.Routes, Route{m, to})
			}
		}
		if c.has.Default != nil && out.Default == nil && k.Host != "" {
			won = true
			out.Default = d.defaultTarget(r, policy, root, *c.has.Default, &out)
		}
		if won {
			out.Roots = append(out.Roots, root)
		}
	}
	if k.Host == "" {
		d.fallBack(r, policy, k, &out)
	}
	byPrecedence(out.Routes[layer:])
	if layered {
		sortRoots(out.Roots, claims)
	}
	return out, true
}

func byPrecedence(all []Route) {
	slices.SortStableFunc(all, func(a, b Route) int { return a.Match.Precedence(b.Match) })
}

// continues reports whether what no route of a host matches goes on to the next.
// It does not leave a listener: the host that this is for is the last.
func (d *program) continues(r *inc.Reader, p policy, k model.HostKey) bool {
	if !p.continues || k.Host == "" {
		return false
	}
	_, last := d.gw.listeners.Get(r, k)
	return !last
}

// resolvable is what of a route's backends there is. What there is not has its part
// of requests all the same, which is answered 500 (HTTPRouteRule.backendRefs).
func (d *program) resolvable(r *inc.Reader, p policy, root model.Object, all []model.WeightedBackend, h *Host) ([]model.WeightedBackend, bool) {
	out, some := make([]model.WeightedBackend, len(all)), false
	for i, b := range all {
		out[i].Weight = b.Weight
		if b.Backend == (model.Backend{}) || !d.gw.permitted(r, root, b.Backend) {
			continue
		}
		if left, nowhere := d.usable(r, p, all[i:i+1], h); len(left) > 0 && !nowhere {
			out[i], some = b, true
		}
	}
	return out, !some
}

// fallBack gives unknown hosts the oldest default backend of the class.
func (d *program) fallBack(r *inc.Reader, p policy, k model.HostKey, out *Host) {
	f, ok := d.fallbacks.Get(r, k)
	if !ok {
		return
	}
	out.Default = d.defaultTarget(r, p, f.origin.Object, f.backend, out)
	if slices.Contains(out.Roots, f.origin.Object) {
		return
	}
	out.Roots = append(out.Roots, f.origin.Object)
	sortRoots(out.Roots, append(d.claimants(r, k), aged[claimant]{origin: f.origin}))
}

func (d *program) defaultTarget(r *inc.Reader, p policy, root model.Object, b model.Backend, h *Host) *Target {
	to := &Target{Root: root}
	to.Backends, to.Nowhere = d.usable(r, p, []model.WeightedBackend{{Backend: b, Weight: 1}}, h)
	return to
}

// usable leaves out what the class does not allow, and tells whether it is known that
// no member has any of the others. A host that waits for what its class says now
// keeps what it has, so the host says what it needs for that.
func (d *program) usable(r *inc.Reader, p policy, all []model.WeightedBackend, h *Host) (left []model.WeightedBackend, nowhere bool) {
	external, had := false, false
	for _, b := range all {
		row, _ := d.Backends.Get(r, b.Backend)
		external = external || row.External
		had = had || row.withheld() || len(row.Members) > 0 && (p.externalNames || !row.External)
	}
	switch {
	case external && p.externalNames:
		h.Lookups = true
	case external:
		all = slices.DeleteFunc(slices.Clone(all), func(b model.WeightedBackend) bool {
			row, _ := d.Backends.Get(r, b.Backend)
			return row.External
		})
	}
	if had || len(all) == 0 {
		return all, false
	}
	_, missing := d.anyMissing.Get(r, model.All{})
	return all, !missing
}

// allowed leaves out the mirrors that a root may not use or that its class does not
// allow, as usable does.
func (d *program) allowed(r *inc.Reader, p policy, root model.Object, f model.Filters, h *Host) model.Filters {
	return f.OnlyMirrors(func(m model.Mirror) bool {
		if !d.gw.permitted(r, root, m.Backend) {
			return false
		}
		left, nowhere := d.usable(r, p, []model.WeightedBackend{{Backend: m.Backend}}, h)
		return len(left) > 0 && !nowhere
	})
}

// Unguarded is the status of requests that nobody can be asked about: they are for
// nobody.
const Unguarded = 500

// askable reports whether a root may ask a backend, and may find it in some member, as
// usable does. Where members are missing it may.
func (d *program) askable(r *inc.Reader, p policy, root model.Object, a model.Auth, h *Host) bool {
	if a == (model.Auth{}) {
		return true
	}
	if a.Backend == (model.Backend{}) || !d.gw.permitted(r, root, a.Backend) {
		return false
	}
	left, nowhere := d.usable(r, p, []model.WeightedBackend{{Backend: a.Backend}}, h)
	return len(left) > 0 && !nowhere
}

// find is the place of the route of a match.
func (a Host) find(m model.Match) (int, bool) {
	if a.Layered { // hosts that are have few routes
		i := slices.IndexFunc(a.Routes, func(x Route) bool { return x.Match == m })
		return i, i >= 0
	}
	i, _ := slices.BinarySearchFunc(a.Routes, m, func(x Route, m model.Match) int { return x.Match.Precedence(m) })
	for ; i < len(a.Routes) && a.Routes[i].Match.Precedence(m) == 0; i++ {
		if a.Routes[i].Match == m {
			return i, true
		}
	}
	return 0, false
}

// backends are all that the host sends requests to, sorted, each once, and behind
// them those that answer nobody: that get nothing but copies, or are asked over HTTP.
// Last are those that are asked by calls, which may be among the others, too: they are
// dialled otherwise.
func (a Host) backends() (all []model.Backend, silent, calls int32) {
	out := a.sorted(func(t Target) []model.Backend {
		var out []model.Backend
		for _, b := range t.Used() {
			if b.Backend != (model.Backend{}) {
				out = append(out, b.Backend)
			}
		}
		return out
	})
	answering := len(out)
	for _, b := range a.sorted(func(t Target) []model.Backend { return append(t.Mirrors(), t.asked(false)...) }) {
		if _, answers := slices.BinarySearchFunc(out[:answering], b, model.Backend.Compare); !answers {
			out, silent = append(out, b), silent+1
		}
	}
	asked := a.sorted(func(t Target) []model.Backend { return t.asked(true) })
	return append(out, asked...), silent, int32(len(asked))
}

// asked is who is asked first, by calls or not, as a list.
func (a Target) asked(calls bool) []model.Backend {
	if by := a.Auth(); by != (model.Auth{}) && by.Calls == calls {
		return []model.Backend{by.Backend}
	}
	return nil
}

// sorted are the backends of all targets, each once.
func (a Host) sorted(of func(Target) []model.Backend) []model.Backend {
	var out []model.Backend
	add := func(t Target) { out = append(out, of(t)...) }
	for _, route := range a.Routes {
		add(route.Target)
	}
	for _, t := range []*Target{a.Default, a.Passed} {
		if t != nil {
			add(*t)
		}
	}
	slices.SortFunc(out, model.Backend.Compare)
	return slices.Compact(out)
}

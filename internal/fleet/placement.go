package fleet

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A Placement says which members serve what it is for. It makes backends of its own
// (model.Placed) of those that its targets name, by the target and not by what is
// chosen: an edit of a Placement, or a member that comes, changes the members of such a
// backend and no name. Objects of one target share them.
//
// What is chosen follows from inputs alone. Of the members that fit, and that have
// the Service or keep their places (kept.go), the first so many are taken, in an order
// that the target has for all members (model.Rank).

// Placing is what a Placement makes of a backend. A backend that none is for has none.
type Placing struct {
	Beyond    []model.Member // that have it, and others go before them, sorted
	Unknown   []model.Member // that are chosen and of which rows are missing, sorted
	Held      []model.Member // that keep their places and whose Service is gone, sorted
	Tolerated []model.Member // that are chosen in spite of their taints, sorted
	Outside   bool           // a member that does not fit has the Service
	Hold      time.Duration  // as of the Placement
}

func (a *Placing) equal(b *Placing) bool {
	return a == b || a != nil && b != nil && slices.Equal(a.Beyond, b.Beyond) && slices.Equal(a.Unknown, b.Unknown) &&
		slices.Equal(a.Held, b.Held) && slices.Equal(a.Tolerated, b.Tolerated) && a.Outside == b.Outside && a.Hold == b.Hold
}

// Traits are what a Placement looks at of a member.
type Traits struct {
	Labels model.Labels
	Taints []string // as of model.MemberSpec
	Drains bool
	Again  bool // it is the cluster of an older member
}

// Equal reports whether both are the same.
func (a Traits) Equal(b Traits) bool {
	return a.Labels.Equal(b.Labels) && slices.Equal(a.Taints, b.Taints) && a.Drains == b.Drains && a.Again == b.Again
}

// Misfit tells why a member does not fit a Placement: a reason of a member in its status;
// empty: it fits.
func Misfit(spec model.PlacementSpec) func(model.Member, Traits) string {
	selector, err := labels.Parse(spec.Selector)
	selected := func(m model.Member, t Traits) bool {
		_, named := slices.BinarySearch(spec.Names, string(m))
		switch {
		case !spec.Limited || named || spec.Everyone:
			return true
		case spec.Selector == "" || err != nil:
			return false
		}
		return selector.Matches(labels.Set(t.Labels))
	}
	return func(m model.Member, t Traits) string {
		switch {
		case spec.Broken || !selected(m, t):
			return v1alpha1.MemberNotSelected
		case t.Again:
			return v1alpha1.MemberSameCluster
		case !spec.Tolerated(t.Taints):
			return v1alpha1.MemberTainted
		}
		return ""
	}
}

// fitting are the members that fit a Placement, and how many of them it wants.
type fitting struct {
	count   int           // 0: all
	hold    time.Duration // 0: none
	members []fit
}

// fit is a member that fits.
type fit struct {
	member    model.Member
	drains    bool
	tolerated bool // it has taints
}

// Equal reports whether both are the same.
func (a fitting) Equal(b fitting) bool {
	return a.count == b.count && a.hold == b.hold && slices.Equal(a.members, b.members)
}

// find is a member, if it fits.
func (a fitting) find(m model.Member) (fit, bool) {
	i, ok := slices.BinarySearchFunc(a.members, m, func(f fit, m model.Member) int { return f.member.Compare(m) })
	if !ok {
		return fit{}, false
	}
	return a.members[i], true
}

// declarePlacements decides which Placement an object has. Those of routes and
// Ingresses are apart from those that concern many. What a root reads it shares with
// others; a row of its own it reads only where its namespace has a Placement: even one
// that is not there takes memory.
func (d *program) declarePlacements(g *inc.Graph) {
	targets := func(wide bool) *inc.Index[model.Object, model.Object, model.PlacementSpec] {
		return inc.IndexBy(d.In.Placements, func(_ model.Object, spec model.PlacementSpec) []model.Object {
			var out []model.Object
			for _, t := range spec.Targets {
				if wideKind(t.Kind) == wide {
					out = append(out, t)
				}
			}
			return out
		})
	}
	d.placementsOf, d.placementsOver = targets(false), targets(true)
	below := inc.IndexBy(d.In.Placements, func(k model.Object, spec model.PlacementSpec) []model.Object {
		if !slices.ContainsFunc(spec.Targets, func(t model.Object) bool { return t.Kind != model.GatewayKind }) {
			return nil
		}
		return []model.Object{namespaceOf(k)}
	})
	d.placing = inc.Derive(g, "namespaces with placements", func(*inc.Reader, model.Object) (model.There, bool) { return model.There{}, true }, below)
	d.placed = inc.Derive(g, "placements of roots", oldestPlacement(d.placementsOf), d.placementsOf)
	d.placedOver = inc.Derive(g, "placements of namespaces and gateways", oldestPlacement(d.placementsOver), d.placementsOver)
}

// wideKind reports whether many objects have the Placement of one of the kind.
func wideKind(kind string) bool { return kind == namespaceKind || kind == model.GatewayKind }

const namespaceKind = "Namespace"

// namespaceOf is the namespace of an object.
func namespaceOf(k model.Object) model.Object {
	return model.Object{Workspace: k.Workspace, Kind: namespaceKind, Name: k.Namespace}
}

// oldestPlacement is which of several Placements a target has.
func oldestPlacement(of *inc.Index[model.Object, model.Object, model.PlacementSpec]) func(*inc.Reader, model.Object) (inc.Val[model.Object], bool) {
	return func(r *inc.Reader, target model.Object) (inc.Val[model.Object], bool) {
		all := byAge(of.Keys(r, target), of.Get(r, target), func(k model.Object, spec model.PlacementSpec) model.Origin { return spec.Origin(k) })
		return inc.ValOf(all[0].origin.Object), true
	}
}

// PlacementOf is the Placement that a target has.
func (p *Program) PlacementOf(r *inc.Reader, target model.Object) (model.Object, bool) {
	table := p.placed
	if wideKind(target.Kind) {
		table = p.placedOver
	}
	row, ok := table.Get(r, target)
	return row.V, ok
}

// declareFits decides which members fit each Placement.
func (d *program) declareFits(g *inc.Graph) {
	d.Traits = inc.Derive(g, "traits", func(r *inc.Reader, m model.Member) (Traits, bool) {
		spec, ok := d.In.Members.Get(r, m)
		_, again := d.older(r, m)
		return Traits{spec.Labels, spec.Taints, spec.Drains(), again}, ok
	}, d.In.Members)
	d.AllTraits = inc.IndexBy(d.Traits, func(model.Member, Traits) []model.All { return []model.All{{}} })
	d.fits = inc.Derive(g, "members that fit", func(r *inc.Reader, k model.Object) (fitting, bool) {
		spec, ok := d.In.Placements.Get(r, k)
		out, misfit := fitting{count: spec.Count, hold: spec.Hold}, Misfit(spec)
		names, all := d.AllTraits.Keys(r, model.All{}), d.AllTraits.Get(r, model.All{})
		for i, m := range names {
			if misfit(m, all[i]) == "" {
				out.members = append(out.members, fit{m, all[i].Drains, len(all[i].Taints) > 0})
			}
		}
		return out, ok
	}, d.In.Placements)
}

// placedIn is whose Placement a root has where a class serves it: its own goes before
// that of its Gateway, and that before that of its namespace.
func (d *program) placedIn(r *inc.Reader, root model.Object, c model.Class) model.Placed {
	namespace := namespaceOf(root)
	_, some := d.placing.Get(r, namespace)
	if some && d.isPlaced(r, root) {
		return model.PlacedAt(root)
	}
	if gw, ok := c.Gateway(); ok && d.isPlaced(r, gw.Object()) {
		return model.PlacedAt(gw.Object())
	}
	if some && d.isPlaced(r, namespace) {
		return model.PlacedAt(namespace)
	}
	return ""
}

// isPlaced reports whether a target has a Placement of its own.
func (d *program) isPlaced(r *inc.Reader, target model.Object) bool {
	_, ok := d.PlacementOf(r, target)
	return ok
}

// placements are whose Placements a root has in each of its classes; none if it has none
// in any.
func (d *program) placements(r *inc.Reader, root model.Object, classes []model.Class) model.Texts {
	var out []string
	for i, c := range classes {
		if p := d.placedIn(r, root, c); p != "" {
			if out == nil {
				out = make([]string, len(classes))
			}
			out[i] = string(p)
		}
	}
	return model.TextsOf(out)
}

// rulesIn are the rules of a claim as they are in a class.
func (a Claim) rulesIn(c model.Class) model.Rules {
	if a.Placed.Len() == 0 {
		return a.Rules
	}
	i := slices.Index(a.Classes.List(), c)
	if i < 0 {
		return a.Rules
	}
	return a.Rules.In(model.Placed(a.Placed.List()[i]))
}

// allRules are those of all classes: those that are alike once.
func (a Claim) allRules() []model.Rules {
	if a.Placed.Len() == 0 {
		return []model.Rules{a.Rules}
	}
	placed := a.Placed.List()
	slices.Sort(placed)
	var out []model.Rules
	for _, p := range slices.Compact(placed) {
		out = append(out, a.Rules.In(model.Placed(p)))
	}
	return out
}

// fittingOf are the members that fit the Placement of a backend.
func (d *program) fittingOf(r *inc.Reader, b model.Backend) fitting {
	k := b.Key()
	of, _ := d.PlacementOf(r, k.Placed.Object(k.Workspace))
	out, _ := d.fits.Get(r, of)
	return out
}

// placeable is a member that may be chosen.
type placeable struct {
	fit
	unknown bool // rows are missing: nobody knows whether it has the backend
	held    bool // it had the backend, and keeps its place
	rank    uint64
}

// choose leaves the members of a backend that its Placement chooses, in order. Members
// of which rows are missing keep their places until they are waited for no more: they may
// have it. So do those whose Service is gone, for a while. A member that drains comes after
// those that don't.
func (d *program) choose(r *inc.Reader, b model.Backend, fits fitting, out *Backend) {
	var all []placeable
	target := b.Placed().Object(b.Key().Workspace)
	for _, m := range out.Members {
		f, _ := fits.find(m)
		all = append(all, placeable{fit: f, rank: model.Rank(target, m)})
	}
	names, missing := d.hidden.Keys(r, model.All{}), d.hidden.Get(r, model.All{})
	for i, m := range names {
		f, ok := fits.find(m)
		if !ok {
			continue
		}
		at := slices.IndexFunc(all, func(c placeable) bool { return c.member == m })
		switch {
		case at >= 0:
			all[at].unknown = true
		case !missing[i].Overdue || fits.count == 0:
			all = append(all, placeable{fit: f, unknown: true, rank: model.Rank(target, m)})
		}
	}
	for _, f := range d.keeping(r, b, fits, out) {
		if _, hidden := slices.BinarySearch(names, f.member); !hidden {
			all = append(all, placeable{fit: f, held: true, rank: model.Rank(target, f.member)})
		}
	}
	slices.SortFunc(all, func(a, b placeable) int {
		return cmp.Or(cmp.Compare(btoi(a.drains), btoi(b.drains)), cmp.Compare(a.rank, b.rank), a.member.Compare(b.member))
	})
	d.place(all, fits.count, out)
}

// place writes down who is chosen. If all who have places lack the Service, the places
// are for others, too, so that a hold leaves no request without an answer.
func (d *program) place(all []placeable, count int, out *Backend) {
	places := all
	if count > 0 {
		places = all[:min(len(all), count)]
	}
	for _, c := range places {
		if c.held {
			out.Placing.Held = append(out.Placing.Held, c.member)
		}
	}
	if len(out.Placing.Held) == len(places) {
		all = slices.DeleteFunc(all, func(c placeable) bool { return c.held })
	}
	had := out.Members
	out.Members = nil
	for i, c := range all {
		_, has := slices.BinarySearch(had, c.member)
		switch {
		case count > 0 && i >= count:
			if has {
				out.Placing.Beyond = append(out.Placing.Beyond, c.member)
			}
			continue
		case c.held:
			continue
		case has:
			out.Members = append(out.Members, c.member)
		}
		if c.unknown {
			out.Placing.Unknown = append(out.Placing.Unknown, c.member)
		}
		if c.tolerated {
			out.Placing.Tolerated = append(out.Placing.Tolerated, c.member)
		}
	}
	for _, list := range [][]model.Member{out.Members, out.Placing.Beyond, out.Placing.Unknown, out.Placing.Held, out.Placing.Tolerated} {
		slices.Sort(list)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// withheld reports whether nobody has a backend because its Placement wants it so, or
// while nobody knows: it is there, and has no endpoints.
func (a Backend) withheld() bool {
	return a.Placing != nil && len(a.Members) == 0 && (a.Placing.Outside || len(a.Placing.Unknown) > 0)
}

// tolerates reports whether a member is part of a backend in spite of its taints.
func (a Backend) tolerates(m model.Member) bool {
	return a.Placing != nil && slices.Contains(a.Placing.Tolerated, m)
}

// placementFindings tells which targets an older Placement has, and which members a
// Placement names that are not there.
func (d *program) placementFindings(r *inc.Reader, k model.Object) (model.Findings, bool) {
	spec, _ := d.In.Placements.Get(r, k)
	n := model.Collector{Object: k}
	for _, t := range spec.Targets {
		if has, _ := d.PlacementOf(r, t); has != k {
			n.Error("spec.targetRefs", model.ReasonConflict, "%s is older and for %s, too: take it out of one of the two", has, t)
		}
	}
	for _, name := range spec.Names {
		if _, ok := d.ages.Get(r, model.Member(name)); !ok {
			n.Warning("spec.members.names", model.ReasonMemberNotFound, "there is no MemberCluster %s: add it, or take the name out", name)
		}
	}
	return n.Row()
}

// outsideFinding tells a root that its Placement leaves nobody who has a backend.
func outsideFinding(n *model.Collector, at refFields, b model.Backend) {
	k := b.Key()
	what, becomes := unanswered(n.Object, b)
	if what == "requests" {
		becomes = "answered 503" // of every kind: the backend is there
	}
	if at.others {
		becomes = "sent to the others of the Route, or are " + becomes + " if nobody has those"
	}
	n.Error(at.name, model.ReasonNoMembers, "the Placement of %s leaves no member that has %s: %s are %s. The Placement's status says why",
		k.Placed.Object(k.Workspace), b.Described(), what, becomes)
}

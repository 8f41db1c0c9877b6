package leaf

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// An edit of a root whose Placement has a rollout goes to its members in waves
// (rolling.go). What they had before is remembered (In.Rollouts, which follows from
// Tables.Rollouts), so that who is in a later wave keeps it. Roots without have no row.

// Rollout is how an edit of a root stands.
type Rollout struct {
	Memory    model.Rollout // what is to be remembered of it
	Placement model.Object
	State     string        // reason of the condition RolledOut; empty: all members that have leaves have what the root says
	Pause     time.Duration // as of the Placement
	Ready     bool          // the waves that have it are as they should be; the pause runs
	Wave      int           // the last one that has it, from 1
	Have, Of  int           // members that have it, of all that have a leaf
	Waits     inc.List[Wait]
	Nobody    bool // of the wave no member is reached
}

// Wait is for what of a member an edit waits.
type Wait struct {
	Member model.Member
	Why    string
}

// Equal reports whether both are the same.
func (a Rollout) Equal(b Rollout) bool {
	return a.Memory.Equal(b.Memory) && a.Placement == b.Placement && a.State == b.State && a.Pause == b.Pause && a.Ready == b.Ready &&
		a.Wave == b.Wave && a.Have == b.Have && a.Of == b.Of && a.Nobody == b.Nobody && a.Waits.Equal(b.Waits)
}

// At is what is remembered if it is now, in Unix milliseconds.
func (a Rollout) At(now int64) model.Rollout {
	out := a.Memory
	if a.Ready && out.Since == 0 {
		out.Since = now
	}
	return out
}

// waves are the members by their waves, as a Placement has them.
type waves struct {
	pause time.Duration
	count int
	of    []memberWave // by member
}

type memberWave struct {
	member model.Member
	wave   int
}

// Equal reports whether both are the same.
func (a waves) Equal(b waves) bool {
	return a.pause == b.pause && a.count == b.count && slices.Equal(a.of, b.of)
}

// wave is that of a member. One that is not known is in the last.
func (a waves) wave(m model.Member) int {
	i, ok := slices.BinarySearchFunc(a.of, m, func(x memberWave, m model.Member) int { return x.member.Compare(m) })
	if !ok {
		return a.count - 1
	}
	return a.of[i].wave
}

// edition is what a root's leaves say now, and what its owner says of it.
type edition struct {
	model.Edition
	placement model.Object
	word      string
}

// Equal reports whether both are the same.
func (a edition) Equal(b edition) bool { return a == b }

// stair is which editions members should have.
type stair struct {
	placement model.Object
	steps     []model.Edition // as of model.Rollout, without what is of no use here
}

// Equal reports whether both are the same.
func (a stair) Equal(b stair) bool {
	return a.placement == b.placement && slices.Equal(a.steps, b.steps)
}

// rollouts are the tables of edits that only this package reads.
type rollouts struct {
	fails    func(*inc.Reader, model.Edge) bool
	rolling  *inc.Table[model.Object, model.There] // Placements that have waves
	waves    *inc.Table[model.Object, waves]
	waveIn   *inc.Table[model.LeafID, inc.Val[int]] // of a Placement, by its object
	editions *inc.Table[model.Object, edition]
	stairs   *inc.Table[model.Object, stair]
	elders   *inc.Table[elderID, *cast]
	running  *inc.Index[model.Object, model.Object, Rollout] // by Placement, those that not all have
}

// elderID names an edition of a root that is not what the root says now.
type elderID struct {
	root model.Object
	id   string
}

// Compare orders by root and edition.
func (a elderID) Compare(b elderID) int {
	if c := a.root.Compare(b.root); c != 0 {
		return c
	}
	return strings.Compare(a.id, b.id)
}

// String is the root and the edition.
func (a elderID) String() string { return a.root.String() + " " + a.id }

// declareRollouts decides which edition each member should have.
func (d *derivation) declareRollouts(g *inc.Graph, gateways inc.Keys[model.Object]) *inc.Table[model.Object, model.Findings] {
	in, l := &d.p.In, &d.rollouts
	with := inc.IndexBy(in.Placements, func(k model.Object, spec model.PlacementSpec) []model.Object {
		if spec.Rollout == nil {
			return nil
		}
		return []model.Object{k}
	})
	l.rolling = inc.Derive(g, "leaf.rolling", func(*inc.Reader, model.Object) (model.There, bool) { return model.There{}, true }, with)
	l.waves = inc.Derive(g, "leaf.waves", d.wavesOf, l.rolling)
	l.waveIn = inc.Derive(g, "leaf.wave of members", func(r *inc.Reader, k model.LeafID) (inc.Val[int], bool) {
		row, ok := l.waves.Get(r, k.Root)
		return inc.ValOf(row.wave(k.Member)), ok
	}, inc.IndexBy(l.waves, func(k model.Object, row waves) []model.LeafID {
		out := make([]model.LeafID, len(row.of))
		for i, m := range row.of {
			out[i] = model.LeafID{Member: m.member, Root: k}
		}
		return out
	}))
	placed := inc.IndexBy(d.p.Attachments, func(k model.Object, a fleet.Attachment) []model.Object {
		if !a.Leaf || a.Placed.Len() == 0 {
			return nil
		}
		return []model.Object{k}
	})
	l.editions = inc.Derive(g, "leaf.editions", d.edition, placed, gateways)
	d.t.Rollouts = inc.Derive(g, "leaf.Rollouts", d.rollout, l.editions)
	l.running = inc.IndexBy(d.t.Rollouts, func(_ model.Object, row Rollout) []model.Object {
		if row.State == "" {
			return nil
		}
		return []model.Object{row.Placement}
	})
	l.stairs = inc.Derive(g, "leaf.stairs", func(r *inc.Reader, k model.Object) (stair, bool) {
		row, ok := d.t.Rollouts.Get(r, k)
		out := stair{placement: row.Placement}
		for _, e := range row.Memory.Editions {
			out.steps = append(out.steps, model.Edition{ID: e.ID, Body: e.Body, Reach: e.Reach})
		}
		return out, ok && len(out.steps) > 0
	}, d.t.Rollouts)
	l.elders = inc.Derive(g, "leaf.elders", d.elder, inc.IndexBy(l.stairs, func(k model.Object, s stair) (out []elderID) {
		for _, e := range s.steps[:len(s.steps)-1] {
			if e.Body != "" {
				out = append(out, elderID{k, e.ID})
			}
		}
		return out
	}))
	return inc.Derive(g, "findings of rollouts", func(r *inc.Reader, k model.Object) (model.Findings, bool) {
		row, _ := d.t.Rollouts.Get(r, k)
		n := model.Collector{Object: k}
		if row.State == v1alpha1.ReasonStopped {
			n.Warning("", model.ReasonRolloutStopped, "%s", row.stopped(k))
		}
		return n.Row()
	}, inc.IndexBy(d.t.Rollouts, func(k model.Object, row Rollout) []model.Object {
		if row.State != v1alpha1.ReasonStopped {
			return nil
		}
		return []model.Object{k}
	}))
}

// wavesOf finds the waves of all members.
func (d *derivation) wavesOf(r *inc.Reader, k model.Object) (waves, bool) {
	spec, ok := d.p.In.Placements.Get(r, k)
	if !ok || spec.Rollout == nil {
		return waves{}, false
	}
	out := waves{pause: spec.Rollout.Pause, count: len(spec.Rollout.Waves) + 1}
	selectors := make([]labels.Selector, len(spec.Rollout.Waves))
	for i, w := range spec.Rollout.Waves {
		selectors[i] = labels.Nothing()
		if s, err := labels.Parse(w.Selector); err == nil && !w.Nobody {
			selectors[i] = s
		}
	}
	d.p.AllTraits.Each(r, model.All{}, func(m model.Member, t fleet.Traits) {
		at := slices.IndexFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(t.Labels)) })
		if at < 0 {
			at = len(selectors)
		}
		out.of = append(out.of, memberWave{m, at})
	})
	slices.SortFunc(out.of, func(a, b memberWave) int { return a.member.Compare(b.member) })
	return out, true
}

// rolloutOf is the Placement by which edits of a root go in waves.
func (d *derivation) rolloutOf(r *inc.Reader, k model.Object) (model.Object, bool) {
	var targets []model.Object
	if k.Kind == model.GatewayKind {
		targets = []model.Object{k, {Workspace: k.Workspace, Kind: "Namespace", Name: k.Namespace}}
	} else {
		a, _ := d.p.Attachments.Get(r, k)
		for _, placed := range a.Placed.List() {
			if placed != "" {
				targets = append(targets, model.Placed(placed).Object(k.Workspace))
			}
		}
	}
	for _, t := range targets {
		of, placed := d.p.PlacementOf(r, t)
		if _, rolls := d.rollouts.rolling.Get(r, of); placed && rolls {
			return of, true
		}
		if placed && k.Kind == model.GatewayKind {
			return model.Object{}, false // its own goes before that of its namespace
		}
	}
	return model.Object{}, false
}

// edition is what the leaves of a root say, if its edits go in waves: without what is
// decided for all members at once (who has which host, where routes attach, classes).
func (d *derivation) edition(r *inc.Reader, k model.Object) (edition, bool) {
	of, rolls := d.rolloutOf(r, k)
	if !rolls {
		return edition{}, false
	}
	out := edition{placement: of}
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !read {
		return out, true
	}
	out.word = manifest.Rollout
	if body, ok := editionBody(manifest.Body, allowedBy(d.specsOf(r, k))); ok {
		out.Edition = model.EditionOf(body)
	}
	return out, true
}

// editionBody is the part of a manifest that makes an edition; false: it can't be read.
func editionBody(manifest string, allows func(string) bool) (string, bool) {
	whole, err := ingest.WholeOf(manifest)
	if err != nil {
		return "", false
	}
	whole.Metadata.Only(allows)
	for _, name := range atOnce {
		delete(whole.Spec, name)
	}
	return whole.Text(), true
}

// atOnce are fields of specs that are decided for all members at once.
var atOnce = []string{"parentRefs", "gatewayClassName", "ingressClassName"}

// specsOf are what leaves look like of all classes that a root is of.
func (d *derivation) specsOf(r *inc.Reader, k model.Object) (out []*model.LeafSpec) {
	if k.Kind == model.GatewayKind {
		if row, ours := d.p.Gateways.Get(r, model.GatewayID{Workspace: k.Workspace, Namespace: k.Namespace, Name: k.Name}); ours && row.Config.Leaf != nil {
			out = append(out, row.Config.Leaf)
		}
		return out
	}
	a, _ := d.p.Attachments.Get(r, k)
	for _, c := range a.Classes.List() {
		if leafy, is := d.p.Leafy.Get(r, c); is && leafy.Spec != nil {
			out = append(out, leafy.Spec)
		}
	}
	return out
}

// rollout is how an edit of a root stands. While none is under way nothing of members is
// read.
func (d *derivation) rollout(r *inc.Reader, k model.Object) (Rollout, bool) {
	now, ok := d.rollouts.editions.Get(r, k)
	if !ok {
		return Rollout{}, false
	}
	was, had := d.p.In.Rollouts.Get(r, k)
	c, cast := d.castAt(r, k)
	if now.ID == "" || !cast { // it is not known what it says, or nobody serves it for now
		return Rollout{Memory: was, Placement: now.placement}, had
	}
	if had && was.Rests() && was.Last().ID == now.ID {
		return Rollout{Memory: was, Placement: now.placement}, true
	}
	of, _ := d.rollouts.waves.Get(r, now.placement)
	x := &rolling{was: was, had: had, last: now.Edition, word: now.word, waves: of.count, instant: of.pause == 0}
	for _, m := range c.members {
		x.members = append(x.members, d.factsOf(r, model.LeafID{Member: m, Root: k}, of.wave(m)))
	}
	unread := map[int]bool{}
	d.leaves.missing.Each(r, model.All{}, func(m model.Member, row fleet.Missing) {
		if _, has := slices.BinarySearch(c.members, m); !has && !row.Overdue {
			unread[of.wave(m)] = true
		}
	})
	x.unread = func(w int) bool { return unread[w] }
	out := x.step()
	out.Placement, out.Pause = now.placement, of.pause
	return out, true
}

// factsOf is what a member says of a leaf, and what is seen of it.
func (d *derivation) factsOf(r *inc.Reader, id model.LeafID, wave int) facts {
	out := facts{member: id.Member, wave: wave, of: map[string]fact{}}
	source, _ := d.p.In.Sources.Get(r, id.Member)
	out.reached = source.Connected
	s, told := d.p.In.LeafStates.Get(r, id)
	if !told {
		return out
	}
	out.there, out.edition = s.There, s.Edition
	out.refuses = s.Reason == model.LeafRefused || s.Reason == model.LeafNotServed
	out.foreign = s.Reason == model.LeafForeign || s.Reason == model.LeafOfAnotherHub
	if !s.There {
		if out.refuses {
			out.of[taken] = fact{model.Down, s.Message}
		}
		return out
	}
	out.of[taken], out.of[observed] = fact{health: model.Up}, fact{health: model.Up}
	if out.refuses {
		out.of[taken] = fact{model.Down, s.Message}
	}
	if s.Behind {
		out.of[observed] = fact{health: model.Unknown}
	}
	report := s.Said.Report()
	out.conditions("", report.Conditions)
	for _, l := range report.Listeners {
		out.conditions(" of listener "+l.Name, l.Conditions)
	}
	for _, p := range report.Parents {
		if p.Parent != nil {
			out.conditions(strings.TrimSuffix(fmt.Sprintf(" of %s %s/%s/%s", p.Parent.Kind, p.Parent.Namespace, p.Parent.Name, p.Parent.Section), "/"), p.Conditions)
		}
	}
	if id.Root.Kind == ingressKind || id.Root.Kind == model.GatewayKind {
		out.of[addresses] = fact{model.Down, "its status names none that counts"}
		if len(d.counted(r, id.Member, s)) > 0 {
			out.of[addresses] = fact{health: model.Up}
		}
	}
	d.probed(r, id, &out)
	return out
}

// conditions are facts by what they are of.
func (f *facts) conditions(of string, all []model.LeafCondition) {
	for _, c := range all {
		now := fact{health: model.Unknown}
		switch {
		case c.Status == model.Up.String():
			now.health = model.Up
		case c.Status == model.Down.String() && c.Reason != v1alpha1.ReasonPending:
			now = fact{model.Down, strings.Trim(c.Reason+": "+c.Message, ": ")}
		}
		f.of[c.Type+of] = now
	}
}

// probed is what our probes see of the sites of a leaf.
func (d *derivation) probed(r *inc.Reader, id model.LeafID, f *facts) {
	site, _ := d.p.LeafSites.Get(r, id)
	for _, at := range site.All() {
		where, is := at.Site.Site()
		if !is {
			continue
		}
		if _, noted := f.of[probes]; !noted {
			f.of[probes] = fact{health: model.Up}
		}
		if d.rollouts.fails != nil && d.rollouts.fails(r, at.Site) {
			f.of[probes] = fact{model.Down, "they fail at " + strings.Join(where.Addresses.List(), ", ")}
		}
	}
}

// editionIn is what a member's leaf is made of, given what its root's are: of which
// edition, and whether an older version that is there stays.
func (d *derivation) editionIn(r *inc.Reader, k model.LeafID, c *cast) (of *cast, edition string, keep bool) {
	s, rolls := d.rollouts.stairs.Get(r, k.Root)
	if !rolls {
		return c, "", false
	}
	last := len(s.steps) - 1
	if last == 0 {
		return c, s.steps[0].ID, false
	}
	wave, _ := d.rollouts.waveIn.Get(r, model.LeafID{Member: k.Member, Root: s.placement})
	at := model.Rollout{Editions: s.steps}.At(wave.V)
	if at == 0 && s.steps[0].Body == "" {
		return c, s.steps[last].ID, true
	}
	for ; at < last; at++ {
		if elder, has := d.rollouts.elders.Get(r, elderID{k.Root, s.steps[at].ID}); has && elder.body != "" && (elder.via == nil || slices.Contains(elder.members, k.Member)) {
			return elder, s.steps[at].ID, false
		}
	}
	return c, s.steps[last].ID, false
}

// stopped tells why an edit stopped, and what its owner may do.
func (a Rollout) stopped(k model.Object) string {
	last := a.Memory.Last()
	back := ""
	if a.returnable() {
		back = fmt.Sprintf(", or go back with %[1]s: back=%[2]s or by undoing the edit", v1alpha1.AnnotationRollout, last.Token())
	}
	return fmt.Sprintf("the edit %s stopped in wave %d of %d, by %s. Edit %s anew, have it go on with the annotation %s: resume=%s%s",
		last.ID, last.Stopped.Wave, a.Memory.Waves, a.why(), k, v1alpha1.AnnotationRollout, last.Token(), back)
}

// returnable reports whether it is known what was before.
func (a Rollout) returnable() bool { return a.Memory.Editions[0].Body != "" }

// why tells why an edit is where it is.
func (a Rollout) why() string {
	switch stop := a.Memory.Last().Stopped; {
	case a.State == v1alpha1.ReasonStopped:
		return fmt.Sprintf("member %s: %s", stop.Member, stop.Why)
	case a.State == v1alpha1.ReasonBack:
		return "members have what was before, as its owner wants"
	case a.Nobody:
		return "no member of the wave that is reached has it"
	case len(a.Waits) > 0:
		var all []string
		for _, w := range a.Waits {
			all = append(all, fmt.Sprintf("%s: %s", w.Member, w.Why))
		}
		return "it waits for " + few(all)
	case a.Ready:
		return "all is well so far"
	}
	return ""
}

// text says how an edit stands.
func (a Rollout) text(k model.Object) string {
	last := a.Memory.Last()
	switch a.State {
	case v1alpha1.ReasonStopped:
		return k.String() + ": " + a.stopped(k)
	case v1alpha1.ReasonBack:
		return fmt.Sprintf("%s: members have what was before the edit %s, as its owner wants", k, last.ID)
	}
	out := fmt.Sprintf("%s: edit %s, wave %d of %d: %d of %d members", k, last.Token(), a.Wave, a.Memory.Waves, a.Have, a.Of)
	if why := a.why(); why != "" {
		out += "; " + why
	}
	return out
}

// PlacedEdit is how an edit of an object stands, as its Placement says it.
type PlacedEdit struct {
	Of          model.Object
	Token       string
	Reason      string // of RolledOut
	Wave, Waves int    // the last one that has it, from 1
	Having      int    // members that have it, of Members
	Members     int
	Returnable  bool // it is known what was before
	Message     string
}

// edit is what the Placement says of an edit.
func (a Rollout) edit(k model.Object) PlacedEdit {
	return PlacedEdit{
		Of: k, Token: a.Memory.Last().Token(), Reason: a.State, Wave: a.Wave, Waves: a.Memory.Waves,
		Having: a.Have, Members: a.Of, Returnable: a.returnable(), Message: a.why(),
	}
}

// Standings are those of edits that not all members have, the worst first.
var Standings = []string{v1alpha1.ReasonStopped, v1alpha1.ReasonBack, v1alpha1.ReasonInWave}

// rolledOut tells whether members have what roots say that go by a Placement, and which
// edits they do not have.
func (d *derivation) rolledOut(r *inc.Reader, k model.Object) (Condition, inc.List[PlacedEdit]) {
	out := Condition{Type: v1alpha1.ConditionRolledOut, Status: model.Up, Reason: v1alpha1.ReasonRolledOut, Message: "no edit is on its way"}
	roots, rows := d.rollouts.running.Keys(r, k), d.rollouts.running.Get(r, k)
	var said []string
	var edits inc.List[PlacedEdit]
	for _, state := range Standings {
		for i, row := range rows {
			if row.State != state {
				continue
			}
			if out.Status == model.Up {
				out.Status, out.Reason = model.Down, state
			}
			if len(said) < mostVoices {
				said = append(said, row.text(roots[i]))
			}
			if len(edits) < v1alpha1.MaxPlacementEdits {
				edits = append(edits, row.edit(roots[i]))
			}
		}
	}
	if len(said) > 0 {
		out.Message = strings.Join(said, "; ")
	}
	if more := len(rows) - len(said); more > 0 {
		out.Message += fmt.Sprintf("; and %d more", more)
	}
	return out, edits
}

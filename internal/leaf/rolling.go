package leaf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// How an edit goes on is a function of what is remembered (model.Rollout), of what the
// root says, and of what members say now. What it gives is remembered in turn, and given
// that, it gives the same again: so it does not matter how often it is asked.

// What a member may lose by an edit, beside conditions, which are called by their types
// and of what they are.
const (
	taken     = "the leaf"      // it does not refuse what is ours there
	observed  = "its status"    // controllers have looked at what is there
	addresses = "its addresses" // that count
	probes    = "our probes"    // of all its sites, as far as they look
)

// fact is how one of these is now. No fact: nothing is said of it.
type fact struct {
	health model.Health
	words  string // why it is Down
}

// facts is what a member says of a leaf, and what is seen of it.
type facts struct {
	member  model.Member
	wave    int    // from 0
	reached bool   // its API answers
	refuses bool   // it does not take what is wanted
	foreign bool   // an object of the name is there that is not ours
	there   bool   // it has one of ours
	edition string // that it had last
	of      map[string]fact
}

// has reports whether the member has an edition.
func (f *facts) has(e *model.Edition) bool { return f.there && f.edition == e.ID }

// away reports whether nobody waits for a member: it is not reached, or it can't have the
// leaf whatever that says.
func (f *facts) away(b model.Basis) bool {
	return !f.reached || f.foreign || f.refuses && !b.Fine.Has(taken)
}

// fine is what the member has, sorted.
func (f *facts) fine() []string {
	var out []string
	for name, of := range f.of {
		if of.health == model.Up {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// lost is what of these the member lost, in order, and what it does not say yet.
func (f *facts) lost(of []string) (lost, silent []string) {
	for _, name := range of {
		switch now, said := f.of[name]; {
		case said && now.health == model.Down:
			lost = append(lost, name)
		case said && now.health == model.Unknown:
			silent = append(silent, name)
		}
	}
	return lost, silent
}

// rolling is what an edit depends on.
type rolling struct {
	was     model.Rollout
	had     bool // something is remembered
	last    model.Edition
	word    string // of the owner
	waves   int
	instant bool // there is no pause
	members []facts
	unread  func(wave int) bool // somebody may be in it of whom nobody knows
}

// step is how the edit stands.
func (x *rolling) step() Rollout {
	m := x.begin()
	if m.Rests() || x.known(m) {
		return x.rest(m)
	}
	if x.heed(&m) {
		return x.row(m, v1alpha1.ReasonBack)
	}
	for {
		if m.Last().Reach == 0 && !x.advance(&m) {
			if m.Editions[0].Body != "" {
				return x.rest(m)
			}
			return x.row(m, "") // nobody has a leaf, and nobody knows whether somebody had
		}
		x.base(&m)
		x.judge(&m)
		out := x.row(m, v1alpha1.ReasonInWave)
		switch {
		case m.Last().Stopped != (model.Stop{}):
			m.Since, m.Over = 0, false
			return x.row(m, v1alpha1.ReasonStopped)
		case len(out.Waits) > 0 || out.Nobody:
			m.Since, m.Over = 0, false
			out.Memory = m
			return out
		case !m.Over && !x.instant:
			out.Ready = true
			return out
		}
		m.Since, m.Over = 0, false
		if !x.advance(&m) {
			return x.rest(m)
		}
	}
}

// begin is what is remembered, with the edition that the root is now.
func (x *rolling) begin() model.Rollout {
	m := x.was
	m.Editions, m.Bases = slices.Clone(m.Editions), slices.Clone(m.Bases)
	switch {
	case !x.had || len(m.Editions) == 0:
		m = model.Rollout{Editions: []model.Edition{{}, x.last}, Waves: x.waves}
	case m.Last().ID != x.last.ID:
		if i := slices.IndexFunc(m.Editions, func(e model.Edition) bool { return e.ID == x.last.ID }); i >= 0 {
			m.Editions = m.Editions[:i+1] // it goes back: who has a later one has this
		} else {
			m.Editions = append(m.Editions, x.last)
		}
		m.Since, m.Over, m.Back = 0, false, false
		thin(&m)
		x.rebase(&m)
	}
	if m.Waves != x.waves {
		x.resize(&m)
	}
	return m
}

// resize has the waves be so many. What has not reached all does not because of it.
func (x *rolling) resize(m *model.Rollout) {
	for i := 1; i < len(m.Editions); i++ {
		if at := &m.Editions[i]; at.Reach >= m.Waves {
			at.Reach = x.waves
		} else {
			at.Reach = min(at.Reach, x.waves-1)
		}
	}
	m.Waves, m.Since, m.Over = x.waves, 0, false
	thin(m)
}

// thin forgets editions that no member should have any more.
func thin(m *model.Rollout) {
	kept := m.Editions[:1]
	for i := 1; i < len(m.Editions); i++ {
		reach, last := m.Editions[i].Reach, i == len(m.Editions)-1
		covered := slices.ContainsFunc(m.Editions[i+1:], func(e model.Edition) bool { return e.Reach >= reach })
		if last || reach > 0 && !covered {
			kept = append(kept, m.Editions[i])
		}
	}
	m.Editions = kept
}

// rest is what is remembered when all have the last edition.
func (x *rolling) rest(m model.Rollout) Rollout {
	last := *m.Last()
	return Rollout{Memory: model.Rollout{Editions: []model.Edition{{ID: last.ID, Body: last.Body}}, Waves: x.waves}}
}

// known reports whether all members turn out to have the last edition, where nobody
// remembers what they had.
func (x *rolling) known(m model.Rollout) bool {
	some := false
	for i := range x.members {
		switch f := &x.members[i]; {
		case f.has(m.Last()):
			some = true
		case f.there || !f.refuses && !f.foreign:
			return false
		}
	}
	for w := range x.waves {
		if x.unread(w) {
			return false
		}
	}
	return some && m.Editions[0].Body == ""
}

// heed does what the owner wants, and reports whether that is to go back.
func (x *rolling) heed(m *model.Rollout) (back bool) {
	verb, token, _ := strings.Cut(x.word, "=")
	last := m.Last()
	meant := token == last.Token()
	if verb == "back" && meant && m.Editions[0].Body != "" {
		now := *last
		now.Reach, now.Stopped = 0, model.Stop{}
		m.Editions = []model.Edition{m.Editions[0], now}
		m.Since, m.Over, m.Back = 0, false, true
		return true
	}
	if m.Back {
		m.Back = false // it begins anew
		x.rebase(m)
	}
	if verb == "resume" && meant {
		last.Stopped = model.Stop{}
		last.Stops++
		m.Since, m.Over, m.Bases = 0, false, nil // what is lost is lost
	}
	return false
}

// advance has the next wave with members have the last edition; false: there is none.
func (x *rolling) advance(m *model.Rollout) bool {
	for w := m.Last().Reach; w < x.waves; w++ {
		if x.unread(w) || slices.ContainsFunc(x.members, func(f facts) bool { return f.wave == w }) {
			m.Last().Reach = w + 1
			thin(m)
			return true
		}
	}
	return false
}

// rebase notes what members had before, and do not have now that an edition comes: it is
// waited for, and no reason to stop this one.
func (x *rolling) rebase(m *model.Rollout) {
	for i := range m.Bases {
		b := &m.Bases[i]
		at := slices.IndexFunc(x.members, func(f facts) bool { return f.member == b.Member })
		if at < 0 {
			continue
		}
		fine := x.members[at].fine()
		lost := slices.DeleteFunc(slices.Concat(b.Fine.List(), b.Lost.List()), func(s string) bool { return slices.Contains(fine, s) })
		slices.Sort(lost)
		b.Fine, b.Lost = model.TextsOf(fine), model.TextsOf(slices.Compact(lost))
	}
}

// base notes how members are that the last edition has just reached, and forgets those
// that have no leaf.
func (x *rolling) base(m *model.Rollout) {
	var out []model.Basis
	for i := range x.members {
		f := &x.members[i]
		if at, noted := m.Basis(f.member); noted {
			out = append(out, m.Bases[at])
		} else if f.wave < m.Last().Reach {
			out = append(out, model.Basis{Member: f.member, Fine: model.TextsOf(f.fine())})
		}
	}
	slices.SortFunc(out, func(a, b model.Basis) int { return a.Member.Compare(b.Member) })
	m.Bases = out
}

// judge stops the last edition if a member that has it lost something by it, or refuses it.
func (x *rolling) judge(m *model.Rollout) {
	last := m.Last()
	for i := range x.members {
		f := &x.members[i]
		at, noted := m.Basis(f.member)
		if !noted || f.wave >= last.Reach || last.Stopped != (model.Stop{}) {
			continue
		}
		b := &m.Bases[at]
		names := []string{taken}
		if looked := f.of[observed].health == model.Up || !b.Fine.Has(observed); f.has(last) && looked {
			names = b.Fine.List()
			regain(b, f)
		}
		if !b.Fine.Has(taken) {
			names = slices.DeleteFunc(names, func(s string) bool { return s == taken })
		}
		if lost, _ := f.lost(names); len(lost) > 0 {
			last.Stopped = model.Stop{Member: f.member, Why: stopWords(lost[0], f.of[lost[0]].words), Wave: f.wave + 1}
		}
	}
}

// stopWords say what was lost.
func stopWords(what, words string) string {
	if what == taken {
		return strings.TrimSuffix("it refuses the leaf: "+words, ": ")
	}
	return strings.TrimSuffix("it lost "+what+": "+words, ": ")
}

// regain notes what a member has again that it had lost before.
func regain(b *model.Basis, f *facts) {
	if b.Lost.Len() == 0 {
		return
	}
	fine, lost := b.Fine.List(), []string(nil)
	for _, name := range b.Lost.List() {
		if f.of[name].health == model.Up {
			fine = append(fine, name)
		} else {
			lost = append(lost, name)
		}
	}
	slices.Sort(fine)
	b.Fine, b.Lost = model.TextsOf(fine), model.TextsOf(lost)
}

// row says how the edit stands.
func (x *rolling) row(m model.Rollout, state string) Rollout {
	last := m.Last()
	out := Rollout{Memory: m, State: state, Wave: last.Reach, Of: len(x.members)}
	inLast, some := false, false
	for i := range x.members {
		f := &x.members[i]
		has := f.has(last)
		if has {
			out.Have++
		}
		if f.wave >= last.Reach {
			continue
		}
		if f.wave == last.Reach-1 {
			inLast, some = true, some || has
		}
		var b model.Basis
		if at, noted := m.Basis(f.member); noted {
			b = m.Bases[at]
		}
		if why := x.waits(f, b, last); why != "" {
			out.Waits = append(out.Waits, Wait{f.member, why})
		}
	}
	out.Nobody = last.Reach > 0 && inLast && !some || last.Reach > 0 && !inLast && x.unread(last.Reach-1)
	slices.SortFunc(out.Waits, func(a, b Wait) int { return cmp.Compare(a.Member, b.Member) })
	return out
}

// waits is for what of a member the edit waits; empty: for nothing.
func (x *rolling) waits(f *facts, b model.Basis, last *model.Edition) string {
	_, silent := f.lost(b.Fine.List())
	switch has := f.has(last); {
	case f.away(b):
		return ""
	case !has:
		return "the leaf is not there yet"
	case b.Lost.Len() > 0:
		return "it does not have " + b.Lost.List()[0] + " again"
	case len(silent) > 0:
		return silent[0] + " is not told yet"
	}
	return ""
}

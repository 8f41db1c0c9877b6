package leaf_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// rolloutCommands play shells, owners and members to edits that go in waves.
var rolloutCommands = map[string]func(*fleettest.World, *leaf.Tables, []string) (string, error){
	"roll": roll, "apply": apply, "owner": owner, "say": says, "blank": blank, "refuse": refuse,
}

// rolloutText is how an edit stands: editions and how far they reach, from the oldest.
func rolloutText(row leaf.Rollout) string {
	var out []string
	for _, e := range row.Memory.Editions {
		text := e.Token()
		if e.ID == "" {
			text = "unknown"
		}
		if e.Reach > 0 {
			text += fmt.Sprint(":", e.Reach)
		}
		out = append(out, text)
	}
	if row.State == "" {
		return strings.Join(append(out, "rests"), " ")
	}
	out = append(out, row.State, fmt.Sprintf("wave %d of %d, %d of %d members", row.Wave, row.Memory.Waves, row.Have, row.Of))
	if row.Ready {
		out = append(out, "ready")
	}
	if row.Nobody {
		out = append(out, "nobody")
	}
	for _, w := range row.Waits {
		out = append(out, fmt.Sprintf("(%s: %s)", w.Member, w.Why))
	}
	if s := row.Memory.Last().Stopped; s != (model.Stop{}) {
		out = append(out, fmt.Sprintf("stopped by %s in wave %d: %s", s.Member, s.Wave, s.Why))
	}
	return strings.Join(out, " ")
}

// roll has the program know how edits stand, as the shell does; over: and that pauses are;
// none: nothing is remembered.
func roll(w *fleettest.World, t *leaf.Tables, words []string) (string, error) {
	a := fleettest.Parse(words, "over", "none")
	carry(w, t)
	if a.Has("over") || a.Has("none") {
		w.Stage(func(tx *inc.Tx) { remember(tx, w.Program.In.Rollouts, t, a.Has("over"), a.Has("none")) })
		carry(w, t)
	}
	return "", a.Err
}

// carry feeds back what is to be remembered, until that is so.
func carry(w *fleettest.World, t *leaf.Tables) {
	w.Commit()
	for range 3 {
		w.Stage(func(tx *inc.Tx) { remember(tx, w.Program.In.Rollouts, t, false, false) })
		w.Commit()
	}
}

func remember(tx *inc.Tx, in *inc.Table[model.Object, model.Rollout], t *leaf.Tables, over, none bool) {
	for _, k := range in.Keys() {
		if _, is := t.Rollouts.Get(nil, k); !is || none {
			in.Delete(tx, k)
		}
	}
	for _, k := range t.Rollouts.Keys() {
		row, _ := t.Rollouts.Get(nil, k)
		now := row.At(1)
		if over && row.Memory.Since != 0 {
			now = now.Ended()
		}
		if !none {
			in.Set(tx, k, now)
		}
	}
}

// apply has members have what is wanted there, as their syncers would: all, or those that
// are named. What is said of leaves stays.
func apply(w *fleettest.World, t *leaf.Tables, words []string) (string, error) {
	a := fleettest.Parse(words, "at")
	carry(w, t)
	members := a.Rest(0)
	in := w.Program.In.LeafStates
	w.Stage(func(tx *inc.Tx) {
		for _, id := range t.Leaves.Keys() {
			if len(members) > 0 && !slices.Contains(members, string(id.Member)) {
				continue
			}
			row, _ := t.Leaves.Get(nil, id)
			in.Set(tx, id, applied(in, id, row, model.TextsOf(a.List("at"))))
		}
		for _, id := range in.Keys() {
			if _, wanted := t.Leaves.Get(nil, id); !wanted {
				in.Delete(tx, id)
			}
		}
	})
	carry(w, t)
	return "", a.Err
}

// applied is the state of a leaf that its member has as it is wanted.
func applied(in *inc.Table[model.LeafID, model.LeafState], id model.LeafID, row leaf.Leaf, at model.Texts) model.LeafState {
	s, _ := in.Get(nil, id)
	if at.Len() > 0 {
		s.Addresses = at
	}
	if row.Keep && s.There && s.Edition != row.Edition {
		s.Reason = "Older"
		return s
	}
	s.Reason, s.Message, s.There, s.Edition = "Applied", "", true, row.Edition
	return s
}

// owner says of the edit of an Ingress what is to become of it: "resume" or "back", with
// its token, or with another one that is given; nothing: no more.
func owner(w *fleettest.World, t *leaf.Tables, words []string) (string, error) {
	carry(w, t)
	namespace, name, _ := strings.Cut(words[0], "/")
	k := model.Object{Kind: "Ingress", Namespace: namespace, Name: name}
	row, _ := t.Rollouts.Get(nil, k)
	in := w.Program.In.Manifests
	w.Stage(func(tx *inc.Tx) {
		m, _ := in.Get(nil, k)
		switch m.Rollout = ""; len(words) {
		case 2:
			m.Rollout = words[1] + "=" + row.Memory.Last().Token()
		case 3:
			m.Rollout = words[1] + "=" + words[2]
		}
		in.Set(tx, k, m)
	})
	carry(w, t)
	return "", nil
}

// edit changes what a member said of the leaf of an Ingress.
func edit(w *fleettest.World, t *leaf.Tables, words []string, f func(s *model.LeafState)) {
	carry(w, t)
	namespace, name, _ := strings.Cut(words[1], "/")
	id := model.LeafID{Member: model.Member(words[0]), Root: model.Object{Kind: "Ingress", Namespace: namespace, Name: name}}
	in := w.Program.In.LeafStates
	w.Stage(func(tx *inc.Tx) {
		s, _ := in.Get(nil, id)
		f(&s)
		in.Set(tx, id, s)
	})
	carry(w, t)
}

// says has what controllers say of a leaf be so: "TYPE:STATUS:REASON", and whether that is
// of an older version.
func says(w *fleettest.World, t *leaf.Tables, words []string) (string, error) {
	edit(w, t, words, func(s *model.LeafState) {
		s.Said, s.Behind = "", len(words) > 3
		if len(words) > 2 {
			c := strings.Split(words[2], ":")
			s.Said = model.LeafReport{Conditions: []model.LeafCondition{{Type: c[0], Status: c[1], Reason: c[2]}}}.Text()
		}
	})
	return "", nil
}

// blank has a leaf name no address, and refuse has its member refuse it.
func blank(w *fleettest.World, t *leaf.Tables, words []string) (string, error) {
	edit(w, t, words, func(s *model.LeafState) { s.Addresses = model.Texts{} })
	return "", nil
}

func refuse(w *fleettest.World, t *leaf.Tables, words []string) (string, error) {
	edit(w, t, words, func(s *model.LeafState) { s.Reason, s.Message = model.LeafRefused, "exceeded quota" })
	return "", nil
}

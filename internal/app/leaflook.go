package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// A checkpoint that is lost may have known of leaves of kinds of which no class asks for
// any now. So each member is asked once, when it is first reached, whether it has one of
// a kind that nobody looks at; what is found is looked at from then on, and goes as
// anything that is not wanted does.

// lookAgain is how long a member is left alone that did not answer.
const lookAgain = time.Minute

// searched names a kind of which a member was asked for objects of a hub.
type searched struct {
	member    model.Member
	hub, kind string
}

// lookFor asks a member for kinds that a run does not have, until ctx ends or all is known.
func (l *leaves) lookFor(ctx context.Context, run *leafRun, client dynamic.Interface) {
	left := l.unlooked(run)
	for {
		left = slices.DeleteFunc(left, func(kind string) bool {
			marked, err := syncer.Marked(ctx, client, run.hub, leafKinds[kind])
			if err == nil {
				l.lookedAt(searched{run.member, run.hub, kind}, marked)
			}
			return err == nil
		})
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
	}
}

// unlooked are the kinds that a run does not have, and of which its member was not asked.
func (l *leaves) unlooked(run *leafRun) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(leafKinds)), func(kind string) bool {
		_, known := l.looked[searched{run.member, run.hub, kind}]
		return known || slices.Contains(run.kinds, kind)
	})
}

// lookedAt notes what was found; something is news.
func (l *leaves) lookedAt(k searched, marked bool) {
	note := func() { l.looked[k] = marked }
	if marked {
		l.connected(note)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	note()
}

// foundIn are the kinds of which something was found in a member.
func (l *leaves) foundIn(m model.Member) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, marked := range l.looked {
		if marked && k.member == m && k.hub == l.of {
			out = append(out, k.kind)
		}
	}
	return out
}

// unlook forgets a member.
func (l *leaves) unlook(m model.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.looked, func(k searched, _ bool) bool { return k.member == m })
}

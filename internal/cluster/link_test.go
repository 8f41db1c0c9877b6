package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestJudge tells a story of probes, one a second, and what is said after
// each. "." means that nothing new was said.
func TestJudge(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	answers := map[byte]error{
		'+': nil, 'r': refused, 't': context.DeadlineExceeded, 'u': apierrors.NewUnauthorized("no"), 'x': errors.New("anything at all"),
	}
	for _, c := range []struct{ story, probes, said string }{
		{"well", "++++", "Connected . . ."},
		{"refused from the start", "rrr", "Unreachable . ."},
		{"a short absence is not told", "+rrrrrr+", "Connected . . . . . . ."},
		{"a long one is, once, and its end", "+rrrrrrrrrr++", "Connected . . . . . . . Unreachable . . Connected ."},
		{"a cause that alternates is not repeated", "rtrtrtrt", "Unreachable . . . . . . ."},
		{"a cause that stays is", "rttttt", "Unreachable . . Unreachable . ."},
		{"another reason is told at once", "rru", "Unreachable . Unauthorized"},
		{"rotation: bad credentials are patient too", "+uuuuuuuu", "Connected . . . . . . . Unauthorized"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := inc.New()
			m := newMember("eu-1", inputs(g), NewMailbox(), slog.New(slog.DiscardHandler), usual)
			l := &link{member: m, api: &api{config: &rest.Config{Host: "https://eu-1.example:6443"}}, lastGood: time.Now(), read: func() {}}
			var said []string
			for _, p := range []byte(c.probes) {
				before, _ := m.state()
				l.probed, l.probeErr = answers[p] == nil, answers[p]
				l.judge(true)
				if after, _ := m.state(); after != before {
					said = append(said, after.Reason)
					if p != '+' && (!strings.Contains(after.Message, "eu-1.example:6443") || strings.Contains(after.Message, "anything")) {
						t.Errorf("%s: message %q", c.story, after.Message)
					}
				} else {
					said = append(said, ".")
				}
				time.Sleep(time.Second) // in the bubble
			}
			if got := strings.Join(said, " "); got != c.said {
				t.Errorf("%s: said %q, want %q", c.story, got, c.said)
			}
		})
	}
}

// TestStaleSince: rows are old since the member was last heard, not since it
// was noticed; without a first list there is nothing to be old.
func TestStaleSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inc.New()
		in, mail := inputs(g), NewMailbox()
		m := newMember("eu-1", in, mail, slog.New(slog.DiscardHandler), usual)
		source := func() *model.Source {
			g.Commit(func(tx *inc.Tx) {
				for _, w := range mail.Take() {
					w(tx)
				}
			})
			if s, ok := in.Sources.Get(nil, "eu-1"); ok {
				return &s
			}
			return nil
		}
		m.tell(model.Contact{Reason: v1alpha1.ReasonUnreachable})
		if s := source(); s != nil {
			t.Errorf("a member that was never read: %+v", s)
		}
		heard := time.Now()
		m.tell(model.Contact{Reason: v1alpha1.ReasonConnected})
		if s := source(); s == nil || *s != (model.Source{Connected: true}) {
			t.Errorf("connected: %+v", s)
		}
		time.Sleep(time.Minute)
		m.tell(model.Contact{Reason: v1alpha1.ReasonUnreachable})
		time.Sleep(time.Minute)
		m.tell(model.Contact{Reason: v1alpha1.ReasonUnauthorized})
		if s := source(); s == nil || *s != (model.Source{StaleSince: heard.Unix()}) {
			t.Errorf("away: %+v, heard %d", s, heard.Unix())
		}
		m.leave()
		m.tell(model.Contact{Reason: v1alpha1.ReasonConnected})
		if s := source(); s != nil {
			t.Errorf("left: %+v", s)
		}
	})
}

// TestCauses: failures of a kind read the same, others differ, and none quotes
// what a server sent.
func TestCauses(t *testing.T) {
	seen := map[string]error{}
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, context.DeadlineExceeded, &net.DNSError{Name: "x"}, errors.New("secret text"),
		apierrors.NewInternalError(errors.New("secret text")),
	} {
		text := cause(fmt.Errorf("wrapped: %w", err))
		if strings.Contains(text, "secret") || seen[text] != nil {
			t.Errorf("%v: %q, as %v", err, text, seen[text])
		}
		seen[text] = err
	}
	if reason, _ := trouble("h", apierrors.NewForbidden(v1alpha1.Resource("x"), "y", nil)); reason != v1alpha1.ReasonUnauthorized {
		t.Errorf("forbidden is %s", reason)
	}
}

// TestFirstListIsNoticed: however soon a list comes, the link judges again.
func TestFirstListIsNoticed(t *testing.T) {
	m := newMember("eu-1", inputs(inc.New()), NewMailbox(), slog.New(slog.DiscardHandler), usual)
	l, err := linkOf(m)
	if err != nil {
		t.Fatal(err)
	}
	defer l.api.close()
	for _, s := range []*store{m.services, m.slices} {
		if err := s.all().Replace(nil, "1"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.wake:
		default:
			t.Error("the link sleeps")
		}
	}
}

// TestBeats: members of a small fleet are asked at the same moments, whenever
// each answered; in a large one few are. None waits much longer than a period.
func TestBeats(t *testing.T) {
	const members = 200
	start := time.Now().Round(0)
	at := map[time.Duration]int{} // in a period
	for i := range members {
		took := time.Duration(i) * usual.timeout / members
		wait := usual.next(start.Add(took), i/together)
		if longest := usual.every * 4 / 3; wait < usual.every/3 || wait > longest {
			t.Errorf("member %d waits for %v", i, wait)
		}
		beat := start.Add(took + wait)
		if second := beat.Add(took); !second.Add(usual.next(second, i/together)).Equal(beat.Add(usual.every)) {
			t.Errorf("member %d is not asked every %v", i, usual.every)
		}
		at[beat.Sub(beat.Truncate(usual.every))]++
	}
	if want := (members + together - 1) / together; len(at) != want {
		t.Errorf("%d beats in a period, want %d", len(at), want)
	}
	for moment, n := range at {
		if n > together {
			t.Errorf("%d members are asked at %v", n, moment)
		}
	}
}

package app

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/ui"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/hds"
)

// TestAStuckLoopIsNotHealthy: and says so once. Turns that are short, or many, or
// none at all are well.
func TestAStuckLoopIsNotHealthy(t *testing.T) {
	var log bytes.Buffer
	p, first := &pulse{}, false
	w := &watchdog{loop: p, first: func() bool { return first }, log: slog.New(slog.NewTextHandler(&log, nil))}
	health := func() (int, string) {
		t.Helper()
		answer := httptest.NewRecorder()
		ui.Handler(ui.Source{Alive: w.alive}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/healthz", nil))
		return answer.Code, answer.Body.String()
	}
	looks := func(n int) {
		for range n {
			w.look()
		}
	}
	limit := int(standsFor / beat)
	looks(3 * limit) // nothing to do
	for range 3 * limit {
		p.beats(func() { looks(1) })
	}
	if code, text := health(); code != 200 {
		t.Fatalf("while it turns: %d %s", code, text)
	}
	p.beats(func() {
		looks(limit)
		if code, _ := health(); code != 200 || log.Len() > 0 {
			t.Errorf("too early: %d, log %q", code, log.String())
		}
		looks(2)
		if code, text := health(); code != 503 || !strings.Contains(text, "one turn for 1") {
			t.Errorf("while it is stuck: %d %s", code, text)
		}
		looks(limit)
		first = true
		if code, _ := health(); code != 200 {
			t.Errorf("while the first lists are computed: %d", code)
		}
		first = false
	})
	looks(1)
	if code, _ := health(); code != 200 {
		t.Errorf("when it goes on: %d", code)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("told %d times: %s", n, log.String())
	}
}

// jumping is a clock that goes as told, looked at once a beat as the watchdog does.
type jumping struct {
	real time.Time
	steady
}

func newJumping() *jumping {
	j := &jumping{real: time.Unix(1_000_000, 0)}
	j.steady.real = func() time.Time { return j.real }
	j.now()
	return j
}

func (j *jumping) lives(d time.Duration) time.Time {
	for end := j.real.Add(d); j.real.Before(end); {
		j.real = j.real.Add(min(beat, end.Sub(j.real)))
		j.now()
	}
	return j.now()
}

func (j *jumping) stops(d time.Duration) time.Time {
	j.real = j.real.Add(d)
	return j.now()
}

// TestAStopIsNoTime: and the clock has it back later, without a jump.
func TestAStopIsNoTime(t *testing.T) {
	j := newJumping()
	start := j.real
	at := func(what string, got time.Time, want time.Duration) {
		t.Helper()
		if d := got.Sub(start); d != want {
			t.Errorf("%s: %v, want %v", what, d, want)
		}
	}
	at("as it goes", j.lives(5*time.Second), 5*time.Second)
	at("a little late", j.stops(missing), 5*time.Second+missing)
	before := 5*time.Second + missing
	at("stopped for ten seconds", j.stops(10*time.Second), before+beat)
	at("eight beats later", j.lives(8*beat), before+beat+9*beat)
	at("a day later", j.lives(24*time.Hour), before+10*time.Second+8*beat+24*time.Hour)
}

// TestNobodyIsSilentWhileWeAreStopped: what proxies said still counts after a stop
// of the process, and no witness is alone by it.
func TestNobodyIsSilentWhileWeAreStopped(t *testing.T) {
	j := newJumping()
	w := newWorld()
	e := newEvidence(w.p.In.Reports, w.put)
	watch := newWitnesses(w.p, w.zones, j.now, func() {})
	w.load()
	e.heard(hds.Report{Proxy: xds.Proxy{Edge: "fra", Node: "1"}, At: j.now(), Canaries: []hds.CanaryHealth{{Canary: hds.Canary{Member: "eu-1"}}}})
	w.turn()
	stream := xds.StreamChange{Proxy: xds.Proxy{Edge: "fra", Node: "1"}, Stream: 1, Open: true, Serves: true}
	w.g.Commit(func(tx *inc.Tx) { watch.streamed(tx, []xds.StreamChange{stream}) })
	j.lives(time.Second)
	w.g.Commit(func(tx *inc.Tx) { watch.streamed(tx, []xds.StreamChange{{Proxy: stream.Proxy, Stream: 1}}) })
	alone := func(now time.Time) bool {
		writes, _ := watch.due(now)
		w.g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		is, _ := w.zones.Witnesses.Get(nil, "fra")
		if is.Stream.Health != model.Down {
			t.Fatalf("nothing is tested: %+v", is)
		}
		return is.Stream.Alone
	}
	now := j.stops(20 * time.Second)
	if writes, _ := e.expire(now); len(writes) > 0 {
		t.Error("a report has expired in a time in which nobody was listened to")
	}
	if alone(now) {
		t.Error("the stream counts as gone for long, and its proxy could not come back")
	}
	now = j.lives(aloneFactor * streamNotices)
	if !alone(now) {
		t.Error("it never counts as gone")
	}
	if writes, _ := e.expire(j.lives(reportTTL)); len(writes) != 1 {
		t.Error("the report never expires")
	}
}

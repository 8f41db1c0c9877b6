package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spillway-dev/spillway/internal/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is a fake one: what each address does, and how many calls are open.
type network struct {
	mu        sync.Mutex
	does      map[string]string // answer, teapot, refuse, drop, mute, garbage
	open, max int
	dials     int
}

func (n *network) set(addr, behaviour string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.does[addr] = behaviour
}

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	n.open++
	n.max = max(n.max, n.open)
	does := n.does[addr]
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.open--
		n.mu.Unlock()
	}()
	replies := map[string]string{
		"answer": "HTTP/1.1 200 OK\r\n\r\n", "teapot": "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\n", "garbage": "220 smtp ready\r\n",
	}
	switch does {
	case "refuse":
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case "drop":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil && does == "mute" {
			io.Copy(io.Discard, server) // until the other side gives up
		} else if err == nil {
			io.WriteString(server, replies[does])
		}
	}()
	return client, nil
}

func target(i int) Target {
	return Target{Edge: model.Edge(fmt.Sprintf("e%d", i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 80)}
}

// rig runs a prober on the fake network with a fake clock.
type rig struct {
	*network
	*Prober
	cancel context.CancelFunc
	mu     sync.Mutex
	tally  Tally
	news   []string
}

func inBubble(t *testing.T, cfg Config, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{network: &network{does: map[string]string{}}, tally: Tally{}}
		cfg.Dial = r.dial
		cfg.Report = func(t Target, v Verdict) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tally.Note(t, v)
			r.news = append(r.news, fmt.Sprintf("%s %s %s", t.Edge, v.Health, v.Why))
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.cancel = cancel
		r.Prober = New(ctx, cfg)
		f(t, r)
		cancel()
		r.Wait()
	})
}

// after lets the fake clock run and returns what was reported meanwhile.
func (r *rig) after(d time.Duration) []string {
	<-time.After(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.news
	r.news = nil
	return news
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestVerdicts(t *testing.T) {
	a := target(1)
	cfg := Config{}
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		addr := a.Addr.String()
		r.set(addr, "answer")
		r.Set(a.Edge, []Target{a})
		expect(t, "first answer", r.after(2*time.Second), "e1 True ")
		r.set(addr, "teapot")
		expect(t, "any status is alive", r.after(time.Minute))
		r.set(addr, "refuse")
		expect(t, "too early", r.after(1500*time.Millisecond))
		expect(t, "refused", r.after(cfg.Detection()), "e1 False connection refused")
		r.set(addr, "drop")
		expect(t, "still down", r.after(time.Minute))
		r.set(addr, "answer")
		expect(t, "back", r.after(5*time.Second), "e1 True ")
		r.set(addr, "drop")
		expect(t, "dropped", r.after(cfg.Detection()), "e1 False timeout")
		r.set(addr, "answer")
		expect(t, "back again", r.after(5*time.Second), "e1 True ")
		r.set(addr, "mute")
		expect(t, "mute", r.after(cfg.Detection()), "e1 False timeout")
		r.set(addr, "answer")
		expect(t, "once more", r.after(5*time.Second), "e1 True ")
		r.set(addr, "garbage")
		if got := r.after(cfg.Detection()); len(got) != 1 {
			t.Errorf("garbage: %q", got)
		}
	})
}

func TestOneLostProbeIsNoVerdict(t *testing.T) {
	a := target(1)
	inBubble(t, Config{Interval: time.Second, Fall: 3}, func(t *testing.T, r *rig) {
		r.set(a.Addr.String(), "answer")
		r.Set(a.Edge, []Target{a})
		r.after(2 * time.Second)
		for range 20 {
			r.set(a.Addr.String(), "refuse")
			r.after(1700 * time.Millisecond) // at most two probes
			r.set(a.Addr.String(), "answer")
			expect(t, "a blip", r.after(1200*time.Millisecond))
		}
	})
}

func TestATargetThatIsGoneIsNotReported(t *testing.T) {
	a, b := target(1), target(2)
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.set(a.Addr.String(), "refuse")
		r.set(b.Addr.String(), "drop")
		r.Set(a.Edge, []Target{a})
		r.Set(b.Edge, []Target{b})
		r.after(time.Second)
		r.Set(a.Edge, nil)
		expect(t, "only the other", r.after(time.Minute), "e2 False timeout")
		r.Set(b.Edge, nil)
		r.after(time.Second)
		r.network.mu.Lock()
		before := r.dials
		r.network.mu.Unlock()
		r.after(time.Minute)
		if r.dials != before {
			t.Errorf("%d probes of nobody", r.dials-before)
		}
	})
}

func TestProbesAreBoundedAndSpread(t *testing.T) {
	inBubble(t, Config{Parallel: 4, Interval: 10 * time.Second, Timeout: time.Second}, func(t *testing.T, r *rig) {
		var all []Target
		for i := range 20 {
			all = append(all, target(i))
			r.set(target(i).Addr.String(), "drop")
		}
		for _, t := range all {
			r.Set(t.Edge, []Target{t})
		}
		got := r.after(time.Minute)
		if r.max > 4 || len(got) != 20 {
			t.Errorf("%d at once, %d verdicts", r.max, len(got))
		}
	})
}

func TestTheEndEndsAll(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.set(target(1).Addr.String(), "drop")
		for i := range 2 {
			r.Set(target(i+1).Edge, []Target{target(i + 1)})
		}
		r.after(1200 * time.Millisecond) // in the middle of a probe
		r.cancel()
		r.Wait()
		r.Set(target(3).Edge, []Target{target(3)})
		r.news = nil
		expect(t, "after the end", r.after(time.Minute))
	})
}

// TestRealServers probes real sockets: HTTP, TLS whose certificate nobody
// trusts, and a port where nobody is.
func TestRealServers(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	picky := httptest.NewUnstartedServer(answer) // as an edge that knows no such name
	picky.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("no such name") }}
	picky.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	picky.StartTLS()
	defer picky.Close()
	rude, err := net.Listen("tcp", "127.0.0.1:0") // it closes without a word
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	go func() {
		for c, err := rude.Accept(); err == nil; c, err = rude.Accept() {
			_ = c.Close()
		}
	}()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody takes its connections
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	at := func(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }
	p := New(t.Context(), Config{Timeout: time.Minute})
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Target{Addr: at(plain.Listener.Addr())}, ""},
		{Target{Addr: at(secure.Listener.Addr()), TLS: true}, ""},
		{Target{Addr: at(picky.Listener.Addr()), TLS: true}, ""},
		{Target{Addr: at(rude.Addr()), TLS: true}, ""},
		{Target{Addr: at(closed.Addr())}, "connection refused"},
		{Target{Addr: at(closed.Addr()), TLS: true}, "connection refused"},
		{Target{Addr: at(silent.Addr()), TLS: true}, "timeout"},
	} {
		p.cfg.Timeout = time.Minute
		if c.want == "timeout" {
			p.cfg.Timeout = 10 * time.Millisecond
		}
		if got := reason(p.ask(t.Context(), c.target)); got != c.want {
			t.Errorf("%v: %q, want %q", c.target, got, c.want)
		}
	}
	p.probes.WithLabelValues("answered").Inc()
	if n := testutil.CollectAndCount(p.Metrics()); n != 1 {
		t.Errorf("%d series", n)
	}
}

func TestReason(t *testing.T) {
	if got := reason(fmt.Errorf("dial: %w", syscall.EHOSTUNREACH)); got != "no route" {
		t.Error(got)
	}
	if got := reason(errors.New("malformed")); got != "no HTTP answer: malformed" {
		t.Error(got)
	}
}

// TestTally: an edge is as good as the best of its addresses, and that as the worst
// of its ports, of those that ever answered.
func TestTally(t *testing.T) {
	plain, secure, other := target(1), target(1), target(2)
	secure.Addr = netip.AddrPortFrom(plain.Addr.Addr(), 443)
	secure.TLS = true
	at := time.Unix(1000, 0)
	up, down, later := Verdict{Health: model.Up, Since: at}, Verdict{Health: model.Down, Since: at}, Verdict{Health: model.Down, Since: at.Add(time.Second)}
	lost, lostLater := Known{down, true}, Known{later, true}
	was, never := func(v Verdict) Known { return Known{v, true} }, func(v Verdict) Known { return Known{v, false} }
	for name, c := range map[string]struct {
		tally Tally
		want  Verdict
	}{
		"nothing yet":                          {Tally{}, Verdict{}},
		"one port of two so far":               {Tally{plain: was(up)}, up},
		"one address of two":                   {Tally{plain: was(up), secure: never(down)}, up},
		"a port that never answered":           {Tally{plain: was(up), secure: never(down), other: never(down)}, up},
		"another address":                      {Tally{plain: lost, secure: lost, other: was(up)}, up},
		"a port was lost":                      {Tally{plain: was(up), secure: lost, other: lost}, down},
		"a port was lost, an address unknown":  {Tally{plain: was(up), secure: lost}, Verdict{}},
		"the last address decides since when":  {Tally{plain: lost, other: lostLater}, later},
		"the first port decides":               {Tally{plain: lost, secure: lostLater, other: lost}, down},
		"none ever answered":                   {Tally{plain: never(down), secure: never(later), other: never(down)}, later},
		"none ever answered, one is not known": {Tally{plain: never(down), other: never(down)}, Verdict{}},
	} {
		got := c.tally.Of([]Target{plain, secure, other})
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := (Tally{other: was(up)}).Of(nil); got != (Verdict{}) {
		t.Errorf("%+v", got)
	}
	known := Tally{}
	known.Note(plain, up)
	known.Note(plain, down)
	if got := known[plain]; got != lost {
		t.Errorf("%+v", got)
	}
}

// Package probe is the witness in front of the edges: from where the control
// plane runs, it asks each port of each public address of an edge for any answer. So it
// does with addresses of members' own controllers, which it asks for a host they have.
//
// What it holds true:
//   - Any HTTP answer, whatever its status, is alive; a refused or silent
//     connection, and one that does not speak HTTP, is not. With TLS any reaction
//     to a greeting that names no host is alive, be it the end of the connection:
//     an edge presents nothing to whoever names no host of its. To one that names a
//     host somebody has to say something in TLS, if only an alert. It asks whether
//     somebody answers, not who: certificates are not verified.
//   - A verdict changes after Fall failures or Rise answers in a row, and is
//     reported when it changes, never for a target that Set took away.
//   - Before the first verdict a target is Unknown, which is not a verdict.
//   - At most Parallel probes run at once; each target is probed by one
//     goroutine, which ends with the context or when Set takes the target away.
//
// It decides nothing: what follows from a verdict is package zone's to say.
package probe

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spillway-dev/spillway/internal/model"
)

// Target is one public address of an edge, or of a member's site, and a port that it
// listens on.
type Target struct {
	Edge model.Edge
	Addr netip.AddrPort
	TLS  bool
	Host string // that it is asked for, as Host and by SNI; empty: none in particular
}

// Verdict is what is known of a target.
type Verdict struct {
	Health model.Health
	Since  time.Time // when the verdict was reached
	Why    string    // of Down: what went wrong last, in a few words
}

// Config says how to probe. The zero value of a field means its default.
type Config struct {
	Interval time.Duration                                                        // between the starts of two probes of a target, give or take a tenth; default 1 s
	Timeout  time.Duration                                                        // of a probe; default 1 s
	Rise     int                                                                  // answers in a row that make a target Up; default 2, the first verdict takes 1
	Fall     int                                                                  // failures in a row that make a target Down; default 3
	Parallel int                                                                  // probes at once; default 64
	Report   func(Target, Verdict)                                                // called for each change, one at a time; must not call the Prober
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // default: net.Dialer
	Log      *slog.Logger
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 1 << 16

func (c Config) withDefaults() Config {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&c.Rise, 2)
	set(&c.Fall, 3)
	set(&c.Parallel, 64)
	if c.Interval <= 0 {
		c.Interval = time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Second
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Detection is how long it takes at most from the moment a target stops
// answering to the verdict, as long as no more than Parallel targets hang.
func (c Config) Detection() time.Duration {
	c = c.withDefaults()
	return time.Duration(c.Fall)*max(c.Interval+c.Interval/10, c.Timeout) + c.Timeout
}

// Prober probes a changing set of targets.
type Prober struct {
	ctx    context.Context
	cfg    Config
	slots  chan struct{}
	probes *prometheus.CounterVec
	wg     sync.WaitGroup

	mu      sync.Mutex // also held while Report runs
	running map[model.Edge]map[Target]context.CancelFunc
}

// New makes a prober without targets, which lives until the context ends.
func New(ctx context.Context, cfg Config) *Prober {
	cfg = cfg.withDefaults()
	return &Prober{
		ctx: ctx, cfg: cfg, slots: make(chan struct{}, cfg.Parallel), running: map[model.Edge]map[Target]context.CancelFunc{},
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_edge_probes_total", Help: "Probes of public addresses of edges, and of those of leaves, by whether somebody answered.",
		}, []string{"result"}),
	}
}

// Metrics is what to register with Prometheus.
func (p *Prober) Metrics() prometheus.Collector { return p.probes }

// Set makes these the targets of an edge: new ones are probed soon, those that
// are gone are not reported any more when Set returns, all others are left alone.
func (p *Prober) Set(e model.Edge, targets []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	here := p.running[e]
	if here == nil {
		here = map[Target]context.CancelFunc{}
		p.running[e] = here
	}
	for _, t := range targets {
		if here[t] != nil || p.ctx.Err() != nil {
			continue
		}
		ctx, cancel := context.WithCancel(p.ctx)
		here[t] = cancel
		p.wg.Go(func() { p.watch(ctx, t) })
	}
	for t, cancel := range here {
		if !slices.Contains(targets, t) {
			cancel()
			delete(here, t)
		}
	}
	if len(here) == 0 {
		delete(p.running, e)
	}
}

// Wait returns when no goroutine of the prober is left. The context must have ended.
func (p *Prober) Wait() { p.wg.Wait() }

// watch probes a target until its context ends.
func (p *Prober) watch(ctx context.Context, t Target) {
	now := Verdict{}
	streak := 0 // probes in a row that contradict the verdict
	wait := rand.N(p.cfg.Interval)
	for p.sleep(ctx, wait) {
		begin := time.Now()
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := p.ask(ctx, t)
		<-p.slots
		if ctx.Err() != nil {
			return
		}
		health, needed := model.Up, p.cfg.Rise
		if err != nil {
			health, needed = model.Down, p.cfg.Fall
		} else if now.Health == model.Unknown {
			needed = 1
		}
		p.probes.WithLabelValues(map[model.Health]string{model.Up: "answered", model.Down: "failed"}[health]).Inc()
		if streak++; health == now.Health {
			streak = 0
		}
		if streak >= needed {
			now, streak = Verdict{Health: health, Since: time.Now(), Why: reason(err)}, 0
			p.report(ctx, t, now)
		}
		wait = max(0, p.cfg.Interval+rand.N(p.cfg.Interval/5+1)-p.cfg.Interval/10-time.Since(begin))
	}
}

func (p *Prober) report(ctx context.Context, t Target, v Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.cfg.Log.Info("probe: verdict", "edge", t.Edge, "address", t.Addr, "host", t.Host, "answers", v.Health, "why", v.Why)
	p.cfg.Report(t, v)
}

// sleep waits and reports whether the context still lives.
func (p *Prober) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// ask asks the target once, on a connection of its own. It does so without
// http.Transport, which goes on dialling after the request has timed out.
func (p *Prober) ask(ctx context.Context, t Target) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	err := p.exchange(ctx, t)
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // not the closed connection that follows from it
	}
	return err
}

func (p *Prober) exchange(ctx context.Context, t Target) error {
	conn, err := p.cfg.Dial(ctx, "tcp", t.Addr.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if t.TLS {
		return greet(ctx, conn, t.Host)
	}
	request := "HEAD / HTTP/1.1\r\nHost: " + cmp.Or(t.Host, t.Addr.String()) + "\r\nUser-Agent: spillway-probe\r\nConnection: close\r\n\r\n"
	if _, err = conn.Write([]byte(request)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxAnswer)), &http.Request{Method: http.MethodHead})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// greet begins to speak TLS, by the name of a host or without one.
func greet(ctx context.Context, conn net.Conn, host string) error {
	err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host}).HandshakeContext(ctx) //nolint:gosec // nothing is sent or believed
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, host == "": // whatever came of it came from somebody
		return nil
	case errors.As(err, &op) && op.Op == "remote error": // an alert, of somebody who speaks TLS
		return nil
	}
	return fmt.Errorf("%w: %w", errNoTLS, err)
}

// errNoTLS says that nobody spoke TLS of a host.
var errNoTLS = errors.New("no TLS")

// Refused is the reason of a [Verdict] about an address that was reached, and
// where nobody listens.
const Refused = "connection refused"

// reasons are the failures that an operator wants told apart.
var reasons = []struct {
	err  error
	text string
}{
	{context.DeadlineExceeded, "timeout"}, {syscall.ECONNREFUSED, Refused},
	{syscall.EHOSTUNREACH, "no route"}, {syscall.ENETUNREACH, "no route"}, {syscall.ECONNRESET, "connection reset"},
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	if errors.Is(err, errNoTLS) {
		return err.Error()
	}
	return fmt.Sprintf("no HTTP answer: %v", err)
}

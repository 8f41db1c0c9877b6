// Package lookup asks resolvers for the addresses of host names, again and again: of
// those that members name as addresses of their leaves.
//
// What it holds true:
//   - What was found is reported when it changes. A failure is never reported, and takes
//     nothing away: not to know is not to have none. So is an answer without addresses, and
//     one that leads into a name that Refuse refuses.
//   - A name is asked for again when the answer's TTL is over, within bounds, and after
//     failures at the pace of the lower bound.
//   - At most Parallel questions are out at once. Each name has one goroutine, which ends
//     with the context or when Set takes the name away, and reports nothing after that.
//
// It decides nothing: what follows from addresses is package zone's to say.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of how long an answer is used: a load balancer may change its addresses within a
// minute, whatever a resolver says, and need not be asked more often than this.
const (
	Shortest = 5 * time.Second
	Longest  = time.Minute
)

// Config says whom to ask. The zero value of a field means its default.
type Config struct {
	Servers  []string                   // host:port, in the order in which they are asked; required
	Timeout  time.Duration              // of one question to one server; default 2 s
	Parallel int                        // names that are asked for at once; default 16
	Refuse   func(name string) bool     // names that no answer may lead to; default: none
	Report   func(string, []netip.Addr) // called for each change, one at a time; must not call the Keeper
	Log      *slog.Logger               // default: none
	ask      func(context.Context, *dns.Msg, string) (*dns.Msg, error)
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 2 * time.Second
	}
	if c.Parallel <= 0 {
		c.Parallel = 16
	}
	if c.Refuse == nil {
		c.Refuse = func(string) bool { return false }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.ask == nil {
		c.ask = exchange(c.Timeout)
	}
	return c
}

// SystemServers are the servers that the system asks, as of resolv.conf(5).
func SystemServers(path string) ([]string, error) {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("resolvers of the system: %w", err)
	}
	out := make([]string, len(conf.Servers))
	for i, s := range conf.Servers {
		out[i] = net.JoinHostPort(s, conf.Port)
	}
	return out, nil
}

// Keeper keeps what some names lead to.
type Keeper struct {
	ctx     context.Context
	cfg     Config
	slots   chan struct{}
	lookups *prometheus.CounterVec
	wg      sync.WaitGroup

	mu      sync.Mutex // also held while Report runs
	running map[string]context.CancelFunc
}

// New makes a keeper of no names, which lives until the context ends.
func New(ctx context.Context, cfg Config) *Keeper {
	cfg = cfg.withDefaults()
	return &Keeper{ctx: ctx, cfg: cfg, slots: make(chan struct{}, cfg.Parallel), running: map[string]context.CancelFunc{},
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_leaf_lookups_total", Help: "Lookups of host names that leaves have as addresses, by what came of them.",
		}, []string{"result"}),
	}
}

// Metrics is what to register with Prometheus.
func (k *Keeper) Metrics() prometheus.Collector { return k.lookups }

// Set makes these the names that are looked up. Nothing is reported of others when it
// returns.
func (k *Keeper) Set(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		if k.running[name] != nil || k.ctx.Err() != nil {
			continue
		}
		ctx, cancel := context.WithCancel(k.ctx)
		k.running[name] = cancel
		k.wg.Go(func() { k.keep(ctx, name) })
	}
	for name, cancel := range k.running {
		if !slices.Contains(names, name) {
			cancel()
			delete(k.running, name)
		}
	}
}

// Wait returns when no goroutine of the keeper is left. The context must have ended.
func (k *Keeper) Wait() { k.wg.Wait() }

// keep looks a name up until its context ends.
func (k *Keeper) keep(ctx context.Context, name string) {
	var known found
	var said []netip.Addr
	failing := false
	for wait := time.Duration(0); k.sleep(ctx, wait); {
		select {
		case k.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		now, err := k.lookUp(ctx, name, known)
		<-k.slots
		if ctx.Err() != nil {
			return
		}
		if wait = Shortest; err != nil {
			k.lookups.WithLabelValues("failed").Inc()
			if !failing {
				k.cfg.Log.Warn("lookup: a name that a member names as an address can't be looked up: what it led to stays", "name", name, "problem", err.Error())
			}
			failing = true
			continue
		}
		k.lookups.WithLabelValues("found").Inc()
		known, failing = now, false
		wait = min(max(now.ttl, Shortest), Longest)
		wait -= rand.N(wait/10 + 1)
		if all := now.all(); !slices.Equal(all, said) {
			said = all
			k.report(ctx, name, all)
		}
	}
}

func (k *Keeper) report(ctx context.Context, name string, all []netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil {
		k.cfg.Log.Info("lookup: a name leads elsewhere", "name", name, "addresses", all)
		k.cfg.Report(name, all)
	}
}

func (k *Keeper) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// found is what a name leads to, by family.
type found struct {
	v4, v6 []netip.Addr
	ttl    time.Duration // of the answer that is over first
}

func (f found) all() []netip.Addr {
	out := slices.Concat(f.v4, f.v6)
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// errNone says that a name has no addresses, as far as anybody says.
var errNone = errors.New("no addresses")

// lookUp asks for both families. One that can't be had stays as it was.
func (k *Keeper) lookUp(ctx context.Context, name string, known found) (found, error) {
	out := found{ttl: Longest}
	var errs []error
	for _, family := range []struct {
		typ  uint16
		have *[]netip.Addr
		old  []netip.Addr
	}{{dns.TypeA, &out.v4, known.v4}, {dns.TypeAAAA, &out.v6, known.v6}} {
		addresses, ttl, err := k.askFor(ctx, name, family.typ)
		if err != nil {
			errs = append(errs, err)
			*family.have, ttl = family.old, Shortest
		} else {
			*family.have = addresses
		}
		out.ttl = min(out.ttl, ttl)
	}
	switch {
	case len(errs) == 2:
		return out, errs[0]
	case len(out.v4)+len(out.v6) == 0:
		return out, errors.Join(append(errs, errNone)...)
	}
	return out, nil
}

// askFor asks the servers in turn for one family.
func (k *Keeper) askFor(ctx context.Context, name string, typ uint16) (out []netip.Addr, ttl time.Duration, err error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), typ)
	q.SetEdns0(1232, false)
	err = errors.New("no server is known")
	for _, server := range k.cfg.Servers {
		var answer *dns.Msg
		answer, err = k.cfg.ask(ctx, q, server)
		if err == nil && answer.Rcode != dns.RcodeSuccess {
			err = fmt.Errorf("%s from %s", dns.RcodeToString[answer.Rcode], server)
		}
		if err == nil {
			out, ttl, err = k.read(name, typ, answer)
			return out, ttl, err
		}
	}
	return nil, 0, err
}

// mostAliases is how long a chain of aliases may be.
const mostAliases = 16

// read follows the aliases of an answer from the name to its addresses.
func (k *Keeper) read(name string, typ uint16, answer *dns.Msg) (out []netip.Addr, ttl time.Duration, err error) {
	at, ttl := dns.CanonicalName(name), Longest
	for range mostAliases {
		if k.cfg.Refuse(strings.TrimSuffix(at, ".")) {
			return nil, 0, fmt.Errorf("it leads to %s, which is ours: it would lead to itself", at)
		}
		next := ""
		for _, rr := range answer.Answer {
			h := rr.Header()
			if dns.CanonicalName(h.Name) != at {
				continue
			}
			switch rr := rr.(type) {
			case *dns.CNAME:
				next = dns.CanonicalName(rr.Target)
			case *dns.A:
				if ip, ok := netip.AddrFromSlice(rr.A.To4()); ok && typ == dns.TypeA {
					out = append(out, ip)
				}
			case *dns.AAAA:
				if ip, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok && typ == dns.TypeAAAA {
					out = append(out, ip.Unmap())
				}
			default:
				continue
			}
			ttl = min(ttl, time.Duration(h.Ttl)*time.Second)
		}
		if next == "" || len(out) > 0 {
			return out, ttl, nil
		}
		at = next
	}
	return nil, 0, errors.New("its aliases do not end")
}

// exchange asks over UDP, and over TCP what does not fit.
func exchange(timeout time.Duration) func(context.Context, *dns.Msg, string) (*dns.Msg, error) {
	return func(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
		q = q.Copy()
		q.Id = dns.Id()
		answer, _, err := (&dns.Client{Net: "udp", Timeout: timeout}).ExchangeContext(ctx, q, server)
		if err == nil && answer.Truncated {
			answer, _, err = (&dns.Client{Net: "tcp", Timeout: timeout}).ExchangeContext(ctx, q, server)
		}
		return answer, err
	}
}

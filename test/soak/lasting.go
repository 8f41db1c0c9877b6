package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// lasting follows what no control plane may take away, whichever version it is:
// the status and the DNS answers of hosts that are always there. The edges live
// throughout, so a status always has all of them and DNS some.
type lasting struct {
	hub       *user.Cluster
	server    string   // DNS, HOST:PORT
	addresses []string // of all edges, sorted
	ingresses []string
	hosts     []string
	doing     func() []string
	away      func(sent, done time.Time) bool // whether the control plane may not have run
	began     time.Time

	mu    sync.Mutex
	tally losses
}

// losses is what lasting saw.
type losses struct {
	Statuses     int      `json:"statuses"` // versions of Ingresses that were looked at
	StatusesLost int      `json:"statuses_lost"`
	Asked        int      `json:"dns_asked"`
	Wrong        int      `json:"dns_wrong"`      // an answer with other addresses, or without
	Unanswered   int      `json:"dns_unanswered"` // while the control plane ran
	Away         int      `json:"dns_away"`       // no answer, or SERVFAIL, while it was dead or just began
	SilenceMS    int64    `json:"dns_silence_ms"` // the longest time without a right answer
	Examples     []string `json:"examples,omitempty"`
}

const (
	askEvery    = 20 * time.Millisecond
	askPatience = 2 * time.Second
	watchAgain  = 100 * time.Millisecond
	mostLosses  = 20 // that are told one by one
)

var errAddresses = errors.New("not the addresses of edges")

// newLasting waits until there is something to lose.
func (s *soak) newLasting(ctx context.Context) (*lasting, error) {
	l := &lasting{
		hub: s.hub, server: s.lab.DNSAddress(), doing: s.diary.doing, began: s.diary.began,
		away: func(sent, done time.Time) bool { return s.diary.overlaps(sent, done, stopsServe) },
	}
	for _, x := range s.fronts {
		l.addresses = append(l.addresses, s.lab.EdgeAddress(x.Name).String())
	}
	slices.Sort(l.addresses)
	for _, x := range slices.Concat(s.steady, s.secure, s.edited) {
		l.ingresses, l.hosts = append(l.ingresses, x.name), append(l.hosts, x.host)
	}
	for i, host := range l.hosts {
		if err := await(ctx, "DNS to have "+host, func(ctx context.Context) error { return l.ask(ctx, host) }); err != nil {
			return nil, err
		}
		if err := await(ctx, "the status of Ingress "+l.ingresses[i], func(ctx context.Context) error {
			o, err := l.hub.Get(ctx, "Ingress", namespace, l.ingresses[i])
			if err != nil {
				return err
			}
			return l.same(statusAddresses(o))
		}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// stopsServe tells whether an op ends the control plane, or has it stand still.
func stopsServe(kind string) bool {
	return slices.Contains([]string{"kill serve", "kill serve and hub", "replace serve", "pause serve"}, kind)
}

// same is nil for the addresses of all edges.
func (l *lasting) same(got []string) error {
	slices.Sort(got)
	if slices.Equal(got, l.addresses) {
		return nil
	}
	return fmt.Errorf("%w: %v", errAddresses, got)
}

func statusAddresses(o *unstructured.Unstructured) (out []string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, one := range all {
		ip, _, _ := unstructured.NestedString(one.(map[string]any), "ip")
		out = append(out, ip)
	}
	return out
}

// watch looks at every version of the Ingresses until ctx ends. A hub that
// comes back is watched again, which begins with what is there.
func (l *lasting) watch(ctx context.Context) {
	for ctx.Err() == nil {
		l.watchOnce(ctx)
		user.Rest(ctx, watchAgain)
	}
}

func (l *lasting) watchOnce(ctx context.Context) {
	w, err := l.hub.Of("Ingress", namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return // the hub is dead
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok || !slices.Contains(l.ingresses, o.GetName()) {
			continue
		}
		err := l.same(statusAddresses(o))
		l.note(func(sum *losses) bool {
			sum.Statuses++
			if err != nil {
				sum.StatusesLost++
			}
			return err != nil
		}, "status of Ingress %s: %v", o.GetName(), err)
	}
}

// resolve asks DNS for one host after another until ctx ends.
func (l *lasting) resolve(ctx context.Context) {
	right := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		host, sent := l.hosts[i%len(l.hosts)], time.Now()
		err := l.ask(ctx, host)
		if ctx.Err() != nil {
			return
		}
		done := time.Now()
		silence := done.Sub(right)
		if err == nil {
			right = done
		}
		away := l.away(sent, done)
		l.note(func(sum *losses) bool { return sum.answered(err, away, silence) }, "DNS of %s: %v", host, err)
		user.Rest(ctx, askEvery)
	}
}

// answered counts an answer and tells whether it is a loss.
func (sum *losses) answered(err error, away bool, silence time.Duration) (lost bool) {
	sum.Asked++
	sum.SilenceMS = max(sum.SilenceMS, silence.Milliseconds())
	switch {
	case err == nil:
		return false
	case errors.Is(err, errAddresses):
		sum.Wrong++
	case away:
		sum.Away++
		return false
	default:
		sum.Unanswered++
	}
	return true
}

// ask is nil if DNS answers with addresses of edges: the best for the client. A
// name without addresses is a wrong answer; SERVFAIL and REFUSED are none, since a resolver
// asks another server then.
func (l *lasting) ask(ctx context.Context, host string) error {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(host), dns.TypeA)
	c := &dns.Client{Net: "udp", Timeout: askPatience}
	reply, _, err := c.ExchangeContext(ctx, q, l.server)
	if err != nil {
		return err
	}
	switch reply.Rcode {
	case dns.RcodeServerFailure, dns.RcodeRefused:
		return errors.New(dns.RcodeToString[reply.Rcode])
	case dns.RcodeSuccess:
	default:
		return fmt.Errorf("%w: %s", errAddresses, dns.RcodeToString[reply.Rcode])
	}
	var got []string
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			got = append(got, a.A.String())
		}
	}
	if len(got) == 0 || slices.ContainsFunc(got, func(a string) bool { return !slices.Contains(l.addresses, a) }) {
		return fmt.Errorf("%w: %v", errAddresses, got)
	}
	return nil
}

// note counts, and keeps what a loss says.
func (l *lasting) note(count func(*losses) (lost bool), format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if count(&l.tally) && len(l.tally.Examples) < mostLosses {
		l.tally.Examples = append(l.tally.Examples,
			since(l.began, time.Now())+" "+fmt.Sprintf(format, args...)+"; "+strings.Join(l.doing(), "; "))
	}
}

func (sum losses) failed() error {
	if sum.StatusesLost+sum.Wrong+sum.Unanswered == 0 {
		return nil
	}
	return fmt.Errorf("%d statuses lost, %d DNS answers wrong, %d missing while serve ran", sum.StatusesLost, sum.Wrong, sum.Unanswered)
}

func (sum losses) print(to io.Writer) {
	fmt.Fprintf(to, "%d statuses, %d lost; %d DNS questions, %d answered wrong, %d not answered, %d not while serve was away, longest silence %d ms\n",
		sum.Statuses, sum.StatusesLost, sum.Asked, sum.Wrong, sum.Unanswered, sum.Away, sum.SilenceMS)
	for _, e := range sum.Examples {
		fmt.Fprintln(to, "  "+e)
	}
}

func (sum losses) table(line func(string, ...any)) {
	line("| hosts that stay | |\n|---|---|")
	line("| statuses seen, lost | %d, **%d** |", sum.Statuses, sum.StatusesLost)
	line("| DNS questions, answered wrong, not answered while `serve` ran | %d, **%d**, **%d** |", sum.Asked, sum.Wrong, sum.Unanswered)
	line("| DNS questions not answered while it was away, longest time without an answer | %d, %d ms |\n", sum.Away, sum.SilenceMS)
}

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// stream is connections that a route of the relay passes on to pods of a Service.
type stream struct {
	kind, listener string
	port           int // of the Service
	*target
	open func(ctx context.Context, to netip.AddrPort) ([]byte, error) // what a pod answered
}

func newStreams() []*stream {
	return []*stream{
		{"TCPRoute", "tcp", 9000, newTarget(relayHost, ":tcp", false), line},
		{"TLSRoute", "tls", 443, newTarget(relayHost, ":tls", true), handshake},
	}
}

// line sends a line, and reads one.
func line(ctx context.Context, to netip.AddrPort) ([]byte, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	until, _ := ctx.Deadline()
	_ = c.SetDeadline(until)
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return nil, err
	}
	return bufio.NewReader(c).ReadBytes('\n')
}

// handshake asks a pod over TLS, which it ends itself.
func handshake(ctx context.Context, to netip.AddrPort) ([]byte, error) {
	d := tls.Dialer{Config: &tls.Config{ServerName: relayHost, InsecureSkipVerify: true}} // pods have no certificates that anybody signed
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	until, _ := ctx.Deadline()
	_ = c.SetDeadline(until)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+relayHost+"/", http.NoBody)
	if err != nil {
		return nil, err
	}
	if err := req.Write(c); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}

// answered is what became of one connection, in the words of requests.
func (x *stream) answered(ctx context.Context, to netip.AddrPort) string {
	ctx, cancel := context.WithTimeout(ctx, user.GiveUp)
	defer cancel()
	text, err := x.open(ctx, to)
	if err != nil {
		return err.Error()
	}
	return servedBy(text)
}

// editStreams sends the connections of each route elsewhere, or where they went.
func (s *soak) editStreams(ctx context.Context, rng *rand.Rand) (string, error) {
	what := ""
	for _, x := range s.beside.streams {
		to := one(rng, workloads)
		what += fmt.Sprintf("%s to %s ", x.kind, to)
		if err := s.relayTo(ctx, x, to); err != nil {
			return what, err
		}
	}
	return what, nil
}

func (s *soak) relayTo(ctx context.Context, x *stream, service string) error {
	x.allow(time.Now(), served(service))
	if err := write(ctx, s.hub, streamRouteObject(x.kind, x.listener, service, x.port)); err != nil {
		return err
	}
	for _, at := range s.beside.addresses {
		to := s.beside.on(at, x)
		if err := await(ctx, fmt.Sprintf("a connection of %s at %s to be of %s", x.kind, to, service), func(ctx context.Context) error {
			if got := x.answered(ctx, to); got != served(service) {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	x.only(time.Now(), served(service))
	return nil
}

// beside is a load of its own, beside that of requests at the edges' addresses: of
// connections that are passed on, and of a Gateway at the addresses that it has now.
type beside struct {
	load        *load // which judges
	streams     []*stream
	addresses   []netip.Addr // of the relay
	http, https uint16
	home        *target // what the mover answers at its own addresses

	mu    sync.Mutex
	doors []*user.Edge
	tally passed
}

// passed is what became of connections, and of requests at addresses that come and go.
type passed struct {
	Connections int `json:"connections"`
	Excused     int `json:"excused"` // they met the end of a pod while nobody could tell the edges
	Failed      int `json:"failed"`
	AtOwn       int `json:"at_own_addresses"` // requests
}

const besideEvery = 25 * time.Millisecond

func (b *beside) on(a netip.Addr, x *stream) netip.AddrPort {
	if x.tls {
		return netip.AddrPortFrom(a, b.https)
	}
	return netip.AddrPortFrom(a, b.http)
}

// at says where the mover has addresses of its own; nil: nowhere.
func (b *beside) at(doors []*user.Edge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.doors {
		d.Close()
	}
	b.doors = doors
}

// run opens one connection after another, each when it is due, until ctx ends.
func (b *beside) run(ctx context.Context) {
	var flying sync.WaitGroup
	defer flying.Wait()
	tick := time.NewTicker(besideEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		flying.Go(func() { b.once(n) })
	}
}

func (b *beside) once(n int) {
	x, to := b.streams[n%len(b.streams)], b.addresses[n/len(b.streams)%len(b.addresses)]
	sent := time.Now()
	got := x.answered(context.Background(), b.on(to, x))
	b.judge(x.target, fmt.Sprintf("a connection of %s at %s", x.kind, to), got, sent, true)
	b.mu.Lock()
	doors := b.doors
	b.mu.Unlock()
	if len(doors) == 0 {
		return
	}
	r := user.Request{Edge: doors[n%len(doors)], URL: b.home.String(), Fresh: n%freshEvery == 0}
	reply := r.Send(context.Background())
	b.judge(b.home, fmt.Sprintf("%s at %s", r, r.Edge.Name), answer(reply), reply.Sent, false)
}

// judge counts one. A connection that met the end of its pod can't be opened again by a
// proxy once something was sent on it.
func (b *beside) judge(t *target, what, got string, sent time.Time, connection bool) {
	done := time.Now()
	right := t.right(sent, done)
	ok := slices.Contains(right, got)
	excused := !ok && connection && b.load.excuse(sent, done)
	b.mu.Lock()
	if connection {
		b.tally.Connections++
	} else {
		b.tally.AtOwn++
	}
	switch {
	case ok:
	case excused:
		b.tally.Excused++
	default:
		b.tally.Failed++
	}
	b.mu.Unlock()
	if !ok {
		b.load.tell(failure{Request: what, Got: got, Right: right, TookMS: done.Sub(sent).Milliseconds(), Excused: excused}, sent)
	}
}

func (b *beside) sum() passed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally
}

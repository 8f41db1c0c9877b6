// Package forward carries connections from one network namespace to another:
// it listens with one function and dials with another, and can be cut.
//
// A forwarder dials its target before it carries anything and resets the
// client when that fails; resets and half-closes are passed on, so both ends
// see what they would see without it, except for addresses. A forwarder that
// is cut behaves as Mode says. No goroutine outlives Close.
package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Mode is what a forwarder does with connections.
type Mode int

// The modes of a forwarder.
const (
	Open   Mode = iota // carry
	Drop               // answer nothing: new and existing connections hang, none is closed
	Refuse             // refuse new connections, reset the existing ones
)

const dialTimeout = 5 * time.Second

// TCP is one forwarded port. Make it with ListenTCP.
type TCP struct {
	listen func() (net.Listener, error)
	dial   func(context.Context) (net.Conn, error)
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	mode  Mode
	gate  chan struct{} // closed while connections may be carried
	l     net.Listener  // nil while refused
	addr  net.Addr
	conns map[net.Conn]bool
}

// ListenTCP starts to forward from what listen opens to what dial reaches.
// listen is called again when a refused forwarder heals and must then open the
// same address.
func ListenTCP(listen func() (net.Listener, error), dial func(context.Context) (net.Conn, error)) (*TCP, error) {
	f := &TCP{listen: listen, dial: dial, gate: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(f.gate)
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// open listens and serves; the caller holds mu.
func (f *TCP) open() error {
	if f.l != nil {
		return nil
	}
	l, err := f.listen()
	if err != nil {
		return err
	}
	f.l, f.addr = l, l.Addr()
	f.wg.Add(1)
	go f.accept(l)
	return nil
}

// Addr is where it listens, or listened last.
func (f *TCP) Addr() net.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addr
}

// Mode returns the present mode.
func (f *TCP) Mode() Mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode
}

// Set changes the mode. Only opening can fail: when the port was taken while
// it was refused.
func (f *TCP) Set(mode Mode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return net.ErrClosed
	}
	if mode == Refuse {
		f.shut()
		f.mode = mode
		return nil
	}
	if err := f.open(); err != nil {
		return err
	}
	wasOpen := f.mode != Drop
	switch {
	case mode == Drop && wasOpen:
		f.gate = make(chan struct{})
	case mode == Open && !wasOpen:
		close(f.gate)
	}
	f.mode = mode
	return nil
}

// shut closes the listener, resets every connection and opens the gate, so
// that whoever waited there finds its connection gone; the caller holds mu.
func (f *TCP) shut() {
	if f.l != nil {
		f.l.Close()
		f.l = nil
	}
	for c := range f.conns {
		reset(c)
	}
	if f.mode == Drop {
		close(f.gate)
	}
}

// Close stops forwarding and resets all connections.
func (f *TCP) Close() {
	f.stop()
	f.mu.Lock()
	f.shut()
	f.mode = Refuse
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *TCP) accept(l net.Listener) {
	defer f.wg.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of descriptors, perhaps: the backlog waits
			case <-f.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if !f.track(c) {
			continue
		}
		f.passGate() // in line: while dropped, the rest stays in the backlog
		f.wg.Add(1)
		go f.carry(c)
	}
}

// track remembers a connection for resets; false when it must not live.
func (f *TCP) track(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.l == nil {
		reset(c)
		return false
	}
	f.conns[c] = true
	return true
}

func (f *TCP) forget(cs ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range cs {
		delete(f.conns, c)
	}
}

// passGate waits while the forwarder is dropped.
func (f *TCP) passGate() {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	select {
	case <-gate:
	case <-f.ctx.Done():
	}
}

func (f *TCP) carry(client net.Conn) {
	defer f.wg.Done()
	defer f.forget(client)
	ctx, cancel := context.WithTimeout(f.ctx, dialTimeout)
	defer cancel()
	target, err := f.dial(ctx)
	if err != nil {
		reset(client)
		return
	}
	if !f.track(target) {
		reset(client)
		return
	}
	defer f.forget(target)
	var both sync.WaitGroup
	both.Go(func() { f.copy(target, client) })
	both.Go(func() { f.copy(client, target) })
	both.Wait()
	client.Close()
	target.Close()
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copy moves one direction until its end, which it passes on. Each piece
// passes the gate after it is read, so nothing slips through once cut.
func (f *TCP) copy(dst, src net.Conn) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := src.Read(buf[:])
		f.passGate()
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				reset(src)
				reset(dst)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			if c, ok := dst.(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
			}
			return
		}
		if err != nil {
			reset(src)
			reset(dst)
			return
		}
	}
}

// reset closes a connection so that the other end sees an error, not an end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

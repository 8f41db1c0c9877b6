package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/fanout"
)

// world is a fleet with its control plane, a real Envoy and fake proxies
// beside it, all of one edge.
type world struct {
	size
	streams  int   // fake proxies
	lone     int64 // scopes that went, of which no cluster does
	env      []string
	resource func(xds.TypeURL, string, int) // is told of what comes, or goes with 0 bytes, by one of them; may be nil
	prefix   string                         // of the names of figures
	out      *figures

	dir     string
	fleet   *fleet
	api     *api
	control *control
	envoy   *envoy
	proxies *fanout.Proxies
	backend *http.Server
	idle    idle
	listing time.Duration // CPU of the first list
	seen    chan time.Time
}

// newWorld starts hub, members and control plane, and waits until the fleet is
// read. What the control plane needed for that is reported by the caller.
func newWorld(ctx context.Context, s size, streams int, out *figures, env ...string) (*world, error) {
	return newWorldOf(ctx, s, spares, streams, out, env...)
}

// newWorldOf is newWorld with a number of spares.
func newWorldOf(ctx context.Context, s size, spares, streams int, out *figures, env ...string) (*world, error) {
	var chains [2]certificate
	for i := range chains {
		var err error
		if chains[i], err = newCertificate(int64(i + 1)); err != nil {
			return nil, err
		}
	}
	w := &world{size: s, streams: streams, out: out, fleet: newFleet(s, chains), seen: make(chan time.Time, 64)}
	w.fleet.spares, w.env = spares, env
	var err error
	if w.dir, err = os.MkdirTemp("", "spillway-bench-"); err != nil {
		return nil, err
	}
	if w.api, err = serveAPI(w.fleet); err != nil {
		return nil, w.fail(err)
	}
	if w.control, err = startControl(w.dir, w.api, env...); err != nil {
		return nil, w.fail(err)
	}
	if err := w.control.loaded(ctx, w.fleet); err != nil {
		return nil, w.fail(err)
	}
	return w, nil
}

func (w *world) fail(err error) error {
	w.close()
	return err
}

func (w *world) close() {
	if w.proxies != nil {
		_ = w.proxies.Close()
	}
	if w.envoy != nil {
		w.envoy.kill()
	}
	if w.control != nil {
		w.control.kill()
	}
	if w.api != nil {
		w.api.close()
	}
	if w.backend != nil {
		_ = w.backend.Close()
	}
	_ = os.RemoveAll(w.dir)
}

// hostsServed is how many hosts have a route.
func (w *world) hostsServed() int { return w.hosts + 2 }

// connect starts the fake proxies and the real Envoy, and waits until all of
// them have everything.
func (w *world) connect(ctx context.Context) error {
	var err error
	secrets := []string{secretOf(tlsHost)}
	for i := range w.fleet.certs {
		secrets = append(secrets, secretOf(i))
	}
	w.proxies, err = fanout.Dial(ctx, fanout.Options{
		Socket: w.control.socket(), Edge: edge, Count: w.streams, Secrets: secrets, Name: clusterOf(probeHost), Resource: w.resource,
		Seen: func() {
			select {
			case w.seen <- time.Now():
			default:
			}
		},
	})
	if err != nil {
		return err
	}
	if err := w.proxies.AwaitUpserts(ctx, xds.RouteConfiguration, int64(w.streams*w.hostsServed())); err != nil {
		return err
	}
	return w.proxies.AwaitUpserts(ctx, xds.ClusterLoadAssignment, int64(w.streams*(w.hostsServed()-1))) // the probed one is not counted
}

// connectEnvoy starts the real Envoy and what answers behind it.
func (w *world) connectEnvoy(ctx context.Context) error {
	var err error
	if w.backend, err = serveBackends(); err != nil {
		return err
	}
	if w.envoy, err = startEnvoy(w.dir, w.control.socket(), adminAddress); err != nil {
		return err
	}
	if err := inSync(ctx, w.control, w.hostsServed()); err != nil {
		return err
	}
	p := newProber(httpPort)
	return w.control.until(ctx, "Envoy serves", 10*time.Millisecond, func() bool {
		a, err := p.ask(hostOf(probeHost), "/v0")
		return err == nil && a.status == http.StatusOK
	})
}

// quiet waits until less than some CPU time is spent in a second, for some seconds.
func (w *world) quiet(ctx context.Context, less time.Duration, seconds int) error {
	for range seconds {
		if u, err := w.window(ctx, time.Second); err != nil || u.control < less {
			return err
		}
	}
	return nil
}

// startTakes is when a start is over: ten seconds after its first publish the
// control plane collects garbage and gives memory back, once.
const startTakes = 20 * time.Second

// rest waits until the start is over and measures what is spent while nothing
// changes, for some time.
func (w *world) rest(ctx context.Context, lasting time.Duration) error {
	if err := pause(ctx, time.Until(w.control.began.Add(startTakes))); err != nil {
		return err
	}
	if err := w.quiet(ctx, 30*time.Millisecond, 10); err != nil {
		return err
	}
	steps := int(lasting / apart)
	total, began, main := w.usage(), time.Now(), make([]time.Duration, 0, steps)
	for range steps {
		u, err := w.window(ctx, apart)
		if err != nil {
			return err
		}
		main = append(main, u.envoyMain)
	}
	used := w.usage().since(total).per(time.Since(began).Seconds()) // the windows last a little longer
	w.idle = idle{control: used.control, envoy: used.envoy, envoyMain: median(main)}
	return nil
}

// idle is what is spent while nothing changes. Envoy judges ejected endpoints every six
// seconds, in bursts, so of its main thread it is the median.
type idle struct {
	control   time.Duration // in a second
	envoy     time.Duration // in a second, of all threads
	envoyMain time.Duration // in the time from one change to the next
}

// window is what is spent in some time from now.
func (w *world) window(ctx context.Context, d time.Duration) (usage, error) {
	before := w.usage()
	err := pause(ctx, d)
	return w.usage().since(before), err
}

// usage is CPU time that was spent.
type usage struct{ control, envoy, envoyMain time.Duration }

func (w *world) usage() usage {
	if w.envoy == nil {
		return usage{control: w.control.cpu()}
	}
	return usage{w.control.cpu(), w.envoy.cpu(), w.envoy.main()}
}

func (u usage) since(o usage) usage {
	return usage{u.control - o.control, u.envoy - o.envoy, u.envoyMain - o.envoyMain}
}

func (u usage) per(n float64) usage {
	per := func(d time.Duration) time.Duration { return time.Duration(float64(d) / n) }
	return usage{per(u.control), per(u.envoy), per(u.envoyMain)}
}

func (w *world) params() params {
	p := params{"hosts": w.hosts, "members": w.members, "streams": w.streams}
	for name, n := range map[string]int{"fronts": w.fronts, "gateways": w.gateways} {
		if n > 0 {
			p[name] = n
		}
	}
	return p
}

func (w *world) add(name string, value float64, unit string) {
	w.out.add(w.prefix+name, w.params(), value, unit)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

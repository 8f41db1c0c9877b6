// Package app builds the control plane by hand and runs its one loop.
//
// It is the only writer of the program's inputs. Shells put rows into the
// mailbox; a turn of the loop commits them; what changed is published to the
// proxies, to DNS and to the hub. Nothing is published before the hub's objects
// are known, from the hub or from a checkpoint, and no proxy comes before what
// API servers say now is read, or they were silent for a while.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/dnsserver"
	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/lookup"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/ui"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/hds"
	"github.com/spillway-dev/spillway/internal/xds/lrs"
	"github.com/spillway-dev/spillway/internal/xds/sotw"
	"github.com/spillway-dev/spillway/internal/zone"
)

const urgent = cluster.Urgent

// server is everything a running `spillway serve` has.
type server struct {
	cfg     Config
	log     *slog.Logger
	metrics *prometheus.Registry
	now     func() time.Time // see steady

	graph  *inc.Graph
	prog   *fleet.Program
	envoy  *envoy.Tables
	zones  *zone.Tables
	caches *cluster.Tables
	leaf   *leaf.Tables
	broken *inc.Table[model.Object, model.Findings] // rows whose function panicked
	aged   *inc.Table[model.Object, model.Findings] // edges with proxies that are too old

	mail       *cluster.Mailbox
	loop       *loop
	state      *checkpoint.Store // nil: none
	source     *cluster.Hub
	members    *cluster.Members
	store      *xds.Store
	xds        *xds.Server
	health     *hds.Server
	reports    *xds.Reports
	dns        *dnsserver.Server
	places     zone.Locator // nil: none
	sockets    sockets
	evidence   *evidence
	proxies    *proxies
	clients    *clients
	answers    *dns
	listing    *directory
	acks       *acks
	old        *oldProxies
	watch      *witnesses
	tenures    *tenures
	leaves     *leaves
	graves     *graves
	kept       *kept
	spares     *spares
	rollouts   *rollouts
	unread     *unread
	stales     *stales
	expiries   *expiries
	globals    *globals
	prober     *probe.Prober
	names      *hostNames
	lookups    *lookup.Keeper // nil: none
	contacts   *contacts
	watchdog   *watchdog
	writer     *hub.Writer
	follower   *hub.Follower
	departures *departures // nil: nobody writes to the hub
	guard      *guard      // nil: the hub's address is no name

	first     first     // lists, until they are read; belongs to the loop
	unlisted  bool      // what first waits for is not committed yet; belongs to the loop
	known     bool      // the hub's objects are; belongs to the loop
	recount   time.Time // when sizes are due; belongs to the loop
	stale     time.Time // since when the hub is away, zero if it is not; belongs to the loop
	published atomic.Bool
	opened    chan struct{} // closed by the first publish of what is listed
	eased     func()        // called then
}

// sockets are opened before anything starts, so that a port in use is told at once.
type sockets struct {
	admin net.Listener
	acfg  ui.Config
	xds   []*xds.Endpoint
}

func (s *sockets) close() {
	if s.admin != nil {
		_ = s.admin.Close()
	}
	for _, e := range s.xds {
		_ = e.Close()
	}
}

// Run serves until ctx ends.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	config, err := restConfig(cfg.Kubeconfig)
	if err != nil {
		return err
	}
	s := &server{cfg: cfg, log: log, metrics: prometheus.NewRegistry(), now: (&steady{real: time.Now}).now, opened: make(chan struct{}), eased: ease()}
	defer s.eased()
	s.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.listen(ctx, config); err != nil {
		s.sockets.close()
		return err
	}
	defer s.sockets.close()
	group, ctx := errgroup.WithContext(ctx)
	if err := s.build(ctx, config); err != nil {
		return err
	}
	s.restore(func() { group.Go(func() error { s.source.Run(ctx); return nil }) })
	s.awaitLists()
	s.start(ctx, group)
	return group.Wait()
}

// restConfig reads the hub's kubeconfig.
func restConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("there is no kubeconfig of the hub: give --kubeconfig FILE or set KUBECONFIG to a file that is there, or run in a pod of the hub; `spillway hub` starts a hub and writes one")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of the hub (--kubeconfig): %w", err)
	}
	cfg.UserAgent = "spillway"
	return cfg, nil
}

func (s *server) listen(ctx context.Context, config *rest.Config) error {
	address, err := netip.ParseAddrPort(s.cfg.AdminAddress)
	if err != nil {
		return err
	}
	s.sockets.acfg = ui.Config{Address: address}
	if s.cfg.AdminCert != "" {
		if s.sockets.acfg.Cert, err = certificateOf(s.cfg.AdminCert, s.cfg.AdminKey); err != nil {
			return err
		}
		if s.sockets.acfg.Access, err = hubAccess(config); err != nil {
			return err
		}
	}
	if s.sockets.admin, err = ui.Listen(ctx, s.sockets.acfg); err != nil {
		return err
	}
	if err := s.listenXDS(); err != nil {
		return err
	}
	if s.cfg.StateDir != "" {
		if s.state, err = checkpoint.Open(checkpoint.Options{Dir: s.cfg.StateDir, KeyFile: s.cfg.StateKey, Log: s.log, Ask: s.wake}); err != nil {
			return fmt.Errorf("--state-dir: %w", err)
		}
	}
	if len(s.cfg.DNSAddresses) == 0 {
		return nil
	}
	s.dns, err = s.listenDNS()
	return err
}

func (s *server) listenXDS() error {
	add := func(e *xds.Endpoint, err error) error {
		if err != nil {
			return hint(err, "--xds-address or --xds-socket")
		}
		s.sockets.xds = append(s.sockets.xds, e)
		return nil
	}
	if s.cfg.XDSSocket != "" {
		if err := add(xds.ListenUnix(s.cfg.XDSSocket)); err != nil {
			return err
		}
	}
	switch {
	case s.cfg.EnvoyXDS:
		s.log.Warn("xDS is plaintext and without identity: whoever is on this machine may read the certificates' keys", "address", s.cfg.XDSAddress)
		return add(xds.ListenPlaintext(s.cfg.XDSAddress))
	case s.cfg.XDSAddress != "":
		return add(xds.ListenTLS(s.cfg.XDSAddress, s.cfg.XDSCert, s.cfg.XDSKey, s.cfg.XDSClientCA))
	}
	return nil
}

// hint adds what to do where somebody else has what a flag names.
func hint(err error, flag string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w (another spillway? choose another %s)", err, flag)
	}
	return err
}

// certificateOf reads a certificate again when it is asked for, so that a
// rotated one is used.
func certificateOf(cert, key string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s, key %s: %w", cert, key, err)
		}
		return &pair, nil
	}
	_, err := load()
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }, err
}

// declare declares the program, with all that is derived from it.
func (s *server) declare() {
	s.graph = inc.New()
	s.prog = fleet.Declare(s.graph)
	if s.cfg.EnvoyXDS {
		s.prog.Defaults.HTTPPort = uint16(s.cfg.EnvoyListenerPort)
	}
	s.envoy = envoy.Declare(s.graph, s.prog)
	s.zones = zone.Declare(s.graph, s.prog)
	s.caches = cluster.Declare(s.graph)
	s.broken = inc.Input[model.Object, model.Findings](s.graph, "broken rows")
	s.aged = inc.Input[model.Object, model.Findings](s.graph, "old proxies")
	s.leaf = leaf.Declare(s.graph, s.prog, leaf.Outputs{
		Findings: []*inc.Table[model.Object, model.Findings]{s.envoy.Findings, s.zones.Findings, s.broken, s.aged},
		Serves:   s.zones.Serves,
		Sites:    s.zones.Sites(s.prog),
		Fails:    s.zones.Fails,
	})
}

// build declares the program and makes the shells.
func (s *server) build(ctx context.Context, config *rest.Config) error {
	s.assemble()
	if s.dns != nil {
		if err := s.locate(); err != nil {
			return err
		}
		s.metrics.MustRegister(s.dns.Metrics())
		s.answers = newDNS(s.zones, s.places, s.dns.Publish)
	}
	s.carry()
	verdict := func(t probe.Target, v probe.Verdict) {
		v.Since = s.now() // it is reported when it is reached
		s.watch.probed(t, v)
	}
	probing := probe.Config{Interval: s.cfg.ProbeInterval, Report: verdict, Log: s.log}
	s.prober = probe.New(ctx, probing)
	s.metrics.MustRegister(s.prober.Metrics())
	s.watch.setTargets, s.watch.probeNotices = s.prober.Set, probing.Detection()
	if err := s.lookUp(ctx); err != nil {
		return err
	}
	s.members = cluster.NewMembers(ctx, &s.prog.In, s.caches, s.mail, s.log)
	s.members.Attend(s.leaves)
	s.leaves.syncers(ctx)
	s.graves = newGraves(ctx, &s.prog.In, s.put, s.log)
	s.graves.hub, s.graves.grave, s.graves.reach = s.leaves.hub, s.leaves.grave, s.members.Reach
	if err := s.reach(config); err != nil {
		return err
	}
	s.spares.members, s.spares.hub = s.members, s.source
	s.leaves.guards, s.graves.unbury = s.writer, s.writer.Unbury
	if err := s.guardHub(config); err != nil {
		return err
	}
	s.follower = hub.Follow(s.writer, s.leaf)
	s.departures = newDepartures(s.prog, s.writer, s.isOpen)
	s.measure(config)
	return nil
}

// reach makes the two that ask the hub. While it fails each has a budget: who reads has
// many that wait for their turn, and what is written shall not wait behind them.
func (s *server) reach(config *rest.Config) error {
	o := s.hubOptions()
	var err error
	if s.writer, err = hub.NewWriter(config, "spillway", cluster.NewBudget(), s.log); err != nil {
		return err
	}
	s.metrics.MustRegister(s.writer.Metrics()...)
	o.Config, o.Seen = config, s.writer.Seen
	s.source, err = cluster.NewHub(o)
	return err
}

// put has a write done in the next commit.
func (s *server) put(key any, write func(*inc.Tx)) { s.mail.Put(urgent, key, write) }

// assemble declares the program and makes all that carries its changes and
// what proxies say, up to the sockets and connections.
func (s *server) assemble() {
	s.mail, s.store, s.reports = cluster.NewMailbox(), xds.NewStore(), &xds.Reports{}
	s.declare()
	s.listing = newDirectory(s.prog, s.store.ViewOf, func() { s.health.CanariesChanged() }, func() { s.xds.Reassign() })
	s.evidence = newEvidence(s.prog.In.Reports, s.put)
	s.health = hds.New(hds.Config{Canaries: s.listing.probes, Probing: s.listing.probingOf, Health: s.evidence.heard, Now: s.now})
	s.xds = xds.NewServer(xds.Config{
		Store: s.store, ViewOf: s.listing.viewOf, ClientViewOf: s.listing.clientViewOf, ClientFace: sotw.New, Allow: s.listing.allows, TrustDomain: s.cfg.TrustDomain,
		Services:    []xds.Service{s.health, lrs.Service{}},
		ReportTypes: []xds.TypeURL{xds.RouteConfiguration, xds.Listener}, Reports: s.reports, Log: s.log, Metrics: s.metrics, Now: s.now,
	})
	s.proxies = newProxies(s.prog, s.envoy, newGaps(s.prog), s.store, s.xds.Reassign)
	s.clients = newClients(s.envoy.Clients)
	s.clients.now = s.now
	s.acks = newAcks(s.prog, s.envoy, s.now, s.put)
	s.watchHosts()
	s.leaves = newLeaves(s.prog, s.leaf, s.put, s.log)
	s.leaves.gates = func(g cluster.LeafyGateways) { s.source.LeafyGateways(g) }
	s.leaves.leafy, s.leaves.hub = func(c cluster.LeafyClasses) { s.source.Leafy(c) }, func() string { return s.source.UID() }
	s.stales = newStales(s.prog, s.put)
	s.expiries = newExpiries(s.prog, s.put)
	s.globals = newGlobals(s.prog, s.now, s.put)
	s.unread = newUnread(s.prog, s.zones, s.now, s.put)
	s.old = newOldProxies(s.aged, s.log)
	s.watch = newWitnesses(s.prog, s.zones, s.now, s.wake)
	s.names = newHostNames(s.zones, s.put)
	s.tenures = newTenures(s.prog, s.now)
	s.kept = newKept(s.prog, s.now, func() bool { return !s.unlisted })
	s.spares = newSpares(s.prog, s.leaf, s.now)
	s.limitSecrets()
	s.rollouts = newRollouts(s.prog, s.leaf, s.now, func() bool { return !s.unlisted })
	s.graph.WatchFaults(s.faults)
	s.loop = newLoop(s.graph, s.mail, s.log)
	s.loop.due, s.loop.publish, s.loop.patient, s.loop.now = s.due, s.publish, s.isOpen, s.now
	s.contacts = newContacts(s.prog.In.Contacts)
	s.watchdog = &watchdog{loop: &s.loop.pulse, first: func() bool { return !s.isOpen() }, log: s.log, clock: s.now}
}

// hubOptions is how the hub is watched, but for its address.
func (s *server) hubOptions() cluster.HubOptions {
	return cluster.HubOptions{
		Namespace: s.cfg.Namespace, SecretNamespaces: s.cfg.SecretNamespaces, Inputs: &s.prog.In, Tables: s.caches, Mailbox: s.mail, Members: s.members, Log: s.log,
		AcceptHub: s.cfg.AcceptHub, Known: s.complete,
	}
}

// limitSecrets notes of which namespaces Secrets are read, if not of all.
func (s *server) limitSecrets() {
	if len(s.cfg.SecretNamespaces) == 0 {
		return
	}
	type spacesKey struct{}
	s.put(spacesKey{}, func(tx *inc.Tx) {
		s.prog.In.SecretSpaces.Set(tx, model.All{}, inc.ValOf(model.TextsOf(slices.Sorted(slices.Values(s.cfg.SecretNamespaces)))))
	})
}

// watchHosts forgets what was acknowledged of hosts and edges that are gone.
func (s *server) watchHosts() {
	type goneKey[K comparable] struct{ gone K }
	s.prog.Hosts.Watch(func(changes []inc.Change[model.HostKey, fleet.Host]) {
		for _, c := range changes {
			if c.New == nil {
				s.mail.Put(urgent, goneKey[model.HostKey]{c.Key}, func(tx *inc.Tx) { s.acks.forget(tx, []model.HostKey{c.Key}, nil) })
			}
		}
	})
	s.prog.In.Edges.Watch(func(changes []inc.Change[model.Edge, model.EdgeSpec]) {
		for _, c := range changes {
			if c.New == nil {
				s.mail.Put(urgent, goneKey[model.Edge]{c.Key}, func(tx *inc.Tx) { s.acks.forget(tx, nil, []model.Edge{c.Key}) })
			}
		}
	})
}

// recountEvery is how often sizes in statuses are brought up to date.
const recountEvery = 10 * time.Second

// due is what time alone makes necessary.
func (s *server) due(now time.Time) ([]func(*inc.Tx), time.Time) {
	writes, next := s.lapse(now)
	if !now.Before(s.recount) {
		s.recount = now.Add(recountEvery)
		if s.follower != nil {
			s.follower.Recount()
		}
		s.age(now)
	}
	return writes, sooner(sooner(next, s.first.due(now)), s.recount)
}

// lapse ends what has lasted long enough. It is asked before each commit, so it
// looks at nothing that is neither due nor has changed.
func (s *server) lapse(now time.Time) ([]func(*inc.Tx), time.Time) {
	expired, next := s.evidence.expire(now)
	changed, then := s.watch.due(now)
	away, after := s.clients.due(now)
	over, ends := s.acks.due(now)
	waited, end := s.unread.due(now)
	left, gone := s.tenures.due(now)
	held, until := s.kept.due(now)
	rolled, paused := s.rollouts.due(now)
	spared, idle := s.spares.due(now)
	stale, behind := s.stales.due(now)
	ended, last := s.expiries.due(now)
	overdue, longest := s.globals.due(now)
	parted, ask := s.departures.due(now)
	for _, at := range []time.Time{then, after, ends, end, gone, until, paused, idle, behind, last, longest, ask} {
		next = sooner(next, at)
	}
	writes := slices.Concat(expired, changed, away, over, waited, left, held, rolled, spared, stale, ended, overdue, parted)
	if s.reports.Any() {
		writes = append(writes, s.said)
	}
	return writes, next
}

// age tells DNS since when the hub's objects may be old.
func (s *server) age(now time.Time) {
	switch connected := s.source.State().Connected; {
	case s.dns == nil:
	case connected:
		s.stale = time.Time{}
		s.dns.SetStale(s.stale)
	case s.stale.IsZero():
		s.stale = now
		s.dns.SetStale(s.stale)
	}
}

// wake makes the loop look at what is due.
func (s *server) wake() {
	type wakeKey struct{}
	s.mail.Put(urgent, wakeKey{}, func(*inc.Tx) {})
}

// publish carries out what the last commit changed, once the hub is known.
func (s *server) publish(inc.Stats) {
	if s.state != nil {
		s.state.Committed()
	}
	if !s.known {
		return
	}
	s.proxies.flush()
	s.leaves.flush(s.graph.Backlog() == 0)
	s.listing.flush()
	s.watch.flush()
	s.names.flush()
	if s.answers != nil {
		s.answers.flush()
	}
	if !s.published.Swap(true) {
		s.log.Info("first publish", "hosts", s.prog.Hosts.Len(), "members", s.prog.In.Members.Len(), "edges", s.prog.In.Edges.Len())
	}
	s.open()
}

// open lets proxies come, and what follows be written to the hub, once.
func (s *server) open() {
	if s.isOpen() || s.unlisted {
		return
	}
	if s.writer != nil {
		s.writer.Open()
	}
	close(s.opened)
	s.eased()
}

// isOpen tells whether proxies may come.
func (s *server) isOpen() bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

// hold waits until proxies may come, not for long, and reports whether they may.
// Their connections wait in the socket meanwhile: an Envoy that is turned away
// comes back later each time, by its backoff, so that most of a restart would be
// that.
func hold(ctx context.Context, opened <-chan struct{}) bool {
	timer := time.NewTimer(holdFor)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-opened:
		return true
	case <-timer.C:
		return false
	}
}

// admit returns when proxies may come. Before it there is nothing to say, not
// even that an edge is unknown: who waits for too long is turned away, but
// nobody who still waits when it is time. From then on nobody listens until there
// is something to say, so that a balancer takes another replica.
func admit(ctx context.Context, e *xds.Endpoint, opened <-chan struct{}) error {
	if hold(ctx, opened) {
		return nil
	}
	return e.Refuse(ctx, opened)
}

// start runs every part in the group, but for the watches: see restore. The
// first that fails ends all.
func (s *server) start(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { s.loop.run(ctx); return nil })
	group.Go(func() error { s.watchdog.run(ctx); return nil })
	group.Go(func() error { s.heed(ctx); return nil })
	group.Go(func() error { s.writer.Run(ctx); return nil })
	group.Go(func() error { tidy(ctx, s.opened); return nil })
	if s.state != nil {
		group.Go(func() error { s.state.Run(ctx); return nil })
	}
	if s.guard != nil {
		group.Go(func() error { s.guard.run(ctx); return nil })
	}
	for _, e := range s.sockets.xds {
		group.Go(func() error {
			if err := admit(ctx, e, s.opened); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			default:
				return s.xds.Serve(ctx, e)
			}
		})
	}
	if s.dns != nil {
		group.Go(func() error { s.dns.Serve(ctx); return nil })
		if s.cfg.GeoIP != "" {
			group.Go(func() error {
				dnsserver.WatchGeo(ctx, dnsserver.GeoConfig{Path: s.cfg.GeoIP, Log: s.log}, s.dns.SetGeo)
				return nil
			})
		}
	}
	shown := s.shown()
	shown.Alive = s.watchdog.alive
	group.Go(func() error { return ui.Serve(ctx, s.sockets.admin, s.sockets.acfg, shown) })
	group.Go(func() error {
		<-ctx.Done()
		s.members.Wait()
		s.prober.Wait()
		if s.lookups != nil {
			s.lookups.Wait()
		}
		<-s.loop.done // which begins them
		s.leaves.all.Wait()
		s.graves.all.Wait()
		return nil
	})
}

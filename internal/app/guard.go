package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
)

// guard has the program know where the hub's API server is, so that no member
// makes edges call it.
type guard struct {
	guarded fleet.Guarded
	table   *inc.Table[fleet.Guarded, fleet.Guard]
	put     func(key any, write func(*inc.Tx))
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	log     *slog.Logger
}

const (
	guardEvery = time.Minute      // how often the hub's name is looked up
	guardWait  = 10 * time.Second // how long that may take
)

// hubServer is where a kubeconfig says that the API server is.
func hubServer(config *rest.Config) (fleet.Guarded, error) {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fleet.Guarded{}, fmt.Errorf("kubeconfig of the hub (--kubeconfig): %w", err)
	}
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fleet.Guarded{}, fmt.Errorf("kubeconfig of the hub (--kubeconfig): the server has no port: %w", err)
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return fleet.Guarded{Host: host, Port: uint16(port)}, nil
}

// guardHub is before the first commit, so that an address is refused from the
// beginning; what a name leads to is, soon after.
func (s *server) guardHub(config *rest.Config) error {
	at, err := hubServer(config)
	if err != nil {
		return err
	}
	g := &guard{guarded: at, table: s.prog.In.Guarded, put: s.put, lookup: net.DefaultResolver.LookupNetIP, log: s.log}
	if g.begin() {
		s.guard = g
	}
	return nil
}

// begin says what is known without asking anybody: an address, or a name alone.
func (g *guard) begin() (isName bool) {
	ip, err := netip.ParseAddr(g.guarded.Host)
	if err != nil {
		g.found(nil)
		return true
	}
	g.found([]netip.Addr{ip})
	return false
}

func (g *guard) found(addresses []netip.Addr) {
	for i, ip := range addresses {
		addresses[i] = ip.Unmap().WithZone("")
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	row := fleet.Guard{What: "the API server of the hub", Addresses: slices.Compact(addresses)}
	type guardKey struct{}
	g.put(guardKey{}, func(tx *inc.Tx) { g.table.Set(tx, g.guarded, row) })
}

// run looks the name up now and then, until ctx ends. A lookup that fails
// changes nothing.
func (g *guard) run(ctx context.Context) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, guardWait)
		addresses, err := g.lookup(look, "ip", g.guarded.Host)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.log.Warn("the name of the hub's API server can't be looked up: endpoints at its address are refused as far as it was known before", "name", g.guarded.Host, "error", err)
		default:
			g.found(addresses)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

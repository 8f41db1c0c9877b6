package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spillway-dev/spillway/internal/dnsserver"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/lookup"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// dns builds snapshots from the zone tables. It belongs to the loop's goroutine.
type dns struct {
	tables  *zone.Tables
	snap    *zone.Snapshot
	changed bool
	publish func(*zone.Snapshot)
	domains atomic.Pointer[map[string]bool] // of zones, in lower case
}

func newDNS(t *zone.Tables, places zone.Locator, publish func(*zone.Snapshot)) *dns {
	d := &dns{tables: t, snap: (&zone.Snapshot{}).WithPlaces(places), publish: publish}
	t.Zones.Watch(d.zones)
	t.Records.Watch(d.records)
	return d
}

// listenDNS opens the sockets of DNS. A Config that no flags made has no limit.
func (s *server) listenDNS() (*dnsserver.Server, error) {
	return dnsserver.Listen(dnsserver.Config{Listen: s.cfg.DNSAddresses, RateLimit: dnsLimit(s.cfg.DNSRateLimit), Log: s.log})
}

// systemResolvers says whom the system asks for names.
const systemResolvers = "/etc/resolv.conf"

// lookUp has names looked up that members name as addresses, where DNS is answered.
func (s *server) lookUp(ctx context.Context) error {
	if s.dns == nil {
		return nil
	}
	servers := s.cfg.Resolvers
	if len(servers) == 0 {
		found, err := lookup.SystemServers(systemResolvers)
		if err != nil {
			s.log.Warn("host names that leaves have as addresses can't be looked up: give --resolvers", "problem", err.Error())
		}
		servers = found
	}
	s.lookups = lookup.New(ctx, lookup.Config{Servers: servers, Refuse: s.answers.serves, Report: s.names.found, Log: s.log})
	s.metrics.MustRegister(s.lookups.Metrics())
	s.names.set = s.lookups.Set
	return nil
}

// dnsLimit is --dns-rate-limit as the server takes it, to which 0 is the default.
func dnsLimit(flag int) int {
	if flag == 0 {
		return -1
	}
	return flag
}

// locate reads the table of places and tries the GeoIP database once, so that
// a wrong file is told at the start.
func (s *server) locate() error {
	if s.cfg.GeoIP != "" {
		if _, err := dnsserver.OpenGeo(dnsserver.GeoConfig{Path: s.cfg.GeoIP, Log: s.log}); err != nil {
			return fmt.Errorf("--geoip: %w", err)
		}
	}
	if s.cfg.Places == "" {
		return nil
	}
	text, err := os.ReadFile(s.cfg.Places)
	if err != nil {
		return fmt.Errorf("--places: %w", err)
	}
	places, err := zone.ParsePlaces(string(text))
	if err != nil {
		return fmt.Errorf("--places %s: %w", s.cfg.Places, err)
	}
	s.places = places
	return nil
}

// zones applies changes of zones. A domain may move from one object to another
// in one commit, so those that go leave before those that come.
func (d *dns) zones(changes []inc.Change[model.ZoneID, zone.Served]) {
	domains := map[string]bool{}
	if before := d.domains.Load(); before != nil {
		domains = maps.Clone(*before)
	}
	for _, c := range changes {
		if c.Old != nil {
			delete(domains, apexText(c.Old.Apex))
		}
	}
	for _, c := range changes {
		if c.New != nil {
			domains[apexText(c.New.Apex)] = true
		}
	}
	d.domains.Store(&domains)
	for _, c := range changes {
		if c.Old != nil {
			d.snap = d.snap.WithoutZone(c.Old.Apex)
		}
	}
	for _, c := range changes {
		if c.New != nil {
			d.snap = d.snap.WithZone(c.New.Zone)
		}
	}
	d.changed = true
}

// apexText is a name without its last dot.
func apexText(n zone.Name) string { return strings.TrimSuffix(n.String(), ".") }

// serves reports whether a name is in a zone of ours. Any goroutine may ask.
func (d *dns) serves(name string) bool {
	domains := d.domains.Load()
	for more := domains != nil; more; _, name, more = strings.Cut(name, ".") {
		if (*domains)[name] {
			return true
		}
	}
	return false
}

func (d *dns) records(changes []inc.Change[model.Host, zone.RecordRow]) {
	for _, c := range changes {
		name, err := zone.ParseName(string(c.Key))
		if err != nil {
			continue // ingest lets no such host through
		}
		if c.New == nil {
			d.snap = d.snap.WithHost(name, nil)
			continue
		}
		d.snap = d.snap.WithHost(name, c.New.Set)
	}
	d.changed = true
}

// flush publishes the snapshot if it changed.
func (d *dns) flush() {
	if d.changed {
		d.changed = false
		d.publish(d.snap)
	}
}

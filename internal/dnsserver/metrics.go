package dnsserver

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spillway-dev/spillway/internal/zone"
)

// The labels of the query counter. What is not listed counts as other, so that
// no client can make a new time series.
var (
	transports  = [...]string{"udp", "tcp"}
	countTypes  = [...]zone.Type{0, zone.TypeA, zone.TypeAAAA, zone.TypeNS, zone.TypeSOA, zone.TypeANY, 16, 65}
	countRCodes = [...]zone.RCode{zone.NoError, zone.FormErr, zone.ServFail, zone.NXDomain, zone.NotImp, zone.Refused, zone.NotAuth, zone.BadVers}
	dropReasons = [...]string{"", "malformed", "connection_limit", "send_failed", "rate_limit"}
)

// drop is why a message or a connection got no answer; an index of dropReasons.
type drop int

const (
	overUDP = 0
	overTCP = 1

	answered      drop = 0
	dropMalformed drop = 1 // no whole header, or a response
	dropLimit     drop = 2 // a connection that made room for another one
	dropSend      drop = 3 // the system did not take the answer
	dropRate      drop = 4 // its network has had its share
)

// metrics counts without a lock and without allocating. It is a Collector;
// counters that are still 0 are not shown.
type metrics struct {
	guard       *guard
	queries     [len(transports)][len(countTypes)][len(countRCodes)]atomic.Uint64
	drops       [len(dropReasons)]atomic.Uint64
	connections atomic.Int64
	stale       atomic.Int64 // Unix nanoseconds since when the inputs are stale; 0: fresh
}

func (m *metrics) count(transport int, t zone.Type, code zone.RCode) {
	ti, ci := 0, 0
	for i, known := range countTypes {
		if known == t {
			ti = i
		}
	}
	for i, known := range countRCodes {
		if known == code {
			ci = i
		}
	}
	m.queries[transport][ti][ci].Add(1)
}

var (
	descQueries     = prometheus.NewDesc("spillway_dns_queries_total", "DNS queries answered.", []string{"transport", "type", "rcode"}, nil)
	descDrops       = prometheus.NewDesc("spillway_dns_dropped_total", "DNS messages and connections that were not answered.", []string{"reason"}, nil)
	descTruncated   = prometheus.NewDesc("spillway_dns_rate_truncated_total", "DNS answers over UDP that were cut, for the client to come again over TCP, since its network asked more than --dns-rate-limit.", nil, nil)
	descConnections = prometheus.NewDesc("spillway_dns_connections", "Open DNS connections over TCP.", nil, nil)
	descStale       = prometheus.NewDesc("spillway_dns_stale_seconds", "How long the answers may be out of date; 0 while the inputs are fresh.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descQueries, descDrops, descTruncated, descConnections, descStale} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		if n := v.Load(); n > 0 {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
		}
	}
	for tr := range m.queries {
		for ti := range m.queries[tr] {
			name := "other"
			if ti > 0 {
				name = countTypes[ti].String()
			}
			for ci := range m.queries[tr][ti] {
				counter(descQueries, &m.queries[tr][ti][ci], transports[tr], name, countRCodes[ci].String())
			}
		}
	}
	counter(descTruncated, &m.guard.truncated)
	for i := range m.drops {
		counter(descDrops, &m.drops[i], dropReasons[i])
	}
	out <- prometheus.MustNewConstMetric(descConnections, prometheus.GaugeValue, float64(m.connections.Load()))
	stale := 0.0
	if since := m.stale.Load(); since != 0 {
		stale = max(0, time.Since(time.Unix(0, since)).Seconds())
	}
	out <- prometheus.MustNewConstMetric(descStale, prometheus.GaugeValue, stale)
}

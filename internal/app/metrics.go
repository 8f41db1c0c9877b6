package app

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Reading metrics never asks the loop: they are of most use when it stands still.

// timings are of the turns of the loop that committed something.
type timings struct{ turn, publish prometheus.Histogram }

func newTimings() timings {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spillway", Subsystem: "loop", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), // to 6.6 s
		})
	}
	return timings{
		turn:    histogram("turn_seconds", "Commits of the loop with what they compute and publish."),
		publish: histogram("publish_seconds", "Handing what a commit changed to proxies, DNS and the hub."),
	}
}

// measure registers what there is to measure of all parts.
func (s *server) measure(hub *rest.Config) {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "spillway", Name: name, Help: help}, f)
	}
	all := []prometheus.Collector{
		s.loop.timings.turn, s.loop.timings.publish,
		gauge("loop_standing_seconds", "How long the loop has been in one turn; 0 below a second.", func() float64 { return s.watchdog.standing().Seconds() }),
		gauge("loop_mailbox_letters", "Changes that wait for the loop.", func() float64 { return float64(s.mail.Len()) }),
		gauge("loop_backlog_rows", "Rows of a large change that wait to be computed.", func() float64 { return float64(s.loop.pulse.backlog.Load()) }),
		s.contacts,
		s.rollouts,
		s.certificates(hub),
	}
	if s.state != nil {
		all = append(all, s.state.Metrics())
	}
	s.metrics.MustRegister(all...)
}

var (
	descMembers     = prometheus.NewDesc("spillway_members", "Members by the reason of their condition Connected.", []string{"reason"}, nil)
	descCredentials = prometheus.NewDesc("spillway_member_credential_expiry_timestamp_seconds", "When the client certificate in a member's kubeconfig expires.", []string{"member"}, nil)
	descExpiry      = prometheus.NewDesc("spillway_certificate_expiry_timestamp_seconds", "When a certificate of serve itself expires.", []string{"type"}, nil)
)

// contacts shows how well members can be talked to: a copy of their rows.
type contacts struct {
	mu sync.Mutex
	of map[model.Member]model.Contact
}

func newContacts(t *inc.Table[model.Member, model.Contact]) *contacts {
	c := &contacts{of: map[model.Member]model.Contact{}}
	t.Watch(func(changes []inc.Change[model.Member, model.Contact]) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, change := range changes {
			if change.New == nil {
				delete(c.of, change.Key)
			} else {
				c.of[change.Key] = *change.New
			}
		}
	})
	return c
}

// Describe implements prometheus.Collector.
func (c *contacts) Describe(out chan<- *prometheus.Desc) { out <- descMembers; out <- descCredentials }

// Collect implements prometheus.Collector.
func (c *contacts) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for member, contact := range c.of {
		counts[contact.Reason]++
		if contact.Expiry != 0 {
			out <- prometheus.MustNewConstMetric(descCredentials, prometheus.GaugeValue, float64(contact.Expiry), string(member))
		}
	}
	for reason, n := range counts {
		out <- prometheus.MustNewConstMetric(descMembers, prometheus.GaugeValue, float64(n), reason)
	}
}

// certificates are those of serve itself, by what they are for.
type certificates struct {
	pem map[string]func() ([]byte, error)

	mu   sync.Mutex
	last map[string]time.Time // of a file that can't be read, as what it holds is still used
}

func (s *server) certificates(hub *rest.Config) *certificates {
	c := &certificates{pem: map[string]func() ([]byte, error){}, last: map[string]time.Time{}}
	for of, file := range map[string]string{"xds": s.cfg.XDSCert, "admin": s.cfg.AdminCert, "hub": hub.CertFile} {
		if file != "" {
			c.pem[of] = func() ([]byte, error) { return os.ReadFile(file) }
		}
	}
	if len(hub.CertData) > 0 {
		c.pem["hub"] = func() ([]byte, error) { return hub.CertData, nil }
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *certificates) Describe(out chan<- *prometheus.Desc) { out <- descExpiry }

// Collect implements prometheus.Collector.
func (c *certificates) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, read := range c.pem {
		if text, err := read(); err == nil {
			if at := expiry(text); !at.IsZero() {
				c.last[of] = at
			}
		}
		if at, ok := c.last[of]; ok {
			out <- prometheus.MustNewConstMetric(descExpiry, prometheus.GaugeValue, float64(at.Unix()), of)
		}
	}
}

// expiry is when the first certificate in a PEM text expires, zero if there is none.
func expiry(text []byte) time.Time {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return time.Time{}
		}
		if text = rest; block.Type != "CERTIFICATE" {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			return cert.NotAfter
		}
	}
}

package xds

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator asks of the streams.
type metrics struct {
	streams   *prometheus.GaugeVec
	clients   *prometheus.GaugeVec
	closed    *prometheus.CounterVec
	refused   *prometheus.CounterVec
	shed      *prometheus.CounterVec
	resources *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	sent      map[TypeURL]sentCounter // of each type served, and of all others under none
}

// sentCounter counts what is sent of a type.
type sentCounter struct{ resources, bytes prometheus.Counter }

// responded counts a response and its length.
func (m *metrics) responded(r *Response, size int) {
	c, served := m.sent[r.Type]
	if !served {
		c = m.sent[""]
	}
	c.bytes.Add(float64(size))
	c.resources.Add(float64(len(r.Resources)))
}

func newMetrics(r prometheus.Registerer) *metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "spillway", Subsystem: "xds", Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "spillway", Subsystem: "xds", Name: name, Help: help}, labels)
	}
	m := &metrics{
		streams:   gauge("streams", "Proxies connected now.", "edge"),
		clients:   gauge("grpc_streams", "gRPC clients connected now.", "edge"),
		closed:    counter("streams_closed_total", "Streams that ended, by reason.", "reason"),
		refused:   counter("streams_refused_total", "Streams that were not admitted, by reason.", "reason"),
		shed:      counter("connections_shed_total", "Connections closed since what came on them was too much to keep."),
		resources: counter("sent_resources_total", "Resources sent to proxies.", "type"),
		bytes:     counter("sent_bytes_total", "Bytes of responses sent to proxies.", "type"),
		rejected:  counter("rejected_total", "Responses a proxy rejected.", "type"),
		sent:      map[TypeURL]sentCounter{},
	}
	for _, t := range append(slices.Clone(Types), "") {
		m.sent[t] = sentCounter{m.resources.WithLabelValues(metricOf(t)), m.bytes.WithLabelValues(metricOf(t))}
	}
	if r != nil {
		r.MustRegister(m.streams, m.clients, m.closed, m.refused, m.shed, m.resources, m.bytes, m.rejected)
	}
	return m
}

// connected is the gauge that counts a data plane.
func (m *metrics) connected(p Proxy) prometheus.Gauge {
	if p.Class == GRPC {
		return m.clients.WithLabelValues(p.Edge)
	}
	return m.streams.WithLabelValues(p.Edge)
}

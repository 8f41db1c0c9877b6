package checkpoint

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are what is known of the files, for metrics.
type counts struct {
	bytes, written    atomic.Int64 // written: Unix seconds; 0: never
	failures, refused atomic.Int64
	lost              atomic.Int64
}

func (c *counts) wrote(bytes int64, at time.Time) {
	c.bytes.Store(bytes)
	c.written.Store(at.Unix())
}

var (
	descBytes    = prometheus.NewDesc("spillway_checkpoint_bytes", "Size of the checkpoint's file.", nil, nil)
	descWritten  = prometheus.NewDesc("spillway_checkpoint_written_timestamp_seconds", "When the checkpoint was written last; 0: never.", nil, nil)
	descWaiting  = prometheus.NewDesc("spillway_checkpoint_waiting_rows", "Rows that changed and are not written yet.", nil, nil)
	descFailures = prometheus.NewDesc("spillway_checkpoint_failures_total", "Attempts to write the checkpoint that failed.", nil, nil)
	descRefused  = prometheus.NewDesc("spillway_checkpoint_refused", "1 if the checkpoint that was there at the start could not be used.", nil, nil)
	descLost     = prometheus.NewDesc("spillway_checkpoint_lost_total", "Times that the checkpoint was taken away while in use, and written anew.", nil, nil)
)

// Metrics is what to register with Prometheus.
func (s *Store) Metrics() prometheus.Collector { return collector{s} }

type collector struct{ s *Store }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, t prometheus.ValueType, n int64) {
		out <- prometheus.MustNewConstMetric(d, t, float64(n))
	}
	of := &c.s.counts
	put(descBytes, prometheus.GaugeValue, of.bytes.Load())
	put(descWritten, prometheus.GaugeValue, of.written.Load())
	put(descWaiting, prometheus.GaugeValue, int64(c.s.waiting()))
	put(descFailures, prometheus.CounterValue, of.failures.Load())
	put(descRefused, prometheus.GaugeValue, of.refused.Load())
	put(descLost, prometheus.CounterValue, of.lost.Load())
}

// waiting is how many rows are not written yet.
func (s *Store) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

package hub

import "github.com/prometheus/client_golang/prometheus"

// metrics count what a writer does.
type metrics struct {
	contested, summed prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		contested: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_hub_contested_total",
			Help: "Statuses written again because somebody else changed them.",
		}),
		summed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_hub_summed_findings_total",
			Help: "Findings without an event of their own: an object has one event that counts them.",
		}),
	}
}

// Metrics are what to register.
func (w *Writer) Metrics() []prometheus.Collector {
	waiting := func(l *line, of string) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spillway_hub_waiting", Help: "Objects whose status or events are to be written.", ConstLabels: prometheus.Labels{"queue": of},
		}, func() float64 { return float64(l.queue.Len()) })
	}
	return []prometheus.Collector{waiting(w.state, "statuses"), waiting(w.talk, "events"), waiting(w.world, "globalingresses"), w.metrics.contested, w.metrics.summed}
}

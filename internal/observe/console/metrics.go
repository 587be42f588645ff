package console

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics is what Prometheus reads. Nothing has a label per host or URL: a crawl meets
// more of them than a server of metrics can keep. Single hosts are at /api/hosts.
type metrics struct {
	handler http.Handler
	refused *prometheus.CounterVec // by reason
	orders  *prometheus.CounterVec // by order and result
	lost    prometheus.Counter     // events that slow readers did not get
}

// newMetrics makes a registry of its own, so that two crawls in one process do not meet.
func newMetrics(c *Console) (*metrics, error) {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "treadlight_console_refused_requests_total", Help: "Requests to the console that were refused, by reason.",
		}, []string{"reason"}),
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "treadlight_console_orders_total", Help: "Orders given to the crawl, by what became of them.",
		}, []string{"order", "result"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "treadlight_console_lost_events_total", Help: "Events that did not reach a slow reader of the stream.",
		}),
	}
	for _, r := range reasons() { // a rate over a counter needs it to be there before
		m.refused.WithLabelValues(string(r))
	}
	for _, o := range orders() {
		m.orders.WithLabelValues(o, "done")
		m.orders.WithLabelValues(o, "failed")
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "treadlight_build_info", Help: "Always 1; the label is the version.", ConstLabels: prometheus.Labels{"version": c.cfg.Version},
	})
	build.Set(1)
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "treadlight_console_event_streams", Help: "Readers of the stream of events.",
	}, func() float64 { return float64(c.streams.count()) })
	registry := prometheus.NewRegistry()
	for _, each := range []prometheus.Collector{
		m.refused, m.orders, m.lost, build, streams, newCollector(c),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector(),
	} {
		if err := registry.Register(each); err != nil {
			return nil, err
		}
	}
	if c.crawl.Fleet != nil {
		if err := registry.Register(fleetInfo(c.crawl.Fleet())); err != nil {
			return nil, err
		}
	}
	for _, each := range c.crawl.Collectors {
		if err := registry.Register(each); err != nil {
			return nil, err
		}
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m, nil
}

// row is one metric of the snapshot, or several that differ in a label.
type row struct {
	name, help string
	kind       prometheus.ValueType
	label      string                            // of all; empty for none
	value      func(s *state) float64            // without a label
	values     func(s *state) map[string]float64 // with one, by its value
}

// collector makes metrics of one snapshot per scrape.
type collector struct {
	look  func() state
	rows  []row
	descs []*prometheus.Desc
}

func newCollector(console *Console) *collector {
	crawl := &console.crawl
	c := &collector{look: console.look, rows: slices.Concat(crawlRows(), limiterRows(), controlRows(crawl))}
	if crawl.Fleet != nil {
		c.rows = append(c.rows, fleetRows()...)
	}
	if crawl.Kept != nil {
		c.rows = append(c.rows, keptRows(crawl.Kept)...)
	}
	for _, r := range c.rows {
		var labels []string
		if r.label != "" {
			labels = []string{r.label}
		}
		c.descs = append(c.descs, prometheus.NewDesc(r.name, r.help, labels, nil))
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.look()
	for i, r := range c.rows {
		if r.label == "" {
			to <- prometheus.MustNewConstMetric(c.descs[i], r.kind, r.value(&s))
			continue
		}
		for value, n := range r.values(&s) {
			to <- prometheus.MustNewConstMetric(c.descs[i], r.kind, n, value)
		}
	}
}

func counter(name, help string, value func(s *state) float64) row {
	return row{name: name, help: help, kind: prometheus.CounterValue, value: value}
}

func gauge(name, help string, value func(s *state) float64) row {
	return row{name: name, help: help, kind: prometheus.GaugeValue, value: value}
}

func counters(name, label, help string, values func(s *state) map[string]int64) row {
	return row{name: name, help: help, kind: prometheus.CounterValue, label: label, values: func(s *state) map[string]float64 {
		all := make(map[string]float64)
		for k, n := range values(s) {
			all[k] = float64(n)
		}
		return all
	}}
}

// truth is a statement as a metric.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

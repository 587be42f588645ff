package console

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/pipeline/neardup"
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
		m.refused, m.orders, m.lost, build, streams, newCollector(c.look),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
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

func newCollector(look func() state) *collector {
	c := &collector{look: look, rows: append(crawlRows(), limiterRows()...)}
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

// crawlRows are of the crawl as a whole.
func crawlRows() []row {
	return []row{
		gauge("treadlight_crawl_running", "Whether the crawl runs.", func(s *state) float64 { return truth(s.State == pipeline.EndNone && s.ElapsedSeconds > 0) }),
		gauge("treadlight_crawl_paused", "Whether the crawl is paused.", func(s *state) float64 { return truth(s.Paused) }),
		gauge("treadlight_crawl_elapsed_seconds", "Time since the crawl began, until it ended.", func(s *state) float64 { return s.ElapsedSeconds }),
		counter("treadlight_records_total", "Records written.", func(s *state) float64 { return float64(s.Records) }),
		counter("treadlight_pages_total", "Records of pages: those with a 2xx status.", func(s *state) float64 { return float64(s.Pages) }),
		counter("treadlight_record_errors_total", "Records with an error.", func(s *state) float64 { return float64(s.Errors) }),
		counters("treadlight_requests_total", "outcome", "Requests made, robots.txt and retries included, by what they told of the host.",
			func(s *state) map[string]int64 { return s.Outcomes }),
		counter("treadlight_answers_total", "Requests that a host answered with a status.", func(s *state) float64 { return float64(s.Answered) }),
		counter("treadlight_retries_total", "Fetches that were to be repeated.", func(s *state) float64 { return float64(s.Retries) }),
		counter("treadlight_robots_refused_urls_total", "URLs that robots.txt refuses.", func(s *state) float64 { return float64(s.Refused) }),
		counter("treadlight_robots_unknown_urls_total", "URLs given up because robots.txt cannot be had.", func(s *state) float64 { return float64(s.Unruled) }),
		counter("treadlight_body_bytes_total", "Bytes of bodies, decoded.", func(s *state) float64 { return float64(s.Bytes) }),
		counter("treadlight_received_bytes_total", "Bytes of bodies, as received.", func(s *state) float64 { return float64(s.WireBytes) }),
		counters("treadlight_out_of_scope_links_total", "reason", "Links that are not followed, by reason.", func(s *state) map[string]int64 { return s.OutOfScope }),
		counters("treadlight_dropped_links_total", "reason", "Links that the frontier had no room for, by reason.", func(s *state) map[string]int64 { return s.Dropped }),
		counters("treadlight_suspected_links_total", "reason", "Links that lead nowhere and were followed, as traps are only reported.", func(s *state) map[string]int64 { return s.Suspected }),
		counter("treadlight_trapped_urls_total", "URLs that were accepted and then left, as those like them had nothing new.", func(s *state) float64 { return float64(s.Trapped) }),
		counters("treadlight_repeated_pages_total", "kind", "Pages that repeat others.", repetitions),
		gauge("treadlight_workers", "Goroutines that fetch.", func(s *state) float64 { return float64(s.Workers.Count) }),
		counter("treadlight_worker_busy_seconds_total", "Time that workers have fetched.", func(s *state) float64 { return s.Workers.BusySeconds }),
		counter("treadlight_worker_wait_seconds_total", "Time that workers have waited for permits.", func(s *state) float64 { return s.Workers.WaitSeconds }),
		gauge("treadlight_frontier_queued_urls", "URLs that wait to be visited.", func(s *state) float64 { return float64(s.Frontier.Queued) }),
		gauge("treadlight_frontier_leased_urls", "URLs that are being visited.", func(s *state) float64 { return float64(s.Frontier.Leased) }),
		counter("treadlight_frontier_known_urls_total", "URLs ever accepted.", func(s *state) float64 { return float64(s.Frontier.Known) }),
		gauge("treadlight_frontier_hosts", "Hosts known.", func(s *state) float64 { return float64(s.Frontier.Hosts) }),
	}
}

// repetitions are the pages that repeat others; none if nobody looked for them.
func repetitions(s *state) map[string]int64 {
	if s.Duplicates == nil {
		return nil
	}
	return map[string]int64{neardup.Exact.String(): s.Duplicates.Exact, neardup.Near.String(): s.Duplicates.Near}
}

// limiterRows are of all hosts together.
func limiterRows() []row {
	return []row{
		counter("treadlight_limiter_permits_total", "Permits granted.", func(s *state) float64 { return float64(s.Limiter.Requests) }),
		counter("treadlight_limiter_throttled_permits_total", "Permits granted after a wait.", func(s *state) float64 { return float64(s.Limiter.Throttled) }),
		counter("treadlight_limiter_denied_permits_total", "Permits that an open circuit refused.", func(s *state) float64 { return float64(s.Limiter.Denied) }),
		counter("treadlight_limiter_evicted_hosts_total", "Hosts whose state was put away.", func(s *state) float64 { return float64(s.Limiter.Evicted) }),
		gauge("treadlight_limiter_hosts", "Hosts that the limiter keeps a state of.", func(s *state) float64 { return float64(s.Limiter.Domains) }),
		gauge("treadlight_limiter_open_circuits", "Hosts that are not asked because they fail.", func(s *state) float64 { return float64(s.Limiter.Open) }),
		gauge("treadlight_limiter_half_open_circuits", "Hosts that are tried again.", func(s *state) float64 { return float64(s.Limiter.HalfOpen) }),
		gauge("treadlight_limiter_requests_in_flight", "Permits that are out.", func(s *state) float64 { return float64(s.Limiter.InFlight) }),
		gauge("treadlight_limiter_waiting_requests", "Requests that wait for a permit.", func(s *state) float64 { return float64(s.Limiter.Waiting) }),
	}
}

package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// metrics are for Prometheus. None has a label per host or URL, as a crawl meets too many of them; /api/hosts has
// single hosts.
type metrics struct {
	handler http.Handler
	refused *prometheus.CounterVec // by reason
	orders  *prometheus.CounterVec // by order and result
	lost    prometheus.Counter     // events that slow clients did not get
}

// newMetrics makes a registry of its own, so that two crawls in one process do not collide.
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
	for _, o := range allOrders {
		m.orders.WithLabelValues(o.name, "done")
		m.orders.WithLabelValues(o.name, "failed")
	}
	build := info("treadlight_build_info", "Always 1; the label is the version.", prometheus.Labels{"version": c.cfg.Version})
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "treadlight_console_event_streams", Help: "Readers of the stream of events.",
	}, func() float64 { return float64(c.streams.count()) })
	all := []prometheus.Collector{
		m.refused, m.orders, m.lost, build, streams, newCollector(c),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector(),
	}
	if c.crawl.Fleet != nil {
		f := c.crawl.Fleet()
		all = append(all, info("treadlight_fleet_info", "Always 1; the labels are the names of the shared crawl and of this process.",
			prometheus.Labels{"fleet": f.Job, "worker": f.Worker}))
	}
	registry := prometheus.NewRegistry()
	for _, each := range append(all, c.crawl.Collectors...) {
		if err := registry.Register(each); err != nil {
			return nil, err
		}
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m, nil
}

type row struct {
	name, help string
	kind       prometheus.ValueType
	label      string                            // of all; empty for none
	value      func(s *state) float64            // for a metric without a label
	values     func(s *state) map[string]float64 // for one with a label, by its value
}

type collector struct {
	sharedSnapshot func() state
	rows           []row
	descs          []*prometheus.Desc
}

func newCollector(console *Console) *collector {
	crawl := &console.crawl
	c := &collector{sharedSnapshot: console.sharedSnapshot, rows: slices.Concat(crawlRows(), limiterRows(), controlRows(crawl))}
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

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.sharedSnapshot()
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

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func crawlRows() []row {
	return []row{
		gauge("treadlight_crawl_running", "Whether the crawl runs.", func(s *state) float64 { return boolValue(s.Snapshot.State == pipeline.EndNone && s.ElapsedSeconds > 0) }),
		gauge("treadlight_crawl_paused", "Whether the crawl is paused.", func(s *state) float64 { return boolValue(s.Paused) }),
		gauge("treadlight_crawl_elapsed_seconds", "Time since the crawl began, until it ended.", func(s *state) float64 { return s.ElapsedSeconds }),
		counter("treadlight_records_total", "Records written.", func(s *state) float64 { return float64(s.Records) }),
		counter("treadlight_pages_total", "Records of pages: those with a 2xx status.", func(s *state) float64 { return float64(s.Pages) }),
		counter("treadlight_record_errors_total", "Records of URLs that failed: no answer, one that cannot be used, or a status of 400 and above.", func(s *state) float64 { return float64(s.Errors) }),
		counters("treadlight_requests_total", "outcome", "Requests made, robots.txt and retries included, by what they told of the host.",
			func(s *state) map[string]int64 { return s.Outcomes }),
		counter("treadlight_answers_total", "Requests that a host answered with a status.", func(s *state) float64 { return float64(s.Answered) }),
		counter("treadlight_retries_total", "Fetches that were to be repeated.", func(s *state) float64 { return float64(s.Retries) }),
		counter("treadlight_refused_single_urls_total", "Failures of one URL alone, as others of its host were served.", func(s *state) float64 { return float64(s.OfURL) }),
		counter("treadlight_returned_leases_total", "URLs that workers gave back unasked, as the situation of their host had changed.", func(s *state) float64 { return float64(s.Returned) }),
		counter("treadlight_robots_refused_urls_total", "URLs that robots.txt refuses.", func(s *state) float64 { return float64(s.Refused) }),
		counter("treadlight_robots_unknown_urls_total", "URLs given up because robots.txt cannot be had.", func(s *state) float64 { return float64(s.Unruled) }),
		counter("treadlight_body_bytes_total", "Bytes of bodies, decoded.", func(s *state) float64 { return float64(s.Bytes) }),
		counter("treadlight_received_bytes_total", "Bytes of bodies, as received.", func(s *state) float64 { return float64(s.WireBytes) }),
		counters("treadlight_out_of_scope_links_total", "reason", "Links that are not followed, by reason.", func(s *state) map[string]int64 { return s.OutOfScope }),
		counters("treadlight_dropped_links_total", "reason", "Links that are left out for want of room or of a budget, or as they lead nowhere, by reason.", func(s *state) map[string]int64 { return s.Dropped }),
		counters("treadlight_suspected_links_total", "reason", "Links that lead nowhere and were followed, as traps are only reported.", func(s *state) map[string]int64 { return s.Suspected }),
		counter("treadlight_trapped_urls_total", "URLs that were accepted and then left, as those like them had nothing new.", func(s *state) float64 { return float64(s.Trapped) }),
		counters("treadlight_repeated_pages_total", "kind", "Pages that repeat others.", repetitions),
		counter("treadlight_noindex_records_total", "Records left out because their pages ask for it.", func(s *state) float64 { return float64(s.Unindexed) }),
		counters("treadlight_compared_records_total", "change", "Records of pages that earlier rounds of the crawl know, by how they differ.",
			func(s *state) map[string]int64 { return s.Changes }),
		gauge("treadlight_crawl_round", "Which round of the crawl this is, from 1.", func(s *state) float64 { return float64(max(s.Round, 1)) }),
		gauge("treadlight_workers", "Goroutines that fetch.", func(s *state) float64 { return float64(s.Workers.Count) }),
		counter("treadlight_worker_busy_seconds_total", "Time that workers have fetched.", func(s *state) float64 { return s.Workers.BusySeconds }),
		counter("treadlight_worker_wait_seconds_total", "Time that workers have waited for permits.", func(s *state) float64 { return s.Workers.WaitSeconds }),
		gauge("treadlight_frontier_queued_urls", "URLs that wait to be visited.", func(s *state) float64 { return float64(s.Frontier.Queued) }),
		gauge("treadlight_frontier_leased_urls", "URLs that are being visited.", func(s *state) float64 { return float64(s.Frontier.Leased) }),
		counter("treadlight_frontier_known_urls_total", "URLs ever accepted.", func(s *state) float64 { return float64(s.Frontier.Known) }),
		gauge("treadlight_frontier_hosts", "Hosts known.", func(s *state) float64 { return float64(s.Frontier.Hosts) }),
	}
}

func repetitions(s *state) map[string]int64 {
	if s.Duplicates == nil {
		return nil
	}
	return map[string]int64{neardup.Exact.String(): s.Duplicates.Exact, neardup.Near.String(): s.Duplicates.Near}
}

func limiterRows() []row {
	return []row{
		counter("treadlight_limiter_permits_total", "Permits granted.", func(s *state) float64 { return float64(s.Limiter.Requests) }),
		counter("treadlight_limiter_throttled_permits_total", "Permits granted after a wait for the limiter.", func(s *state) float64 { return float64(s.Limiter.Throttled) }),
		counter("treadlight_limiter_denied_permits_total", "Requests that an open circuit held back.", func(s *state) float64 { return float64(s.Limiter.Denied) }),
		counter("treadlight_limiter_retries_total", "Answers to requests that were tries of a URL after the first.", func(s *state) float64 { return float64(s.Limiter.Retries) }),
		counter("treadlight_limiter_over_released_permits_total", "Permits given back more than once: a mistake in the program.", func(s *state) float64 { return float64(s.Limiter.OverReleased) }),
		counter("treadlight_limiter_evicted_hosts_total", "Hosts whose state was put away.", func(s *state) float64 { return float64(s.Limiter.Evicted) }),
		gauge("treadlight_limiter_hosts", "Hosts that the limiter keeps a state of.", func(s *state) float64 { return float64(s.Limiter.Domains) }),
		counter("treadlight_limiter_surplus_hosts_total", "Hosts taken in beyond 100,000, as all others were being asked.", func(s *state) float64 { return float64(s.Limiter.OverCap) }),
		gauge("treadlight_limiter_put_away_hosts", "Hosts whose state was put away and that are still owed a pause.", func(s *state) float64 { return float64(s.Limiter.Tombstones) }),
		gauge("treadlight_limiter_groups", "Addresses and registrable domains whose hosts are told apart.", func(s *state) float64 { return float64(s.Limiter.Groups) }),
		gauge("treadlight_limiter_merged_groups", "Addresses whose hosts are limited as one.", func(s *state) float64 { return float64(s.Limiter.Merged) }),
		capsLeft(),
		gauge("treadlight_limiter_open_circuits", "Hosts that are not asked because they fail.", func(s *state) float64 { return float64(s.Limiter.Open) }),
		gauge("treadlight_limiter_half_open_circuits", "Hosts that are tried again.", func(s *state) float64 { return float64(s.Limiter.HalfOpen) }),
		gauge("treadlight_limiter_requests_in_flight", "Permits that are out.", func(s *state) float64 { return float64(s.Limiter.InFlight) }),
		gauge("treadlight_limiter_waiting_requests", "Requests that wait for a permit.", func(s *state) float64 { return float64(s.Limiter.Waiting) }),
	}
}

// capsLeft is what is left of the caps of all hosts together.
func capsLeft() row {
	return row{
		name: "treadlight_limiter_cap_left", help: "What is left now of a cap of all hosts together: requests, or bytes for global_bytes; below zero is a debt.",
		kind: prometheus.GaugeValue, label: "cap",
		values: func(s *state) map[string]float64 {
			left := make(map[string]float64)
			for _, c := range s.Limiter.Caps {
				left[c.Limit.String()] = float64(c.Left)
			}
			return left
		},
	}
}

func controlRows(crawl *Crawl) []row {
	return []row{
		gauge("treadlight_operator_blocked_hosts", "Hosts of which an operator has nothing asked.", func(*state) float64 { return float64(len(crawl.Controls().Blocked)) }),
		gauge("treadlight_operator_ceilings", "Hosts for which an operator has set a rate.", func(*state) float64 { return float64(len(crawl.Controls().Ceilings)) }),
	}
}

func keptRows(kept func() Kept) []row {
	return []row{
		gauge("treadlight_state_pending_operations", "What the state of the crawl was told and is not on the disk yet.", func(*state) float64 { return float64(kept().Pending) }),
		gauge("treadlight_state_pending_operations_limit", "With so many pending the crawl waits for the disk.", func(*state) float64 { return float64(kept().Limit) }),
		gauge("treadlight_state_queued_urls", "URLs that wait to be visited, as of the last commit.", func(*state) float64 { return float64(kept().Queued) }),
		counter("treadlight_state_visited_urls_total", "URLs that are done with, as of the last commit.", func(*state) float64 { return float64(kept().Done) }),
		gauge("treadlight_state_index_memory_bytes", "Memory that the fingerprints of URLs take.", func(*state) float64 { return float64(kept().IndexMemory) }),
		gauge("treadlight_state_index_disk_bytes", "Room on the disk that the fingerprints of URLs take.", func(*state) float64 { return float64(kept().IndexDisk) }),
		gauge("treadlight_state_failed", "Whether the state cannot be written any more.", func(*state) float64 { return boolValue(kept().Failed) }),
	}
}

// Fleet is the part of this process in a crawl that several share, and how the whole stands.
type Fleet = frontier.JobFigures

var fleetStates = []string{"running", "paused", "draining", "cut_off"}

func fleetRows() []row {
	return []row{
		{
			name: "treadlight_fleet_state", help: "Which of its states the process is in: cut_off has not heard of Redis for so long that it asks for nothing.", kind: prometheus.GaugeValue, label: "state",
			values: func(s *state) map[string]float64 {
				all := make(map[string]float64, len(fleetStates))
				for _, name := range fleetStates {
					all[name] = boolValue(name == s.Fleet.State)
				}
				return all
			},
		},
		gauge("treadlight_fleet_owned_hosts", "Hosts that belong to this process.", func(s *state) float64 { return float64(s.Fleet.Hosts) }),
		gauge("treadlight_fleet_loaded_urls", "URLs that this process was handed and are not done.", func(s *state) float64 { return float64(s.Fleet.Loaded) }),
		gauge("treadlight_fleet_pending_operations", "What this process has to tell Redis and has not sent yet.", func(s *state) float64 { return float64(s.Fleet.Pending) }),
		gauge("treadlight_fleet_silence_seconds", "Time since Redis answered a heartbeat, which it should every third of the lease.", func(s *state) float64 { return s.Fleet.SilentSeconds }),
		gauge("treadlight_fleet_lease_seconds", "Time for which a process that is not heard of keeps its hosts.", func(s *state) float64 { return s.Fleet.LeaseSeconds }),
		gauge("treadlight_fleet_trip_seconds", "What the last batch to Redis took.", func(s *state) float64 { return s.Fleet.TripSeconds }),
		counter("treadlight_fleet_commands_total", "Commands sent to Redis.", func(s *state) float64 { return float64(s.Fleet.Commands) }),
		counter("treadlight_fleet_repeated_commands_total", "Commands sent to Redis again, as there was no answer.", func(s *state) float64 { return float64(s.Fleet.Repeated) }),
		counter("treadlight_fleet_acquired_hosts_total", "Hosts that this process was given.", func(s *state) float64 { return float64(s.Fleet.Acquired) }),
		counter("treadlight_fleet_given_hosts_total", "Hosts that this process gave back.", func(s *state) float64 { return float64(s.Fleet.Given) }),
		counter("treadlight_fleet_lost_hosts_total", "Hosts that this process lost, as its lease had ended.", func(s *state) float64 { return float64(s.Fleet.Lost) }),
		counter("treadlight_fleet_refused_urls_total", "URLs that were dropped because Redis had no memory for them.", func(s *state) float64 { return float64(s.Fleet.Dropped) }),
		gauge("treadlight_fleet_redis_full", "Whether Redis has no memory for new URLs.", func(s *state) float64 { return boolValue(s.Fleet.Full) }),
		counter("treadlight_fleet_known_urls_total", "URLs ever accepted, by all processes.", func(s *state) float64 { return float64(s.Fleet.Known) }),
		counter("treadlight_fleet_done_urls_total", "URLs that are done, by all processes.", func(s *state) float64 { return float64(s.Fleet.Done) }),
		gauge("treadlight_fleet_queued_urls", "URLs that are not done, of all processes.", func(s *state) float64 { return float64(s.Fleet.Queued) }),
		gauge("treadlight_fleet_leased_urls", "URLs that processes were handed and are not done, of all of them.", func(s *state) float64 { return float64(s.Fleet.Leased) }),
		gauge("treadlight_fleet_processes", "Processes that are heard of.", func(s *state) float64 { return float64(s.Fleet.Processes) }),
		gauge("treadlight_fleet_figures_age_seconds", "How old the figures of all processes are; they are read while somebody looks.", func(s *state) float64 { return s.Fleet.AgeSeconds }),
	}
}

// info returns a metric that says something by its labels.
func info(name, help string, labels prometheus.Labels) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}

func fleetSummary(f *Fleet) string {
	if f == nil {
		return ""
	}
	whole := dashboard.Whole
	text := fmt.Sprintf("%s in %s is %s and has %s. All %s together: %s queued, %s of them handed out; %s of %s done, as of %.0f s ago.",
		f.Worker, f.Job, strings.ReplaceAll(f.State, "_", " "), dashboard.Plural(int64(f.Hosts), "host"), dashboard.Plural(int64(f.Processes), "process"), dashboard.Plural(f.Queued, "URL"), whole(f.Leased), whole(f.Done), whole(f.Known), f.AgeSeconds)
	if f.SilentSeconds > f.LeaseSeconds/2 {
		text += fmt.Sprintf(" Redis was last heard %.0f s ago.", f.SilentSeconds)
	}
	if f.Full {
		text += fmt.Sprintf(" Redis has no memory left: %s URLs were dropped.", whole(f.Dropped))
	}
	return text
}

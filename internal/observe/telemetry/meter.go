// Package telemetry measures how long the parts of a crawl take, as histograms for Prometheus.
//
// The stages of a crawl report single events to a [Meter], and the server of metrics reads it. Until [Meter.Start] it
// counts nothing. Every histogram has fixed buckets and, for servers that accept them, a bounded number of native ones.
// The only label is the class of an outcome.
package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// The buckets, in seconds, and those of bodies in bytes. Those of requests reach to the longest that the default
// timeout allows and a little further. Those of waits within the process begin at the shortest that can be measured.
var (
	requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	waitBuckets    = []float64{.00001, .0001, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30}
	turnBuckets    = []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1}
	flushBuckets   = []float64{.00001, .0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	bodyBuckets    = []float64{1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26}
)

// Meter measures one crawl. It is made by [New]. A nil Meter measures nothing. All methods are safe for concurrent use
// and never block.
type Meter struct {
	on atomic.Bool

	firstByte, total byClass
	body             prometheus.Histogram
	phases           [pipeline.OutputBatch + 1]prometheus.Histogram
}

// New returns a Meter that measures nothing yet.
func New() *Meter {
	return &Meter{
		firstByte: newByClass(options("treadlight_fetch_first_byte_seconds",
			"Time from the request being sent to the first byte of the answer, by outcome.", requestBuckets)),
		total: newByClass(options("treadlight_fetch_duration_seconds",
			"Time that requests took, connection and body included, by outcome.", requestBuckets)),
		body: newHistogram("treadlight_fetch_body_size_bytes", "Size of the bodies of answers, decoded.", bodyBuckets),
		phases: [...]prometheus.Histogram{
			pipeline.PermitWait: newHistogram("treadlight_permit_wait_seconds",
				"Time that workers waited for the permit of the limiter.", waitBuckets),
			pipeline.QueueWait: newHistogram("treadlight_queue_wait_seconds",
				"Time from when a host could be asked to when a worker was given its URL: want of workers, or Discovery being late.", waitBuckets),
			pipeline.DiscoveryTurn: newHistogram("treadlight_discovery_turn_seconds",
				"Time that Discovery, which hands out all work, was busy without a pause, waits for a processor included.", turnBuckets),
			pipeline.OutputBatch: newHistogram("treadlight_output_batch_seconds",
				"Time to write a batch of records to all sinks and archives and to flush them.", flushBuckets),
		},
	}
}

// Start starts the measuring. Calling it again does nothing.
func (m *Meter) Start() {
	if m != nil {
		m.on.Store(true)
	}
}

// On reports whether it measures. If not, callers need not read a clock for it.
func (m *Meter) On() bool { return m != nil && m.on.Load() }

// Collectors returns the histograms, for a registry.
func (m *Meter) Collectors() []prometheus.Collector {
	if m == nil {
		return nil
	}
	all := []prometheus.Collector{m.firstByte.vec, m.total.vec, m.body}
	for _, h := range m.phases {
		all = append(all, h)
	}
	return all
}

// Request adds a request that was made. If there was no response, firstByte is zero and body is negative.
func (m *Meter) Request(class outcome.Class, firstByte, total time.Duration, body int64) {
	if !m.On() {
		return
	}
	m.total.each[class]().Observe(total.Seconds())
	if firstByte > 0 {
		m.firstByte.each[class]().Observe(firstByte.Seconds())
	}
	if body >= 0 {
		m.body.Observe(float64(body))
	}
}

// Took adds the duration of a phase.
func (m *Meter) Took(phase pipeline.Phase, d time.Duration) {
	if m.On() {
		m.phases[phase].Observe(max(d, 0).Seconds())
	}
}

// options returns the options of a histogram that has native buckets besides the fixed ones: each a tenth wider than
// the one before, and at most 160. When there are too many and an hour has passed, the histogram is reset instead of
// made coarser.
func options(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

func newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(options(name, help, buckets))
}

// byClass is a histogram for each class of outcomes. It is made when the class first occurs, as most crawls see a third
// of the classes.
type byClass struct {
	vec  *prometheus.HistogramVec
	each [outcome.Canceled + 1]func() prometheus.Observer
}

func newByClass(o prometheus.HistogramOpts) (b byClass) {
	b.vec = prometheus.NewHistogramVec(o, []string{"outcome"})
	for class := range b.each {
		b.each[class] = sync.OnceValue(func() prometheus.Observer { return b.vec.WithLabelValues(outcome.Class(class).String()) })
	}
	return b
}

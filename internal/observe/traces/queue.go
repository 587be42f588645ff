package traces

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Why a span was dropped.
const (
	lostFull     = "queue_full" // more came than could be sent
	lostExport   = "export"     // the collector could not be reached, or would not have it
	lostRejected = "rejected"   // the collector took the others of its batch
)

// queue stands before the batches of the SDK and knows how many spans wait: that drops what it
// has no room for as well, but counts it for itself alone.
type queue struct {
	next     sdk.SpanProcessor // set by Start
	log      *slog.Logger
	endpoint string
	room     int64 // spans; tests have less
	waiting  atomic.Int64
	dropped  atomic.Int64
	exported prometheus.Counter
	lost     *prometheus.CounterVec

	mu      sync.Mutex // guards what follows
	failing bool
	full    bool
}

var _ sdk.SpanProcessor = (*queue)(nil)

func newQueue(c *client, log *slog.Logger) *queue {
	q := &queue{
		log: log, endpoint: c.shown, room: room,
		exported: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "treadlight_trace_exported_spans_total", Help: "Spans that were sent to the collector in batches that it has accepted.",
		}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "treadlight_trace_dropped_spans_total", Help: "Spans that did not reach the collector, by reason.",
		}, []string{"reason"}),
	}
	for _, why := range []string{lostFull, lostExport, lostRejected} {
		q.lost.WithLabelValues(why) // a rate over a counter needs it to be there before
	}
	return q
}

// OnStart implements [sdk.SpanProcessor].
func (*queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd takes a span if there is room. It never waits.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.waiting.Add(1) > q.room {
		q.waiting.Add(-1)
		q.drop(lostFull, 1)
		q.mu.Lock()
		first := !q.full && !q.failing // else it has been said why
		q.full = true
		q.mu.Unlock()
		if first {
			q.log.Warn("spans come faster than the collector takes them; some are dropped and the crawl goes on",
				slog.String("endpoint", q.endpoint), slog.String("fix", "lower traces.sample"))
		}
		return
	}
	q.next.OnEnd(s)
}

// Shutdown implements [sdk.SpanProcessor].
func (q *queue) Shutdown(ctx context.Context) error { return q.next.Shutdown(ctx) }

// ForceFlush implements [sdk.SpanProcessor].
func (q *queue) ForceFlush(ctx context.Context) error { return q.next.ForceFlush(ctx) }

func (q *queue) drop(why string, n int) {
	q.dropped.Add(int64(n))
	q.lost.WithLabelValues(why).Add(float64(n))
}

// sent takes in what became of a batch. What changes is said once.
func (q *queue) sent(n int, err error) {
	q.waiting.Add(-int64(n))
	q.mu.Lock()
	changed := q.failing != (err != nil)
	if q.failing = err != nil; !q.failing {
		q.full = false
	}
	q.mu.Unlock()
	if err != nil {
		q.drop(lostExport, n)
	} else {
		q.exported.Add(float64(n))
	}
	switch {
	case changed && err != nil:
		q.log.Warn("the collector takes no spans; they are dropped and the crawl goes on",
			slog.String("endpoint", q.endpoint), slog.Any("error", err))
	case changed:
		q.log.Info("the collector takes spans again", slog.String("endpoint", q.endpoint))
	}
}

// rejected takes in that the collector did not want some of a batch.
func (q *queue) rejected(n int64, why string) {
	q.drop(lostRejected, int(n))
	q.log.Debug("the collector has rejected spans", slog.Int64("spans", n), slog.String("reason", why))
}

// sum says at the end what is missing.
func (q *queue) sum() {
	if n := q.dropped.Load(); n > 0 {
		q.log.Warn("the traces are not complete", slog.Int64("dropped_spans", n), slog.String("endpoint", q.endpoint))
	}
}

// counted tells the queue what became of each batch. It returns no error, which the SDK would
// write to standard error.
type counted struct {
	sdk.SpanExporter
	q *queue
}

// ExportSpans implements [sdk.SpanExporter].
func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	c.q.sent(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/post"
	"github.com/treadlight/crawl/internal/fetch/redact"
)

const (
	sends = 3 // how often a batch is sent at most, if the collector is overloaded
	// pause is the wait before a batch is sent again, unless the collector sends a Retry-After, which maxPause bounds.
	pause, maxPause = time.Second, 5 * time.Second
)

type client struct {
	to       *url.URL
	shown    string // the endpoint without secrets, for messages
	cfg      *Config
	http     *http.Client
	rejected func(n int64, why string) // called if the collector rejects spans; nil calls nothing

	life context.Context // ended by end
	end  context.CancelFunc
}

var _ otlptrace.Client = (*client)(nil)

func newClient(to *url.URL, cfg *Config) *client {
	return &client{to: to, shown: redact.URL(to.String()), cfg: cfg}
}

func (c *client) begin() {
	c.life, c.end = context.WithCancel(context.Background())
	c.http = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: tlsConfig(c.cfg.Insecure), ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
		},
		// A server that redirects is not a collector, and the redirect is not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Start implements [otlptrace.Client]. It does nothing.
func (*client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. It sends a batch, and sends it again if the collector is overloaded.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	// The request type of the protocol has the same encoding, but its package would import gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	for n := 1; ; n++ {
		err = c.send(ctx, body)
		refused, ok := errors.AsType[*post.Refusal](err)
		if !ok {
			return err
		}
		if n == sends || !slices.Contains(overloaded, refused.Status) || clock.Sleep(ctx, c.cfg.Clock, cmp.Or(refused.After, pause)) != nil {
			return refused.Cause
		}
	}
}

// overloaded are the statuses with which a collector asks for a batch again.
var overloaded = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func (c *client) send(ctx context.Context, body []byte) error {
	h := make(http.Header)
	for name, values := range c.cfg.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Set("Content-Type", "application/x-protobuf")
	h.Set("User-Agent", "Treadlight/"+c.cfg.Version+" OTLP exporter")
	answer, err := post.Send(ctx, c.http, c.to.String(), h, body, maxPause)
	if err == nil {
		c.read(answer)
	}
	return err
}

// read looks for rejected spans in a response: field 1 is a message whose field 1 is their number and whose field 2 is
// the reason.
func (c *client) read(answer []byte) {
	if partial, _ := protowire.ConsumeBytes(field(answer, 1, protowire.BytesType)); len(partial) > 0 {
		n, _ := protowire.ConsumeVarint(field(partial, 1, protowire.VarintType))
		why, _ := protowire.ConsumeBytes(field(partial, 2, protowire.BytesType))
		if int64(n) > 0 && c.rejected != nil {
			c.rejected(int64(n), string(why))
		}
	}
}

func field(b []byte, want protowire.Number, kind protowire.Type) []byte {
	for len(b) > 0 {
		num, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil
		}
		if b = b[size:]; num == want && typ == kind {
			return b
		}
		if size = protowire.ConsumeFieldValue(num, typ, b); size < 0 {
			return nil
		}
		b = b[size:]
	}
	return nil
}

// Why a span was dropped.
const (
	lostFull     = "queue_full" // more spans were made than could be sent
	lostExport   = "export"     // the collector could not be reached, or did not accept them
	lostRejected = "rejected"   // the collector accepted the other spans of the batch
)

// queue is placed before the batch processor of the SDK and counts the spans that wait. The SDK drops spans for which
// there is no room as well, but does not report how many.
type queue struct {
	sdk.SpanProcessor // the batch processor of the SDK; set by Start

	log      *slog.Logger
	endpoint string
	room     int64 // in spans; smaller in tests
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
		q.lost.WithLabelValues(why) // a rate needs the counter to exist before the first event
	}
	return q
}

func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.waiting.Add(1) > q.room {
		q.waiting.Add(-1)
		q.drop(lostFull, 1)
		q.mu.Lock()
		first := !q.full && !q.failing // otherwise the reason was logged
		q.full = true
		q.mu.Unlock()
		if first {
			q.log.Warn("spans come faster than the collector takes them; some are dropped and the crawl goes on",
				slog.String("endpoint", q.endpoint), slog.String("fix", "lower traces.sample"))
		}
		return
	}
	q.SpanProcessor.OnEnd(s)
}

func (q *queue) drop(why string, n int) {
	q.dropped.Add(int64(n))
	q.lost.WithLabelValues(why).Add(float64(n))
}

// sent counts the result of a batch. Changes between success and failure are logged once.
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

func (q *queue) rejected(n int64, why string) {
	q.drop(lostRejected, int(n))
	q.log.Debug("the collector has rejected spans", slog.Int64("spans", n), slog.String("reason", why))
}

func (q *queue) sum() {
	if n := q.dropped.Load(); n > 0 {
		q.log.Warn("the traces are not complete", slog.Int64("dropped_spans", n), slog.String("endpoint", q.endpoint))
	}
}

// counted reports the result of each batch to the queue. It returns no error, because the SDK would write it to
// standard error.
type counted struct {
	sdk.SpanExporter
	q *queue
}

func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	c.q.sent(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// Package traces sends an OpenTelemetry collector what happened to single URLs, and when.
//
// An [Exporter] is the [pipeline.Tracer] of one crawl. A URL is a trace:
//
//	crawl URL      from when it was found until its record was written
//	├ queue        in the frontier, until it was leased for the last time
//	├ permit       the wait for the limiter, once for each attempt
//	├ GET          a request, named by its method, once for each attempt: dns, connect, tls, first byte, body
//	├ robots.txt   the request for the rules, if this URL was the first to wait for them
//	├ process      decoding, links, text, handlers
//	└ write        sinks and archives
//
// The IDs of a trace and of its root are made from the URL and a secret of the process, so that all attempts of a URL
// are in one trace and nothing needs to be remembered. Attributes have the names of the semantic conventions (1.43) where
// there are any; URLs and errors are redacted.
//
// Spans go to the batch processor of the official SDK, with bounded room: a collector that is slow, unreachable or
// refuses them does not slow down the crawl. They are sent by OTLP over HTTP, in protobuf, by a client of our own,
// because the SDK's would link gRPC into the binary. [New] starts nothing. [Exporter.Start] starts a goroutine, which
// [Exporter.Close] ends within a bounded time.
package traces

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	// room bounds the spans that wait for the collector: some 10 MB, or one second of a crawl that traces a thousand
	// URLs per second.
	room         = 1 << 13
	batch        = 512              // spans sent together, as in the specification
	batchWait    = time.Second      // how long a span waits at most for others of its batch
	sending      = 10 * time.Second // bounds the sending of one batch, repetitions included; as in the specification
	closeTimeout = 5 * time.Second  // how long the end of a crawl waits at most for the collector
)

// Config says where traces are sent. Endpoint is required.
type Config struct {
	Endpoint string // http or https URL of a collector; /v1/traces is added to a URL without a path
	// Header is sent with every request to the collector. Nil adds nothing.
	Header http.Header
	Sample float64 // the share of URLs that are traced, from 0 to 1. Zero traces none.
	// Insecure accepts any certificate of the collector. False verifies it.
	Insecure bool
	// Propagate sends a traceparent header to the hosts that are crawled, for hosts that trace, too. False sends none,
	// as it concerns no foreign host.
	Propagate bool
	Version   string // of the service. Empty means none.
	// Clock tells the time. Nil means the system clock.
	Clock clock.Clock
	Log   *slog.Logger // logs when the collector cannot be reached, and what was dropped. Nil logs nothing.
}

// Exporter traces one crawl. It is made by [New]. A nil Exporter has no metrics and needs no Start and Close.
type Exporter struct {
	cfg    Config
	client *client
	redact *redact.Redactor
	secret uint64
	below  uint64 // URLs with smaller hashes are traced, of the 63 bits that the specification uses for sampling

	started  atomic.Bool
	provider *sdk.TracerProvider // set by Start
	tracer   trace.Tracer
	queue    *queue
}

var _ pipeline.Tracer = (*Exporter)(nil)

// New returns an Exporter that is not started. The error names the invalid field of cfg.
func New(cfg Config) (*Exporter, error) {
	at, err := endpoint.ParseCollector(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("traces: Endpoint: %w", err)
	}
	if !(cfg.Sample >= 0 && cfg.Sample <= 1) {
		return nil, fmt.Errorf("traces: Sample is %v: give it a share from 0 to 1", cfg.Sample)
	}
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	e := &Exporter{cfg: cfg, secret: rand.Uint64(), below: uint64(cfg.Sample * (1 << 63))}
	e.client = newClient(at, &e.cfg)
	e.queue = newQueue(e.client, cfg.Log)
	e.client.rejected = e.queue.rejected
	return e, nil
}

// Start starts the tracing of URLs. It is called at most once, before Close.
func (e *Exporter) Start() {
	if e == nil {
		return
	}
	e.client.begin()
	exporter := otlptrace.NewUnstarted(e.client)
	_ = exporter.Start(e.client.life) // our client does nothing there
	e.queue.SpanProcessor = sdk.NewBatchSpanProcessor(&counted{exporter, e.queue},
		sdk.WithMaxQueueSize(room), sdk.WithMaxExportBatchSize(batch), sdk.WithBatchTimeout(batchWait), sdk.WithExportTimeout(sending))
	e.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(fixedIDs{}), sdk.WithSpanProcessor(e.queue), sdk.WithResource(e.resource()))
	e.tracer = e.provider.Tracer("github.com/treadlight/crawl", trace.WithInstrumentationVersion(e.cfg.Version))
	e.started.Store(true)
}

// resource describes this service. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it.
func (e *Exporter) resource() *resource.Resource {
	us := resource.NewSchemaless(semconv.ServiceName("treadlight"), semconv.ServiceVersion(e.cfg.Version))
	env, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		e.cfg.Log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read in part", slog.Any("error", err))
	}
	all, err := resource.Merge(us, env)
	if err != nil { // only if the schemas contradict each other, and ours has none
		return us
	}
	return all
}

// Close sends the remaining spans, within five seconds, and ends all goroutines of the Exporter. URLs are not traced
// after it.
func (e *Exporter) Close() {
	if e == nil || !e.started.Swap(false) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.provider.Shutdown(context.WithoutCancel(e.client.life)) // failures are counted where they happen
	}()
	timer := e.cfg.Clock.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
		e.client.end() // makes all requests in flight fail at once
		<-done
	}
	e.client.end()
	e.queue.sum()
}

// Collectors returns the metrics of sent and dropped spans.
func (e *Exporter) Collectors() []prometheus.Collector {
	if e == nil {
		return nil
	}
	return []prometheus.Collector{e.queue.exported, e.queue.lost}
}

type identity struct {
	trace   trace.TraceID
	root    trace.SpanID
	request trace.SpanID
}

// Begin implements [pipeline.Tracer].
func (e *Exporter) Begin(u, cause canonical.URL) *pipeline.Trip {
	if !e.started.Load() {
		return nil
	}
	name := u.String()
	if !cause.IsZero() {
		name = cause.String()
	}
	low := e.hash(name, 0)
	if low>>1 >= e.below && e.cfg.Sample < 1 {
		return nil
	}
	id := &identity{}
	binary.BigEndian.PutUint64(id.trace[:8], e.hash(name, 1))
	binary.BigEndian.PutUint64(id.trace[8:], max(low, 1))
	binary.BigEndian.PutUint64(id.root[:], max(e.hash(name, 2), 1))
	binary.BigEndian.PutUint64(id.request[:], rand.Uint64N(math.MaxUint64)+1)
	t := &pipeline.Trip{State: id}
	if e.cfg.Propagate {
		t.Parent = fmt.Sprintf("00-%s-%s-01", id.trace, id.request)
	}
	return t
}

// hash returns the nth of several hashes of a text. Without the secret they cannot be predicted.
func (e *Exporter) hash(s string, n uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(e.secret + n)
	_, _ = d.WriteString(s)
	return d.Sum64()
}

// fixedIDs gives spans the IDs in their context, and random ones without such a context.
type fixedIDs struct{}

type identityKey struct{}

// NewIDs implements [sdk.IDGenerator] for a span without a parent.
func (fixedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(identityKey{}).(*identity)
	return id.trace, id.root
}

func (fixedIDs) NewSpanID(ctx context.Context, _ trace.TraceID) (s trace.SpanID) {
	if id, ok := ctx.Value(identityKey{}).(*identity); ok {
		return id.request
	}
	binary.BigEndian.PutUint64(s[:], rand.Uint64N(math.MaxUint64)+1)
	return s
}

func tlsConfig(insecure bool) *tls.Config {
	return &tls.Config{InsecureSkipVerify: insecure, MinVersion: tls.VersionTLS12}
}

// Attributes that the conventions have no name for.
const (
	attrKind    = attribute.Key("crawl.kind")    // page, robots or sitemap
	attrDepth   = attribute.Key("crawl.depth")   // links from a seed
	attrAttempt = attribute.Key("crawl.attempt") // counted from 1
	attrOutcome = attribute.Key("crawl.outcome") // the class of the request
	attrFate    = attribute.Key("crawl.fate")    // what happened to the URL after the request
)

// End implements [pipeline.Tracer].
func (e *Exporter) End(t *pipeline.Trip) {
	id, ok := t.State.(*identity)
	if !ok || !e.started.Load() {
		return
	}
	// The root span is made last, and not at all for a robots.txt: the other spans refer to its ID.
	root := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id.trace, SpanID: id.root, TraceFlags: trace.FlagsSampled,
	}))
	u := e.redact.URL(t.URL.String())
	e.request(root, t, id, u)
	e.timeSpan(root, "process", t.Parse.From, t.Parse.Til)
	e.timeSpan(root, "write", t.Write.From, t.Write.Til)
	if !t.Final || !t.Cause.IsZero() {
		return
	}
	e.timeSpan(root, "queue", t.Found, t.Leased)
	end := t.Write.Til
	if end.IsZero() {
		end = t.Ended
	}
	ctx := context.WithValue(context.Background(), identityKey{}, id)
	_, span := e.tracer.Start(ctx, "crawl URL", trace.WithNewRoot(), trace.WithTimestamp(t.Found),
		trace.WithAttributes(append(place(t.URL), semconv.URLFull(u), attrKind.String(t.Kind.String()), attrDepth.Int(t.Depth),
			attrAttempt.Int(t.Attempt), attrFate.String(t.Fate))...))
	e.setOutcome(span, t)
	span.End(trace.WithTimestamp(end))
}

func (e *Exporter) request(root context.Context, t *pipeline.Trip, id *identity, u string) {
	if t.Ended.IsZero() {
		return
	}
	e.timeSpan(root, "permit", t.Sent.Add(-t.PermitWait), t.Sent)
	method := cmp.Or(t.Method, http.MethodGet)
	name := method
	if t.Kind == frontier.Robots {
		name = "robots.txt"
	}
	attrs := append(place(t.URL), semconv.HTTPRequestMethodKey.String(method), semconv.URLFull(u), attrAttempt.Int(t.Attempt), attrFate.String(t.Fate))
	if t.Attempt > 1 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(t.Attempt-1))
	}
	if _, version, ok := strings.Cut(t.Proto, "/"); ok {
		attrs = append(attrs, semconv.NetworkProtocolVersion(strings.TrimSuffix(version, ".0")))
	}
	if at, err := netip.ParseAddrPort(t.RemoteAddr); err == nil {
		attrs = append(attrs, semconv.NetworkPeerAddress(at.Addr().String()), semconv.NetworkPeerPort(int(at.Port())))
	}
	if t.Status != 0 {
		attrs = append(attrs, semconv.HTTPResponseBodySize(int(t.WireBytes)))
	}
	ctx, span := e.tracer.Start(context.WithValue(root, identityKey{}, id), name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(t.Sent), trace.WithAttributes(attrs...))
	e.setOutcome(span, t)
	e.phases(context.WithValue(ctx, identityKey{}, nil), t)
	span.End(trace.WithTimestamp(t.Ended))
}

// phases adds the spans of the phases of a request, as far as the Fetcher reports them: the connection was ready when
// the request was passed to it, and the body ended together with the request.
func (e *Exporter) phases(ctx context.Context, t *pipeline.Trip) {
	if t.Handed.IsZero() {
		return
	}
	w := &t.Timings
	at := t.Handed.Add(-w.TLS - w.Connect - w.DNS)
	for _, p := range [...]struct {
		name string
		took time.Duration
	}{{"dns", w.DNS}, {"connect", w.Connect}, {"tls", w.TLS}, {"first byte", w.FirstByte}} {
		if p.took > 0 {
			e.timeSpan(ctx, p.name, at, at.Add(p.took))
		}
		at = at.Add(p.took)
	}
	if w.Body > 0 {
		e.timeSpan(ctx, "body", t.Ended.Add(-w.Body), t.Ended)
	}
}

// timeSpan adds a span for an interval. It adds none if the interval is not set.
func (e *Exporter) timeSpan(parent context.Context, name string, from, til time.Time) {
	if from.IsZero() || til.Before(from) {
		return
	}
	_, span := e.tracer.Start(parent, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(til))
}

func (e *Exporter) setOutcome(span trace.Span, t *pipeline.Trip) {
	if t.Status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(t.Status))
	}
	if t.Ended.IsZero() {
		return // no request was made
	}
	span.SetAttributes(attrOutcome.String(t.Class.String()))
	switch {
	case t.Err != nil:
		span.SetAttributes(semconv.ErrorTypeKey.String(outcome.Of(0, t.Err).String()))
		span.SetStatus(codes.Error, e.redact.Text(t.Err.Error()))
	case t.Status >= 400: // an error for the client, by the convention
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(t.Status)))
		span.SetStatus(codes.Error, "")
	}
}

func place(u canonical.URL) []attribute.KeyValue {
	port := 80
	if u.Scheme() == "https" {
		port = 443
	}
	if _, text, err := net.SplitHostPort(u.Host()); err == nil {
		port, _ = strconv.Atoi(text) // cannot fail: the port of a canonical URL is a number
	}
	attrs := make([]attribute.KeyValue, 0, 12)
	return append(attrs, semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port))
}

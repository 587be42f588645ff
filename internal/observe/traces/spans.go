package traces

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Attributes that have no name in the conventions.
const (
	attrKind    = attribute.Key("crawl.kind")    // page, robots or sitemap
	attrDepth   = attribute.Key("crawl.depth")   // links from a seed
	attrAttempt = attribute.Key("crawl.attempt") // from 1
	attrOutcome = attribute.Key("crawl.outcome") // the class of the request
	attrFate    = attribute.Key("crawl.fate")    // what became of the URL after it
)

// End implements [pipeline.Tracer].
func (e *Exporter) End(t *pipeline.Trip) {
	id, ok := t.State.(*identity)
	if !ok || !e.started.Load() {
		return
	}
	// The root is not there yet, or never was in the case of a robots.txt: all refer to its ID.
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
	name := "GET"
	if t.Kind == frontier.Robots {
		name = "robots.txt"
	}
	attrs := append(place(t.URL), semconv.HTTPRequestMethodGet, semconv.URLFull(u), attrAttempt.Int(t.Attempt), attrFate.String(t.Fate))
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

// phases is where the time of a request went, as far as the Fetcher told: the connection was
// ready when the request was handed to it, and the body ended with all of it.
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

// timeSpan is a span of a piece of time; none if there is no such piece.
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
		return // nothing was asked for
	}
	span.SetAttributes(attrOutcome.String(t.Class.String()))
	switch {
	case t.Err != nil:
		span.SetAttributes(semconv.ErrorTypeKey.String(outcome.Of(0, t.Err).String()))
		span.SetStatus(codes.Error, e.redact.Text(t.Err.Error()))
	case t.Status >= 400: // an error to whoever asked, says the convention
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
		port, _ = strconv.Atoi(text) // a canonical URL has a number there
	}
	attrs := make([]attribute.KeyValue, 0, 12)
	return append(attrs, semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port))
}

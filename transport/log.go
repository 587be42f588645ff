package transport

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// LogConfig says what is logged of requests, and how.
type LogConfig struct {
	Logger    *slog.Logger // gets one record for each request; nil means that nothing is logged
	Level     slog.Leveler // for requests with a response that is no sign of trouble, and for canceled ones; nil means Info
	FailLevel slog.Leveler // for requests without a response, or whose outcome shows a host in trouble; nil means Warn
	Headers   bool         // adds the headers of both sides, redacted
}

// Log makes a layer that logs every request once: at the end of the response's body, or with its error. The record has
// the method, the redacted URL, the status, the attempts of the retry, the time to the header and to the end of the
// body, and the bytes of the bodies sent (-1 if unknown) and received. Secrets in error texts are redacted. Log returns
// nil if Logger is nil.
func Log(cfg LogConfig) Middleware {
	if cfg.Logger == nil {
		return nil
	}
	if cfg.Level == nil {
		cfg.Level = slog.LevelInfo
	}
	if cfg.FailLevel == nil {
		cfg.FailLevel = slog.LevelWarn
	}
	return func(next http.RoundTripper) http.RoundTripper {
		return layerFunc((&logLayer{cfg, newHop(next)}).roundTrip)
	}
}

type logLayer struct {
	LogConfig
	next hop
}

func (l *logLayer) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	if !l.Logger.Enabled(ctx, l.Level.Level()) && !l.Logger.Enabled(ctx, l.FailLevel.Level()) {
		return l.next.send(ctx, req)
	}
	start := now()
	res, err := l.next.send(ctx, req)
	e := &logEntry{l: l, ctx: ctx, req: req, res: res, start: start, headed: since(start)}
	if err != nil {
		e.write(err)
		return nil, err
	}
	return Bind(res, e.write), nil
}

type logEntry struct {
	l      *logLayer
	ctx    context.Context
	req    *http.Request
	res    *http.Response // nil if there was none
	start  time.Time
	headed time.Duration
}

func (e *logEntry) write(err error) {
	level := e.l.Level.Level()
	if class := classOf(e.res, err); class.Overload() || !class.Answered() && class != outcome.Canceled {
		level = e.l.FailLevel.Level()
	}
	if e.l.Logger.Enabled(e.ctx, level) {
		e.l.Logger.LogAttrs(e.ctx, level, "request", e.attrs(err)...)
	}
}

func (e *logEntry) attrs(err error) []slog.Attr {
	var r *redact.Redactor // nil means the package's default rules
	list := []slog.Attr{slog.String("method", cmp.Or(e.req.Method, http.MethodGet)), slog.String("url", shown(e.req))}
	if e.res != nil {
		list = append(
			list, slog.Int("status", e.res.StatusCode), slog.Int("attempts", Attempts(e.res)),
			slog.Duration("header", e.headed), slog.Int64("received", received(e.res)),
		)
	} else if retried, ok := errors.AsType[*resilience.RetryError](err); ok {
		list = append(list, slog.Int("attempts", retried.Attempts))
	}
	list = append(list, slog.Duration("total", since(e.start)), slog.Int64("sent", sentBytes(e.req)))
	if e.l.Headers {
		list = append(list, slog.Any("request_header", r.Header(e.req.Header)))
		if e.res != nil {
			list = append(list, slog.Any("response_header", r.Header(e.res.Header)))
		}
	}
	if err != nil {
		list = append(list, slog.String("error", r.Text(err.Error(), r.Secrets(e.req)...)))
	}
	return list
}

func shown(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	return redact.URL(req.URL.String())
}

func received(res *http.Response) int64 {
	switch b := res.Body.(type) {
	case *scope:
		return b.read.Load()
	case *duplex:
		return b.read.Load()
	}
	return 0
}

func sentBytes(req *http.Request) int64 {
	if hasBody(req) && req.ContentLength == 0 {
		return -1
	}
	return req.ContentLength
}

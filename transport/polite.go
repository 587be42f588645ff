package transport

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// AdaptiveLimiter is the adaptive engine, as [Polite] uses it. Programs get it from crawl.NewPoliteness, whose
// Transport is made by Polite.
type AdaptiveLimiter interface {
	// Acquire waits until a request may be sent to a host. The error is that of ctx, or says why the request may not be
	// sent.
	Acquire(ctx context.Context, domain string) (Permit, error)
	// Feedback reports how a request went. It is called before the permit is released.
	Feedback(domain string, fb Feedback)
	// SetAddress reports the address at which the host was reached.
	SetAddress(domain string, addr netip.Addr)
	// ReadyAt returns when the next request may be sent to domain if so many others to it (ahead) and to all hosts
	// (all) go first, and which limit it waits for until then.
	ReadyAt(domain string, ahead, all int) (time.Time, Limit)
}

// Permit is the right to send one request. Its one method, Release(), must be called when the request is over.
type Permit = ratelimit.Permit

// Feedback says how a request went. The fields that are not listed here may stay zero:
//
//	StatusCode int           // of the response; zero if there was none
//	Latency    time.Duration // from sending to the header
//	Err        error         // nil if the whole response was received; takes precedence over the status
//	RetryAfter time.Duration // how long no request may be sent to the host, from now on; zero means no wait
//	SentAt     time.Time     // when the request was sent; zero means Latency ago
//	Quota      Quota         // what the server told of its quota; zero means nothing
//	Retry      bool          // the request repeats one that failed; only counted
type Feedback = ratelimit.Feedback

// Limit says which limit a host waits for. Its String, which is also its text in JSON, is one of none (the zero Limit),
// start, learned, crawl_delay, retry_after, rule, breaker, global, shared, cap, quota, global_concurrency and
// global_bytes.
type Limit = ratelimit.Limit

var _ AdaptiveLimiter = (*ratelimit.AdaptiveRateLimiter)(nil)

// PoliteConfig says which engine paces requests.
type PoliteConfig struct {
	Limiter       AdaptiveLimiter // learns the rate of every host; nil is an error
	MaxRetryAfter time.Duration   // bound of the wait that a redirect asks for before its target is requested; zero means 1h; the Limiter has its own bound for hosts
}

// Polite makes a layer that paces requests to each host by the adaptive engine. A request waits for a permit, holds it
// until the end of the body, and reports its outcome and the limits in the header.
//
// If the header asks to wait, shows a used-up quota or has a bad status, that is reported at once; other outcomes are
// reported at the end of the body. A request that gets no permit fails with a [RejectedError] around the engine's
// error. A retry first waits until an open circuit may let it through. Polite fails if Limiter is nil.
func Polite(cfg PoliteConfig) (Middleware, error) {
	if cfg.Limiter == nil {
		return nil, errors.New("transport: PoliteConfig.Limiter is nil: give a limiter or leave Polite out")
	}
	var err error
	if cfg.MaxRetryAfter, err = positive("PoliteConfig.MaxRetryAfter", cfg.MaxRetryAfter, defaultMaxRetryAfter); err != nil {
		return nil, err
	}
	return func(next http.RoundTripper) http.RoundTripper {
		// The hint reader has no bound, because the engine has its own.
		return layerFunc((&politeLayer{cfg, hintReader{}, newHop(next)}).roundTrip)
	}, nil
}

type politeLayer struct {
	PoliteConfig
	reader hintReader
	next   hop
}

func (l *politeLayer) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	host := hostOf(req)
	ctx, err := waitOfRedirect(ctx, req, l.MaxRetryAfter)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	permit, err := l.acquire(ctx, host)
	if err != nil {
		closeBody(req)
		wait, _ := ratelimit.RetryIn(err, now())
		return nil, &RejectedError{Host: host, RetryAfter: wait, Err: err}
	}
	v := &visit{l: l, host: host, permit: permit, retry: resilience.AttemptFrom(ctx) > 1, start: now()}
	bound := false
	defer func() {
		if !bound {
			permit.Release()
		}
	}()
	v.trace.GotConn = v.gotConn
	res, err := l.next.send(httptrace.WithClientTrace(ctx, &v.trace), req)
	if err != nil {
		v.feedback(0, explain(ctx, err), Hint{})
		return nil, err
	}
	v.answered(req, res)
	bound = true
	return Bind(res, v.end), nil
}

// acquire waits until the request may be sent. A retry also waits for an open circuit, once: the attempt before has
// opened it, mostly for longer than the delay between the two.
func (l *politeLayer) acquire(ctx context.Context, host string) (ratelimit.Permit, error) {
	permit, err := l.Limiter.Acquire(ctx, host)
	open, ok := errors.AsType[*ratelimit.CircuitOpenError](err)
	if !ok || resilience.AttemptFrom(ctx) == 1 {
		return permit, err
	}
	if end, ok := ctx.Deadline(); ok && !end.After(open.Until) {
		return nil, err
	}
	if err := clock.Sleep(ctx, clock.System(), -since(open.Until)); err != nil {
		return nil, err
	}
	return l.Limiter.Acquire(ctx, host)
}

type visit struct {
	l      *politeLayer
	host   string
	permit ratelimit.Permit
	retry  bool
	start  time.Time
	trace  httptrace.ClientTrace
	conn   atomic.Int64 // nanoseconds from start to the connection; zero without one

	hint    Hint          // from the header
	latency time.Duration // from the connection to the header
	told    bool          // whether the header was reported to the engine
}

// gotConn notes when there was a connection, so that the time to make it does not count as latency.
func (v *visit) gotConn(info httptrace.GotConnInfo) {
	v.conn.Store(int64(since(v.start)))
	if info.Conn == nil {
		return
	}
	if at, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String()); err == nil {
		v.l.Limiter.SetAddress(v.host, at.Addr())
	}
}

// answered reads the header, and reports at once what cannot wait for the end of the body.
func (v *visit) answered(req *http.Request, res *http.Response) {
	v.latency = v.sinceSent()
	v.hint = v.l.reader.read(req, res)
	if pauseOf(&v.hint) > 0 || outcome.Of(v.hint.Status, nil) != outcome.OK {
		v.told = true
		v.feedback(v.hint.Status, nil, v.hint)
	}
}

// end is called at the end of the body. It releases the permit after the feedback; otherwise a probe would count as
// lost.
func (v *visit) end(err error) {
	defer v.permit.Release()
	class := outcome.Of(0, err)
	switch {
	case !v.told:
		if class == outcome.TooLarge {
			err = nil // this process stopped reading, at its own bound
		}
		v.feedback(v.hint.Status, err, v.hint.later(since(v.hint.At)))
	case class.Overload() && outcome.Of(v.hint.Status, nil) == outcome.OK:
		// The header was good, and its wait or quota was reported; then the body broke off. Report the failure without
		// these.
		v.feedback(v.hint.Status, err, Hint{})
	}
}

func (v *visit) sinceSent() time.Duration {
	return since(v.start) - time.Duration(v.conn.Load())
}

func (v *visit) feedback(status int, err error, hint Hint) {
	latency := v.latency
	if latency == 0 {
		latency = v.sinceSent() // no header came
	}
	if !ratelimit.Waits(v.l.Limiter, v.host, status) {
		hint.RetryAfter = 0
	}
	v.l.Limiter.Feedback(v.host, ratelimit.Feedback{
		StatusCode: status, Err: err, Latency: latency, SentAt: v.start.Add(time.Duration(v.conn.Load())),
		RetryAfter: hint.RetryAfter, Quota: hint.Quota, Retry: v.retry,
	})
}

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

// AdaptiveLimiter is the adaptive engine, as [Polite] uses it. Programs have it from crawl.NewPoliteness, whose Transport
// is what Polite makes.
type AdaptiveLimiter interface {
	// Acquire waits for the turn of a request to a host. The error is that of ctx, or why it may not be sent.
	Acquire(ctx context.Context, domain string) (Permit, error)
	// Feedback tells how a request went, before its permit is released.
	Feedback(domain string, fb Feedback)
	// SetAddress says by which address the host was reached.
	SetAddress(domain string, addr netip.Addr)
	// ReadyAt is when the domain may be asked next, behind so many requests to it and to all hosts, and what it waits for
	// until then.
	ReadyAt(domain string, ahead, all int) (time.Time, Limit)
}

// Permit is leave for one request, given back by its one method, Release(), when the request is over.
type Permit = ratelimit.Permit

// Feedback is how a request went. What a program need not know of, its other fields, may stay zero:
//
//	StatusCode int           // of the answer; zero if there was none
//	Latency    time.Duration // from sending to the header
//	Err        error         // nil if the answer came in whole; goes before the status
//	RetryAfter time.Duration // how long the host is not to be asked, from now on; zero for no wait
//	SentAt     time.Time     // when it was sent; zero means Latency ago
//	Quota      Quota         // what the server said of its quota; zero if nothing
//	Retry      bool          // it was a further try of a request that had failed; only counted
type Feedback = ratelimit.Feedback

// Limit is what a host waits for. Its String, which is its text in JSON too, is one of none (the zero Limit), start, learned,
// crawl_delay, retry_after, rule, breaker, global, shared, cap, quota, global_concurrency and global_bytes.
type Limit = ratelimit.Limit

var _ AdaptiveLimiter = (*ratelimit.AdaptiveRateLimiter)(nil)

// PoliteConfig says by whom requests are paced.
type PoliteConfig struct {
	Limiter       AdaptiveLimiter // learns the rate of every host; nil is an error
	MaxRetryAfter time.Duration   // cap of the wait for the target of a redirect; zero means 1h. For hosts the Limiter has its own
}

// Polite paces requests by the adaptive engine, per host: it waits for a permit, until the end of the body, and
// reports the outcome and the limits in the header.
//
// An order to wait, a used-up quota and any bad status are reported at the header, others at the end of the body. A
// request without a permit fails with a [RejectedError] around the engine's error; another try of one waits for an open
// circuit first. Polite fails without a Limiter.
func Polite(cfg PoliteConfig) (Middleware, error) {
	if cfg.Limiter == nil {
		return nil, errors.New("transport: PoliteConfig.Limiter is nil: give a limiter or leave Polite out")
	}
	var err error
	if cfg.MaxRetryAfter, err = positive("PoliteConfig.MaxRetryAfter", cfg.MaxRetryAfter, defaultMaxRetryAfter); err != nil {
		return nil, err
	}
	return func(next http.RoundTripper) http.RoundTripper {
		// Without a cap: the engine has its own.
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
		return nil, l.rejected(host, err)
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

// acquire waits for the turn of a request. Another try also waits for the circuit, once: it was opened by the try
// before, mostly for longer than the delay between them.
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

func (l *politeLayer) rejected(host string, err error) error {
	e := &RejectedError{Host: host, Err: err}
	if open, ok := errors.AsType[*ratelimit.CircuitOpenError](err); ok {
		e.RetryAfter = max(0, -since(open.Until))
	}
	if wait, ok := errors.AsType[*ratelimit.WaitError](err); ok {
		e.RetryAfter = wait.Wait
	}
	return e
}

type visit struct {
	l      *politeLayer
	host   string
	permit ratelimit.Permit
	retry  bool
	start  time.Time
	trace  httptrace.ClientTrace
	conn   atomic.Int64 // nanoseconds from start to the connection; zero without one

	hint    Hint          // of the header
	latency time.Duration // from the connection to the header
	told    bool          // the engine has heard of the header
}

// gotConn notes when the request could go out, to leave the connection's setup out of its latency.
func (v *visit) gotConn(info httptrace.GotConnInfo) {
	v.conn.Store(int64(since(v.start)))
	if info.Conn == nil {
		return
	}
	if at, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String()); err == nil {
		v.l.Limiter.SetAddress(v.host, at.Addr())
	}
}

// answered takes in a header, and reports at once what cannot wait for the body.
func (v *visit) answered(req *http.Request, res *http.Response) {
	v.latency = v.sinceSent()
	v.hint = v.l.reader.read(req, res)
	if pauseOf(&v.hint) > 0 || outcome.Of(v.hint.Status, nil) != outcome.OK {
		v.told = true
		v.feedback(v.hint.Status, nil, v.hint)
	}
}

// end is the end of the body. The permit is released after the feedback, or a probe would count as lost.
func (v *visit) end(err error) {
	defer v.permit.Release()
	class := outcome.Of(0, err)
	switch {
	case !v.told:
		if class == outcome.TooLarge {
			err = nil // it was we who stopped reading, at our own bound
		}
		v.feedback(v.hint.Status, err, v.hint.later(since(v.hint.At)))
	case class.Overload() && outcome.Of(v.hint.Status, nil) == outcome.OK:
		// The body broke off after a good header whose order was reported: report that without the order.
		v.feedback(v.hint.Status, err, Hint{})
	}
}

func (v *visit) sinceSent() time.Duration {
	return since(v.start) - time.Duration(v.conn.Load())
}

func (v *visit) feedback(status int, err error, hint Hint) {
	latency := v.latency
	if latency == 0 {
		latency = v.sinceSent() // there was no header
	}
	if !v.waits(status) {
		hint.RetryAfter = 0
	}
	v.l.Limiter.Feedback(v.host, ratelimit.Feedback{
		StatusCode: status, Err: err, Latency: latency, SentAt: v.start.Add(time.Duration(v.conn.Load())),
		RetryAfter: hint.RetryAfter, Quota: hint.Quota, Retry: v.retry,
	})
}

// waits reports whether a Retry-After with this status is for the host.
func (v *visit) waits(status int) bool {
	switch outcome.RetryAfter(status) {
	case outcome.WaitsHost:
		return true
	case outcome.WaitsIfBlock:
		_, why := v.l.Limiter.ReadyAt(v.host, 0, 0)
		return why == ratelimit.LimitBreaker
	}
	return false
}

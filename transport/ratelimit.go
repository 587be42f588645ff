package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
)

// Limiter is a limiter of package limit, as [RateLimit] uses it.
type Limiter interface {
	// Acquire waits for a permit, or until ctx ends.
	Acquire(ctx context.Context) error
	// AcquireTimeout waits for n permits, at most for d.
	AcquireTimeout(ctx context.Context, n int64, d time.Duration) error
	// Release gives back a permit that Acquire took.
	Release()
}

// NowOrNever as a Policy.AcquireTimeout refuses a request that would have to wait.
const NowOrNever time.Duration = -1

// Policy says how [RateLimit] limits requests.
type Policy struct {
	// Limiter gives each request a permit, which it holds until the end of the body. RateLimit does not close it. Nil
	// is an error.
	Limiter Limiter
	// AcquireTimeout bounds the wait for a permit and the waits that servers ask for, together. NowOrNever means no
	// wait. Zero means that only the request's context bounds them.
	AcquireTimeout time.Duration
	// OnRejected, if set, is called for every request that is refused, before its [RejectedError] is returned, unless
	// the request's own context has ended. It must be safe for concurrent use.
	OnRejected func(req *http.Request, err error)
	// RespectServerHeaders makes requests to a host wait for its Retry-After and for the reset of its used-up quotas.
	RespectServerHeaders bool
	MaxRetryAfter        time.Duration   // bound of the wait that a response may ask for; zero means 1h
	Name                 string          // name of the policy in events; may be empty
	Hub                  *resilience.Hub // receives a RateLimitedEvent for each request that is refused, or waits because a server asked for it; nil means no events
}

// RateLimit makes a layer in which each request takes a permit of a limiter. The permit is released exactly once: at
// the end of the body, at an error, or at a panic of an inner layer. An error names the wrong field of p.
func RateLimit(p Policy) (Middleware, error) {
	if p.Limiter == nil {
		return nil, errors.New("transport: Policy.Limiter is nil: give a limiter or leave RateLimit out")
	}
	if p.AcquireTimeout < 0 && p.AcquireTimeout != NowOrNever {
		return nil, fmt.Errorf("transport: Policy.AcquireTimeout is %v: use a positive duration, NowOrNever, or zero for no bound", p.AcquireTimeout)
	}
	reader, err := newHintReader("Policy", p.MaxRetryAfter)
	if err != nil {
		return nil, err
	}
	g := limitLayer{Policy: p, reader: reader, release: func(error) { p.Limiter.Release() }}
	if p.RespectServerHeaders {
		if g.pauses, err = newPauses(); err != nil {
			return nil, err
		}
	}
	return func(next http.RoundTripper) http.RoundTripper {
		l := g
		l.next = newHop(next)
		return layerFunc(l.roundTrip)
	}, nil
}

type limitLayer struct {
	Policy
	reader  hintReader
	pauses  *pauses     // shared by all chains made with one Middleware; nil without RespectServerHeaders
	release func(error) // shared by all requests, to save a closure for each
	next    hop
}

func (l *limitLayer) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	var err error
	if l.pauses != nil {
		ctx, err = waitOfRedirect(ctx, req, l.reader.limit)
	}
	if err == nil {
		err = l.admit(ctx, req)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	bound := false
	defer func() {
		if !bound {
			l.release(nil)
		}
	}()
	res, err := l.next.send(ctx, req)
	if err != nil {
		return nil, err
	}
	if l.pauses != nil {
		hint := l.reader.read(req, res)
		l.pauses.learn(&hint)
	}
	bound = true
	return Bind(res, l.release), nil
}

func (l *limitLayer) admit(ctx context.Context, req *http.Request) error {
	if l.pauses == nil {
		return l.rejected(ctx, req, l.acquire(ctx, l.AcquireTimeout))
	}
	host, start := hostOf(req), now()
	for {
		if err := l.waitOutPause(ctx, host, l.left(start)); err != nil {
			return l.rejected(ctx, req, err)
		}
		if err := l.acquire(ctx, l.left(start)); err != nil {
			return l.rejected(ctx, req, err)
		}
		if l.pauses.wait(host) <= 0 {
			return nil
		}
		// The host asked for a wait while this request waited for its permit, so the permit cannot be used now.
		l.Limiter.Release()
	}
}

func (l *limitLayer) left(start time.Time) time.Duration {
	if l.AcquireTimeout <= 0 {
		return l.AcquireTimeout
	}
	if left := l.AcquireTimeout - since(start); left > 0 {
		return left
	}
	return NowOrNever
}

func (l *limitLayer) acquire(ctx context.Context, timeout time.Duration) error {
	if timeout == 0 {
		return l.Limiter.Acquire(ctx)
	}
	return l.Limiter.AcquireTimeout(ctx, 1, max(timeout, 0))
}

// waitOutPause waits as long as the host asked for. If the time allowed is shorter than the wait, it fails at once.
func (l *limitLayer) waitOutPause(ctx context.Context, host string, timeout time.Duration) error {
	for {
		d := l.pauses.wait(host)
		if d <= 0 {
			return ctx.Err()
		}
		held := &limit.Error{Name: host, Algorithm: "server", RetryAfter: d}
		if timeout != 0 && d > timeout {
			return held
		}
		if end, ok := ctx.Deadline(); ok && since(end) > -d {
			held.Err = context.DeadlineExceeded
			return held
		}
		if l.Hub.Wants() {
			l.Hub.Emit(resilience.RateLimitedEvent{At: now(), Name: l.Name, Key: host, Wait: d})
		}
		if err := clock.Sleep(ctx, clock.System(), d); err != nil {
			return err
		}
	}
}

// rejected makes a RejectedError of err. It calls the hook and emits an event, unless the caller gave up.
func (l *limitLayer) rejected(ctx context.Context, req *http.Request, err error) error {
	if err == nil {
		return nil
	}
	e := &RejectedError{Host: hostOf(req), Err: err}
	if refusal, ok := errors.AsType[*limit.Error](err); ok && refusal.RetryAfter != limit.Never {
		e.RetryAfter = refusal.RetryAfter
	}
	if ctx.Err() != nil {
		return e
	}
	if l.Hub.Wants() {
		l.Hub.Emit(resilience.RateLimitedEvent{At: now(), Name: l.Name, Key: e.Host, Wait: e.RetryAfter, Err: err})
	}
	if l.OnRejected != nil {
		l.OnRejected(req, e)
	}
	return e
}

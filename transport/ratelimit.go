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

// Limiter is any limiter of package limit, as [RateLimit] uses it.
type Limiter interface {
	// Acquire waits for a permit, or until ctx ends.
	Acquire(ctx context.Context) error
	// AcquireTimeout waits for n permits, for d at most.
	AcquireTimeout(ctx context.Context, n int64, d time.Duration) error
	// Release gives a permit back that Acquire took.
	Release()
}

// NowOrNever as a Policy.AcquireTimeout refuses a request that would have to wait.
const NowOrNever time.Duration = -1

// Policy says how [RateLimit] limits requests.
type Policy struct {
	// Limiter gives every request a permit until the end of its body. Its owner closes it. Nil is an error.
	Limiter Limiter
	// AcquireTimeout bounds the waits for a permit and for servers together. NowOrNever: no wait. Zero: the request's
	// context.
	AcquireTimeout time.Duration
	// OnRejected, if set, is called with every refused request before its [RejectedError] is returned. Safe for
	// concurrent use.
	OnRejected func(req *http.Request, err error)
	// RespectServerHeaders obeys a host's Retry-After and used-up quotas.
	RespectServerHeaders bool
	MaxRetryAfter        time.Duration   // cap of what an answer may ask for; zero means 1h
	Name                 string          // what events call the policy; empty leaves it out
	Hub                  *resilience.Hub // hears of a RateLimitedEvent for each request refused, or held back for a server; nil means nobody
}

// RateLimit lets requests pass by a limiter's permits, each released exactly once: at the end of the body or without
// one, or at a panic further in. The error names the wrong field of p.
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
	g := &limitGate{Policy: p, reader: reader}
	if p.RespectServerHeaders {
		if g.pauses, err = newPauses(); err != nil {
			return nil, err
		}
	}
	release := func(error) { p.Limiter.Release() }
	return func(next http.RoundTripper) http.RoundTripper {
		return layerFunc((&limitLayer{gate: g, next: newHop(next), release: release}).roundTrip)
	}, nil
}

type limitLayer struct {
	gate    *limitGate
	next    hop
	release func(error) // one for all requests
}

func (l *limitLayer) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	var err error
	if l.gate.pauses != nil {
		ctx, err = waitOfRedirect(ctx, req, l.gate.reader.limit)
	}
	if err == nil {
		err = l.gate.admit(ctx, req)
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
	l.gate.learn(req, res)
	bound = true
	return Bind(res, l.release), nil
}

type limitGate struct {
	Policy
	reader hintReader
	pauses *pauses // nil if answers are not looked at
}

func (g *limitGate) learn(req *http.Request, res *http.Response) {
	if g.pauses != nil {
		hint := g.reader.read(req, res)
		g.pauses.learn(&hint)
	}
}

func (g *limitGate) admit(ctx context.Context, req *http.Request) error {
	if g.pauses == nil {
		return g.rejected(ctx, req, g.acquire(ctx, g.AcquireTimeout))
	}
	host, start := hostOf(req), now()
	for {
		if err := g.waitOutPause(ctx, host, g.left(start)); err != nil {
			return g.rejected(ctx, req, err)
		}
		if err := g.acquire(ctx, g.left(start)); err != nil {
			return g.rejected(ctx, req, err)
		}
		if g.pauses.wait(host) <= 0 {
			return nil
		}
		// The order came while we waited for the permit, which is of no use now.
		g.Limiter.Release()
	}
}

func (g *limitGate) left(start time.Time) time.Duration {
	if g.AcquireTimeout <= 0 {
		return g.AcquireTimeout
	}
	if left := g.AcquireTimeout - since(start); left > 0 {
		return left
	}
	return NowOrNever
}

func (g *limitGate) acquire(ctx context.Context, timeout time.Duration) error {
	if timeout == 0 {
		return g.Limiter.Acquire(ctx)
	}
	return g.Limiter.AcquireTimeout(ctx, 1, max(timeout, 0))
}

// waitOutPause waits while host asks for it. What cannot be waited out fails at once.
func (g *limitGate) waitOutPause(ctx context.Context, host string, timeout time.Duration) error {
	for {
		d := g.pauses.wait(host)
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
		if g.Hub.Wants() {
			g.Hub.Emit(resilience.RateLimitedEvent{At: now(), Name: g.Name, Key: host, Wait: d})
		}
		if err := clock.Sleep(ctx, clock.System(), d); err != nil {
			return err
		}
	}
}

// rejected makes a RejectedError of err and tells of it, unless the caller gave up himself.
func (g *limitGate) rejected(ctx context.Context, req *http.Request, err error) error {
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
	if g.Hub.Wants() {
		g.Hub.Emit(resilience.RateLimitedEvent{At: now(), Name: g.Name, Key: e.Host, Wait: e.RetryAfter, Err: err})
	}
	if g.OnRejected != nil {
		g.OnRejected(req, e)
	}
	return e
}

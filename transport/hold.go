package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// maxHolds bounds the hosts whose orders are kept. A client that talks to more than
// this many hosts which all refuse it at once has other problems than a forgotten order.
const maxHolds = 4096

// holds keeps until when servers have asked not to be asked. It is bounded: those that
// are over are forgotten first, then the one that ends next, since least is lost with it.
type holds struct {
	clk   clock.Clock
	epoch time.Time

	mu    sync.Mutex // guards until
	until map[string]clock.Instant
}

func newHolds(clk clock.Clock) *holds {
	return &holds{clk: clk, epoch: clk.Now(), until: make(map[string]clock.Instant)}
}

func (h *holds) now() clock.Instant { return clock.Instant(h.clk.Since(h.epoch)) }

// wait is how long host has still asked to be left alone; zero or less is not.
func (h *holds) wait(host string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[host]
	if !ok {
		return 0
	}
	return until.Sub(h.now())
}

// learn takes in an answer. The later of two orders holds.
func (h *holds) learn(hint *Hint) {
	d := ordered(hint)
	if d <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if _, ok := h.until[hint.Host]; !ok && len(h.until) >= maxHolds {
		h.forgetLocked(now)
	}
	h.until[hint.Host] = max(h.until[hint.Host], now.AddClamped(d))
}

// ordered is for how long a hint forbids further requests to its host: until the end of a
// Retry-After with a status for which that is so (see [outcome.RetryAfter]; one answer does
// not show whether a 403 is a block), and until the reset of a quota that is used up.
func ordered(hint *Hint) time.Duration {
	d := time.Duration(0)
	if outcome.RetryAfter(hint.Status) == outcome.WaitsHost {
		d = hint.RetryAfter
	}
	if !hint.Quota.IsZero() && hint.Quota.Remaining <= 0 {
		d = max(d, hint.Quota.Reset)
	}
	return d
}

func (h *holds) forgetLocked(now clock.Instant) {
	next := ""
	for host, until := range h.until {
		if until <= now {
			delete(h.until, host)
		} else if soonest, ok := h.until[next]; !ok || until < soonest {
			next = host
		}
	}
	if len(h.until) >= maxHolds {
		delete(h.until, next)
	}
}

// waitedKey marks the context of a request that has waited for the redirect that led to it.
type waitedKey struct{}

// waitOfRedirect waits for as long as the redirect that led to req asked for, limit at most, and
// marks the context so that no layer further in waits again.
func waitOfRedirect(ctx context.Context, req *http.Request, clk clock.Clock, limit time.Duration) (context.Context, error) {
	from := req.Response // the redirect, as net/http's Client has it
	if from == nil || outcome.RetryAfter(from.StatusCode) != outcome.WaitsTarget ||
		resilience.AttemptFrom(ctx) > 1 || ctx.Value(waitedKey{}) != nil {
		return ctx, nil
	}
	d, ok := header.RetryAfterOf(from.Header, clk.Now(), limit)
	if !ok || d == 0 {
		return ctx, nil
	}
	if end, ok := ctx.Deadline(); ok && clk.Since(end) > -d {
		why := fmt.Errorf("the redirect to it asked to wait %v: %w", d, context.DeadlineExceeded)
		return ctx, &RejectedError{Host: hostOf(req), RetryAfter: d, Err: why}
	}
	return context.WithValue(ctx, waitedKey{}, true), clock.Sleep(ctx, clk, d)
}

package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// refillers is how many questions are under way at a time: with a trip of a millisecond,
// thousands of budgets a second.
const refillers = 16

// refillQueue are the feeds that want tokens.
type refillQueue struct {
	pending []*tokenSource // guarded by the lock of shared; each at most once
	bell    chan struct{}  // holds one: there are some
}

// ask queues a question for tokens if the feed wants some, n of them at least.
func (h *shared) ask(f *tokenSource, now clock.Instant, n int64) {
	if f == nil || !f.wants(now, n) {
		return
	}
	f.asking = true
	h.refillQueue.pending = append(h.refillQueue.pending, f)
	h.refillQueue.ring()
}

func (q *refillQueue) ring() {
	select {
	case q.bell <- struct{}{}:
	default: // it will be heard
	}
}

// want asks for tokens of each budget that a domain waits for.
func (h *shared) want(sh *shares, now clock.Instant) {
	for _, b := range sh {
		if b != nil {
			b.want(h, now)
		}
	}
}

func (b *budget) want(h *shared, now clock.Instant) {
	h.ask(b.tokenSource, now, int64(b.n)+1)
	if b.caps != nil && b.caps.tokenSource != nil {
		h.ask(b.caps.tokenSource, now, min(b.caps.worth(1), b.caps.tokenSource.most))
	}
}

// tokenSource asks for the tokens of budgets that processes share until ctx ends.
func (l *AdaptiveRateLimiter) tokenSource(ctx context.Context) {
	var all sync.WaitGroup
	for range refillers {
		all.Go(func() {
			for f := l.nextToRefill(ctx); f != nil; f = l.nextToRefill(ctx) {
				l.fetch(ctx, f)
			}
		})
	}
	all.Go(func() { l.refillOwedBytes(ctx) })
	all.Wait()
}

// nextToRefill is the feed that has waited for longest; nil when ctx has ended.
func (l *AdaptiveRateLimiter) nextToRefill(ctx context.Context) *tokenSource {
	h := &l.shared
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.refillQueue.bell:
		}
		h.mu.Lock()
		q := &h.refillQueue
		if len(q.pending) == 0 {
			h.mu.Unlock()
			continue
		}
		f := q.pending[0]
		q.pending[0] = nil
		q.pending = q.pending[1:]
		if len(q.pending) > 0 {
			q.ring()
		}
		h.mu.Unlock()
		return f
	}
}

// fetch asks for a lease. If there are fewer tokens it takes those, unless it has some yet.
func (l *AdaptiveRateLimiter) fetch(ctx context.Context, f *tokenSource) {
	h := &l.shared
	sent := l.now()
	h.mu.Lock()
	n, left := f.need(), f.left(sent)
	h.mu.Unlock()
	res, err := l.cfg.Fleet.Take(ctx, f.key, f.bucket, n)
	var wait time.Duration
	if err == nil && !res.Allowed {
		wait = f.untilNext(&res, n)
		if there := min(n, res.Remaining); left > 0 {
			wait = min(res.Wait, batchSpan) // for all of them
		} else if there > 0 {
			n, sent = there, l.now()
			res, err = l.cfg.Fleet.Take(ctx, f.key, f.bucket, n)
			wait += time.Duration(float64(n) / f.bucket.Rate * float64(time.Second))
		}
	}
	if !res.Allowed {
		n = 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f.landed(l.now(), sent, n, wait, err)
	f.of.nudge()
}

// untilNext is when to ask again after a denial of n. Others want them too: who asked for each
// token as it comes would do little else, so half of them are waited for. The budget holds as much.
func (f *tokenSource) untilNext(res *TokensTaken, n int64) time.Duration {
	if res.Wait == WaitForever {
		return refillRetry // of a key for which there is no room at present
	}
	rest := float64(n/2) / f.bucket.Rate * float64(time.Second)
	return max(0, res.Wait-time.Duration(rest))
}

// refillOwedBytes asks for what bytes are owed, also while nobody wants to go.
func (l *AdaptiveRateLimiter) refillOwedBytes(ctx context.Context) {
	h := &l.shared
	if h.global == nil || h.global.caps == nil || h.global.caps.tokenSource == nil {
		return
	}
	for clock.Sleep(ctx, l.cfg.Clock, batchSpan) == nil {
		h.mu.Lock()
		if f := h.global.caps.tokenSource; f.owed > 0 {
			h.ask(f, l.now(), 1)
		}
		h.mu.Unlock()
	}
}

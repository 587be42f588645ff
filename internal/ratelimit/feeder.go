package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// feeders is how many questions are under way at a time: with a trip of a millisecond,
// thousands of budgets a second.
const feeders = 16

// feeding are the feeds that want tokens.
type feeding struct {
	hungry []*feed       // guarded by the lock of shared; each at most once
	bell   chan struct{} // holds one: there are some
}

// ask queues a question for tokens if the feed wants some, n of them at least.
func (h *shared) ask(f *feed, now clock.Instant, n int64) {
	if f == nil || !f.wants(now, n) {
		return
	}
	f.asking = true
	h.feeding.hungry = append(h.feeding.hungry, f)
	h.feeding.ring()
}

func (q *feeding) ring() {
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
	h.ask(b.feed, now, int64(b.n)+1)
	if b.caps != nil && b.caps.feed != nil {
		h.ask(b.caps.feed, now, min(b.caps.worth(1), b.caps.feed.most))
	}
}

// feed asks for the tokens of budgets that processes share until ctx ends.
func (l *AdaptiveRateLimiter) feed(ctx context.Context) {
	var all sync.WaitGroup
	for range feeders {
		all.Go(func() {
			for f := l.nextHungry(ctx); f != nil; f = l.nextHungry(ctx) {
				l.fetch(ctx, f)
			}
		})
	}
	all.Go(func() { l.payDebts(ctx) })
	all.Wait()
}

// nextHungry is the feed that has waited for longest; nil when ctx has ended.
func (l *AdaptiveRateLimiter) nextHungry(ctx context.Context) *feed {
	h := &l.shared
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.feeding.bell:
		}
		h.mu.Lock()
		q := &h.feeding
		if len(q.hungry) == 0 {
			h.mu.Unlock()
			continue
		}
		f := q.hungry[0]
		q.hungry[0] = nil
		q.hungry = q.hungry[1:]
		if len(q.hungry) > 0 {
			q.ring()
		}
		h.mu.Unlock()
		return f
	}
}

// fetch asks for a lease. If there are fewer tokens it takes those, unless it has some yet.
func (l *AdaptiveRateLimiter) fetch(ctx context.Context, f *feed) {
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
			wait = min(res.Wait, leaseFlow) // for all of them
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
func (f *feed) untilNext(res *TokensTaken, n int64) time.Duration {
	if res.Wait == WaitForever {
		return feedRetry // of a key for which there is no room at present
	}
	rest := float64(n/2) / f.bucket.Rate * float64(time.Second)
	return max(0, res.Wait-time.Duration(rest))
}

// payDebts asks for what bytes are owed, also while nobody wants to go.
func (l *AdaptiveRateLimiter) payDebts(ctx context.Context) {
	h := &l.shared
	if h.global == nil || h.global.caps == nil || h.global.caps.feed == nil {
		return
	}
	for clock.Sleep(ctx, l.cfg.Clock, leaseFlow) == nil {
		h.mu.Lock()
		if f := h.global.caps.feed; f.owed > 0 {
			h.ask(f, l.now(), 1)
		}
		h.mu.Unlock()
	}
}

package ratelimit

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// batchSpan is the time whose tokens a process takes at most in one batch, and the time whose tokens a shared bucket
	// holds. So a process asks four times a second, and a burst is small.
	batchSpan = 250 * time.Millisecond

	// batchLife is how long after it was taken a token may be used. It bounds by how much a budget may be exceeded.
	batchLife = 500 * time.Millisecond

	// refillRetry is the pause after a request for tokens that failed.
	refillRetry = 250 * time.Millisecond

	// refillSoon is the time between two looks for tokens that were asked for.
	refillSoon = 2 * time.Millisecond

	// refillers bounds the requests for tokens that are under way.
	refillers = 16

	// maxShared is the largest capacity of a shared bucket, and maxSourceRate its highest rate: a gigabyte a second.
	maxShared     = 1 << 40
	maxSourceRate = 1e9
)

// SharedTokens counts the tokens of budgets that processes share.
type SharedTokens interface {
	// Take takes n tokens of a key's bucket, all or none. After an error it is not known whether they were taken. It
	// returns when ctx ends.
	Take(ctx context.Context, key string, bucket SharedBucket, n int64) (TokensTaken, error)
}

// SharedBucket is a token bucket that processes share.
type SharedBucket struct {
	Name     string  // the kind of budget: "global", "bytes", "ip" or "site"
	Capacity int64   // tokens, 1 to 1<<40
	Rate     float64 // tokens per second
}

// TokensTaken is the answer to a request for tokens.
type TokensTaken struct {
	Allowed   bool          // they were taken
	Remaining int64         // tokens left right after the decision
	Wait      time.Duration // until as many are there; WaitForever if time alone does not bring them
}

// WaitForever is a wait that time does not end.
const WaitForever time.Duration = math.MaxInt64

// tokenSource takes tokens for a budget that several processes share, in batches and ahead of use, from a key of
// [SharedTokens]. An unused token is lost after batchLife. So a batch is as large as what was used of the last one, or
// twice as large if that was used up.
//
// All processes together grant in any span W at most
//
//	capacity + rate × (W + batchLife)
//
// where the capacity is what batchSpan brings, at least one token: each token was taken within the span or at most
// batchLife before it. A process that cannot reach the server uses up what it has, and then waits.
type tokenSource struct {
	of     *budget
	key    string
	bucket SharedBucket // its capacity is also the largest batch

	size    int64            // of the next batch
	batches [4]tokenBatch    // the one that ends first comes first; of size zero for none
	owed    int64            // tokens used before they were taken
	asking  bool             // a request for tokens is queued or under way
	again   clock.Instant    // no further request before
	failed  bool             // the last request failed
	use     map[string]int64 // tokens used since the last usedSince, by key, of all sources
}

type tokenBatch struct {
	left, size int64
	until      clock.Instant
}

func (h *shared) newTokenSource(of *budget, name, key string, rate float64) *tokenSource {
	cfg := &h.l.cfg
	if cfg.Fleet == nil {
		return nil
	}
	b := SharedBucket{name, min(max(int64(math.Ceil(rate*batchSpan.Seconds())), 1), maxShared), min(rate, maxSourceRate)}
	return &tokenSource{of: of, key: cfg.FleetName + "/" + key, bucket: b, size: 1, again: never, use: h.use}
}

// left is how many tokens are there now; if it is below zero, so many are owed.
func (f *tokenSource) left(now clock.Instant) int64 {
	n := -f.owed
	for i := range f.batches {
		if now < f.batches[i].until {
			n += f.batches[i].left
		}
	}
	return n
}

func (f *tokenSource) spend(now clock.Instant, n int64) {
	if used, known := f.use[f.key]; known || len(f.use) < maxActive {
		f.use[f.key] = used + n
	}
	for i := range f.batches {
		if ls := &f.batches[i]; now < ls.until {
			k := min(n, ls.left)
			ls.left -= k
			n -= k
		}
	}
	f.owed += n
}

// retire drops the batches that are used up or have ended, and sets the next one's size by their use.
func (f *tokenSource) retire(now clock.Instant) {
	for f.batches[0].size > 0 && (f.batches[0].left == 0 || now >= f.batches[0].until) {
		ls := f.batches[0]
		copy(f.batches[:], f.batches[1:])
		f.batches[len(f.batches)-1] = tokenBatch{}
		if f.size = min(2*ls.size, f.bucket.Capacity); ls.left > 0 {
			f.size = max(1, ls.size-ls.left)
		}
	}
}

func (f *tokenSource) when(now clock.Instant, n int64) clock.Instant {
	missing := n - f.left(now)
	if missing <= 0 {
		return now
	}
	more := float64(missing-1) / f.bucket.Rate * float64(time.Second)
	return max(f.again, now.Add(refillSoon)).Add(time.Duration(min(more, float64(longest))))
}

// landed takes in the answer to a request of the instant sent: n tokens, and how long to wait before the next request.
func (f *tokenSource) landed(now, sent clock.Instant, n int64, wait time.Duration, err error) {
	f.asking, f.failed = false, err != nil
	switch {
	case err != nil:
		f.again = now.Add(refillRetry)
		return
	case wait > 0:
		f.again = now.Add(min(wait, longest))
	default:
		f.again = never
	}
	paid := min(n, f.owed)
	f.owed -= paid
	if n -= paid; n == 0 {
		return
	}
	f.retire(now)
	for i := range f.batches {
		if f.batches[i].size == 0 {
			f.batches[i] = tokenBatch{n, n, sent.Add(batchLife)}
			return
		}
	}
}

// ask queues a request for tokens if fewer than n are there, or no more than half a batch.
func (h *shared) ask(f *tokenSource, now clock.Instant, n int64) {
	if f == nil || f.asking || now < f.again {
		return
	}
	f.retire(now)
	left := f.left(now)
	if left < n {
		f.size = max(f.size, min(n, f.bucket.Capacity))
	}
	if f.batches[len(f.batches)-1].size > 0 || left >= n && left > f.size/2 {
		return
	}
	f.asking = true
	h.pending = append(h.pending, f)
	select {
	case h.bell <- struct{}{}:
	default: // refill is about to look
	}
}

func (h *shared) want(b *budget, now clock.Instant) {
	h.ask(b.tokenSource, now, int64(len(b.line))+1)
	if b.caps != nil && b.caps.tokenSource != nil {
		h.ask(b.caps.tokenSource, now, min(b.caps.worth(1), b.caps.tokenSource.bucket.Capacity))
	}
}

// wait asks for tokens of the shared budgets that made a domain wait.
func (h *shared) wait(sh *shares, now clock.Instant, why Limit) {
	if why != LimitGlobal && why != LimitShared && why != LimitGlobalBytes {
		return // more tokens would not help
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range sh {
		if b != nil {
			h.want(b, now)
		}
	}
}

func (h *shared) refill(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { h.refillOwedBytes(ctx) })
	places := make(chan struct{}, refillers)
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.bell:
		}
		h.mu.Lock()
		pending := h.pending
		h.pending = nil
		h.mu.Unlock()
		for _, f := range pending {
			places <- struct{}{}
			all.Go(func() {
				h.fetch(ctx, f)
				<-places
			})
		}
	}
}

// refillOwedBytes pays for bytes that were used before they were taken, also while no request waits.
func (h *shared) refillOwedBytes(ctx context.Context) {
	if h.global == nil || h.global.caps == nil || h.global.caps.tokenSource == nil {
		return
	}
	for clock.Sleep(ctx, h.l.cfg.Clock, batchSpan) == nil {
		h.mu.Lock()
		if f := h.global.caps.tokenSource; f.owed > 0 {
			h.ask(f, h.l.now(), 1)
		}
		h.mu.Unlock()
	}
}

// fetch asks for a batch and for what is owed, at most the bucket's capacity. If fewer tokens are there, it takes those,
// unless it has some left.
func (h *shared) fetch(ctx context.Context, f *tokenSource) {
	l := h.l
	sent := l.now()
	h.mu.Lock()
	n, left := min(f.size+f.owed, f.bucket.Capacity), f.left(sent)
	h.mu.Unlock()
	res, err := l.cfg.Fleet.Take(ctx, f.key, f.bucket, n)
	var wait time.Duration
	if err == nil && !res.Allowed {
		// It waits for half of the tokens, not for all, as other processes want them too. WaitForever means that the
		// server has no room for the key at present.
		wait = refillRetry
		if res.Wait != WaitForever {
			wait = max(0, res.Wait-time.Duration(float64(n/2)/f.bucket.Rate*float64(time.Second)))
		}
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

// What reasons say of a budget that processes share.
const (
	allHosts   = "all hosts together"
	wholeFleet = "the whole fleet"
	unanswered = " (whoever keeps the count does not answer)"
)

func (f *tokenSource) whose() string {
	switch {
	case f == nil:
		return allHosts
	case f.failed:
		return wholeFleet + unanswered
	}
	return wholeFleet
}

// ShareSlots sets how many requests of Config.GlobalConcurrency this process may have in flight until an instant.
// Nothing is granted beyond that number, before the first call, or after the instant. Without Config.Fleet it does
// nothing.
func (l *AdaptiveRateLimiter) ShareSlots(n int, until time.Time) {
	if c := l.shared.slots(); c != nil {
		l.shared.mu.Lock()
		defer l.shared.mu.Unlock()
		c.share, c.until = int64(n), l.instantOf(until)
		l.shared.global.nudge()
	}
}

// Slots returns how many requests may be in flight until the next ShareSlots (at least those that are), and how many
// this process could use, judged by its use since the last call. Both are zero unless Config.GlobalConcurrency is shared.
func (l *AdaptiveRateLimiter) Slots() (held, want int) {
	c := l.shared.slots()
	if c == nil {
		return 0, 0
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	n := max(c.peak, c.out)
	if c.short {
		n = max(2*n, c.share+1)
	}
	c.peak, c.short = c.out, false
	return int(max(c.out, c.shareAt(l.now()))), int(min(n, c.most))
}

// slots are the caps on requests in flight, if processes share them; nil if not.
func (h *shared) slots() *globalCaps {
	if h.l.cfg.Fleet == nil || h.l.cfg.GlobalConcurrency == 0 {
		return nil
	}
	return h.global.caps
}

const (
	// useSpan is the span of use rates, long against a budget's burst.
	useSpan = 15 * time.Second

	// busiestScopes is how many scopes of each budget are reported.
	busiestScopes = 8

	// maxActive bounds the scopes whose use is counted between two calls of usedSince.
	maxActive = 1 << 16
)

// UseRates tells how fast this process uses shared budgets, by setting. Not safe for concurrent use.
type UseRates struct {
	l     *AdaptiveRateLimiter
	marks []useMark // the oldest first, at least a second apart
	last  time.Time
}

type useMark struct {
	from time.Time
	used uses
}

// uses is the use of budgets, by setting and scope: an address (IPv6: /64) or registrable domain; empty for all
// domains.
type uses map[string]map[string]float64

func (u uses) add(name, scope string, n float64) {
	if u[name] == nil {
		u[name] = make(map[string]float64)
	}
	u[name][scope] += n
}

// keepBusiest keeps the n most used scopes of each budget.
func (u uses) keepBusiest(n int) {
	for _, scopes := range u {
		names := slices.SortedFunc(maps.Keys(scopes), func(a, b string) int {
			return cmp.Or(cmp.Compare(scopes[b], scopes[a]), cmp.Compare(a, b))
		})
		for _, name := range names[min(n, len(names)):] {
			delete(scopes, name)
		}
	}
}

// NewUseRates returns use rates that begin now.
func NewUseRates(l *AdaptiveRateLimiter) *UseRates {
	return &UseRates{l: l, last: l.cfg.Clock.Now()}
}

// Now returns the use per second over the last useSpan, by setting: of the budgets of all domains, and of the most used
// addresses and registrable domains. For ratelimit.global_concurrency it is how many requests are in flight. Both are nil
// if no budget is shared.
func (r *UseRates) Now() (budgets map[string]float64, scopes map[string]map[string]float64) {
	if r.l.cfg.Fleet == nil {
		return nil, nil
	}
	now := r.l.cfg.Clock.Now()
	if now.Sub(r.last) >= time.Second || len(r.marks) == 0 {
		r.marks = append(r.marks, useMark{r.last, r.l.shared.usedSince()})
		r.last = now
	}
	for len(r.marks) > 1 && now.Sub(r.marks[1].from) >= useSpan {
		r.marks = r.marks[1:]
	}
	all := make(uses)
	span := max(r.last.Sub(r.marks[0].from), time.Second).Seconds()
	for _, m := range r.marks {
		for name, scopes := range m.used {
			for scope, n := range scopes {
				all.add(name, scope, n/span)
			}
		}
	}
	all.keepBusiest(busiestScopes)
	budgets = make(map[string]float64)
	for name, scopes := range all {
		if rps, ok := scopes[""]; ok {
			budgets[name] = rps
			delete(all, name)
		}
	}
	if c := r.l.shared.slots(); c != nil {
		r.l.shared.mu.Lock()
		budgets["ratelimit.global_concurrency"] = float64(c.out)
		r.l.shared.mu.Unlock()
	}
	return budgets, all
}

var useNames = map[string]string{"global": "global_rps", "bytes": "global_bytes", "ip": "ip_rps", "site": "site_rps"}

// usedSince returns what was used of shared budgets since the last call, by setting; of IPRPS and SiteRPS only the most
// used scopes. If more than maxActive scopes were used, the first of them count.
func (h *shared) usedSince() uses {
	all := make(uses)
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, n := range h.use {
		kind, scope, _ := strings.Cut(strings.TrimPrefix(key, h.l.cfg.FleetName+"/"), ":")
		all.add("ratelimit."+useNames[kind], scope, float64(n))
	}
	clear(h.use)
	all.keepBusiest(busiestScopes)
	return all
}

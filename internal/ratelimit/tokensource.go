package ratelimit

import (
	"context"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// batchSpan is how much of its rate a lease brings at most, and what a shared budget holds:
	// four trips a second are nothing to a server, and a quarter of a second is a small burst.
	batchSpan = 250 * time.Millisecond

	// batchLife is how long after it was charged a token may be used. A scheduler that was
	// told of one comes within milliseconds; what is longer covers a process that was stopped
	// for a moment, and is what a budget may be overdrawn by.
	batchLife = 500 * time.Millisecond

	// refillRetry is the pause after a question that was not answered.
	refillRetry = 250 * time.Millisecond

	// refillSoon is when to look again for tokens that are on their way.
	refillSoon = 2 * time.Millisecond
)

// SharedTokens counts the tokens of budgets that processes share.
type SharedTokens interface {
	// Take charges n tokens of the bucket of a key, all of them or none. An error means that
	// nothing is known. It returns when ctx ends.
	Take(ctx context.Context, key string, bucket SharedBucket, n int64) (TokensTaken, error)
}

// SharedBucket is a token bucket that processes share.
type SharedBucket struct {
	Name     string  // of the kind of budget: "global", "bytes", "ip" or "site"
	Capacity int64   // 1 to 1<<40
	Rate     float64 // tokens per second
}

// TokensTaken is what became of a question for tokens.
type TokensTaken struct {
	Allowed   bool
	Remaining int64         // right after the decision
	Wait      time.Duration // until as many are there; WaitForever: time alone does not bring them
}

// WaitForever is a wait that time does not end.
const WaitForever time.Duration = math.MaxInt64

// maxShared is the most tokens that a shared bucket holds.
const maxShared = 1 << 40

// tokenSource brings a budget its tokens if several processes share it: they are charged to a key
// of [SharedTokens] ahead of their use, some at a time, and whoever decides finds
// them here. A token that is not used within batchLife is lost, so a lease is no larger than
// what was used of the one before, or twice as large if that was used up. At no more than
// 1/batchSpan a second each token is a question of its own.
//
// Whatever the processes do, all of them together grant in any span W at most
//
//	capacity + rate × (W + batchLife)
//
// where the capacity is what batchSpan brings, at least one token: each was charged within the span
// or at most batchLife before it began. A process that does not reach whoever counts uses up
// what it has, and then has none.
type tokenSource struct {
	of     *budget
	key    string
	bucket SharedBucket
	most   int64 // of a lease

	size     int64         // of the next lease
	batches  [4]tokenBatch // the one that ends first comes first; of size zero for none
	owed     int64         // used before they were charged
	asking   bool          // a question is queued or under way
	again    clock.Instant
	failed   bool  // the last question was not answered
	used     int64 // since it was made
	reported int64 // of that, by scopeUses

	active *[]*tokenSource // those of scopes of which something was used since scopeUses; nil: it is of none
	listed bool            // it is among them
}

// tokenBatch is tokens that were charged together.
type tokenBatch struct {
	left, size int64
	until      clock.Instant
}

// newTokenSource makes the feed of a budget, or nil if it is this process's alone.
func (l *AdaptiveRateLimiter) newTokenSource(of *budget, name, key string, rate float64) *tokenSource {
	if l.cfg.Fleet == nil {
		return nil
	}
	b := SharedBucket{name, min(max(int64(math.Ceil(rate*batchSpan.Seconds())), 1), maxShared), min(rate, maxSourceRate)}
	return &tokenSource{of: of, key: l.cfg.FleetName + "/" + key, bucket: b, most: b.Capacity, size: 1, again: never}
}

// maxSourceRate is the fastest plan that there is: of bytes, a gigabyte a second.
const maxSourceRate = 1e9

// left is how many tokens there are now; below zero: so many are owed.
func (f *tokenSource) left(now clock.Instant) int64 {
	n := -f.owed
	for i := range f.batches {
		if now < f.batches[i].until {
			n += f.batches[i].left
		}
	}
	return n
}

// spend uses n tokens, and owes those that are not there.
func (f *tokenSource) spend(now clock.Instant, n int64) {
	f.used += n
	if f.active != nil && !f.listed && len(*f.active) < maxActive {
		f.listed = true
		*f.active = append(*f.active, f)
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

// unspend gives back a token that was spent a moment ago.
func (f *tokenSource) unspend(now clock.Instant) {
	f.used--
	if f.owed > 0 {
		f.owed--
		return
	}
	for i := range f.batches {
		if ls := &f.batches[i]; now < ls.until && ls.left < ls.size {
			ls.left++
			return
		}
	}
}

// retire forgets leases that are used up or over, and learns from them.
func (f *tokenSource) retire(now clock.Instant) {
	for f.batches[0].size > 0 && (f.batches[0].left == 0 || now >= f.batches[0].until) {
		ls := f.batches[0]
		copy(f.batches[:], f.batches[1:])
		f.batches[len(f.batches)-1] = tokenBatch{}
		if ls.left == 0 {
			f.size = min(2*ls.size, f.most)
		} else {
			f.size = max(1, ls.size-ls.left)
		}
	}
}

// wants reports whether to ask for a lease now, with n tokens wanted: when those are not
// there, or no more than half a lease is.
func (f *tokenSource) wants(now clock.Instant, n int64) bool {
	if f.asking || now < f.again {
		return false
	}
	f.retire(now)
	left := f.left(now)
	if left < n {
		f.size = max(f.size, min(n, f.most))
	}
	return f.batches[len(f.batches)-1].size == 0 && (left < n || left <= f.size/2)
}

// when is the earliest instant at which the n-th token from now on may be here.
func (f *tokenSource) when(now clock.Instant, n int64) clock.Instant {
	missing := n - f.left(now)
	if missing <= 0 {
		return now
	}
	more := float64(missing-1) / f.bucket.Rate * float64(time.Second)
	return max(f.again, now.Add(refillSoon)).Add(time.Duration(min(more, float64(longest))))
}

// need is how many tokens to ask for: one lease, and what is owed, as far as there ever are
// so many at once.
func (f *tokenSource) need() int64 { return min(f.size+f.owed, f.most) }

// landed takes in n tokens that were asked for at sent, and for how long not to ask for more.
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

// What reasons say of a budget that processes share.
const (
	allHosts   = "all hosts together"
	wholeFleet = "the whole fleet"
	unanswered = " (whoever keeps the count does not answer)"
)

// whose says whom a budget of all domains is for.
func (f *tokenSource) whose() string {
	switch {
	case f == nil:
		return allHosts
	case f.failed:
		return wholeFleet + unanswered
	}
	return wholeFleet
}

// whose says whom the rate of all domains is for.
func (l *AdaptiveRateLimiter) whose() string {
	if l.cfg.Fleet == nil {
		return allHosts
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	return l.shared.global.tokenSource.whose()
}

package ratelimit

import (
	"context"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// leaseFlow is how much of its rate a lease brings at most, and what a shared budget holds:
	// four trips a second are nothing to a server, and a quarter of a second is a small burst.
	leaseFlow = 250 * time.Millisecond

	// leaseLife is how long after it was charged a token may be used. A scheduler that was
	// told of one comes within milliseconds; what is longer covers a process that was stopped
	// for a moment, and is what a budget may be overdrawn by.
	leaseLife = 500 * time.Millisecond

	// feedRetry is the pause after a question that was not answered.
	feedRetry = 250 * time.Millisecond

	// feedSoon is when to look again for tokens that are on their way.
	feedSoon = 2 * time.Millisecond
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

// feed brings a budget its tokens if several processes share it: they are charged to a key
// of [SharedTokens] ahead of their use, some at a time, and whoever decides finds
// them here. A token that is not used within leaseLife is lost, so a lease is no larger than
// what was used of the one before, or twice as large if that was used up. At no more than
// 1/leaseFlow a second each token is a question of its own.
//
// Whatever the processes do, all of them together grant in any span W at most
//
//	capacity + rate × (W + leaseLife)
//
// where the capacity is what leaseFlow brings, at least one token: each was charged within the span
// or at most leaseLife before it began. A process that does not reach whoever counts uses up
// what it has, and then has none.
type feed struct {
	of     *budget
	key    string
	bucket SharedBucket
	most   int64 // of a lease

	size   int64    // of the next lease
	leases [4]lease // the one that ends first comes first; of size zero for none
	owed   int64    // used before they were charged
	asking bool     // a question is queued or under way
	again  clock.Instant
	failed bool  // the last question was not answered
	used   int64 // since it was made
	told   int64 // of that, by scopeUses

	active *[]*feed // those of scopes of which something was used since scopeUses; nil: it is of none
	listed bool     // it is among them
}

// lease is tokens that were charged together.
type lease struct {
	left, size int64
	until      clock.Instant
}

// newFeed makes the feed of a budget, or nil if it is this process's alone.
func (l *AdaptiveRateLimiter) newFeed(of *budget, name, key string, rate float64) *feed {
	if l.cfg.Fleet == nil {
		return nil
	}
	b := SharedBucket{name, min(max(int64(math.Ceil(rate*leaseFlow.Seconds())), 1), maxShared), min(rate, maxFeed)}
	return &feed{of: of, key: l.cfg.FleetName + "/" + key, bucket: b, most: b.Capacity, size: 1, again: never}
}

// maxFeed is the fastest plan that there is: of bytes, a gigabyte a second.
const maxFeed = 1e9

// left is how many tokens there are now; below zero: so many are owed.
func (f *feed) left(now clock.Instant) int64 {
	n := -f.owed
	for i := range f.leases {
		if now < f.leases[i].until {
			n += f.leases[i].left
		}
	}
	return n
}

// spend uses n tokens, and owes those that are not there.
func (f *feed) spend(now clock.Instant, n int64) {
	f.used += n
	if f.active != nil && !f.listed && len(*f.active) < maxActive {
		f.listed = true
		*f.active = append(*f.active, f)
	}
	for i := range f.leases {
		if ls := &f.leases[i]; now < ls.until {
			k := min(n, ls.left)
			ls.left -= k
			n -= k
		}
	}
	f.owed += n
}

// unspend gives back a token that was spent a moment ago.
func (f *feed) unspend(now clock.Instant) {
	f.used--
	if f.owed > 0 {
		f.owed--
		return
	}
	for i := range f.leases {
		if ls := &f.leases[i]; now < ls.until && ls.left < ls.size {
			ls.left++
			return
		}
	}
}

// retire forgets leases that are used up or over, and learns from them.
func (f *feed) retire(now clock.Instant) {
	for f.leases[0].size > 0 && (f.leases[0].left == 0 || now >= f.leases[0].until) {
		ls := f.leases[0]
		copy(f.leases[:], f.leases[1:])
		f.leases[len(f.leases)-1] = lease{}
		if ls.left == 0 {
			f.size = min(2*ls.size, f.most)
		} else {
			f.size = max(1, ls.size-ls.left)
		}
	}
}

// wants reports whether to ask for a lease now, with n tokens wanted: when those are not
// there, or no more than half a lease is.
func (f *feed) wants(now clock.Instant, n int64) bool {
	if f.asking || now < f.again {
		return false
	}
	f.retire(now)
	left := f.left(now)
	if left < n {
		f.size = max(f.size, min(n, f.most))
	}
	return f.leases[len(f.leases)-1].size == 0 && (left < n || left <= f.size/2)
}

// when is the earliest instant at which the n-th token from now on may be here.
func (f *feed) when(now clock.Instant, n int64) clock.Instant {
	missing := n - f.left(now)
	if missing <= 0 {
		return now
	}
	more := float64(missing-1) / f.bucket.Rate * float64(time.Second)
	return max(f.again, now.Add(feedSoon)).Add(time.Duration(min(more, float64(longest))))
}

// need is how many tokens to ask for: one lease, and what is owed, as far as there ever are
// so many at once.
func (f *feed) need() int64 { return min(f.size+f.owed, f.most) }

// landed takes in n tokens that were asked for at sent, and for how long not to ask for more.
func (f *feed) landed(now, sent clock.Instant, n int64, wait time.Duration, err error) {
	f.asking, f.failed = false, err != nil
	switch {
	case err != nil:
		f.again = now.Add(feedRetry)
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
	for i := range f.leases {
		if f.leases[i].size == 0 {
			f.leases[i] = lease{n, n, sent.Add(leaseLife)}
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
func (f *feed) whose() string {
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
	return l.shared.global.feed.whose()
}

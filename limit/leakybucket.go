package limit

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// LeakyBucketConfig is a pace.
type LeakyBucketConfig struct {
	Permits int64         // how many may leave per period; at least 1. Zero is an error.
	Per     time.Duration // the period; positive. Zero is an error.
}

// LeakyBucket paces: two grants are never closer than the interval, which is Per/Permits,
// however long nothing was asked for. The line of those who wait is the bucket, and
// [WithQueueLimit] its size. A grant of weight n, up to Permits, is followed by n intervals.
//
// An interval that is no whole number of nanoseconds is kept as a fraction: the grants
// of a busy line lie on the first nanosecond after their exact instants, so that a
// single gap may be the interval rounded down and no fraction is lost.
type LeakyBucket struct {
	core
	state pacer
}

var _ Weighted = (*LeakyBucket)(nil)

// NewLeakyBucket returns a limiter that can grant now.
func NewLeakyBucket(cfg LeakyBucketConfig, opts ...Option) (*LeakyBucket, error) {
	return of(Spec{Kind: KindLeakyBucket, Permits: cfg.Permits, Per: cfg.Per}, opts, newLeakyBucket)
}

func newLeakyBucket(set *settings) *LeakyBucket {
	l := &LeakyBucket{state: pacer{set: set}}
	l.init(set, &l.state)
	return l
}

// pacer grants next at the instant due−1+part/permits, or due if part is 0.
type pacer struct {
	due   clock.Instant // the first nanosecond in which the next grant may be
	early uint64        // by how much the exact instant is before it, in units of 1/permits ns
	set   *settings
}

// take moves due on by n intervals: from the slot's exact instant if it is taken in its
// first nanosecond, as a busy line does, and else from now.
func (p *pacer) take(now clock.Instant, n int64) bool {
	if now < p.due {
		return false
	}
	if now > p.due { // late: the gap counts from the grant, not from when it could have been
		p.due, p.early = now, 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(p.set.spec.Per))
	lo, borrow := bits.Sub64(lo, p.early, 0)
	if hi < borrow { // the fraction is longer than the gap: still in this nanosecond
		p.early -= uint64(n) * uint64(p.set.spec.Per)
		return true
	}
	gap, rest := bits.Div64(hi-borrow, lo, uint64(p.set.max)) // at most per, as n is at most permits
	p.early = 0
	if rest > 0 {
		p.early = uint64(p.set.max) - rest
		gap++
	}
	// An interval can be centuries: due stops at the end of time.
	p.due = clock.Instant(min(uint64(p.due)+gap, math.MaxInt64))
	return true
}

func (p *pacer) wait(now clock.Instant, _ int64) time.Duration {
	if p.due == math.MaxInt64 { // the slot is past the end of time
		return Never
	}
	return max(0, p.due.Sub(now))
}

// available is all or nothing: once a slot is due, it is due for any weight.
func (p *pacer) available(now clock.Instant) int64 {
	if now < p.due {
		return 0
	}
	return p.set.max
}

// standing has one left at most: a second at the same instant would be refused.
func (p *pacer) standing(now clock.Instant) Standing {
	s := Standing{Limit: p.set.max, Window: p.set.spec.Per, Even: true}
	if p.available(now) > 0 {
		s.Left, s.Lasts = 1, part(p.set.spec.Per, 1, p.set.max)
	}
	return s
}

func (p *pacer) clone() algorithm {
	c := *p
	return &c
}

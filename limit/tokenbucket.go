package limit

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Refill is how the tokens of a bucket come in. The zero Refill is [RefillContinuous].
type Refill uint8

// The values of Refill.
const (
	RefillContinuous Refill = iota // one by one, spread over the period
	RefillInterval                 // all at once, at the end of each whole period since the start
)

var refillNames = [...]string{"continuous", "interval"}

// String returns the name that configurations use.
func (r Refill) String() string {
	if int(r) < len(refillNames) {
		return refillNames[r]
	}
	return fmt.Sprintf("refill(%d)", uint8(r))
}

// MarshalText returns the name.
func (r Refill) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name; an empty one is RefillContinuous.
func (r *Refill) UnmarshalText(text []byte) error {
	for i, name := range refillNames {
		if name == string(text) || i == 0 && len(text) == 0 {
			*r = Refill(i)
			return nil
		}
	}
	return fieldError("refill", fmt.Sprintf("%q", text), `say "continuous" or "interval"`)
}

// TokenBucketConfig configures a [TokenBucket].
type TokenBucketConfig struct {
	Permits int64         // how many tokens come in per period; at least 1. Zero is an error.
	Per     time.Duration // the period; positive. Zero is an error.
	Burst   int64         // how many tokens the bucket holds. Zero means Permits.
	Refill  Refill        // how the tokens come in. Zero means RefillContinuous.
}

// TokenBucket grants while it has tokens, which come in at a rate up to the burst. In any span it grants at most Burst
// and what comes in during the span.
type TokenBucket struct {
	core
	state bucket
}

var _ Weighted = (*TokenBucket)(nil)

// NewTokenBucket returns a full bucket.
func NewTokenBucket(cfg TokenBucketConfig, opts ...Option) (*TokenBucket, error) {
	return of(Spec{Permits: cfg.Permits, Per: cfg.Per, Burst: cfg.Burst, Refill: cfg.Refill}, opts, newTokenBucket)
}

func newTokenBucket(set *settings) *TokenBucket {
	l := &TokenBucket{state: bucket{set: set, tokens: set.max}}
	l.init(set, &l.state)
	return l
}

// bucket counts whole tokens and, apart, the fraction that has come in of the next one,
// so that no rate and no burst is too large for it and nothing is ever rounded away.
type bucket struct {
	tokens int64         // up to the burst
	part   uint64        // of the next token, in units of 1/Per, below Per; 0 if the bucket is full
	at     clock.Instant // when that was; for whole periods, the end of the last one
	set    *settings
}

// advance brings tokens and part up to now. The common case, in which less than a token
// has come in, has no division in it.
func (b *bucket) advance(now clock.Instant) {
	passed := uint64(now - b.at)
	if b.set.spec.Refill == RefillInterval {
		periods := passed / uint64(b.set.spec.Per)
		b.at += clock.Instant(periods * uint64(b.set.spec.Per))
		hi, lo := bits.Mul64(periods, uint64(b.set.spec.Permits))
		b.add(hi, lo)
		return
	}
	b.at = now // even if the bucket is full: what comes in then is lost
	if b.tokens == b.set.max {
		return
	}
	hi, lo := bits.Mul64(passed, uint64(b.set.spec.Permits))
	lo, carry := bits.Add64(lo, b.part, 0)
	if hi += carry; hi == 0 && lo < uint64(b.set.spec.Per) {
		b.part = lo
		return
	}
	if hi >= uint64(b.set.spec.Per) { // more than 2⁶⁴ tokens
		b.add(1, 0)
		return
	}
	lo, b.part = bits.Div64(hi, lo, uint64(b.set.spec.Per))
	b.add(0, lo)
}

// add fills hi·2⁶⁴ + lo tokens in; what does not go in is lost.
func (b *bucket) add(hi, lo uint64) {
	if missing := uint64(b.set.max - b.tokens); hi != 0 || lo >= missing {
		b.tokens, b.part = b.set.max, 0
		return
	}
	b.tokens += int64(lo)
}

func (b *bucket) take(now clock.Instant, n int64) bool {
	b.advance(now)
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

// wait is (missing·per − part) / permits, in 128 bits; or for whole periods, to the end of
// that one which brings the last missing token.
func (b *bucket) wait(now clock.Instant, n int64) time.Duration {
	b.advance(now)
	if b.tokens >= n {
		return 0
	}
	missing := uint64(n - b.tokens)
	if b.set.spec.Refill == RefillInterval {
		periods := (missing-1)/uint64(b.set.spec.Permits) + 1
		hi, lo := bits.Mul64(periods, uint64(b.set.spec.Per))
		if d := ceilWait(hi, lo, 1); d != Never {
			return d - now.Sub(b.at)
		}
		return Never
	}
	hi, lo := bits.Mul64(missing, uint64(b.set.spec.Per))
	lo, borrow := bits.Sub64(lo, b.part, 0)
	return ceilWait(hi-borrow, lo, uint64(b.set.spec.Permits))
}

// available is below zero while there is a debt; see Charge.
func (b *bucket) available(now clock.Instant) int64 {
	b.advance(now)
	return b.tokens
}

// standing is told by the time in which the bucket fills. With whole periods what is left should
// last until the next tokens come.
func (b *bucket) standing(now clock.Instant) Standing {
	left := b.available(now)
	s := Standing{Limit: b.set.max, Window: part(b.set.spec.Per, b.set.max, b.set.spec.Permits), Left: left}
	s.Even = b.set.max == 1 && b.set.spec.Refill == RefillContinuous // there is no room for a second
	if s.Lasts = part(b.set.spec.Per, left, b.set.spec.Permits); b.set.spec.Refill == RefillInterval {
		s.Lasts = part(b.set.spec.Per-now.Sub(b.at), max(0, left), max(0, left)+1)
	}
	return s
}

func (b *bucket) clone() algorithm {
	c := *b
	return &c
}

// Charge takes n tokens at once, whether they are there or not, for something whose cost is known only after its use,
// such as the bytes of a response. What is missing is a debt: nothing is granted before it is paid, and
// Statistics.Available is that far below zero. A debt is bounded by the range of int64. It counts as acquired. With n
// below 1 Charge does nothing.
//
// Waiting callers look again when their timers fire: a charge only makes them wait longer.
func (l *TokenBucket) Charge(n int64) {
	if n < 1 {
		return
	}
	l.mu.Lock()
	l.state.charge(l.nowLocked(), n)
	l.acquired = addCount(l.acquired, n)
	l.mu.Unlock()
}

// deepest leaves room to add a weight and a burst to a debt without wrapping around.
const deepest = math.MinInt64 / 4

func (b *bucket) charge(now clock.Instant, n int64) {
	b.advance(now)
	b.tokens = max(b.tokens-min(n, -deepest), deepest)
}

// addCount adds a weight to a counter, which stops at its maximum.
func addCount(count uint64, n int64) uint64 {
	sum, carry := bits.Add64(count, uint64(max(n, 0)), 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// addWaits is a sum of waits, which are not negative. Past the range it is Never.
func addWaits(a, b time.Duration) time.Duration {
	if a > Never-b {
		return Never
	}
	return a + b
}

// ceilWait is (hi·2⁶⁴ + lo) / by nanoseconds, rounded up to the first whole one, or Never.
func ceilWait(hi, lo, by uint64) time.Duration {
	if hi >= by {
		return Never
	}
	q, r := bits.Div64(hi, lo, by)
	if r > 0 && q < math.MaxInt64 {
		q++
	}
	return time.Duration(min(q, math.MaxInt64))
}

// part is n of as many parts of d, rounded up.
func part(d time.Duration, n, of int64) time.Duration {
	hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(d))
	return ceilWait(hi, lo, uint64(of))
}

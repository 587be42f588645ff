package admission

import "math"

// TokenBucket is the state of a key under a plan of KindTokenBucket. It is a value: its
// methods change nothing and depend on nothing but what they are given.
//
// Its numbers are those of the Redis form, `t` and `ts`, and it computes with doubles,
// the same operations in the same order as a script does there, so that both come to the
// same bits. What a refill rounds away is less than the last bit of the capacity, and as
// a refusal is not stored, no number of refusals adds that up.
type TokenBucket struct {
	Tokens   float64 // 0 to the capacity
	Refilled Micros  // when Tokens was right
}

// NewTokenBucket is a full bucket.
func NewTokenBucket(now Micros, p Plan) TokenBucket {
	return TokenBucket{float64(p.Capacity), now}
}

// Refill is b at now. When the clock goes back, nothing flows in until it has caught up.
// But a bucket that says it was refilled further in the future than it takes to fill one
// was written by a clock that was wrong; it would block for as long as that clock was
// off, and so it is taken for a new one.
func (b TokenBucket) Refill(now Micros, p Plan) TokenBucket { return b.refill(now, &p) }

func (b TokenBucket) refill(now Micros, p *Plan) TokenBucket {
	full := float64(p.Capacity)
	gain := float64(now-b.Refilled) * p.TokensPerSecond / second
	if gain < 0 {
		if gain < -full {
			return TokenBucket{full, now}
		}
		now, gain = b.Refilled, 0
	}
	tokens := b.Tokens + gain
	if !(tokens <= full) { // true of no number too, which a damaged store may hold
		tokens = full
	}
	return TokenBucket{tokens, now}
}

// Take asks for n tokens at now. If they are there it is the bucket without them; if
// not it is b as it was. Zero tokens are a question only: they are always there.
func (b TokenBucket) Take(now Micros, p Plan, n int64) (TokenBucket, Result) {
	var r Result
	return b.take(now, &p, n, &r), r
}

// take is Take with room for the Result, whose way through registers costs more than
// the decision.
func (b TokenBucket) take(now Micros, p *Plan, n int64, r *Result) TokenBucket {
	at := b.refill(now, p)
	*r = Result{Limit: p.Capacity, Plan: p.Name}
	switch want := float64(n); {
	case want <= at.Tokens:
		r.Allowed = true
		if n > 0 {
			at.Tokens -= want
			b = at
		}
	case n > p.Capacity:
		r.Reason, r.Wait = ReasonTooLarge, Never
	default:
		r.Reason, r.Wait = ReasonLimited, (b.when(p, want) - now).duration()
	}
	r.Remaining = int64(at.Tokens)
	if full := float64(p.Capacity); at.Tokens < full {
		r.Reset = (b.Refilled + b.estimate(p, full) - now).duration()
	}
	return b
}

// estimate is how many microseconds after Refilled there will be want tokens, by a
// quotient that is rounded up. It may be off by some, because Refill rounds too.
func (b TokenBucket) estimate(p *Plan, want float64) Micros {
	wait := math.Ceil((want - b.Tokens) / p.TokensPerSecond * second)
	if wait >= float64(Never/4) {
		return Micros(Never / 4)
	}
	return Micros(wait)
}

// when is the first microsecond for which [TokenBucket.Refill] finds want tokens, of
// which there are fewer yet. It is counted from what is stored, and not from now, so
// that whoever asks again meanwhile is told the same instant. The estimate comes close
// to it; the last step is to ask Refill's own sum.
func (b TokenBucket) when(p *Plan, want float64) Micros {
	enough := func(w Micros) bool { return b.Tokens+float64(w)*p.TokensPerSecond/second >= want }
	late := b.estimate(p, want)
	early := late - 1
	if late >= Micros(Never/4) {
		return late
	}
	for step := Micros(1); !enough(late); step *= 2 {
		early, late = late, late+step
	}
	for step := Micros(1); early > 0 && enough(early); step *= 2 {
		early, late = max(0, early-step), early
	}
	for late-early > 1 {
		if mid := early + (late-early)/2; enough(mid) {
			late = mid
		} else {
			early = mid
		}
	}
	return b.Refilled + late
}

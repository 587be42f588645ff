package admission

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// anyPlan is a plan of any size there may be, small ones as often as large ones.
func anyPlan(rnd *rand.Rand) Plan {
	from := func(lo, hi float64) float64 {
		return math.Exp(math.Log(lo) + rnd.Float64()*(math.Log(hi)-math.Log(lo)))
	}
	p := Plan{Name: "p", Kind: Kinds()[rnd.IntN(3)], Capacity: int64(from(1, float64(MaxCapacity)))}
	if p.Kind == KindTokenBucket {
		p.TokensPerSecond = from(2*minRate, maxRate/2)
	} else {
		p.Window = time.Duration(from(float64(2*minWindow), float64(maxWindow/2))).Truncate(time.Microsecond)
	}
	return p
}

// anyState is what a key may have used of p at a time not long before now.
func anyState(rnd *rand.Rand, p *Plan, now Micros) State {
	s := p.Fresh(now - Micros(rnd.Int64N(1e6)))
	switch p.Kind {
	case KindTokenBucket:
		s.Tokens = rnd.Float64() * float64(p.Capacity)
	case KindSlidingWindow:
		s.Previous = rnd.Int64N(p.Capacity + 1)
		fallthrough
	case KindFixedWindow:
		s.Current = rnd.Int64N(p.Capacity + 1)
	}
	return s
}

// TestWhatIsToldIsTrue goes through plans of all sizes: what a Result tells, another
// question confirms. Wait is exact to the microsecond, Remaining to the token; after Reset
// nothing counts; and a client that spreads what is told to remain over the reset finds
// something. That it finds all that it needs is TestObedientClient.
func TestWhatIsToldIsTrue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 11))
	for range 200_000 {
		p, err := anyPlan(rnd).Settle()
		require.NoError(t, err)
		now := Micros(rnd.Int64N(4e15)) // until the year 2096
		before := anyState(rnd, &p, now)
		n := int64(1)
		if rnd.IntN(4) > 0 {
			n += rnd.Int64N(p.Capacity)
		}
		after, r := p.Take(before, now, n)
		can := func(s State, at Micros, n int64) bool { _, r := p.Take(s, at, n); return r.Allowed }
		of := func(ok bool, what string) {
			t.Helper()
			if !ok {
				t.Fatalf("%s: %d of %+v at %d of %+v: %+v", what, n, p, now, before, r)
			}
		}
		of(r.Wait >= 0 && r.Reset >= 0 && r.Remaining >= 0 && r.Remaining <= p.Capacity, "out of range")
		if wait := Micros(r.Wait / time.Microsecond); !r.Allowed && r.Wait != Never {
			of(can(before, now+wait, n), "Wait is too short")
			of(!can(before, now+wait-1, n), "Wait is too long")
		}
		of(can(after, now, r.Remaining), "fewer remain")
		of(r.Remaining == p.Capacity || !can(after, now, r.Remaining+1), "more remain")
		if r.Reset != Never {
			of(can(after, now+Micros(r.Reset/time.Microsecond)+2, p.Capacity), "Reset is too short") // it rounds
		}
		left, until := r.told(&p)
		of(left >= r.Remaining && until >= 0 && (until/time.Duration(max(1, left))-time.Second <= r.Reset || !r.Allowed), "the header is out of range")
		if r.Allowed && until != Never {
			each := Micros(math.Ceil(float64(ceilSeconds(until)) * second / float64(max(1, left))))
			of(can(after, now+each, 1), "who spreads what is left is too early")
		}
	}
}

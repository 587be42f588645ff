package admission

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/header"
)

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

// TestWhatIsToldIsTrue goes through plans of all sizes: what a Result tells, another question confirms. Wait is exact
// to the microsecond, Remaining to the token; after Reset nothing counts; and a client that spreads what is told to
// remain over the reset finds something. That it finds all that it needs is TestObedientClient.
func TestWhatIsToldIsTrue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 11))
	for range 200_000 {
		p := must(anyPlan(rnd).Settle())
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

// TestObedientClient has a client do what the headers say, in virtual time: it spreads what remains over the reset,
// and with nothing left waits for it. It gets what the plan grants, and is not refused.
func TestObedientClient(t *testing.T) {
	for _, kind := range Kinds() {
		for _, permits := range []int64{1, 2, 3, 5, 7, 10, 30, 100, 1000} {
			for _, window := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 7 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
				for _, begin := range []time.Duration{0, 300 * time.Millisecond, window / 3} {
					p := Plan{Name: "p", Kind: kind, Capacity: permits, Window: window}
					if kind == KindTokenBucket {
						p.Window, p.TokensPerSecond = 0, float64(permits)/window.Seconds()
					}
					p = must(p.Settle())
					used, refused := obey(p, begin)
					name := fmt.Sprintf("%s %d per %v from %v: %.3f used, %.4f refused", kind, permits, window, begin, used, refused)
					if used < 0.95 || refused > 0.002 {
						t.Error(name)
					}
				}
			}
		}
	}
}

// obey is the share of what a plan grants in the long run that an obedient client used, and of
// its requests that were refused.
func obey(p Plan, begin time.Duration) (used, refused float64) {
	set := must(newPlanSet([]Plan{p}))
	rule := (&Rule{Name: "r", Plans: []string{p.Name}}).terms(set)
	_, window := p.PerWindow()
	now := Micros(1_800_000_000_000_000) + Micros(begin.Microseconds())
	state := p.Fresh(now)
	// What a new client finds comes on top of the long run: it is not counted.
	warm, end := now+Micros(5*window.Microseconds()), now+Micros(45*window.Microseconds())
	granted, asked, denied := 0, 0, 0
	for at := float64(now); at < float64(end); {
		now = Micros(at)
		var res Result
		state, res = p.Take(state, now, 1)
		h := http.Header{}
		HeadersLegacy.tell(h, rule, &res, nil)
		remaining := must(strconv.ParseFloat(h.Get("X-RateLimit-Remaining"), 64))
		reset := must(strconv.ParseFloat(h.Get("X-RateLimit-Reset"), 64))
		if now >= warm {
			asked++
			if res.Allowed {
				granted++
			} else {
				denied++
			}
		}
		if at += reset * 1e6 / max(1, remaining); reset == 0 {
			at++ // as soon as it can
		}
	}
	return float64(granted) / (float64(p.Capacity) * 40), float64(denied) / float64(asked)
}

// TestHeadersAreThoseOfTheWriters compares what is put together on the way of each
// request with what package header writes.
func TestHeadersAreThoseOfTheWriters(t *testing.T) {
	plan := must(Plan{Name: strings.Repeat("n", maxName), Kind: KindFixedWindow, Capacity: MaxCapacity, Window: maxWindow}.Settle())
	set := must(newPlanSet([]Plan{plan}))
	terms := (&Rule{Name: "r", Plans: []string{plan.Name}}).terms(set)
	for _, res := range []Result{
		{Allowed: true, Limit: plan.Capacity, Remaining: plan.Capacity - 1, Reset: maxWindow, Plan: plan.Name},
		{Allowed: true, Limit: 1, Plan: plan.Name},
		{Allowed: true, Limit: 1, Reset: 1, Plan: plan.Name},
		{Limit: 10, Wait: time.Second, Reset: time.Hour, Plan: plan.Name, Reason: ReasonLimited},
		{Limit: 10, Remaining: 9, Wait: time.Second + 1, Plan: plan.Name, Reason: ReasonLimited},
		{Limit: 10, Remaining: 9, Wait: Never, Reset: time.Minute, Plan: plan.Name, Reason: ReasonTooLarge},
	} {
		got, want := http.Header{}, http.Header{}
		HeadersBoth.tell(got, terms, &res, nil)

		left, reset := res.told(&plan)
		seconds := header.FormatRetryAfter(reset)
		want.Set("X-RateLimit-Limit", strconv.FormatInt(res.Limit, 10))
		want.Set("X-RateLimit-Remaining", strconv.FormatInt(left, 10))
		want.Set("X-RateLimit-Reset", seconds)
		want.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%s`, res.Plan, left, seconds))
		value := must(header.FormatPolicies([]header.Policy{{Name: plan.Name, Quota: plan.Capacity, Window: plan.Window}}))
		want.Set("RateLimit-Policy", value)
		require.Equal(t, want, got)

		for name := range got { // each value has a list of its own
			got.Add(name, "x")
		}
		for name := range got {
			require.Equal(t, append(want[name], "x"), got[name])
		}
	}
}

func TestTerms(t *testing.T) {
	one, two := Plan{Name: "one", Capacity: 10, TokensPerSecond: 1}, Plan{Name: "two", Capacity: 30, TokensPerSecond: 1}
	set := must(newPlanSet([]Plan{one, two}))
	terms := (&Rule{Name: "r", Plans: []string{"two", "one", "two"}}).terms(set)
	require.Len(t, terms.plans, 2, "each plan counts once")
	require.Equal(t, `"two";q=30;w=30, "one";q=10;w=10`, terms.policy)
	require.Equal(t, int64(10), terms.planOf(&Result{Plan: "one"}).Capacity)
	require.Nil(t, terms.planOf(&Result{Plan: "r" + slotsSuffix}))
	require.Equal(t, limitFields{"30", "30;w=30"}, terms.limitOf(&Result{Plan: "two", Limit: 30}))
	require.Equal(t, limitFields{"15", "15;w=30"}, terms.limitOf(&Result{Plan: "two", Limit: 15}), "of a fallback's share")
}

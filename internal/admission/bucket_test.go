package admission_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/admission"
)

// t0 is some instant of 2026, a whole day.
const t0 = admission.Micros(1_772_668_800_000_000)

func settled(t require.TestingT, p admission.Plan) admission.Plan {
	p, err := p.Settle()
	require.NoError(t, err)
	return p
}

func TestTokenBucketRefill(t *testing.T) {
	p := settled(t, admission.Plan{Name: "p", Capacity: 10, TokensPerSecond: 2})
	for _, tc := range []struct {
		name string
		from admission.TokenBucket
		now  admission.Micros
		want admission.TokenBucket
	}{
		{"no time", admission.TokenBucket{Tokens: 3, Refilled: t0}, t0, admission.TokenBucket{Tokens: 3, Refilled: t0}},
		{"half a second", admission.TokenBucket{Tokens: 3, Refilled: t0}, t0 + 5e5, admission.TokenBucket{Tokens: 4, Refilled: t0 + 5e5}},
		{"up to the capacity", admission.TokenBucket{Tokens: 3, Refilled: t0}, t0 + 1e9, admission.TokenBucket{Tokens: 10, Refilled: t0 + 1e9}},
		{"back by less than it fills in", admission.TokenBucket{Tokens: 3, Refilled: t0}, t0 - 5e6, admission.TokenBucket{Tokens: 3, Refilled: t0}},
		{"back by more", admission.TokenBucket{Tokens: 3, Refilled: t0}, t0 - 5e6 - 1, admission.TokenBucket{Tokens: 10, Refilled: t0 - 5e6 - 1}},
		{"from the first to the last instant", admission.TokenBucket{Refilled: 0}, 1 << 53, admission.TokenBucket{Tokens: 10, Refilled: 1 << 53}},
		{"more than the capacity", admission.TokenBucket{Tokens: 99, Refilled: t0}, t0, admission.TokenBucket{Tokens: 10, Refilled: t0}},
		{"no number", admission.TokenBucket{Tokens: math.NaN(), Refilled: t0}, t0, admission.TokenBucket{Tokens: 10, Refilled: t0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.from.Refill(tc.now, p))
		})
	}
	require.Equal(t, admission.TokenBucket{Tokens: 10, Refilled: t0}, admission.NewTokenBucket(t0, p))
}

// anyPlan draws from all that Settle lets through.
func anyPlan(t *rapid.T, kinds ...admission.Kind) admission.Plan {
	p := admission.Plan{Name: "p", Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	p.Capacity = 1 + int64(math.Pow(2, rapid.Float64Range(0, 40).Draw(t, "capacity"))-1)
	if p.Kind == admission.KindTokenBucket {
		p.TokensPerSecond = math.Pow(10, rapid.Float64Range(-9, 9).Draw(t, "rate"))
	} else {
		p.Window = time.Duration(math.Pow(10, rapid.Float64Range(3, 13).Draw(t, "window"))) * time.Microsecond
	}
	return settled(t, p)
}

// TestTokenBucketWait has the law of Wait for any plan: then it is allowed, and a
// microsecond before it is not.
func TestTokenBucketWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t, admission.KindTokenBucket)
		b := admission.TokenBucket{
			Tokens:   rapid.Float64Range(0, float64(p.Capacity)).Draw(t, "tokens"),
			Refilled: t0 - admission.Micros(rapid.Int64Range(-1e6, 1e12).Draw(t, "ago")),
		}
		n := rapid.Int64Range(1, p.Capacity).Draw(t, "n")
		same, r := b.Take(t0, p, n)
		if r.Allowed {
			require.GreaterOrEqual(t, same.Tokens, 0.0)
			return
		}
		require.Equal(t, b, same, "a denied bucket")
		if r.Wait > 100*365*24*time.Hour {
			return // beyond what Micros can say exactly
		}
		then := t0 + admission.Micros(r.Wait/time.Microsecond)
		_, late := b.Take(then, p, n)
		require.True(t, late.Allowed, "at the Wait of %v", r.Wait)
		_, early := b.Take(then-1, p, n)
		require.False(t, early.Allowed, "1µs before the Wait of %v", r.Wait)
	})
}

// TestTokenBucketWaitIsNotTheQuotient has rates at which missing/rate is not the first
// microsecond at which Refill finds the tokens, but one or many too early or too late.
func TestTokenBucketWaitIsNotTheQuotient(t *testing.T) {
	for _, tc := range []struct {
		rate, tokens float64
		n            int64
		want         admission.Micros
		quotient     admission.Micros
	}{
		{4.648648648648648, 9.41656, 98, 19055741, 19055740},
		{38.63636363636363, 1.7128999999999999, 28, 680373, 680372},
		{0.08163265306122448, 5.107, 56, 623439251, 623439250},
		{2.5454545454545454, 18.170379999999998, 60, 16433065, 16433066},
		{13.58695652173913, 13.022499999999999, 18, 366344, 366345},
		{5.611111111111111, 15.32922, 55, 7070040, 7070041},
		{1e-3, 7.227819809625289e+11, 722781980963, 471008301, 471069336}, // where a double counts in 8192nds
		{1e-3, 5.5791457592698654e+10, 55791457593, 301342011, 301345826},
	} {
		p := settled(t, admission.Plan{Name: "p", Capacity: admission.MaxCapacity, TokensPerSecond: tc.rate})
		b := admission.TokenBucket{Tokens: tc.tokens, Refilled: t0}
		require.InDelta(t, float64(tc.quotient), (float64(tc.n)-tc.tokens)/tc.rate*1e6, 1, "the quotient")
		_, r := b.Take(t0, p, tc.n)
		require.Equal(t, time.Duration(tc.want)*time.Microsecond, r.Wait)
		_, r = b.Take(t0+tc.want-1, p, tc.n)
		require.Equal(t, time.Microsecond, r.Wait)
		_, r = b.Take(t0+tc.want, p, tc.n)
		require.True(t, r.Allowed)
	}
}

// TestTokenBucketNeverGrantsMore has a clock that goes to and fro a little: what is
// granted is at most what was there and what flowed in up to the furthest instant.
func TestTokenBucketNeverGrantsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := settled(t, admission.Plan{
			Name: "p", Capacity: rapid.Int64Range(1, 1000).Draw(t, "capacity"),
			TokensPerSecond: rapid.Float64Range(0.001, 1000).Draw(t, "rate"),
		})
		back := min(1e6, p.Period().Microseconds()-1)
		b, now, furthest := admission.NewTokenBucket(t0, p), t0, t0
		granted := 0.0
		for range 200 {
			now = max(furthest-admission.Micros(back), now+admission.Micros(rapid.Int64Range(-1e6, 1e6).Draw(t, "move")))
			furthest = max(furthest, now)
			n := rapid.Int64Range(0, p.Capacity).Draw(t, "n")
			var r admission.Result
			if b, r = b.Take(now, p, n); r.Allowed {
				granted += float64(n)
			}
			require.GreaterOrEqual(t, r.Remaining, int64(0))
		}
		budget := float64(p.Capacity) + float64(furthest-t0)*p.TokensPerSecond/1e6
		require.LessOrEqual(t, granted, budget*(1+1e-12))
	})
}

// TestWindowIsExact compares the sliding rule with whole numbers of any size, where
// doubles make no error, and the fixed one with a count per window.
func TestWindowIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := settled(t, admission.Plan{
			Name: "p", Kind: admission.KindSlidingWindow, Capacity: rapid.Int64Range(1, 100_000).Draw(t, "capacity"),
			Window: time.Duration(rapid.Int64Range(1, 24*3600_000).Draw(t, "ms")) * time.Millisecond,
		})
		length := p.Window.Microseconds()
		start := t0 - t0%admission.Micros(length)
		w := admission.Window{
			Start: start, Current: rapid.Int64Range(0, p.Capacity).Draw(t, "current"),
			Previous: rapid.Int64Range(0, p.Capacity).Draw(t, "previous"),
		}
		elapsed := rapid.Int64Range(0, length-1).Draw(t, "elapsed")
		n := rapid.Int64Range(1, p.Capacity).Draw(t, "n")
		used := new(big.Int).Mul(big.NewInt(w.Previous), big.NewInt(length-elapsed-1))
		room := new(big.Int).Mul(big.NewInt(p.Capacity-w.Current-n+1), big.NewInt(length))
		_, r := w.Take(start+admission.Micros(elapsed), p, n)
		require.Equal(t, used.Cmp(room) < 0, r.Allowed)
	})
}

// TestWindowWait has the law of Wait for windows of any length and capacity.
func TestWindowWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t, admission.KindFixedWindow, admission.KindSlidingWindow)
		now := t0 + admission.Micros(rapid.Int64Range(0, 1e13).Draw(t, "now"))
		w := admission.NewWindow(now, p)
		w.Current = rapid.Int64Range(0, p.Capacity).Draw(t, "current")
		if p.Kind == admission.KindSlidingWindow {
			w.Previous = rapid.Int64Range(0, p.Capacity).Draw(t, "previous")
		}
		n := rapid.Int64Range(1, p.Capacity).Draw(t, "n")
		same, r := w.Take(now, p, n)
		if r.Allowed {
			require.Zero(t, r.Wait)
			require.LessOrEqual(t, same.Current, p.Capacity)
			return
		}
		require.Equal(t, w, same, "a denied window")
		then := now + admission.Micros(r.Wait/time.Microsecond)
		_, late := w.Take(then, p, n)
		require.True(t, late.Allowed, "at the Wait of %v", r.Wait)
		_, early := w.Take(then-1, p, n)
		require.False(t, early.Allowed, "1µs before the Wait of %v", r.Wait)
	})
}

func TestWindowAdvance(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind admission.Kind
		at   admission.Micros // from t0, in a window of a second
		want admission.Window
	}{
		{"the same window", admission.KindSlidingWindow, 999_999, admission.Window{Start: t0, Current: 5, Previous: 3}},
		{"the next", admission.KindSlidingWindow, 1_000_000, admission.Window{Start: t0 + 1e6, Previous: 5}},
		{"the last of the next", admission.KindSlidingWindow, 1_999_999, admission.Window{Start: t0 + 1e6, Previous: 5}},
		{"the one after", admission.KindSlidingWindow, 2_000_000, admission.Window{Start: t0 + 2e6}},
		{"the next of a fixed one", admission.KindFixedWindow, 1_500_000, admission.Window{Start: t0 + 1e6}},
		{"back by a window", admission.KindSlidingWindow, -1_000_000, admission.Window{Start: t0, Current: 5, Previous: 3}},
		{"back by more", admission.KindSlidingWindow, -1_000_001, admission.Window{Start: t0 - 2e6}},
		{"before 1970", admission.KindFixedWindow, -t0 - 1, admission.Window{Start: -1e6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := settled(t, admission.Plan{Name: "p", Kind: tc.kind, Capacity: 9, Window: time.Second})
			w := admission.Window{Start: t0, Current: 5, Previous: 3}
			require.Equal(t, tc.want, w.Advance(t0+tc.at, p))
		})
	}
}

func TestTakeAllOfNoPlans(t *testing.T) {
	require.Equal(t, admission.Result{Allowed: true}, admission.TakeAll(nil, nil, t0, 1))
}

func TestTighter(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name string
		a, b admission.Result
		want bool
	}{
		{"a denial before an allowance", admission.Result{Wait: s}, admission.Result{Allowed: true}, true},
		{"not the other way round", admission.Result{Allowed: true}, admission.Result{Wait: s}, false},
		{"the longer wait", admission.Result{Wait: 2 * s}, admission.Result{Wait: s}, true},
		{"never before all", admission.Result{Wait: admission.Never}, admission.Result{Wait: s}, true},
		{"fewer left", admission.Result{Allowed: true, Remaining: 1}, admission.Result{Allowed: true, Remaining: 2}, true},
		{"of equals neither", admission.Result{Allowed: true, Remaining: 1}, admission.Result{Allowed: true, Remaining: 1}, false},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tc.a.Tighter(&tc.b)) })
	}
}

func TestMicros(t *testing.T) {
	at := time.Date(2026, 3, 5, 1, 2, 3, 456789, time.UTC)
	require.Equal(t, at.Truncate(time.Microsecond), admission.MicrosOf(at).Time())
	require.Equal(t, admission.Micros(-1), admission.MicrosOf(time.Unix(0, -1)), "it rounds down")
}

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

func settled(p admission.Plan) admission.Plan {
	p = must(p.Settle())
	return p
}

// TestRefill has a token taken of buckets as they are found.
func TestRefill(t *testing.T) {
	p := settled(admission.Plan{Name: "p", Capacity: 10, TokensPerSecond: 2})
	bucket := func(tokens float64, at admission.Micros) admission.State {
		return admission.State{Tokens: tokens, At: at}
	}
	for _, tc := range []struct {
		name string
		from admission.State
		now  admission.Micros
		want admission.State
	}{
		{"no time", bucket(3, t0), t0, bucket(2, t0)},
		{"half a second", bucket(3, t0), t0 + 5e5, bucket(3, t0+5e5)},
		{"up to the capacity", bucket(3, t0), t0 + 1e9, bucket(9, t0+1e9)},
		{"back by less than it fills in", bucket(3, t0), t0 - 5e6, bucket(2, t0)},
		{"back by more", bucket(3, t0), t0 - 5e6 - 1, bucket(9, t0-5e6-1)},
		{"from the first to the last instant", bucket(0, 0), 1 << 53, bucket(9, 1<<53)},
		{"more than the capacity", bucket(99, t0), t0, bucket(9, t0)},
		{"no number", bucket(math.NaN(), t0), t0, bucket(9, t0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := p.Take(tc.from, tc.now, 1)
			require.Equal(t, tc.want, got)
		})
	}
	require.Equal(t, bucket(10, t0), p.Fresh(t0))
}

// TestTokenBucketNeverGrantsMore has a clock that goes to and fro a little: what is
// granted is at most what was there and what flowed in up to the furthest instant.
func TestTokenBucketNeverGrantsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := settled(admission.Plan{
			Name: "p", Capacity: rapid.Int64Range(1, 1000).Draw(t, "capacity"),
			TokensPerSecond: rapid.Float64Range(0.001, 1000).Draw(t, "rate"),
		})
		back := min(1e6, p.Period().Microseconds()-1)
		b, now, furthest := p.Fresh(t0), t0, t0
		granted := 0.0
		for range 200 {
			now = max(furthest-admission.Micros(back), now+admission.Micros(rapid.Int64Range(-1e6, 1e6).Draw(t, "move")))
			furthest = max(furthest, now)
			n := rapid.Int64Range(0, p.Capacity).Draw(t, "n")
			var r admission.Result
			if b, r = p.Take(b, now, n); r.Allowed {
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
		p := settled(admission.Plan{
			Name: "p", Kind: admission.KindSlidingWindow, Capacity: rapid.Int64Range(1, 100_000).Draw(t, "capacity"),
			Window: time.Duration(rapid.Int64Range(1, 24*3600_000).Draw(t, "ms")) * time.Millisecond,
		})
		length := p.Window.Microseconds()
		start := t0 - t0%admission.Micros(length)
		w := admission.State{
			At: start, Current: rapid.Int64Range(0, p.Capacity).Draw(t, "current"),
			Previous: rapid.Int64Range(0, p.Capacity).Draw(t, "previous"),
		}
		elapsed := rapid.Int64Range(0, length-1).Draw(t, "elapsed")
		n := rapid.Int64Range(1, p.Capacity).Draw(t, "n")
		used := new(big.Int).Mul(big.NewInt(w.Previous), big.NewInt(length-elapsed-1))
		room := new(big.Int).Mul(big.NewInt(p.Capacity-w.Current-n+1), big.NewInt(length))
		_, r := p.Take(w, start+admission.Micros(elapsed), n)
		require.Equal(t, used.Cmp(room) < 0, r.Allowed)
	})
}

// TestWindowAdvance has a token taken of a window of five, after one of three, as time goes on.
func TestWindowAdvance(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind admission.Kind
		at   admission.Micros // from t0, in a window of a second
		want admission.State
	}{
		{"the same window", admission.KindSlidingWindow, 999_999, admission.State{At: t0, Current: 6, Previous: 3}},
		{"the next", admission.KindSlidingWindow, 1_000_000, admission.State{At: t0 + 1e6, Current: 1, Previous: 5}},
		{"the last of the next", admission.KindSlidingWindow, 1_999_999, admission.State{At: t0 + 1e6, Current: 1, Previous: 5}},
		{"the one after", admission.KindSlidingWindow, 2_000_000, admission.State{At: t0 + 2e6, Current: 1}},
		{"the next of a fixed one", admission.KindFixedWindow, 1_500_000, admission.State{At: t0 + 1e6, Current: 1}},
		{"back by a window", admission.KindSlidingWindow, -1_000_000, admission.State{At: t0, Current: 6, Previous: 3}},
		{"back by more", admission.KindSlidingWindow, -1_000_001, admission.State{At: t0 - 2e6, Current: 1}},
		{"before 1970", admission.KindFixedWindow, -t0 - 1, admission.State{At: -1e6, Current: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := settled(admission.Plan{Name: "p", Kind: tc.kind, Capacity: 9, Window: time.Second})
			got, _ := p.Take(admission.State{At: t0, Current: 5, Previous: 3}, t0+tc.at, 1)
			require.Equal(t, tc.want, got)
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

func bucketOf(name string, capacity int64, perSecond float64) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindTokenBucket, Capacity: capacity, TokensPerSecond: perSecond}
}

func windowOf(kind admission.Kind, capacity int64, length time.Duration) admission.Plan {
	return admission.Plan{Name: string(kind), Kind: kind, Capacity: capacity, Window: length}
}

// TestExactInstants is a table that leans on no law.
func TestExactInstants(t *testing.T) {
	ms := time.Millisecond
	type step struct {
		at          time.Duration
		n           int64
		allowed     bool
		remaining   int64
		wait, reset time.Duration
	}
	for _, tc := range []struct {
		plan  admission.Plan
		steps []step
	}{
		{bucketOf("bucket", 5, 2), []step{
			{0, 3, true, 2, 0, 1500 * ms},
			{0, 3, false, 2, 500 * ms, 1500 * ms},
			{250 * ms, 3, false, 2, 250 * ms, 1250 * ms},
			{499 * ms, 3, false, 2, 1 * ms, 1001 * ms},
			{500 * ms, 3, true, 0, 0, 2500 * ms},
			{501 * ms, 1, false, 0, 499 * ms, 2499 * ms},
			{time.Hour, 5, true, 0, 0, 2500 * ms},
			{time.Hour, 6, false, 0, admission.Never, 2500 * ms},
		}},
		{windowOf(admission.KindFixedWindow, 3, time.Second), []step{
			{0, 2, true, 1, 0, 1000 * ms},
			{900 * ms, 2, false, 1, 100 * ms, 100 * ms},
			{900 * ms, 1, true, 0, 0, 100 * ms},
			{999 * ms, 1, false, 0, 1 * ms, 1 * ms},
			{1000 * ms, 3, true, 0, 0, 1000 * ms},
			{3500 * ms, 1, true, 2, 0, 500 * ms},
			{3600 * ms, 4, false, 2, admission.Never, 400 * ms},
		}},
		{windowOf(admission.KindSlidingWindow, 10, time.Second), []step{
			{0, 10, true, 0, 0, 2000 * ms},
			{500 * ms, 1, false, 0, 500 * ms, 1500 * ms},
			{1000 * ms, 1, true, 0, 0, 2000 * ms}, // of the ten, a microsecond has left the window
			{1000 * ms, 1, false, 0, 100 * ms, 2000 * ms},
			{1100 * ms, 1, true, 0, 0, 1900 * ms},
			{1500 * ms, 5, false, 4, 100 * ms, 1500 * ms}, // 5 of before, 2 of now, and 4 more before the last
			{1600 * ms, 5, true, 0, 0, 1400 * ms},
			{2000 * ms, 4, true, 0, 0, 2000 * ms}, // 7 of before
			{4000 * ms, 0, true, 10, 0, 0},
		}},
	} {
		state := tc.plan.Fresh(t0)
		for i, st := range tc.steps {
			var got admission.Result
			state, got = tc.plan.Take(state, t0+admission.Micros(st.at.Microseconds()), st.n)
			require.Equal(t, st.allowed, got.Allowed, "%s, step %d", tc.plan.Name, i)
			require.Equal(t, []any{st.remaining, st.wait, st.reset}, []any{got.Remaining, got.Wait, got.Reset}, "%s, step %d", tc.plan.Name, i)
			require.Equal(t, map[bool]admission.Reason{true: "", false: got.Reason}[st.allowed], got.Reason)
			require.Equal(t, st.wait == admission.Never, got.Reason == admission.ReasonTooLarge)
		}
	}
}

// TestSteady has a client ask as often as a plan allows, evenly and without a look at the answers: it gets
// all of it, wherever in the window it begins.
func TestSteady(t *testing.T) {
	for _, capacity := range []int64{1, 2, 3, 5, 10, 100} {
		for _, phase := range []admission.Micros{333333, 0, 1, 999999} {
			for _, p := range []admission.Plan{
				windowOf(admission.KindSlidingWindow, capacity, time.Second),
				windowOf(admission.KindFixedWindow, capacity, time.Second), bucketOf("bucket", capacity, float64(capacity)),
			} {
				state := p.Fresh(t0 + phase)
				for n := range min(100, 4*capacity) + 1 {
					var r admission.Result
					state, r = p.Take(state, t0+phase+admission.Micros((n*1e6+capacity-1)/capacity), 1)
					require.True(t, r.Allowed, "%s of %d from %d: request %d = %+v", p.Name, capacity, phase, n, r)
				}
			}
		}
	}
}

package limit_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

func TestNewBuildsEveryKind(t *testing.T) {
	for _, kind := range append(limit.Kinds(), "") {
		spec := limit.Spec{Kind: kind, Permits: 4, Per: time.Second}
		if kind == limit.KindConcurrency {
			spec.Per = 0
		}
		l := must(limit.New(spec, limit.WithClock(fakeClock())))
		require.EqualValues(t, 4, l.Statistics().Max)
		drain(t, l)
		refusal, ok := asLimit(l.AcquireTimeout(t.Context(), 1, 0))
		require.True(t, ok)
		if kind == "" {
			kind = limit.KindTokenBucket
		}
		require.Equal(t, string(kind), refusal.Algorithm)
		require.Equal(t, string(kind), refusal.Name, "the default name")
	}
}

func TestSpecErrorsNameTheFieldAndTheFix(t *testing.T) {
	const kinds = "token-bucket, fixed-window, sliding-window, sliding-window-log, leaky-bucket, concurrency"
	for _, tc := range []struct {
		spec limit.Spec
		want string
	}{
		{limit.Spec{Kind: "sliding"}, `sliding: Kind is "sliding": use one of ` + kinds},
		{limit.Spec{Per: time.Second}, "token-bucket: Permits is 0: set it to 1 or more"},
		{limit.Spec{Permits: -1, Per: time.Second}, "token-bucket: Permits is -1: set it to 1 or more"},
		{limit.Spec{Permits: 1}, "token-bucket: Per is 0s: set it to the span in which Permits may be granted, such as 1s"},
		{limit.Spec{Kind: limit.KindFixedWindow, Permits: 1, Per: -1}, "fixed-window: Per is -1ns: set it to the span in which Permits may be granted, such as 1s"},
		{limit.Spec{Permits: 1, Per: 1, Burst: -2}, "token-bucket: Burst is -2: set it to 1 or more, or leave it out for Permits"},
		{limit.Spec{Permits: 1, Per: 1, Refill: 9}, "token-bucket: Refill is refill(9): set it to continuous or interval"},
		{limit.Spec{Kind: limit.KindLeakyBucket, Permits: 1, Per: 1, Burst: 5}, "leaky-bucket: Burst is 5: leave it out: only a token-bucket has it"},
		{limit.Spec{Kind: limit.KindLeakyBucket, Permits: 1, Per: 1, Refill: 1}, "leaky-bucket: Refill is interval: leave it out: only a token-bucket has it"},
		{limit.Spec{Kind: limit.KindConcurrency, Permits: 1, Per: 1}, "concurrency: Per is 1ns: leave it out: concurrency is not per time"},
		{limit.Spec{Kind: limit.KindConcurrency}, "concurrency: Permits is 0: set it to 1 or more"},
	} {
		_, err := limit.New(tc.spec)
		require.EqualError(t, err, tc.want)
	}
}

func TestConstructorsReject(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"token bucket":          {second(limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1})), "Per is 0s"},
		"token bucket's burst":  {second(limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1, Per: 1, Burst: -1})), "Burst is -1"},
		"token bucket's refill": {second(limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1, Per: 1, Refill: 7})), "Refill is refill(7)"},
		"concurrency":           {second(limit.NewConcurrency(limit.ConcurrencyConfig{})), "Max is 0"},
		"clock":                 {second(limit.NewConcurrency(limit.ConcurrencyConfig{Max: 1}, limit.WithClock(nil))), "WithClock is nil"},
		"queue":                 {second(limit.NewConcurrency(limit.ConcurrencyConfig{Max: 1}, limit.WithQueueLimit(-1))), "WithQueueLimit is -1"},
	} {
		require.ErrorContains(t, tc.err, tc.want, name)
	}
	for _, kind := range limit.Kinds() {
		_, err := limit.New(limit.Spec{Kind: kind, Permits: 1}, limit.WithClock(nil))
		require.Error(t, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSpecQueue(t *testing.T) {
	spec := limit.Spec{Permits: 1, Per: time.Hour, Queue: -1}
	l := must(limit.New(spec, limit.WithClock(fakeClock()), limit.WithName("api")))
	drain(t, l)
	err := l.Acquire(t.Context())
	require.ErrorIs(t, err, limit.ErrQueueFull)
	require.EqualError(t, err, "acquire api (token-bucket): rate limited: queue full, retry after 1h0m0s")
}

func TestLimitErrorText(t *testing.T) {
	require.EqualError(t, &limit.Error{Name: "slots", Algorithm: "concurrency"}, "acquire slots (concurrency): rate limited")
	require.EqualError(t, &limit.Error{Name: "fixed-window", Algorithm: "fixed-window", RetryAfter: limit.Never}, "acquire fixed-window: rate limited, for good")
}

func TestRefillText(t *testing.T) {
	for _, r := range []limit.Refill{limit.RefillContinuous, limit.RefillInterval} {
		text := must(r.MarshalText())
		var back limit.Refill
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, r, back)
	}
	r := limit.RefillInterval
	require.NoError(t, r.UnmarshalText(nil))
	require.Equal(t, limit.RefillContinuous, r)
	require.EqualError(t, r.UnmarshalText([]byte("hourly")), `refill is "hourly": say "continuous" or "interval"`)
}

// TestObedientClient has a client do what the headers of each algorithm say, in virtual time: it spreads what remains
// over the reset, and holds no more at a time than it is told. It gets what the limiter grants, and is not refused.
func TestObedientClient(t *testing.T) {
	for _, kind := range limit.Kinds() {
		for _, permits := range []int64{1, 2, 3, 5, 7, 10, 17, 100} {
			for _, per := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
				s := limit.Spec{Kind: kind, Permits: permits, Per: per}
				if kind == limit.KindConcurrency {
					s.Per = 0
				}
				specs := []limit.Spec{s}
				if kind == limit.KindTokenBucket {
					small, whole := s, s
					small.Burst, whole.Refill = max(1, permits/5), limit.RefillInterval
					specs = append(specs, small, whole)
				}
				for _, s := range specs {
					for _, begin := range []time.Duration{0, 300 * time.Millisecond, per / 3} {
						if used, refused := obey(t, s, per, begin); used < 0.95 || refused > 0.002 {
							t.Errorf("%+v from %v: %.3f used, %.4f refused", s, begin, used, refused)
						}
					}
				}
			}
		}
	}
}

// obey is the share of what a limiter grants in the long run that an obedient client used, and
// of its requests that were refused. A request to a limiter of concurrency lasts a second.
func obey(t *testing.T, s limit.Spec, per, begin time.Duration) (used, refused float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := must(limit.New(s))
		granted, denied := 0, 0
		// What a new client finds comes on top of the long run: it is not counted.
		from := time.Now().Add(5 * per)
		end := from.Add(40 * per)
		ask := func() header.Quota {
			ok := l.TryAcquire()
			if !time.Now().Before(from) {
				if ok {
					granted++
				} else {
					denied++
				}
			}
			st := l.Standing()
			st.Refused = !ok
			h := http.Header{}
			write(h, st)
			q, read := header.Parse(h, time.Now())
			require.True(t, read)
			return q
		}
		time.Sleep(begin)
		if s.Kind == limit.KindConcurrency {
			q := ask()
			from, granted = time.Now(), 0
			for range 40 {
				for range q.InFlight - 1 { // one is under way
					ask()
				}
				time.Sleep(time.Second)
				for range q.InFlight {
					l.Release()
				}
				ask()
			}
			used, refused = float64(granted)/float64(40*s.Permits), float64(denied)/float64(granted+denied)
			return
		}
		for time.Now().Before(end) {
			q := ask()
			pause := time.Duration((float64(q.Reset) + float64(max(1, q.Remaining)) - 1) / float64(max(1, q.Remaining)))
			time.Sleep(max(1, pause))
		}
		used, refused = float64(granted)/(float64(s.Permits)*40), float64(denied)/float64(granted+denied)
	})
	return used, refused
}

func write(h http.Header, s limit.Standing) {
	q := header.QuotaOf(s)
	policy := header.Policy{Name: "p", Quota: q.Limit, Window: q.Window}
	left := fmt.Sprintf(`"p";r=%d;t=%s`, q.Remaining, header.FormatRetryAfter(q.Reset))
	if q.InFlight > 0 {
		policy.Quota, policy.Unit, left = q.InFlight, header.UnitInFlight, fmt.Sprintf(`"p";r=%d`, s.Left)
	}
	text := must(header.FormatPolicies([]header.Policy{policy}))
	h.Set("RateLimit-Policy", text)
	h.Set("RateLimit", left)
}

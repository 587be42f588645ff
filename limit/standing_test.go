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

// TestObedientClient has a client do what the headers of each algorithm say, in virtual time:
// it spreads what remains over the reset, and holds no more at a time than it is told. It gets
// what the limiter grants, and is not refused.
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
		l, err := limit.New(s)
		require.NoError(t, err)
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
			write(t, h, st)
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

// write tells a standing by the headers of the IETF.
func write(t *testing.T, h http.Header, s limit.Standing) {
	t.Helper()
	q := header.QuotaOf(s)
	policy := header.Policy{Name: "p", Quota: q.Limit, Window: q.Window}
	left := fmt.Sprintf(`"p";r=%d;t=%s`, q.Remaining, header.FormatRetryAfter(q.Reset))
	if q.InFlight > 0 {
		policy.Quota, policy.Unit, left = q.InFlight, header.UnitInFlight, fmt.Sprintf(`"p";r=%d`, s.Left)
	}
	text, err := header.FormatPolicies([]header.Policy{policy})
	require.NoError(t, err)
	h.Set("RateLimit-Policy", text)
	h.Set("RateLimit", left)
}

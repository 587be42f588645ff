package admission_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

func TestMiddlewareHeaders(t *testing.T) {
	d := newDoorway(t, onePlan(two, nil))
	d.clk.Set(time.Date(2026, 3, 4, 5, 6, 50, 1, time.UTC)) // ten seconds before the window ends, less a nanosecond
	require.Equal(t, map[string]string{
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "5",
		"RateLimit-Policy": `"two";q=2;w=60`, "RateLimit": `"two";r=1;t=5`,
	}, limits(d.get("/").Header()))
	d.get("/")
	w := d.get("/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, map[string]string{
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "10",
		"RateLimit-Policy": `"two";q=2;w=60`, "RateLimit": `"two";r=0;t=10`, "Retry-After": "10",
	}, limits(w.Header()))
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.JSONEq(t, `{
		"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title": "A quota of requests is exceeded", "status": 429, "reason": "LIMITED",
		"detail": "The quota \"two\" of 2 has not enough left. Try again in 10 s.",
		"violated-policies": ["two"]}`, w.Body.String())
	quota, ok := header.Parse(w.Header(), d.clk.Now())
	require.True(t, ok, "our own client reads them")
	require.Equal(t, header.Quota{Limit: 2, Reset: 10 * time.Second, Window: time.Minute}, quota)
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	d := newDoorway(t, onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 0.4}, nil))
	require.Equal(t, http.StatusOK, d.get("/").Code)
	for waited, want := range map[time.Duration]string{0: "3", 500*time.Millisecond - time.Microsecond: "3", 500 * time.Millisecond: "2", 2400 * time.Millisecond: "1"} {
		d.clk.Move(waited)
		w := d.get("/")
		require.Equal(t, want, w.Header().Get("Retry-After"), waited)
		require.Equal(t, want, w.Header().Get("X-RateLimit-Reset"), waited)
		d.clk.Move(-waited)
	}
	d.clk.Move(3 * time.Second)
	require.Equal(t, http.StatusOK, d.get("/").Code)
}

func TestResetOfABucket(t *testing.T) {
	d := newDoorway(t, onePlan(admission.Plan{Name: "p", Capacity: 3, TokensPerSecond: 0.1}, nil))
	for _, want := range []string{"10", "10", "10"} {
		require.Equal(t, want, d.get("/").Header().Get("X-RateLimit-Reset"))
	}
	d.clk.Move(4 * time.Second)
	require.Equal(t, "6", d.get("/").Header().Get("X-RateLimit-Reset"))
}

func TestEpochHeaders(t *testing.T) {
	cfg := onePlan(two, nil)
	cfg.bubble = true // where it is midnight of 1 January 2000
	cfg.middleware.Headers = admission.HeadersEpoch
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, cfg)
		time.Sleep(20*time.Second + time.Nanosecond)
		require.Equal(t, map[string]string{
			"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "946684841",
			"RateLimit-Policy": `"two";q=2;w=60`, "RateLimit": `"two";r=1;t=20`,
		}, limits(d.get("/").Header()))
	})
}

func TestHeaderStyles(t *testing.T) {
	for style, want := range map[admission.Headers][]string{
		admission.HeadersLegacy: {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Policy"},
		admission.HeadersIETF:   {"RateLimit", "RateLimit-Policy"},
		admission.HeadersNone:   {},
	} {
		cfg := onePlan(two, func(r *admission.Rule) { r.Cost = 2 })
		cfg.middleware.Headers = style
		d := newDoorway(t, cfg)
		d.clk.Set(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))
		keys := func(m map[string]string) (all []string) {
			for k := range m {
				all = append(all, k)
			}
			return all
		}
		require.ElementsMatch(t, want, keys(limits(d.get("/").Header())))
		require.ElementsMatch(t, append(want, "Retry-After"), keys(limits(d.get("/").Header())), "Retry-After in any case")
	}
}

func TestPolicyFollowsThePlans(t *testing.T) {
	cfg := onePlan(two, func(r *admission.Rule) { r.Concurrency, r.Plans = 4, []string{"two", "many"} })
	cfg.plans = append(cfg.plans, admission.Plan{Name: "many", Capacity: 100, TokensPerSecond: 10})
	d := newDoorway(t, cfg)
	want := `"two";q=2;w=60, "many";q=100;w=10, "all-concurrency";q=4;qu="concurrent-requests"`
	for range 2 {
		w := d.get("/")
		require.Equal(t, want, w.Header().Get("RateLimit-Policy"))
		require.True(t, strings.HasPrefix(w.Header().Get("RateLimit"), `"two";`), "of the tightest plan")
		w.Header().Add("RateLimit-Policy", "x") // is the request's own
	}
	require.NoError(t, d.registry.Put(admission.Plan{Name: "two", Kind: admission.KindFixedWindow, Capacity: 9, Window: time.Hour}))
	require.NoError(t, d.rules.Put(d.rules.Rules()[0], ""))
	require.Equal(t, strings.Replace(want, "q=2;w=60", "q=9;w=3600", 1), d.get("/").Header().Get("RateLimit-Policy"))
}

func TestNoRuleNoHeaders(t *testing.T) {
	cfg := onePlan(two, func(r *admission.Rule) { r.Path = "/api/**" })
	d := newDoorway(t, cfg)
	for range 5 {
		w := d.get("/other")
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, limits(w.Header()))
	}
	require.Zero(t, d.admitter.Statistics(), "it costs nothing")
}

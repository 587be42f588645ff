package admission_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// TestRequestThatHasEnded: nobody denies it. What becomes of it is the handler's to say where the rule only looks on.
func TestRequestThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for shadow, want := range map[bool]int{false: http.StatusServiceUnavailable, true: http.StatusOK} {
		d := newDoorway(t, onePlan(two, func(r *admission.Rule) { r.Shadow, r.Concurrency = shadow, 1 }))
		for range 3 {
			w := d.ask(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			require.Equal(t, want, w.Code)
			require.Equal(t, shadow, w.Body.String() == "in")
			require.Empty(t, d.denials)
		}
	}
}

// TestWhatPlansDoNotDecideIsCounted: statistics and hooks have every refusal, also for want of a place or of a key.
func TestWhatPlansDoNotDecideIsCounted(t *testing.T) {
	cfg := onePlan(two, func(r *admission.Rule) { r.Concurrency, r.Key, r.OnError = 1, "bad", admission.FailClosed })
	bad := false
	cfg.set.Keys = map[string]admission.KeyFunc{"bad": func(*http.Request) (string, error) {
		if bad {
			return "", errDown
		}
		return "ann", nil
	}}
	var d *doorway
	within := 0
	cfg.next = func(http.ResponseWriter, *http.Request) { within = d.get("/").Code }
	d = newDoorway(t, cfg)
	require.Equal(t, in, d.get("/").Code)
	require.Equal(t, out, within)
	bad = true
	require.Equal(t, http.StatusServiceUnavailable, d.get("/").Code)
	require.Equal(t, admission.Statistics{Allowed: 1, Denied: 2, FailedClosed: 1, Rules: []admission.RuleStatistics{{Rule: "all", Allowed: 1, Denied: 2}}}, d.admitter.Statistics())
	require.Len(t, d.denials, 2)
	require.Equal(t, admission.ReasonConcurrency, d.denials[0].Result.Reason)
	require.Equal(t, "all", d.denials[0].Rule)
	require.Equal(t, admission.ReasonFailClosed, d.denials[1].Result.Reason)
	require.True(t, d.denials[1].RateLimited)
}

// TestWhatTakesForEver is about a bucket that fills in three thousand years. Nobody is
// told to come again at a time that is not known, least of all at once.
func TestWhatTakesForEver(t *testing.T) {
	d := newDoorway(t, onePlan(admission.Plan{Name: "slow", Capacity: 100, TokensPerSecond: 1e-9}, func(r *admission.Rule) { r.Cost = 50 }))
	for _, want := range []string{"50", "0"} {
		w := d.get("/")
		require.Equal(t, map[string]string{
			"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": want,
			"RateLimit-Policy": `"slow";q=100;w=3162240000`, "RateLimit": `"slow";r=` + want,
		}, limits(w.Header()))
	}
	w := d.get("/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, `"slow";r=0`, w.Header().Get("RateLimit"))
	require.Empty(t, w.Header().Get("Retry-After"))
	require.Empty(t, w.Header().Get("X-RateLimit-Reset"))
	var problem struct{ Detail string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
	require.Equal(t, `The quota "slow" of 100 has not enough left, and will not have in any time worth waiting for.`, problem.Detail)
}

// TestHeadersOfTheFallback: a share of a bucket fills at a share of its rate.
func TestHeadersOfTheFallback(t *testing.T) {
	plan := admission.Plan{Name: "p", Capacity: 10, TokensPerSecond: 0.1}
	d := newDoorway(t, onePlan(plan, nil))
	local := must(memory.New(memory.Config{Clock: d.clk}))
	a := admitter(t, admission.Config{Repository: d.store, Rules: d.rules, Fallback: local, Share: 0.2})
	wrap := must(admission.Middleware(admission.MiddlewareConfig{Admitter: a}))
	d.Handler = wrap(http.NotFoundHandler())
	d.store.failWith(errDown)
	for _, want := range []string{"50", "50"} { // of 0.02 in a second
		w := d.get("/")
		require.Equal(t, want, w.Header().Get("X-RateLimit-Reset"))
		require.Equal(t, "2", w.Header().Get("X-RateLimit-Limit"))
	}
	d.clk.Move(50*time.Second - time.Microsecond)
	require.Equal(t, http.StatusTooManyRequests, d.get("/").Code)
	d.clk.Move(time.Microsecond)
	require.Equal(t, http.StatusNotFound, d.get("/").Code)
}

// TestKeysOfTheProgramStandApart: what a client may write into a key of the program's own is not the account of
// another client, and who has no such key is not one with all others who have none.
func TestKeysOfTheProgramStandApart(t *testing.T) {
	by := func(name string) func(*http.Request) (string, error) {
		return func(r *http.Request) (string, error) { return r.URL.Query().Get(name), nil }
	}
	cfg := onePlan(admission.Plan{Name: "one", Capacity: 1, TokensPerSecond: 1e-3}, func(r *admission.Rule) { r.Key, r.Path = "tenant", "/t" })
	cfg.rules = append(cfg.rules,
		admission.Rule{Name: "team", Path: "/m", Key: "team", Plans: []string{"one"}},
		admission.Rule{Name: "rest", Path: "/**", Plans: []string{"one"}})
	cfg.set.Keys = map[string]admission.KeyFunc{"tenant": by("tenant"), "team": by("team")}
	d := newDoorway(t, cfg)
	ask := func(peer, target string) int {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.RemoteAddr = peer + ":1"
		return d.ask(r).Code
	}
	require.Equal(t, in, ask("192.0.2.1", "/t?tenant=ip:192.0.2.9"))
	require.Equal(t, in, ask("192.0.2.9", "/"), "another spent its account")
	require.Equal(t, in, ask("192.0.2.1", "/m?team=ip:192.0.2.9"), "and that of a team is not that of a tenant")
	require.Equal(t, out, ask("192.0.2.2", "/t?tenant=ip:192.0.2.9"))
	require.Equal(t, in, ask("192.0.2.3", "/t"))
	require.Equal(t, in, ask("192.0.2.4", "/t"), "both have no tenant")
	require.Equal(t, out, ask("192.0.2.4", "/t?tenant="))
}

// TestHostAsAHeader: net/http keeps that one elsewhere.
func TestHostAsAHeader(t *testing.T) {
	d := newDoorway(t, onePlan(two, func(r *admission.Rule) { r.Key = "header:host" }))
	for host, want := range map[string]string{"a.test": "1", "b.test": "1"} {
		require.Equal(t, want, d.get("http://"+host+"/").Header().Get("X-RateLimit-Remaining"), host)
	}
	require.Equal(t, "0", d.get("http://A.test/").Header().Get("X-RateLimit-Remaining"))
}

// TestWaitAfterAPlanChanged: a key goes on with what it has used under the plan before. It is
// told when that is over, to the microsecond.
func TestWaitAfterAPlanChanged(t *testing.T) {
	window := func(kind admission.Kind, d time.Duration) admission.Plan {
		return must(admission.Plan{Name: "w", Kind: kind, Capacity: 3, Window: d}.Settle())
	}
	lengths := []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	for _, kind := range []admission.Kind{admission.KindFixedWindow, admission.KindSlidingWindow} {
		for _, before := range lengths {
			for _, after := range lengths {
				old, now := window(kind, before), window(kind, after)
				at := admission.MicrosOf(time.Date(2026, 3, 4, 5, 36, 47, 123456789, time.UTC))
				s, _ := old.Take(old.Fresh(at), at, 3)
				at += 1000
				_, r := now.Take(s, at, 2)
				if r.Allowed {
					continue // a short window is over
				}
				wait := admission.Micros(r.Wait / time.Microsecond)
				_, early := now.Take(s, at+wait-1, 2)
				_, then := now.Take(s, at+wait, 2)
				require.False(t, early.Allowed, "%s %v, then %v", kind, before, after)
				require.True(t, then.Allowed, "%s %v, then %v: %v was too early", kind, before, after, r.Wait)
			}
		}
	}
}

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
	require.NoError(t, d.rules.PutPlan(admission.Plan{Name: "two", Kind: admission.KindFixedWindow, Capacity: 9, Window: time.Hour}))
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
	require.Zero(t, d.admitter.Statistics().Allowed, "it costs nothing")
}

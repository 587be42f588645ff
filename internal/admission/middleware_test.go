package admission_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/memory"
)

// doorway is a middleware with what it is made of, in front of a handler that says "in".
type doorway struct {
	http.Handler
	rules    *admission.RuleSet
	admitter *admission.Admitter
	store    *store
	clk      *admissiontest.Clock
	denials  []admission.Denial
	log      bytes.Buffer
}

type doorwayConfig struct {
	plans      []admission.Plan
	rules      []admission.Rule
	set        admission.RuleSetConfig
	middleware admission.MiddlewareConfig
	bubble     bool // the time is that of the bubble
	deadline   time.Duration
	next       http.HandlerFunc
}

func newDoorway(t testing.TB, cfg doorwayConfig) *doorway {
	t.Helper()
	d := &doorway{clk: admissiontest.NewClock()}
	d.store = newStore(d.clk)
	if cfg.bubble {
		d.store = &store{Repository: must(memory.New(memory.Config{}))}
	}
	d.rules = must(admission.NewRuleSet(cfg.set, cfg.plans, cfg.rules, nil))
	d.admitter = admitter(t, admission.Config{Repository: d.store, Rules: d.rules, Deadline: cfg.deadline})
	cfg.middleware.Admitter = d.admitter
	if !cfg.bubble { // where requests come one after the other
		cfg.middleware.OnDenied = func(x admission.Denial) { d.denials = append(d.denials, x) }
		cfg.middleware.Log = slog.New(slog.NewJSONHandler(&d.log, nil))
	}
	mw := must(admission.Middleware(cfg.middleware))
	if cfg.next == nil {
		cfg.next = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") }
	}
	d.Handler = mw(cfg.next)
	return d
}

func (d *doorway) ask(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func (d *doorway) get(target string) *httptest.ResponseRecorder {
	return d.ask(httptest.NewRequest(http.MethodGet, target, nil))
}

func onePlan(p admission.Plan, change func(*admission.Rule)) doorwayConfig {
	r := admission.Rule{Name: "all", Path: "/**", Plans: []string{p.Name}}
	if change != nil {
		change(&r)
	}
	return doorwayConfig{plans: []admission.Plan{p}, rules: []admission.Rule{r}}
}

var two = admission.Plan{Name: "two", Kind: admission.KindFixedWindow, Capacity: 2, Window: time.Minute}

func limits(h http.Header) map[string]string {
	all := map[string]string{}
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Policy", "RateLimit", "RateLimit-Policy", "Retry-After"} {
		if v := h.Get(name); v != "" {
			all[name] = v
		}
	}
	return all
}

// TestWriterIsTheServers: whatever the server's writer can do, the handler can.
func TestWriterIsTheServers(t *testing.T) {
	var got http.ResponseWriter
	cfg := onePlan(two, func(r *admission.Rule) { r.Concurrency = 1 })
	cfg.next = func(w http.ResponseWriter, _ *http.Request) { got = w }
	w := httptest.NewRecorder()
	newDoorway(t, cfg).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Same(t, w, got)
}

func TestDenialsAreRecorded(t *testing.T) {
	d := newDoorway(t, onePlan(two, func(r *admission.Rule) { r.Key = "header:X-API-KEY" }))
	request := func() *http.Request { return asked("192.0.2.1:1", "X-API-KEY: sesame") }
	d.ask(request())
	d.ask(request())
	require.Empty(t, d.denials)
	d.ask(request())
	require.Len(t, d.denials, 1)
	text := must(json.Marshal(d.denials[0]))
	var trace map[string]any
	require.NoError(t, json.Unmarshal(text, &trace))
	require.Equal(t, true, trace["rateLimited"])
	require.Equal(t, "all", trace["rule"])
	require.Equal(t, "header:X-Api-Key:sesame", d.denials[0].Key)

	var line map[string]any
	require.NoError(t, json.Unmarshal(d.log.Bytes(), &line))
	for key, want := range map[string]any{
		"msg": "over the limit", "what": "request", "rateLimited": true, "rule": "all", "shadow": false, "plan": "two",
		"reason": "LIMITED", "method": "GET", "path": "/a", "status": 429.0,
	} {
		require.Equal(t, want, line[key], key)
	}
	require.NotContains(t, d.log.String()+string(text), "sesame", "the key may be a secret")
}

func TestShadowDeniesNothing(t *testing.T) {
	for _, all := range []bool{false, true} {
		cfg := onePlan(two, func(r *admission.Rule) { r.Shadow, r.Wait, r.Concurrency = !all, time.Minute, 1 })
		cfg.middleware.Shadow = all
		d := newDoorway(t, cfg)
		for range 5 {
			w := d.get("/")
			require.Equal(t, http.StatusOK, w.Code)
			require.Empty(t, limits(w.Header()), "clients see nothing of it")
		}
		require.Len(t, d.denials, 3)
		require.True(t, d.denials[0].Shadow)
		require.False(t, d.denials[0].RateLimited)
		require.Equal(t, admission.ReasonShadow, d.denials[0].Result.Reason)
		require.Equal(t, uint64(3), d.admitter.Statistics().Denied)
	}
}

func TestBypassTokens(t *testing.T) {
	const token, other = "0123456789abcdef", "fedcba9876543210"
	cfg := onePlan(two, nil)
	cfg.middleware.Bypass = []string{other, token}
	d := newDoorway(t, cfg)
	for range 3 {
		d.get("/")
	}
	for _, tc := range []struct {
		headers []string
		want    int
	}{
		{nil, http.StatusTooManyRequests},
		{[]string{"X-RateLimit-Bypass: " + token}, http.StatusOK},
		{[]string{"X-RateLimit-Bypass: " + other}, http.StatusOK},
		{[]string{"X-RateLimit-Bypass: " + token + "0"}, http.StatusTooManyRequests},
		{[]string{"X-RateLimit-Bypass: "}, http.StatusTooManyRequests},
		{[]string{"X-RateLimit-Bypass: x", "X-RateLimit-Bypass: " + token}, http.StatusTooManyRequests},
		{[]string{"Authorization: " + token}, http.StatusTooManyRequests},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for _, h := range tc.headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Add(name, value)
		}
		require.Equal(t, tc.want, d.ask(r).Code, tc.headers)
	}
}

func TestCost(t *testing.T) {
	cfg := onePlan(admission.Plan{Name: "p", Capacity: 100, TokensPerSecond: 0.001}, func(r *admission.Rule) { r.CostBy = "length" })
	cfg.set.Costs = map[string]func(*http.Request) int64{"length": func(r *http.Request) int64 { return r.ContentLength }}
	d := newDoorway(t, cfg)
	for _, tc := range []struct {
		length int64
		want   string
		code   int
	}{
		{40, "60", http.StatusOK},
		{0, "60", http.StatusOK},
		{-1, "59", http.StatusOK},                  // not known is not for nothing
		{60, "59", http.StatusTooManyRequests},     // and is not charged
		{59, "0", http.StatusOK},                   // the last
		{1 << 40, "0", http.StatusTooManyRequests}, // more than there ever are
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.ContentLength = tc.length
		w := d.ask(r)
		require.Equal(t, tc.code, w.Code, tc.length)
		require.Equal(t, tc.want, w.Header().Get("X-RateLimit-Remaining"), tc.length)
		require.Equal(t, tc.length == 60, w.Header().Get("Retry-After") != "", "waiting helps only then")
	}
}

// TestAllReadingsOfAPathAreCharged: a request that one handler would take for the strict
// route and another for the lenient one is limited as both.
func TestAllReadingsOfAPathAreCharged(t *testing.T) {
	d := newDoorway(t, doorwayConfig{
		plans: []admission.Plan{two, {Name: "many", Capacity: 1000, TokensPerSecond: 1}},
		rules: []admission.Rule{
			{Name: "api", Path: "/api/**", Plans: []string{"two"}},
			{Name: "static", Path: "/static/**", Plans: []string{"many"}},
		},
	})
	for _, target := range []string{"/api/x%2F..%2F..%2Fstatic%2Fy", "/api/x/../../static/y"} {
		require.NoError(t, d.admitter.Remove(t.Context(), "ip:192.0.2.1"))
		for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			require.Equal(t, want, d.get(target).Code, target)
		}
		require.Equal(t, "two", d.denials[len(d.denials)-1].Result.Plan)
	}
}

func TestMiddlewareWithoutAStore(t *testing.T) {
	for _, tc := range []struct {
		how  admission.OnError
		want int
		body string
	}{
		{"", http.StatusOK, "in"},
		{admission.FailOpen, http.StatusOK, "in"},
		{admission.FailClosed, http.StatusServiceUnavailable, "temporary-reduced-capacity"},
	} {
		d := newDoorway(t, onePlan(two, func(r *admission.Rule) { r.OnError = tc.how }))
		d.store.failWith(errDown)
		w := d.get("/")
		require.Equal(t, tc.want, w.Code)
		require.Contains(t, w.Body.String(), tc.body)
		want := map[string]string{"RateLimit-Policy": `"two";q=2;w=60`} // and no number that nobody knows
		if tc.how == admission.FailClosed {
			want["Retry-After"] = "1"
		}
		require.Equal(t, want, limits(w.Header()))
	}
}

// TestKeyThatCannotBeTold is decided by OnError, and logged once.
func TestKeyThatCannotBeTold(t *testing.T) {
	for how, want := range map[admission.OnError]int{admission.FailOpen: http.StatusOK, admission.FailClosed: http.StatusServiceUnavailable} {
		cfg := onePlan(two, func(r *admission.Rule) { r.Key, r.OnError = "ip+tenant", how })
		cfg.set.Keys = map[string]admission.KeyFunc{"tenant": func(*http.Request) (string, error) { return "", errors.New("no tenant") }}
		d := newDoorway(t, cfg)
		for range 5 {
			require.Equal(t, want, d.get("/").Code)
		}
		require.Equal(t, 1, strings.Count(d.log.String(), "no tenant"))
		require.Equal(t, uint64(5), d.admitter.Statistics().FailedOpen+d.admitter.Statistics().FailedClosed)
	}
}

func TestDenyWritesItsOwnAnswer(t *testing.T) {
	cfg := onePlan(two, func(r *admission.Rule) { r.Cost = 2 })
	cfg.middleware.Deny = func(w http.ResponseWriter, _ *http.Request, d admission.Denial) {
		w.WriteHeader(d.Status)
		_, _ = io.WriteString(w, "rule "+d.Rule)
	}
	d := newDoorway(t, cfg)
	d.get("/")
	w := d.get("/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "rule all", w.Body.String())
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

func TestMiddlewareRejects(t *testing.T) {
	d := newDoorway(t, onePlan(two, nil))
	for want, cfg := range map[string]admission.MiddlewareConfig{
		"Admitter is missing":            {},
		`the Headers are "some"`:         {Admitter: d.admitter, Headers: "some"},
		"Bypass[1] is too short: use 16": {Admitter: d.admitter, Bypass: []string{"0123456789abcdef", "short"}},
	} {
		_, err := admission.Middleware(cfg)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "short\"", "a secret is not told")
	}
}

// TestDenialsAreLoggedPerChange: a thousand denials are a line when they begin and one when
// they are over, with their number.
func TestDenialsAreLoggedPerChange(t *testing.T) {
	var text bytes.Buffer
	var l admission.DenialLog
	log, clk := slog.New(slog.NewTextHandler(&text, nil)), admissiontest.NewClock()
	for range 2 {
		for range 1000 {
			l.Denied(t.Context(), log, clk, "request", admission.Denial{Rule: "all"})
			l.Allowed(t.Context(), log, clk, "request", "all")
			clk.Move(time.Millisecond)
		}
		clk.Move(time.Minute)
		l.Allowed(t.Context(), log, clk, "request", "all")
		l.Allowed(t.Context(), log, clk, "request", "all")
	}
	require.Equal(t, 4, strings.Count(text.String(), "\n"), text.String())
	require.Equal(t, 2, strings.Count(text.String(), `msg="within the limit again" what=request rule=all denied=1000 over=999ms`))
}

type blank struct{ h http.Header }

func (b blank) Header() http.Header { return b.h }

func (b blank) Write(p []byte) (int, error) { return len(p), nil }

func (b blank) WriteHeader(int) {}

// lean is a middleware over the memory repository, around a handler that does nothing.
func lean(tb testing.TB, p admission.Plan, style admission.Headers, change func(*admission.Rule)) http.Handler {
	tb.Helper()
	repo := must(memory.New(memory.Config{}))
	rule := admission.Rule{Name: "all", Path: "/api/**", Plans: []string{p.Name}}
	if change != nil {
		change(&rule)
	}
	rules := must(admission.NewRuleSet(admission.RuleSetConfig{}, []admission.Plan{p}, []admission.Rule{rule}, nil))
	a := admitter(tb, admission.Config{Repository: repo, Rules: rules})
	mw := must(admission.Middleware(admission.MiddlewareConfig{Admitter: a, Headers: style}))
	return mw(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// TestMiddlewareAllocates holds what a request that is let in costs in allocations: its
// key, the text of its headers, and the list of them.
func TestMiddlewareAllocates(t *testing.T) {
	many := admission.Plan{Name: "many", Capacity: 1 << 30, TokensPerSecond: 1e6}
	for key, style := range map[string]admission.Headers{"ip": admission.HeadersBoth, "header:X-Api-Key": admission.HeadersEpoch} {
		h := lean(t, many, style, func(r *admission.Rule) { r.Key = key })
		r := httptest.NewRequest(http.MethodGet, "/api/users/1", nil)
		r.Header.Set("X-Api-Key", "0123456789abcdef")
		w := blank{http.Header{}}
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			clear(w.h)
			h.ServeHTTP(w, r)
		}), 3.0, key)
		require.NotEmpty(t, w.h["X-Ratelimit-Limit"])
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

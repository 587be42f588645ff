package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/admit"
)

func admitting(t *testing.T, cfg admit.Config) *admit.Limiter {
	t.Helper()
	a, err := admit.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// statusFor asks for a path as from an address, and returns the answer's status.
func statusFor(h http.Handler, peer, target string) int {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = peer + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// few is a plan of so many in ten hours, and a rule for everything.
func few(n int64) admit.Config {
	return admit.Config{
		Plans: []admit.Plan{{Name: "few", Capacity: n, TokensPerSecond: 1.0 / 36000}},
		Rules: []admit.Rule{{Name: "all", Path: "/**", Plans: []string{"few"}}},
	}
}

func TestAdmitDefaults(t *testing.T) {
	h := admitting(t, admit.Config{}).Handler(hello)
	for range 5 {
		require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/api/auth/login"))
	}
	require.Equal(t, http.StatusTooManyRequests, statusFor(h, "192.0.2.1", "/api/auth/login"))
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.2", "/api/auth/login"))
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/api/health"))
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/"))
	excluding := admitting(t, admit.Config{Exclude: []string{"/api/auth/logout"}}).Handler(hello)
	for range 5 { // who names only what costs nothing does not mean that all does
		statusFor(excluding, "192.0.2.1", "/api/auth/login")
		require.Equal(t, http.StatusOK, statusFor(excluding, "192.0.2.1", "/api/auth/logout"))
	}
	require.Equal(t, http.StatusTooManyRequests, statusFor(excluding, "192.0.2.1", "/api/auth/login"))
}

func TestAdmitRejects(t *testing.T) {
	with := func(change func(*admit.Config)) admit.Config {
		cfg := few(1)
		change(&cfg)
		return cfg
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("plans: [{name: x}]"), 0o600))
	for want, cfg := range map[string]admit.Config{
		"Processes is -1":                     with(func(c *admit.Config) { c.Processes = -1 }),
		"Lease is 1s: leave it out":           with(func(c *admit.Config) { c.Lease = time.Second }),
		"the Store is not known":              with(func(c *admit.Config) { c.Store = "mysql://u:sesame@h/" }),
		"the Store: Config.Path is empty":     with(func(c *admit.Config) { c.Store = "sqlite:" }),
		"the Store: it is no URL":             with(func(c *admit.Config) { c.Store = "redis://u:sesame@h:x/" }),
		`the Headers are "some"`:              with(func(c *admit.Config) { c.Headers = "some" }),
		"AdminToken: the Token is missing":    with(func(c *admit.Config) { c.AdminToken = "sesame" }),
		"Bypass[0] is too short":              with(func(c *admit.Config) { c.Bypass = []string{"sesame"} }),
		"OnError":                             with(func(c *admit.Config) { c.OnError = "ajar" }),
		`Rules[0].Plans[0] is "few"`:          with(func(c *admit.Config) { c.Plans[0].Name = "many" }),
		`Rules[0].CostBy is "size"`:           with(func(c *admit.Config) { c.Rules[0].CostBy = "size" }),
		"Plans[0].Capacity is 0":              with(func(c *admit.Config) { c.Plans[0].Capacity = 0 }),
		bad + ": plans[0].capacity is 0":      with(func(c *admit.Config) { c.File = bad }),
		"end the file's name in .json":        with(func(c *admit.Config) { c.File = "rules.txt" }),
		`the function Keys["tenant"]`:         with(func(c *admit.Config) { c.Keys = map[string]func(*http.Request) (string, error){"tenant": nil} }),
		`the function Costs["size"] is nil: `: with(func(c *admit.Config) { c.Costs = map[string]func(*http.Request) int64{"size": nil} }),
	} {
		_, err := admit.New(cfg)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "sesame")
	}
}

// TestAdmitSQLite: what was used is used, also for the process that comes after.
func TestAdmitSQLite(t *testing.T) {
	cfg := few(3)
	cfg.Store = "sqlite:" + filepath.Join(t.TempDir(), "admission.db")
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		a, err := admit.New(cfg)
		require.NoError(t, err)
		require.Equal(t, want, statusFor(a.Handler(hello), "192.0.2.1", "/"))
		require.NoError(t, a.Close())
		require.NoError(t, a.Close(), "it may be called again")
	}
}

func TestAdmitByWhom(t *testing.T) {
	cfg := few(1)
	cfg.Rules[0].Key = "tenant+user"
	cfg.Rules[0].CostBy = "one"
	cfg.Trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	cfg.Principal = func(r *http.Request) string { return r.URL.Query().Get("user") }
	cfg.Keys = map[string]func(*http.Request) (string, error){
		"tenant": func(r *http.Request) (string, error) { return r.URL.Query().Get("tenant"), nil },
	}
	cfg.Costs = map[string]func(*http.Request) int64{"one": func(*http.Request) int64 { return 1 }}
	h := admitting(t, cfg).Handler(hello)
	for _, tc := range []struct {
		peer, target, forwarded string
		want                    int
	}{
		{"192.0.2.1", "/?user=ann&tenant=a", "", http.StatusOK},
		{"192.0.2.2", "/?user=ann&tenant=a", "", http.StatusTooManyRequests},
		{"192.0.2.1", "/?user=ann&tenant=b", "", http.StatusOK},
		{"192.0.2.1", "/?user=bob&tenant=a", "", http.StatusOK},
		{"10.0.0.1", "/?tenant=a", "198.51.100.1", http.StatusOK},
		{"10.0.0.1", "/?tenant=a", "198.51.100.2", http.StatusOK},
		{"10.0.0.2", "/?tenant=a", "198.51.100.1", http.StatusTooManyRequests},
	} {
		r := httptest.NewRequest(http.MethodGet, tc.target, nil)
		r.RemoteAddr = tc.peer + ":1"
		if tc.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tc.forwarded)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, tc.want, w.Code, tc)
	}
}

// TestAdmitSubscribe: who subscribed is told each denial, of requests and of calls, in
// order and beside them: that he blocks keeps nobody waiting.
func TestAdmitSubscribe(t *testing.T) {
	var text bytes.Buffer
	cfg := few(1)
	cfg.Log = slog.New(slog.NewTextHandler(&text, nil))
	hooked := 0
	cfg.OnDenied = func(admit.Denial) { hooked++ }
	cfg.Rules = append([]admit.Rule{{Name: "try", Path: "/try", Plans: []string{"few"}, Shadow: true}}, cfg.Rules...)
	a := admitting(t, cfg)
	h := a.Handler(hello)
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/"))
	require.Equal(t, http.StatusTooManyRequests, statusFor(h, "192.0.2.1", "/nobody-listens-yet"))

	var told []admit.Denial
	blocked := make(chan struct{})
	a.Subscribe(func(d admit.Denial) { <-blocked; told = append(told, d) })
	a.Subscribe(func(admit.Denial) { panic("of a listener") })
	left := 0
	off := a.Subscribe(func(admit.Denial) { left++ })
	off()
	require.Equal(t, http.StatusTooManyRequests, statusFor(h, "192.0.2.1", "/a"))
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/try"))
	call := func(context.Context) error { return &admit.DeniedError{} } // of a guard within
	require.ErrorIs(t, a.Guard(t.Context(), "mail:ann", []string{"few"}, 1, call), admit.ErrDenied)
	require.ErrorIs(t, a.Guard(t.Context(), "mail:ann", []string{"few"}, 1, call), admit.ErrDenied)
	close(blocked)
	require.NoError(t, a.Close(), "it waits until all is told")

	require.Len(t, told, 3)
	require.Zero(t, left)
	require.Zero(t, a.Dropped())
	require.Equal(t, 4, hooked)
	for i, want := range []string{
		`{"rateLimited": true, "rule": "all", "status": 429, "method": "GET", "path": "/a"}`,
		`{"rateLimited": false, "rule": "try", "shadow": true, "status": 429, "method": "GET", "path": "/try"}`,
		`{"rateLimited": true, "rule": "", "status": 429, "method": "", "path": ""}`,
	} {
		var got map[string]any
		line, err := json.Marshal(told[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(line, &got))
		require.Equal(t, "few", got["result"].(map[string]any)["plan"])
		delete(got, "result")
		line, err = json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, want, string(line))
	}
	require.Equal(t, "mail:ann", told[2].Key)
	require.Equal(t, 2, strings.Count(text.String(), `"over the limit" what=request`), "the first of each rule")
	require.Equal(t, 1, strings.Count(text.String(), `"over the limit" what=call`))
	require.NotContains(t, text.String(), "mail:ann", "keys may be secrets")
}

// TestAdmitDropsRatherThanWaits: a listener that does not listen costs nobody his answer.
func TestAdmitDropsRatherThanWaits(t *testing.T) {
	a := admitting(t, few(1))
	h := a.Handler(hello)
	blocked := make(chan struct{})
	told := 0
	a.Subscribe(func(admit.Denial) { <-blocked; told++ })
	const denials = 5000
	for range denials + 1 {
		statusFor(h, "192.0.2.1", "/")
	}
	require.NotZero(t, a.Dropped())
	close(blocked)
	require.NoError(t, a.Close())
	require.Equal(t, denials, told+int(a.Dropped()))
}

// TestAdmitPlansAlone: who has plans of his own for Guard has the default rules too, as who has
// none, and a list of no rules means none.
func TestAdmitPlansAlone(t *testing.T) {
	mails := admit.Plan{Name: "mails", Capacity: 1, TokensPerSecond: 1}
	strict := admit.Plan{Name: "login", Kind: "sliding-window", Capacity: 2, Window: time.Minute}
	for want, cfg := range map[int]admit.Config{
		5:  {Plans: []admit.Plan{mails}},
		2:  {Plans: []admit.Plan{mails, strict}},
		10: {Plans: []admit.Plan{mails}, Rules: []admit.Rule{}},
	} {
		h := admitting(t, cfg).Handler(hello)
		got := 0
		for range 10 {
			if statusFor(h, "192.0.2.1", "/api/auth/login") == http.StatusOK {
				got++
			}
		}
		require.Equal(t, want, got)
	}
}

// TestAdmitAdminAndReload: an administrator's change takes effect, is in the file, and is
// there for the next process; and who edits the file has it read again.
func TestAdmitAdminAndReload(t *testing.T) {
	const token = "a token of enough bytes"
	cfg := few(100)
	cfg.File, cfg.AdminToken = filepath.Join(t.TempDir(), "limits.yaml"), token
	a := admitting(t, cfg)
	change := func(h http.Handler, token string) int {
		r := httptest.NewRequest(http.MethodPut, "/plans/few", strings.NewReader(`{"capacity": 1, "tokens_per_second": 0.001}`))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusUnauthorized, change(a.Admin(), "another token"))
	require.Equal(t, http.StatusOK, change(a.Admin(), token))
	h := a.Handler(hello)
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/"))
	require.Equal(t, http.StatusTooManyRequests, statusFor(h, "192.0.2.1", "/"))

	cfg.Plans = nil // which the rules would need if they counted
	next := admitting(t, cfg).Handler(hello)
	require.Equal(t, http.StatusOK, statusFor(next, "192.0.2.1", "/"))
	require.Equal(t, http.StatusTooManyRequests, statusFor(next, "192.0.2.1", "/"), "the file counts, not the program")

	text, err := os.ReadFile(cfg.File)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cfg.File, bytes.Replace(text, []byte("path: /**"), []byte("path: /only"), 1), 0o600))
	require.NoError(t, a.Reload())
	require.Equal(t, http.StatusOK, statusFor(h, "192.0.2.1", "/"))
	require.Equal(t, http.StatusTooManyRequests, statusFor(h, "192.0.2.1", "/only"))

	closed := admitting(t, few(1))
	require.Equal(t, http.StatusForbidden, change(closed.Admin(), ""))
	require.ErrorContains(t, closed.Reload(), "no File")
}

// TestAdmitAfterClose: a service that is still answering when its limits are gone is not taken down by that.
func TestAdmitAfterClose(t *testing.T) {
	for how, want := range map[string]int{"": http.StatusOK, "closed": http.StatusServiceUnavailable} {
		cfg := few(1)
		if how != "" {
			cfg.OnError = "closed"
		}
		a := admitting(t, cfg)
		require.NoError(t, a.Close())
		require.Equal(t, want, statusFor(a.Handler(hello), "192.0.2.1", "/"))
	}
}

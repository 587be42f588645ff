package admit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/internal/admission"
)

// What a program sees of decisions: results, denials, errors, and statistics by rule; some requests are exempt.
func TestAdmitTells(t *testing.T) {
	var denied []admit.Denial
	a, err := admit.New(admit.Config{
		Plans: []admit.Plan{{Name: "one", Kind: "fixed-window", Capacity: 1, Window: 24 * time.Hour}},
		Rules: []admit.Rule{
			{Name: "looks", Path: "/look/**", Plans: []string{"one"}, Key: "route", Shadow: true},
			{Name: "all", Path: "/**", Plans: []string{"one"}},
		},
		Exempt:   func(r *http.Request) bool { return r.UserAgent() == "monitor" },
		OnDenied: func(d admit.Denial) { denied = append(denied, d) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	h := a.Handler(http.NotFoundHandler())
	ask := func(path, agent string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, []int{404, 429, 404}, []int{ask("/a", ""), ask("/a", ""), ask("/a", "monitor")})
	require.Equal(t, []int{404, 404}, []int{ask("/look/x", ""), ask("/look/x", "")})
	require.Len(t, denied, 2)
	require.Equal(t, "LIMITED", denied[0].Result.Reason)
	require.Equal(t, "SHADOW", denied[1].Result.Reason)
	s := a.Statistics()
	require.Equal(t, []admit.RuleStatistics{
		{Rule: "looks", Allowed: 1, Shadowed: 1}, {Rule: "all", Allowed: 1, Denied: 1},
	}, s.Rules)
	require.EqualValues(t, 1, s.Exempt)

	res, err := a.Allow(t.Context(), "k", []string{"one"}, 1)
	require.NoError(t, err)
	require.True(t, res.Allowed)
	err = a.Guard(t.Context(), "k", []string{"one"}, 1, func(context.Context) error { t.Error("it was called"); return nil })
	require.ErrorIs(t, err, admit.ErrDenied)
	own := fmt.Errorf("mine: %w", &admit.DeniedError{})
	require.Same(t, own, a.Guard(t.Context(), "l", []string{"one"}, 1, func(context.Context) error { return own }))

	require.NoError(t, a.Remove(t.Context(), "k"))
	n, err := a.RemoveWhere(t.Context(), func(key string) bool { return key == "l" })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, a.Guard(t.Context(), "k", []string{"one"}, 1, func(context.Context) error { return nil }))
}

// What the documentation of Rule says of keys is what a Denial has, and what Remove takes.
func TestAdmitSpellsKeys(t *testing.T) {
	var denied []string
	own := func(*http.Request) (string, error) { return "acme", nil }
	rules := make([]admit.Rule, 0, 8)
	for i, key := range []string{"ip", "user", "route", "global", "header:X-Api-Key", "tenant", "user+ip"} {
		rules = append(rules, admit.Rule{Name: fmt.Sprint("r", i), Path: fmt.Sprint("/", i), Key: key, Plans: []string{"one"}})
	}
	rules = append(rules, admit.Rule{Name: "behind", Path: "/**", Key: "global", Plans: []string{"one"}})
	a, err := admit.New(admit.Config{
		Plans: []admit.Plan{{Name: "one", Capacity: 1, TokensPerSecond: 1e-9}}, Rules: rules, Deny: func(w http.ResponseWriter, _ *http.Request, d admit.Denial) {
			denied = append(denied, d.Key)
			w.WriteHeader(d.Status)
		},
		Keys: map[string]func(*http.Request) (string, error){"tenant": own}, Principal: func(*http.Request) string { return "anna" },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	handler := a.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(i int) int {
		r := httptest.NewRequest(http.MethodGet, fmt.Sprint("/", i), nil)
		r.RemoteAddr, r.Header = "192.0.2.1:4711", http.Header{"X-Api-Key": {"secret"}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	want := []string{"ip:192.0.2.1", "user:anna", "route:GET /2", "global", "header:X-Api-Key:secret", "key:tenant:acme", "all:9:user:anna12:ip:192.0.2.1"}
	for i, key := range want {
		require.Equal(t, []int{200, 429}, []int{ask(i), ask(i)}, key)
		require.Equal(t, key, denied[i])
		require.NoError(t, a.Remove(t.Context(), key))
		require.Equal(t, 200, ask(i), key)
	}
	last := a.Statistics().Rules[len(want)]
	require.Equal(t, admit.RuleStatistics{Rule: "behind"}, last, "the first rule counts")
}

func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := admit.Plan{Name: "two", Kind: "fixed-window", Capacity: 2, Window: time.Minute}
		a, err := admit.New(admit.Config{
			Plans: []admit.Plan{two, {Name: "bucket", Capacity: 1, TokensPerSecond: 0.1}}, Rules: []admit.Rule{},
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		calls := 0
		failed := errors.New("failed")
		call := func(tokens int64, plans ...string) error {
			return a.Guard(t.Context(), "ann", plans, tokens, func(context.Context) error { calls++; return failed })
		}
		require.ErrorIs(t, call(1, "bucket"), failed)
		require.Equal(t, 1, calls)

		err = call(1, "bucket")
		var denied *admit.DeniedError
		require.ErrorAs(t, err, &denied)
		require.ErrorIs(t, err, admit.ErrDenied)
		require.Equal(t, 10*time.Second, denied.Result.Wait)
		require.EqualError(t, err, `denied by plan "bucket": LIMITED, try again in 10s`)
		require.EqualError(t, call(3, "two"), `denied by plan "two": TOO_LARGE`)
		require.ErrorIs(t, call(1, "none"), admission.ErrUnknownPlan)
		require.Equal(t, 1, calls, "of what is denied nothing is called")

		require.Panics(t, func() {
			_ = a.Guard(t.Context(), "ann", []string{"two"}, 2, func(context.Context) error { panic("fn") })
		})
		require.ErrorIs(t, call(1, "two"), admit.ErrDenied, "what panicked was paid for")
	})
}

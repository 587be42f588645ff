package admission_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
)

// blank is a ResponseWriter that keeps nothing, so that what is measured is the middleware.
type blank struct{ h http.Header }

func (b blank) Header() http.Header { return b.h }

func (b blank) Write(p []byte) (int, error) { return len(p), nil }

func (b blank) WriteHeader(int) {}

// lean is a middleware over the memory repository, around a handler that does nothing.
func lean(tb testing.TB, p admission.Plan, style admission.Headers, change func(*admission.Rule)) http.Handler {
	tb.Helper()
	repo, err := memory.New(memory.Config{})
	require.NoError(tb, err)
	reg, err := admission.NewRegistry(p)
	require.NoError(tb, err)
	a, err := admission.New(admission.Config{Repository: repo, Registry: reg})
	require.NoError(tb, err)
	rule := admission.Rule{Name: "all", Path: "/api/**", Plans: []string{p.Name}}
	if change != nil {
		change(&rule)
	}
	rules, err := admission.NewRuleSet(admission.RuleSetConfig{Registry: reg}, []admission.Rule{rule}, nil)
	require.NoError(tb, err)
	mw, err := admission.Middleware(admission.MiddlewareConfig{Admitter: a, Rules: rules, Headers: style})
	require.NoError(tb, err)
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

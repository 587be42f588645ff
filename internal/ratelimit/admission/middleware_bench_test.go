package admission_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/treadlight/crawl/internal/ratelimit/admission"
	"github.com/treadlight/crawl/internal/ratelimit/admission/memory"
)

// blank is a ResponseWriter that keeps nothing, so that what is measured is the middleware.
type blank struct{ h http.Header }

func (b blank) Header() http.Header { return b.h }

func (b blank) Write(p []byte) (int, error) { return len(p), nil }

func (b blank) WriteHeader(int) {}

func benchMiddleware(b *testing.B, p admission.Plan, style admission.Headers, change func(*admission.Rule)) {
	repo, err := memory.New(memory.Config{})
	if err != nil {
		b.Fatal(err)
	}
	reg, err := admission.NewRegistry(p)
	if err != nil {
		b.Fatal(err)
	}
	a, err := admission.New(admission.Config{Repository: repo, Registry: reg})
	if err != nil {
		b.Fatal(err)
	}
	rule := admission.Rule{Name: "all", Path: "/api/**", Plans: []string{p.Name}}
	if change != nil {
		change(&rule)
	}
	rules, err := admission.NewRuleSet(admission.RuleSetConfig{Registry: reg}, []admission.Rule{rule}, nil)
	if err != nil {
		b.Fatal(err)
	}
	mw, err := admission.Middleware(admission.MiddlewareConfig{Admitter: a, Rules: rules, Headers: style})
	if err != nil {
		b.Fatal(err)
	}
	h := mw(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := httptest.NewRequest(http.MethodGet, "/api/users/1", nil)
		w := blank{http.Header{}}
		for pb.Next() {
			clear(w.h)
			h.ServeHTTP(w, r)
		}
	})
}

// BenchmarkMiddleware is what a request pays before its handler, which does nothing here.
func BenchmarkMiddleware(b *testing.B) {
	many := admission.Plan{Name: "many", Capacity: 1 << 30, TokensPerSecond: 1e6}
	none := admission.Plan{Name: "none", Capacity: 1, TokensPerSecond: 1e-6}
	b.Run("no headers", func(b *testing.B) { benchMiddleware(b, many, admission.HeadersNone, nil) })
	b.Run("X-RateLimit", func(b *testing.B) { benchMiddleware(b, many, admission.HeadersLegacy, nil) })
	b.Run("both", func(b *testing.B) { benchMiddleware(b, many, admission.HeadersBoth, nil) })
	b.Run("denied", func(b *testing.B) { benchMiddleware(b, none, admission.HeadersBoth, nil) })
	b.Run("concurrency", func(b *testing.B) {
		benchMiddleware(b, many, admission.HeadersNone, func(r *admission.Rule) { r.Concurrency = 1000 })
	})
	b.Run("no rule", func(b *testing.B) {
		benchMiddleware(b, many, admission.HeadersBoth, func(r *admission.Rule) { r.Path = "/other/**" })
	})
}

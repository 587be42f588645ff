package binder_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience/binder"
)

// noOp is a transport that costs nothing but the answer.
type noOp struct{}

func (noOp) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// BenchmarkChain is what following a document costs on top of a chain that does not.
func BenchmarkChain(b *testing.B) {
	doc := &page{doc: `{"Retry": {}, "Timeout": {}, "CircuitBreaker": {}, "Bulkhead": {}}`}
	static, err := binder.BindHTTP(load(b, doc.doc), noOp{}, binder.HTTPOptions{})
	require.NoError(b, err)
	live, err := binder.NewLiveChain(b.Context(), binder.LiveConfig{Source: doc.source}, noOp{}, binder.HTTPOptions{})
	require.NoError(b, err)
	for name, rt := range map[string]http.RoundTripper{"static": static, "live": live} {
		b.Run(name, func(b *testing.B) {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://a.test/", http.NoBody)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				res, err := rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = res.Body.Close()
			}
		})
	}
	require.NoError(b, live.Close())
	require.NoError(b, static.Close())
}

// BenchmarkLoad is a document with every key.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := binder.Load([]byte(whole)); err != nil {
			b.Fatal(err)
		}
	}
}

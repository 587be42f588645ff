package crawl_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/admission"
)

// within answers requests by a handler of this process.
type within struct{ http.Handler }

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	r.RemoteAddr = "192.0.2.1:1"
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	res := rec.Result()
	res.Request = r
	return res, nil
}

// TestClientUsesWhatAdmitGrants has our own client ask a service with our own limits, as fast as
// it may: it gets what they grant, and is hardly ever refused.
func TestClientUsesWhatAdmitGrants(t *testing.T) {
	for _, kind := range admission.Kinds() {
		for _, tc := range []struct {
			permits int64
			window  time.Duration
		}{{1, time.Second}, {1, 2 * time.Second}, {100, 2 * time.Second}, {1, 10 * time.Second}, {5, 10 * time.Second}, {100, 10 * time.Second}, {100, time.Minute}} {
			t.Run(fmt.Sprintf("%s, %d per %v", kind, tc.permits, tc.window), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					plan := crawl.AdmitPlan{Name: "p", Capacity: tc.permits, TokensPerSecond: float64(tc.permits) / tc.window.Seconds()}
					if kind != admission.KindTokenBucket {
						plan = crawl.AdmitPlan{Name: "p", Kind: kind, Capacity: tc.permits, Window: tc.window}
					}
					a := admit(t, crawl.AdmitConfig{Plans: []crawl.AdmitPlan{plan}, Rules: []crawl.AdmitRule{{Name: "all", Path: "/**", Plans: []string{"p"}}}})
					c, err := crawl.Client(crawl.ClientConfig{MaxRPS: 1000, Transport: within{a.Handler(hello)}, Resilience: []byte(`{}`)})
					require.NoError(t, err)
					defer func() { require.NoError(t, c.Close()) }()
					asked, refused := 0, 0
					ask := func() {
						res, err := c.Get("http://example.com/")
						require.NoError(t, err)
						_, _ = io.Copy(io.Discard, res.Body)
						require.NoError(t, res.Body.Close())
						asked++
						if res.StatusCode != http.StatusOK {
							refused++
						}
					}
					for begin := time.Now(); time.Since(begin) < 10*tc.window; { // it learns, and takes what is there
						ask()
					}
					asked, refused = 0, 0
					begin := time.Now()
					for time.Since(begin) < 40*tc.window {
						ask()
					}
					used := float64(asked-refused) / (float64(tc.permits) * time.Since(begin).Seconds() / tc.window.Seconds())
					share := float64(refused) / float64(asked)
					t.Logf("%s, %d per %v: %.3f used, %.4f refused", kind, tc.permits, tc.window, used, share)
					if used < 0.95 || share > 0.002 {
						t.Errorf("%.3f used, %.4f refused", used, share)
					}
				})
			})
		}
	}
}

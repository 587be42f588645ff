package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
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

// perWindow are limits of one and of many, in a second and in more.
var perWindow = []struct {
	permits int64
	window  time.Duration
}{
	{1, time.Second},
	{2, time.Second},
	{5, time.Second},
	{10, time.Second},
	{100, time.Second},
	{1, 2 * time.Second},
	{100, 2 * time.Second},
	{1, 10 * time.Second},
	{5, 10 * time.Second},
	{100, 10 * time.Second},
	{100, time.Minute},
}

// askAll has our own client ask a server as fast as it may, and returns the share of what the
// limit grants that it used, and of its requests that were refused.
func askAll(t *testing.T, h http.Handler, permits int64, window time.Duration) (used, refused float64) {
	t.Helper()
	c, err := crawl.NewClient(crawl.ClientConfig{Politeness: crawl.PolitenessOptions{MaxRPS: 1000}, Transport: within{h}, Resilience: []byte(`{}`)})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	asked, denied := 0, 0
	ask := func() {
		res, err := c.Get("http://example.com/")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, res.Body)
		require.NoError(t, res.Body.Close())
		asked++
		if res.StatusCode != http.StatusOK {
			denied++
		}
	}
	for begin := time.Now(); time.Since(begin) < 10*window; { // it learns, and takes what is there
		ask()
	}
	asked, denied = 0, 0
	begin := time.Now()
	for time.Since(begin) < 40*window {
		ask()
	}
	granted := float64(permits) * time.Since(begin).Seconds() / window.Seconds()
	return float64(asked-denied) / granted, float64(denied) / float64(asked)
}

func checkObedient(t *testing.T, used, refused float64) {
	t.Helper()
	t.Logf("%.3f used, %.4f refused", used, refused)
	if used < 0.95 || refused > 0.002 {
		t.Errorf("%.3f used, %.4f refused: want at least 0.95 and at most 0.002", used, refused)
	}
}

// TestClientUsesWhatAdmitGrants has our own client ask a service with our own limits: it gets
// what they grant, and is hardly ever refused.
func TestClientUsesWhatAdmitGrants(t *testing.T) {
	for _, headers := range []string{"both", "legacy"} {
		for _, kind := range admission.Kinds() {
			for _, tc := range perWindow {
				t.Run(fmt.Sprintf("%s, %d per %v, %s", kind, tc.permits, tc.window, headers), bubble(func(t *testing.T) {
					plan := admit.Plan{Name: "p", Capacity: tc.permits, TokensPerSecond: float64(tc.permits) / tc.window.Seconds()}
					if kind != admission.KindTokenBucket {
						plan = admit.Plan{Name: "p", Kind: string(kind), Capacity: tc.permits, Window: tc.window}
					}
					a := admitting(t, admit.Config{
						Plans: []admit.Plan{plan}, Headers: headers,
						Rules: []admit.Rule{{Name: "all", Path: "/**", Plans: []string{"p"}}},
					})
					used, refused := askAll(t, a.Handler(hello), tc.permits, tc.window)
					checkObedient(t, used, refused)
				}))
			}
		}
	}
}

// TestClientUsesWhatEachAlgorithmGrants is the same with a server that limits by one of the
// algorithms over time, and tells what is left by the headers of the IETF or by the older ones.
func TestClientUsesWhatEachAlgorithmGrants(t *testing.T) {
	for _, kind := range limit.Kinds() {
		if kind == limit.KindConcurrency {
			continue // TestClientHoldsWhatConcurrencyGrants
		}
		for _, headers := range []string{"ietf", "legacy"} {
			for _, tc := range perWindow {
				t.Run(fmt.Sprintf("%s, %d per %v, %s", kind, tc.permits, tc.window, headers), bubble(func(t *testing.T) {
					l, err := limit.New(limit.Spec{Kind: kind, Permits: tc.permits, Per: tc.window})
					require.NoError(t, err)
					used, refused := askAll(t, limited(t, l, headers), tc.permits, tc.window)
					checkObedient(t, used, refused)
				}))
			}
		}
	}
}

// TestClientHoldsWhatConcurrencyGrants has more callers than a service lets be under way: as many
// requests are under way as it grants, and hardly one is refused.
func TestClientHoldsWhatConcurrencyGrants(t *testing.T) {
	for _, places := range []int64{1, 2, 5, 10} {
		t.Run(fmt.Sprint(places), bubble(func(t *testing.T) {
			const takes, learns, lasts = 50 * time.Millisecond, 100 * time.Second, 400 * time.Second
			a := admitting(t, admit.Config{Plans: []admit.Plan{}, Rules: []admit.Rule{{Name: "all", Path: "/**", Concurrency: places}}})
			slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(takes) })
			c, err := crawl.NewClient(crawl.ClientConfig{Politeness: crawl.PolitenessOptions{MaxRPS: 1000}, Transport: within{a.Handler(slow)}, Resilience: []byte(`{}`)})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			var granted, denied atomic.Int64
			begin := time.Now()
			var callers sync.WaitGroup
			for range 2 * places {
				callers.Go(func() {
					for time.Since(begin) < learns+lasts {
						res, err := c.Get("http://example.com/")
						if err != nil {
							t.Error(err)
							return
						}
						_ = res.Body.Close()
						switch {
						case time.Since(begin) < learns:
						case res.StatusCode == http.StatusOK:
							granted.Add(1)
						default:
							denied.Add(1)
						}
					}
				})
			}
			callers.Wait()
			most := float64(places) * float64(lasts/takes)
			checkObedient(t, float64(granted.Load())/most, float64(denied.Load())/float64(granted.Load()+denied.Load()))
		}))
	}
}

// limited is a handler behind a limiter, which tells what is left by the headers, or tells nothing.
func limited(t *testing.T, l limit.Weighted, headers string) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ok := l.TryAcquire()
		s := l.Standing()
		s.Refused = !ok
		q := header.QuotaOf(s)
		switch headers {
		case "legacy":
			for name, value := range map[string]string{
				"Limit": strconv.FormatInt(q.Limit, 10), "Remaining": strconv.FormatInt(q.Remaining, 10), "Reset": header.FormatRetryAfter(q.Reset),
				"Policy": fmt.Sprintf("%d;w=%s", q.Limit, header.FormatRetryAfter(q.Window)),
			} {
				w.Header().Set("X-RateLimit-"+name, value)
			}
		case "ietf":
			policy, err := header.FormatPolicies([]header.Policy{{Name: "p", Quota: q.Limit, Window: q.Window}})
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("RateLimit-Policy", policy)
			w.Header().Set("RateLimit", fmt.Sprintf(`"p";r=%d;t=%s`, q.Remaining, header.FormatRetryAfter(q.Reset)))
		}
		if !ok {
			if headers != "" {
				w.Header().Set("Retry-After", header.FormatRetryAfter(s.Next))
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
}

// The cap is for all who wait for the host: the limiter, and the retry around it.
func TestClientMaxRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c, _ := politeClient(t, crawl.ClientConfig{Politeness: crawl.PolitenessOptions{MaxRetryAfter: 5 * time.Second}}, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked++; asked == 1 {
					w.Header().Set("Retry-After", "1800")
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}),
		})
		begun := time.Now()
		fetchText(t, c, "http://a.test/")
		require.Equal(t, 2, asked)
		require.Less(t, time.Since(begun), time.Minute)
	})
}

// upgraded answers 101 and then each line with itself.
func upgraded(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	for err == nil {
		_ = rw.Flush()
		var line string
		line, err = rw.ReadString('\n')
		_, _ = rw.WriteString(line)
	}
}

// What speaks another protocol is cut by no timeout, and by Close.
func TestClientCloseEndsUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := politeClient(t, crawl.ClientConfig{}, map[string]http.Handler{"a.test": http.HandlerFunc(upgraded)})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		res, err := c.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
		both, ok := res.Body.(io.ReadWriteCloser)
		require.True(t, ok)
		defer both.Close()
		lines := bufio.NewReader(both)
		for range 2 {
			_, err = fmt.Fprintln(both, "line")
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "line\n", line)
			time.Sleep(time.Hour)
		}
		failed := make(chan error)
		go func() {
			_, err := lines.ReadString('\n')
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.Error(t, <-failed)
	})
}

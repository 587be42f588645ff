package testsite

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// These tests are crawlers, good and bad, of a few lines each. They show that the
// report tells them apart, which is what a site is for.

// limited is the host of the published comparison: five requests per second, then 429 and two seconds.
func limited() Config {
	return one(Host{
		Name: "limited", Pages: 51, Fanout: 50,
		Limit: Limit{Rate: 5}, Refusal: Refusal{RetryAfter: retrySeconds, Wait: 2 * time.Second},
	})
}

func TestPoliteAndImpoliteCrawlers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		pace     time.Duration
		honours  bool
		inside   int64
		refusals int64
	}{
		{"paced", 200 * ms, true, 0, 0},
		{"honours Retry-After", 100 * ms, true, 0, 50},
		{"tries again at once", 100 * ms, false, 49, 50},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				site, c := inMemory(t, limited())
				for n := 0; n < 51; {
					resp, err := c.Get(site.URL(0) + pagePath(n))
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					wait := tc.pace
					if resp.StatusCode == http.StatusOK {
						n++
					} else if tc.honours {
						seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
						require.NoError(t, err)
						wait = time.Duration(seconds) * time.Second
					}
					time.Sleep(wait)
				}
				got := site.Report().Hosts[0]
				require.Equal(t, int64(51), got.Distinct)
				require.Equal(t, tc.refusals, got.Refusals)
				if tc.honours {
					require.Zero(t, got.InsideRetryAfter)
					return
				}
				// From the first refusal on, every request but the last page falls into
				// a wait that each refusal renews.
				require.Greater(t, got.InsideRetryAfter, tc.inside)
			})
		})
	}
}

// TestRequestsInFlight: ten requests at once get nine refusals, of which the client could have acted on only the first.
func TestRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, limited())
		var wg sync.WaitGroup
		for n := range 10 {
			wg.Go(func() { _, _, _, _ = fetch(t.Context(), c, site.URL(0)+pagePath(n)) })
		}
		wg.Wait()
		got := site.Report().Hosts[0]
		require.Equal(t, int64(9), got.Refusals)
		require.Equal(t, int64(8), got.InFlight)
		require.Zero(t, got.InsideRetryAfter)
	})
}

func TestManyClientsAtOnce(t *testing.T) {
	site, err := New(one(Host{
		Pages: 50, Private: 5, Limit: Limit{Concurrent: 3, Requests: 150, Window: time.Hour},
		Flaky: Flaky{Probability: 0.2}, Robots: Robots{Disallow: []string{"/private/"}}, Refusal: Refusal{RetryAfter: retrySeconds},
	}))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for n := range 100 {
				func() {
					defer func() { _ = recover() }() // a reset without a connection to cut
					path := pagePath((n*7 + worker) % 50)
					site.Handler(0).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				}()
				if n%10 == 0 {
					_ = site.Report()
				}
			}
		})
	}
	wg.Wait()
	got := site.Report().Hosts[0]
	var ended int64
	for _, n := range got.Statuses {
		ended += n
	}
	require.Equal(t, int64(800), got.Requests)
	require.Equal(t, got.Requests, ended+got.Resets+got.Hangs+got.Left, "every request has one end")
	require.Equal(t, got.Statuses[200], got.Distinct+got.Duplicates, "every page served is new or not")
	require.LessOrEqual(t, got.MaxOpen, 8)
	require.Zero(t, site.hosts[0].gate.open, "every slot was given back")
	require.Zero(t, site.hosts[0].rec.open)
}

// TestClientLeavesInTheMiddle: a page that was not received is not a page served.
func TestClientLeavesInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, one(Host{Pages: 3, Latency: Latency{Typical: time.Second, Body: 8 * time.Second}}))
		for _, patience := range []time.Duration{500 * ms, 5 * time.Second} { // before the header, and within the body
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, _, _, err := fetch(ctx, c, site.URL(0)+"/p/1")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			synctest.Wait()
		}
		_, ttfb, total, err := fetch(t.Context(), c, site.URL(0)+"/p/1")
		require.NoError(t, err)
		require.Equal(t, time.Second, ttfb)
		require.Equal(t, 9*time.Second, total)
		got := site.Report().Hosts[0]
		require.Equal(t, int64(2), got.Left)
		require.Equal(t, int64(1), got.Distinct)
		require.Zero(t, got.Duplicates, "what was cut off was not served")
		require.Equal(t, map[int]int64{200: 1}, got.Statuses)
		require.Equal(t, 1, got.MaxOpen)
	})
}

// TestPortIsTriedAgain: a port that is free on the first address and taken on the
// second is given up for another.
func TestPortIsTriedAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		taken int // how many ports are taken on the second address
		ok    bool
	}{{"one", 1, true}, {"seven", portTries - 1, true}, {"all that are tried", portTries, false}} {
		t.Run(tc.name, func(t *testing.T) {
			var network fetchtest.Memory
			port := 9000
			site, err := New(Config{Hosts: []Host{{Count: 2}}, Listen: func(address string) (net.Listener, error) {
				host, p, err := net.SplitHostPort(address)
				require.NoError(t, err)
				if p == "0" {
					port++
					p = strconv.Itoa(port)
				} else if port < 9001+tc.taken {
					return nil, syscall.EADDRINUSE
				}
				return network.Listen(net.JoinHostPort(host, p))
			}})
			require.NoError(t, err)
			err = site.Listen()
			if !tc.ok {
				require.ErrorIs(t, err, syscall.EADDRINUSE)
				return
			}
			require.NoError(t, err)
			require.Equal(t, uint16(9001+tc.taken), site.addrs()[1].Port())
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, site.Run(ended), "which closes what Listen opened")
			for _, addr := range site.addrs() {
				ln, err := network.Listen(addr.String())
				require.NoError(t, err)
				require.NoError(t, ln.Close())
			}
		})
	}
}

// TestFixedPortIsNotTriedAgain: a port that was chosen is the only one tried.
func TestFixedPortIsNotTriedAgain(t *testing.T) {
	calls := 0
	site, err := New(Config{Port: 7, Hosts: []Host{{}}, Listen: func(address string) (net.Listener, error) {
		calls++
		require.Equal(t, "127.0.1.1:7", address)
		return nil, syscall.EACCES
	}})
	require.NoError(t, err)
	require.ErrorIs(t, site.Listen(), syscall.EACCES)
	require.Equal(t, 1, calls)
}

func TestURLsAndPorts(t *testing.T) {
	for port, want := range map[int]string{0: "http://127.0.1.1", 80: "http://127.0.1.1", 443: "http://127.0.1.1:443", 8080: "http://127.0.1.1:8080"} {
		site, err := New(Config{Port: port, Hosts: []Host{{}}})
		require.NoError(t, err)
		require.Equal(t, want, site.URL(0))
		require.Equal(t, []string{want + "/"}, site.URLs())
	}
}

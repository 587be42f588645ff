package testsite

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

func inMemory(t *testing.T, cfg Config) (*Site, *http.Client) {
	t.Helper()
	var network fetchtest.Memory
	cfg.Listen = network.Listen
	site, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	runUntilCleanup(t, site)
	// A Transport quietly repeats a GET when a kept connection breaks, which would
	// hide what the site did; so every request has a connection of its own.
	return site, &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}}
}

func runUntilCleanup(t *testing.T, site *Site) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- site.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

func fetch(ctx context.Context, c *http.Client, url string) (status int, ttfb, total time.Duration, err error) {
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, 0, time.Since(begin), err
	}
	defer resp.Body.Close()
	ttfb = time.Since(begin)
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, ttfb, time.Since(begin), err
}

func TestLatencyAndBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, one(Host{
			Latency: Latency{Typical: 2 * time.Second, Body: 800 * ms, FastRoot: true},
			Robots:  Robots{Allow: true, Latency: 3 * time.Second},
		}))
		for _, tc := range []struct {
			path        string
			ttfb, total time.Duration
		}{
			{"/", 0, 800 * ms},
			{"/p/1", 2 * time.Second, 2800 * ms},
			{"/x/1", 2 * time.Second, 2 * time.Second},
			{"/robots.txt", 3 * time.Second, 3 * time.Second},
		} {
			_, ttfb, total, err := fetch(t.Context(), c, site.URL(0)+tc.path)
			require.NoError(t, err)
			require.Equal(t, tc.ttfb, ttfb, "first byte of %s", tc.path)
			require.Equal(t, tc.total, total, "last byte of %s", tc.path)
		}
	})
}

func TestOpenRequestsAndConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, one(Host{
			Latency: Latency{Typical: time.Second}, Limit: Limit{Concurrent: 2}, Refusal: Refusal{RetryAfter: retrySeconds},
		}))
		var wg sync.WaitGroup
		statuses := make([]int, 3)
		for i := range statuses {
			wg.Go(func() { statuses[i], _, _, _ = fetch(t.Context(), c, site.URL(0)+"/") })
		}
		wg.Wait()
		slices.Sort(statuses)
		require.Equal(t, []int{200, 200, 429}, statuses)
		status, _, _, err := fetch(t.Context(), c, site.URL(0)+"/")
		require.NoError(t, err)
		require.Equal(t, 200, status, "the slots are free again")
		got := site.Report().Hosts[0]
		require.Equal(t, 3, got.MaxOpen)
		require.Equal(t, int64(2), got.Duplicates)
	})
}

func TestHangUntilTheOutageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, one(Host{Outages: []Outage{{For: 10 * time.Second, Mode: modeHang}}}))
		impatient, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		_, _, total, err := fetch(impatient, c, site.URL(0)+"/")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4*time.Second, total)

		_, _, total, err = fetch(t.Context(), c, site.URL(0)+"/")
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 6*time.Second, total)

		status, _, _, err := fetch(t.Context(), c, site.URL(0)+"/")
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, int64(2), site.Report().Hosts[0].Hangs)
	})
}

func TestListenerIsClosedAndOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, one(Host{
			Latency: Latency{Typical: 2 * time.Second, FastRoot: true},
			Outages: []Outage{
				{After: time.Second, For: time.Second}, // not an outage of the listener
				{After: 5 * time.Second, For: 3 * time.Second, Mode: modeClose},
				{After: 9 * time.Second, For: time.Second, Mode: modeClose},
			},
		}))
		at := func(d time.Duration, path string) (int, error) {
			time.Sleep(d - time.Duration(site.now()))
			status, _, _, err := fetch(t.Context(), c, site.URL(0)+path)
			return status, err
		}
		status, err := at(0, "/")
		require.NoError(t, err)
		require.Equal(t, 200, status)
		status, err = at(1500*ms, "/")
		require.NoError(t, err)
		require.Equal(t, 503, status)
		_, err = at(4*time.Second, "/p/1")
		require.ErrorIs(t, err, io.EOF, "an answer under way is cut off")
		for _, d := range []time.Duration{6 * time.Second, 8*time.Second - ms, 9500 * ms} {
			_, err = at(d, "/")
			require.ErrorIs(t, err, syscall.ECONNREFUSED, "at %v", d)
			if d == 8*time.Second-ms {
				status, err = at(8*time.Second+ms, "/")
				require.NoError(t, err)
				require.Equal(t, 200, status, "back again")
			}
		}
		require.Equal(t, int64(1), site.Report().Hosts[0].Left)
		require.Equal(t, int64(4), site.Report().Hosts[0].Requests, "what is refused by the kernel is not seen")
	})
}

func TestRunEndsGracefully(t *testing.T) {
	for _, tc := range []struct {
		name   string
		host   Host
		took   time.Duration // by Run, after the end of its context
		status int           // of the request in flight; zero means that it was cut off
	}{
		{"nearly answered", Host{Latency: Latency{Typical: 1500 * ms}}, 500 * ms, 200},
		{"far from answered", Host{Latency: Latency{Typical: time.Minute}}, drain, 0},
		{"hung", Host{Outages: []Outage{{For: time.Hour, Mode: modeHang}}}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network fetchtest.Memory
				cfg := one(tc.host)
				cfg.Listen = network.Listen
				site, err := New(cfg)
				require.NoError(t, err)
				require.NoError(t, site.Listen())
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var status int
				var wg sync.WaitGroup
				wg.Go(func() {
					c := &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}}
					status, _, _, _ = fetch(context.WithoutCancel(ctx), c, site.URL(0)+"/p/1")
				})
				require.NoError(t, site.Run(ctx))
				wg.Wait()
				// Shutdown looks for idle connections at intervals of up to half a second.
				require.InDelta(t, (time.Second + tc.took).Seconds(), time.Duration(site.now()).Seconds(), 0.5)
				require.Equal(t, tc.status, status)
				_, err = network.DialContext(t.Context(), "tcp", site.addrs()[0].String())
				require.ErrorIs(t, err, syscall.ECONNREFUSED)
			})
		})
	}
}

func TestSiteRunsOnce(t *testing.T) {
	var network fetchtest.Memory
	cfg := one(Host{})
	cfg.Listen = network.Listen
	site, err := New(cfg)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, site.Run(ended))
	require.ErrorContains(t, site.Run(ended), "make another with New")
}

// TestListenLetsGo: when one address is taken, the others are free again.
func TestListenLetsGo(t *testing.T) {
	var network fetchtest.Memory
	taken, err := network.Listen("127.0.1.3:8080")
	require.NoError(t, err)
	defer taken.Close()
	cfg := Config{Hosts: []Host{{Count: 3}}, Listen: network.Listen}
	site, err := New(cfg)
	require.NoError(t, err)
	err = site.Listen()
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "host 3 of 3")
	require.ErrorIs(t, site.Run(t.Context()), syscall.EADDRINUSE)
	for _, addr := range []string{"127.0.1.1:8080", "127.0.1.2:8080"} {
		ln, err := network.Listen(addr)
		require.NoError(t, err)
		ln.Close()
	}
}

// TestAcceptFails: a listener that breaks ends the whole site with its error.
func TestAcceptFails(t *testing.T) {
	broken := errors.New("broken")
	var network fetchtest.Memory
	cfg := Config{Hosts: []Host{{Count: 3}}, Listen: func(address string) (net.Listener, error) {
		ln, err := network.Listen(address)
		if address == "127.0.1.2:8080" {
			ln = brokenListener{ln, broken}
		}
		return ln, err
	}}
	site, err := New(cfg)
	require.NoError(t, err)
	err = site.Run(t.Context())
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "127.0.1.2:8080")
}

type brokenListener struct {
	net.Listener
	err error
}

func (l brokenListener) Accept() (net.Conn, error) { return nil, l.err }

// TestOverSockets is the smoke test: three hosts on real loopback addresses, one
// port, and a client that follows every link. Nothing in it depends on time.
func TestOverSockets(t *testing.T) {
	site, err := New(Config{Seed: 5, Base: "127.0.77.1", Hosts: []Host{
		{Name: "a", Pages: 20, HostLinks: 1, Redirects: 3},
		{Name: "b", Pages: 10, Media: 2},
		{Name: "c", Pages: 5, Script: []Step{{Status: 200, Times: 5}}, Flaky: Flaky{}, Robots: Robots{Allow: true}},
	}})
	require.NoError(t, err)
	require.Equal(t, "http://127.0.77.1/", site.URLs()[0])
	require.NoError(t, site.Listen())
	runUntilCleanup(t, site)

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	var wg sync.WaitGroup
	for host, pages := range []int{20, 10, 5} {
		wg.Go(func() {
			for n := range pages {
				status, _, _, err := fetch(t.Context(), c, site.URL(host)+pagePath(n))
				if err != nil || status != http.StatusOK {
					t.Errorf("%s%s = %d, %v, want 200", site.URL(host), pagePath(n), status, err)
				}
			}
		})
	}
	wg.Wait()
	report := site.Report()
	require.Equal(t, int64(35), report.Total.Distinct)
	require.Zero(t, report.Total.Duplicates)
	require.Equal(t, map[int]int64{200: 35}, report.Total.Statuses)
	require.Equal(t, 3, site.Hosts())
	for i, addr := range site.addrs() {
		require.Equal(t, site.addrs()[0].Port(), addr.Port())
		require.NotZero(t, addr.Port())
		require.Equal(t, "http://"+addr.String(), site.URL(i))
	}
}

func TestResetOverSockets(t *testing.T) {
	site, err := New(Config{Base: "127.0.78.1", Hosts: []Host{{Flaky: Flaky{Probability: 1, Kinds: []string{kindReset}}}}})
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	runUntilCleanup(t, site)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, _, _, err = fetch(t.Context(), c, site.URLs()[0])
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Equal(t, int64(1), site.Report().Total.Resets)
}

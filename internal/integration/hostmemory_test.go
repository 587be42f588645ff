package integration_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// crawlLimited crawls a host with a hidden limit for that long and tells what the host has
// seen, and what the crawl said.
func crawlLimited(t *testing.T, d time.Duration, limit testsite.Limit, remember string) (testsite.HostReport, string) {
	t.Helper()
	var said bytes.Buffer
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.MaxRPS, cfg.RateLimit.Remember, cfg.MaxTime = 100, remember, d
	cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	s, c, _ := inMemory(t, testsite.Config{Hosts: []testsite.Host{{
		Pages: 20_000, Limit: limit, Latency: testsite.Latency{Typical: 20 * time.Millisecond},
	}}}, cfg)
	require.NoError(t, c.Run(t.Context(), s.URLs()...))
	return s.Report().Hosts[0], said.String()
}

// The second crawl begins near what the first has learned: it gets more from the host in
// its first half minute, and is refused no more often.
func TestSecondCrawlBeginsNearTheKnownRate(t *testing.T) {
	const rate, span = 12, 30 * time.Second
	limit := testsite.Limit{Rate: rate, Burst: 5}
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		stranger, _ := crawlLimited(t, span, limit, "")
		first, said := crawlLimited(t, 5*time.Minute, limit, path)
		require.NotContains(t, said, "earlier crawls")
		require.NotZero(t, first.Refusals, "the limit was not met")
		time.Sleep(time.Hour)
		second, said := crawlLimited(t, span, limit, path)
		require.Contains(t, said, "going on from what earlier crawls have learned")
		t.Logf("in %v: %d requests, %d refused; knowing: %d requests, %d refused", span, stranger.Requests, stranger.Refusals, second.Requests, second.Refusals)
		require.Greater(t, second.Requests-second.Refusals, stranger.Requests-stranger.Refusals)
		require.LessOrEqual(t, second.Refusals, stranger.Refusals)
		require.LessOrEqual(t, second.Refusals, first.Refusals)
		require.Greater(t, float64(second.Requests), 0.8*rate*span.Seconds(), "of what the host would give")
		time.Sleep(25 * time.Hour)
		_, said = crawlLimited(t, time.Second, limit, path)
		require.NotContains(t, said, "earlier crawls", "a day later")
	})
}

// A host that has told one crawl to wait is not asked by the next before it is over,
// robots.txt included.
func TestRetryAfterOutlastsTheCrawl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		site := testsite.Config{Hosts: []testsite.Host{{
			Pages: 5, Script: []testsite.Step{{Status: 503, Times: -1}}, Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 10 * time.Minute},
		}}}
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Remember, cfg.MaxBlocked = path, 0
		s, c, _ := inMemory(t, site, cfg)
		require.ErrorIs(t, c.Run(t.Context(), s.URLs()...), crawl.ErrBlocked)
		asked := s.Report().Hosts[0].Requests
		require.NotZero(t, asked)

		time.Sleep(9 * time.Minute)
		s, c, _ = inMemory(t, site, cfg)
		require.ErrorIs(t, c.Run(t.Context(), s.URLs()...), crawl.ErrBlocked)
		require.Zero(t, s.Report().Hosts[0].Requests)
	})
}

// It is saved every minute, not only at the end: a crash costs a minute.
func TestSavesEveryMinute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		exists := make(chan bool, 2)
		go func() {
			for _, d := range []time.Duration{time.Minute - 1, 2} {
				time.Sleep(d)
				_, err := os.Stat(path)
				exists <- err == nil
			}
		}()
		crawlLimited(t, 2*time.Minute, testsite.Limit{Rate: 5, Burst: 2}, path)
		require.False(t, <-exists, "before the minute was over")
		require.True(t, <-exists, "when it was over")
	})
}

// An order to wait is kept as soon as it is given: whoever kills a crawl within it and
// resumes it at once does not ask that host.
func TestRetryAfterOutlastsAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := testsite.Config{Hosts: []testsite.Host{{
			Pages: 5, Script: []testsite.Step{{Status: 200, Times: 2}, {Status: 429, Times: -1}},
			Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 10 * time.Minute},
		}}}
		dir, killed := filepath.Join(t.TempDir(), "state"), make(chan string, 1)
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.MaxTime, cfg.MaxBlocked = dir, time.Minute-1, time.Hour // it ends before all is saved anyway
		cfg.RateLimit.InitialRPS = 5
		s, c, _ := inMemory(t, site, cfg)
		time.AfterFunc(10*time.Second, func() { killed <- copyState(t, dir) })
		require.NoError(t, c.Run(t.Context(), s.URLs()...))
		require.NotZero(t, s.Report().Hosts[0].Requests)

		cfg.State.Dir, cfg.MaxTime, cfg.MaxBlocked = "", 0, 0
		var err error
		cfg.Kept, err = assembly.OpenState(assembly.StateConfig{Dir: <-killed})
		require.NoError(t, err)
		s, c, _ = inMemory(t, site, cfg)
		require.ErrorIs(t, c.Run(t.Context()), crawl.ErrBlocked)
		require.Zero(t, s.Report().Hosts[0].Requests)
	})
}

// A crawl does not end because it cannot take notes. It says so, once.
func TestCrawlOutlivesItsMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(time.Second, func() { _ = os.Remove(dir) })
		h, said := crawlLimited(t, 3*time.Minute, testsite.Limit{Rate: 5, Burst: 2}, filepath.Join(dir, "hosts"))
		require.Greater(t, h.Requests, int64(300), "it ended early")
		require.Equal(t, 1, bytes.Count([]byte(said), []byte("cannot be kept")), said)
	})
}

// What is wrong with the file is told before anything is asked for.
func TestMemoryThatIsNone(t *testing.T) {
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.Remember = t.TempDir()
	c, err := assembly.New(cfg)
	require.NoError(t, err)
	err = c.Run(t.Context(), "http://127.0.0.1:1/")
	require.ErrorContains(t, err, "ratelimit.remember: "+cfg.RateLimit.Remember+" is no regular file")
	require.EqualError(t, crawl.CheckMemory(&cfg.Settings), err.Error())
	require.Zero(t, c.Snapshot().Requests)
	cfg.RateLimit.Strategy = "off"
	require.NoError(t, crawl.CheckMemory(&cfg.Settings), "which nobody reads")
}

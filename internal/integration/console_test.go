package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/watch"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/record"
)

const secret = "not to be guessed: 7f3a9c1e"

// steered is a crawl of a site that is larger than a test, with its console.
type steered struct {
	site    *testsite.Site
	crawler *assembly.Crawler
	console *watch.Console
	client  *http.Client
	token   string
	ended   chan error // of the crawl
	leave   context.CancelFunc
	served  chan error
	out     *records
	log     *lockedBuffer
}

// steer begins a crawl that ends when it is told to, and no later than its test.
func steer(t *testing.T, lc assembly.ListenConfig, change func(*assembly.Config)) *steered {
	t.Helper()
	s := &steered{
		site:  serveSite(t, testsite.Config{Hosts: []testsite.Host{{Name: "a", Pages: 100_000}, {Name: "b", Pages: 2}, {Name: "c", Limit: testsite.Limit{Rate: 2, Burst: 1}}}}),
		token: lc.Token, ended: make(chan error, 1), served: make(chan error, 1), out: &records{}, log: &lockedBuffer{},
	}
	lc.Log = slog.New(slog.NewTextHandler(s.log, nil))
	var err error
	s.console, err = watch.Listen(lc)
	require.NoError(t, err)
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.Strategy, cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS = "fixed", 100, 100
	cfg.Sitemaps.Enabled = false  // requests are counted
	cfg.Fetch.AllowPrivate = true // clients of the console bring hosts of the site
	cfg.OnEvent, cfg.Sinks = s.console.Event, []record.Sink{s.out}
	if change != nil {
		change(&cfg)
	}
	s.crawler = newOver(t, cfg, cfg.Dial)
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	var ctx context.Context
	ctx, s.leave = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { s.served <- s.console.Serve(ctx, s.crawler) }()
	t.Cleanup(func() {
		s.crawler.Stop()
		transport.CloseIdleConnections()
		s.leave()
		require.NoError(t, <-s.served)
	})
	return s
}

// run begins the crawl of the first host and waits for its first pages.
func (s *steered) run(t *testing.T) {
	t.Helper()
	go func() { s.ended <- s.crawler.Run(context.WithoutCancel(t.Context()), s.site.URL(0)) }()
	t.Cleanup(func() {
		s.crawler.Stop()
		require.NoError(t, <-s.ended)
	})
	s.requireMore(t, 0)
}

// end waits for the end of the crawl.
func (s *steered) end(t *testing.T) {
	t.Helper()
	err := <-s.ended
	s.ended <- err
	require.NoError(t, err)
}

// asked is how many requests the first host has seen.
func (s *steered) asked() int64 { return s.site.Report().Hosts[0].Requests }

func (s *steered) requireMore(t *testing.T, than int64) {
	t.Helper()
	require.Eventually(t, func() bool { return s.asked() > than+5 }, time.Minute, 5*time.Millisecond, "the crawl asks for nothing")
}

// do sends a request, which must be answered with that status, and returns the body of the answer.
func (s *steered) do(t *testing.T, status int, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.console.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, status, res.StatusCode, "%s", text)
	return string(text)
}

func (s *steered) order(t *testing.T, name, body string) {
	t.Helper()
	s.do(t, 200, http.MethodPost, "api/"+name, body)
}

// snapshot is what the console shows of the crawl.
func (s *steered) snapshot(t *testing.T) (snap struct {
	pipeline.Snapshot
	State  string `json:"state"`
	Paused bool
},
) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.do(t, 200, http.MethodGet, "api/snapshot", "")), &snap))
	return snap
}

// A paused crawl asks its host for nothing for a second, by the host's own count, and goes on when it may.
func TestPauseAndResume(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0"}, nil)
	require.Contains(t, s.do(t, 503, http.MethodGet, "readyz", ""), "has not begun")
	s.do(t, 409, http.MethodPost, "api/pause", "")
	require.ErrorIs(t, s.crawler.Pause(), crawl.ErrNotRunning)
	s.run(t)
	s.do(t, 200, http.MethodGet, "readyz", "")

	s.order(t, "pause", "")
	require.Eventually(t, func() bool { return s.crawler.Snapshot().Frontier.Leased == 0 }, time.Minute, time.Millisecond)
	before := s.asked()
	time.Sleep(time.Second) // of the site, which is real
	require.Equal(t, before, s.asked())
	snap := s.snapshot(t)
	require.True(t, snap.Paused)
	require.Equal(t, "paused", snap.State)
	require.Positive(t, snap.Frontier.Queued)
	require.Equal(t, "the crawl is paused", snap.Hosts[0].Reason)
	s.order(t, "resume", "{}")
	s.requireMore(t, before)
	require.Equal(t, "running", s.snapshot(t).State)

	require.NoError(t, s.crawler.Pause())
	require.NoError(t, s.crawler.Resume())
	require.Contains(t, s.log.String(), `msg="an order was carried out" order=pause who=127.0.0.1:`)
}

// A seed that comes late is visited, on a host that no other page has named; a stopped crawl ends in order.
func TestSeedsAndStop(t *testing.T) {
	stopped := make(chan struct{})
	s := steer(t, assembly.ListenConfig{Addr: "127.0.0.1:0", OnStop: func() { close(stopped) }}, nil)
	s.run(t)
	late := strings.TrimPrefix(s.site.URL(1), "http://")
	require.Contains(t, s.do(t, 200, http.MethodPost, "api/seeds", fmt.Sprintf(`{"url":%q}`, s.site.URL(1))), late)
	require.Eventually(t, func() bool { return s.site.Report().Hosts[1].Distinct == 2 }, time.Minute, 5*time.Millisecond)
	s.do(t, 422, http.MethodPost, "api/seeds", `{"url":"ftp://x.test/"}`)
	require.ErrorIs(t, s.crawler.AddSeed("ftp://x.test/", request.Request{}), crawl.ErrSeed)

	var host struct {
		Frontier struct{ Pages int }
		Limiter  struct {
			FillRate float64 `json:"fill_rate"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.do(t, 200, http.MethodGet, "api/hosts/"+strings.TrimSuffix(late, "/"), "")), &host))
	require.Equal(t, 2, host.Frontier.Pages)
	require.InDelta(t, 100, host.Limiter.FillRate, 1e-9)
	s.do(t, 404, http.MethodGet, "api/hosts/nobody.test", "")

	s.order(t, "stop", "")
	<-stopped
	s.end(t)
	require.Equal(t, "interrupted", s.snapshot(t).State)
	require.Contains(t, s.do(t, 503, http.MethodGet, "readyz", ""), "interrupted")
	s.do(t, 200, http.MethodGet, "healthz", "")
	s.do(t, 409, http.MethodPost, "api/seeds", fmt.Sprintf(`{"url":%q}`, s.site.URL(1)))
	require.ErrorIs(t, s.crawler.AddSeed(s.site.URL(1), request.Request{}), crawl.ErrNotRunning)
}

// What Prometheus reads of a crawl is as its linter wants it, and names no host.
func TestMetricsOfACrawl(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0", Version: "9.9"}, nil)
	s.run(t)
	text := ""
	require.Eventually(t, func() bool { // what is told may be a moment old
		text = s.do(t, 200, http.MethodGet, "metrics", "")
		return strings.Contains(text, `treadlight_requests_total{outcome="ok"}`)
	}, time.Minute, 10*time.Millisecond)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	t.Run("promtool", func(t *testing.T) {
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			realserver.Need(t, "promtool, of the Debian package prometheus")
		}
		check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		check.Stdin = strings.NewReader(text)
		out, err := check.CombinedOutput()
		require.NoError(t, err, "promtool check metrics: %s", out)
	})
	require.Contains(t, text, `treadlight_fetch_first_byte_seconds_bucket{outcome="ok",le="+Inf"}`)
	for line := range strings.Lines(text) {
		require.False(t, strings.HasPrefix(line, "treadlight_") && strings.Contains(line, "127."), line)
	}
	require.Contains(t, text, "treadlight_crawl_running 1\n")
	require.Contains(t, text, `treadlight_build_info{version="9.9"} 1`)
}

// The stream tells what happens to a host, and ends with the crawl.
func TestEventStream(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0"}, func(c *assembly.Config) {
		c.RateLimit.Strategy, c.RateLimit.InitialRPS = "steer", 20 // which searches from there
	})
	res, err := s.client.Get(s.console.URL() + "api/events")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if v, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return v
			}
		}
		return ""
	}
	s.run(t)
	require.NoError(t, s.crawler.AddSeed(s.site.URL(2), request.Request{}))
	require.Contains(t, next("data: "), `"cause":"refused"`)
	s.crawler.Stop()
	s.end(t)
	s.leave()
	for event := next("event: "); event != "end"; event = next("event: ") {
		require.NotEmpty(t, event, "the stream was cut off")
	}
}

// A crawl with a state is put on the disk when asked; one without says that it cannot be.
func TestCheckpointOrder(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0"}, func(c *assembly.Config) { c.State.Dir = filepath.Join(t.TempDir(), "state") })
	s.run(t)
	s.order(t, "checkpoint", "")
	none := steer(t, assembly.ListenConfig{Addr: "0"}, nil)
	require.Contains(t, none.do(t, 409, http.MethodPost, "api/checkpoint", ""), "--state")
}

// What a program adds to readiness counts, and an address that is in use is told.
func TestListen(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0", Ready: func() error { return errors.New("the database is away") }}, nil)
	s.run(t)
	require.Contains(t, s.do(t, 503, http.MethodGet, "readyz", ""), "the database is away")
	require.Contains(t, s.log.String(), "url="+s.console.URL())

	_, err := watch.Listen(assembly.ListenConfig{Addr: strings.TrimSuffix(strings.TrimPrefix(s.console.URL(), "http://"), "/")})
	require.ErrorContains(t, err, "in use")
	unused, err := watch.Listen(assembly.ListenConfig{Addr: "0"})
	require.NoError(t, err)
	unused.Event(ratelimit.Event{})
	require.NoError(t, unused.Close())
}

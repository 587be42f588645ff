package integration_test

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/observe/console"
)

// hostOf is the first host of the site, as paths of the console name it.
func (s *steered) hostOf() string { return hostOf(s.site, 0) }

func (s *steered) controls(t *testing.T) (c console.Controls) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.do(t, 200, "GET", "api/controls", "")), &c))
	return c
}

func (s *steered) look(t *testing.T) (h console.Host) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.do(t, 200, "GET", "api/hosts/"+s.hostOf(), "")), &h))
	return h
}

// A blocked host gets no further request, by its own count, and gets them again when it is unblocked.
func TestBlockOrder(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0"}, nil)
	host := s.hostOf()
	require.ErrorIs(t, s.crawler.Block(host), crawl.ErrNotRunning)
	s.run(t)
	s.order(t, "hosts/"+host+"/block", "")
	require.Eventually(t, func() bool { return s.crawler.Snapshot().Frontier.Leased == 0 }, time.Minute, time.Millisecond)
	before := s.asked()
	time.Sleep(time.Second) // of the site, which is real
	require.Equal(t, before, s.asked())
	h := s.look(t)
	require.True(t, h.Frontier.Excluded)
	require.Equal(t, "blocked by the operator", h.Frontier.Reason)
	require.Positive(t, h.Frontier.Queued)
	require.Equal(t, []string{host}, s.controls(t).Blocked)
	require.Contains(t, s.log.String(), `msg="an order was carried out" order=block who=127.0.0.1:`)
	s.order(t, "hosts/"+host+"/unblock", "")
	s.requireMore(t, before)
	require.Empty(t, s.controls(t).Blocked)

	require.Contains(t, s.do(t, 422, "POST", "api/hosts/a%2Fb/block", ""), "is no host")
	require.ErrorContains(t, s.crawler.Unblock("user@a.test"), "is no host")
	require.ErrorContains(t, s.crawler.SetCeiling("", 1), "is no host")
}

// A changed ceiling shows in what the host is asked, and in what is told of it, and
// outlives other settings; zero brings the settings back.
func TestCeilingOrder(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0"}, nil)
	host := s.hostOf()
	require.ErrorIs(t, s.crawler.SetCeiling(host, 1), crawl.ErrNotRunning)
	s.run(t)
	s.order(t, "hosts/"+host+"/ceiling", `{"max_rps": 2}`)
	var before int64
	require.Eventually(t, func() bool { // what was under way has to end first
		before = s.asked()
		begun := time.Now()
		time.Sleep(2 * time.Second)
		return float64(s.asked()-before) <= 1+2*time.Since(begun).Seconds()
	}, time.Minute, time.Millisecond, "2 a second are allowed, where it were 100")
	require.Eventually(t, func() bool { return s.asked() > before }, time.Minute, time.Millisecond, "nor is it none")
	h := s.look(t)
	require.InDelta(t, 2, h.Limiter.OperatorRPS, 1e-9)
	require.Equal(t, "at most 2/s, set while the crawl runs", h.Limiter.Reason)
	require.Equal(t, map[string]float64{host: 2}, s.controls(t).Ceilings)

	wish := assembly.DefaultConfig().Settings
	wish.RateLimit.Strategy, wish.RateLimit.InitialRPS, wish.RateLimit.MaxRPS = "fixed", 100, 90
	_, _, err := s.crawler.Reload(&wish)
	require.Error(t, err, "the rate to begin with is above the ceiling")
	wish.RateLimit.InitialRPS = 90
	_, _, err = s.crawler.Reload(&wish)
	require.NoError(t, err)
	require.InDelta(t, 2, s.look(t).Limiter.OperatorRPS, 1e-9)

	require.Contains(t, s.do(t, 422, "POST", "api/hosts/"+host+"/ceiling", `{"max_rps": -1}`), "want 1e-6 to 1e6")
	before = s.asked()
	s.order(t, "hosts/"+host+"/ceiling", `{"max_rps": 0}`)
	s.requireMore(t, before)
	require.Empty(t, s.controls(t).Ceilings)
}

// A narrower scope ends a crawl that nothing else would: all that is queued is left, recorded
// with the reason, and asked for no more.
func TestScopeOrder(t *testing.T) {
	s := steer(t, assembly.ListenConfig{Addr: "0"}, nil)
	require.ErrorIs(t, s.crawler.SetScope(nil, nil), crawl.ErrNotRunning)
	s.run(t)
	require.Contains(t, s.do(t, 422, "POST", "api/scope", `{"include":[],"exclude":["("]}`), "is no regular expression")
	s.order(t, "scope", `{"include":[],"exclude":["/never/"]}`)
	require.Contains(t, s.do(t, 422, "POST", "api/seeds", `{"url":"http://127.0.0.1/never/1"}`), "http://127.0.0.1/never/1 is excluded by //never//")
	s.order(t, "scope", `{"include":[],"exclude":["."]}`)
	s.end(t)
	snap := s.snapshot(t)
	require.Equal(t, "done", snap.State)
	require.Zero(t, snap.Frontier.Queued)
	require.Positive(t, snap.OutOfScope["excluded"])
	require.Equal(t, []string{"."}, s.controls(t).Exclude)
	left := 0
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	for _, rec := range s.out.list {
		if rec.Error != nil {
			require.Equal(t, "excluded", rec.Error.Class)
			require.Equal(t, "excluded by /./", rec.Error.Message)
			left++
		}
	}
	require.Positive(t, left)
}

// What was changed while a crawl ran holds when it is resumed, until it is taken back.
func TestControlsOutliveTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := steer(t, assembly.ListenConfig{Addr: "0"}, func(c *assembly.Config) { c.State.Dir = dir })
	host := s.hostOf()
	s.run(t)
	s.order(t, "hosts/"+host+"/ceiling", `{"max_rps": 50}`)
	s.order(t, "scope", `{"include":[],"exclude":["/never/"]}`)
	s.order(t, "hosts/"+host+"/block", "")
	s.order(t, "checkpoint", "")
	s.order(t, "stop", "")
	s.end(t)

	state := openState(t, dir)
	before := s.asked()
	log := &lockedBuffer{}
	cfg := state.Config()
	cfg.MaxBlocked = 0
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	require.Equal(t, []string{"/never/"}, cfg.Scope.Exclude)
	again := newOver(t, cfg, cfg.Dial)
	err := again.Run(t.Context())
	require.ErrorIs(t, err, crawl.ErrBlocked)
	require.Contains(t, log.String(), `msg="the host stays blocked" host=`+host+` unblock="POST /api/hosts/`+host+`/unblock"`)
	require.ErrorContains(t, err, "only hosts are left that the operator has blocked")
	require.Equal(t, before, s.asked(), "not even its robots.txt")
	require.Contains(t, log.String(), "blocked_hosts=1 ceilings=1")

	state = openState(t, dir)
	third := steer(t, assembly.ListenConfig{Addr: "0"}, func(c *assembly.Config) {
		*c = state.Config()
		c.MaxBlocked = time.Minute
	})
	ended := make(chan error, 1)
	go func() { ended <- third.crawler.Run(t.Context()) }()
	require.Eventually(t, func() bool { return third.crawler.Unblock(host) == nil }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return s.asked() > before+5 }, time.Minute, 5*time.Millisecond)
	c := third.controls(t)
	require.Empty(t, c.Blocked)
	require.Equal(t, map[string]float64{host: 50}, c.Ceilings)
	require.Equal(t, []string{"/never/"}, c.Exclude)
	third.crawler.Stop()
	require.NoError(t, <-ended)
	require.False(t, strings.Contains(third.log.String(), "could not"))
}

// A crawl that waits for an hour by its rules goes on when new ones let it; what cannot change stays and is named; what
// is wrong changes nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.MinDelay = time.Hour
		s, c, _ := inMemory(t, testsite.Config{Hosts: []testsite.Host{{Name: "a", Pages: 100}}}, cfg)
		begun := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context(), s.URLs()...) }()
		time.Sleep(time.Minute)
		require.Zero(t, c.Snapshot().Pages)

		bad := cfg.Settings
		bad.RateLimit.MaxRPS = -1
		_, _, err := c.Reload(&bad)
		require.ErrorContains(t, err, "ratelimit.max_rps")

		wish := cfg.Settings
		wish.RateLimit.MinDelay, wish.Concurrency = 0, 5
		applied, refused, err := c.Reload(&wish)
		require.NoError(t, err)
		require.Len(t, applied, 1)
		require.Equal(t, "ratelimit.min_delay: 1h → 0", applied[0].String())
		require.Len(t, refused, 1)
		require.Equal(t, "concurrency", refused[0].Path)

		applied, refused, err = c.Reload(&wish)
		require.NoError(t, err)
		require.Empty(t, applied)
		require.Len(t, refused, 1)

		require.NoError(t, <-ended)
		require.EqualValues(t, 100, c.Snapshot().Pages)
		require.Less(t, time.Since(begun), 3*time.Minute)
		_, _, err = c.Reload(&cfg.Settings)
		require.NoError(t, err, "after the end too")
	})
}

//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/web/canonical"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

var jobs atomic.Int64

// rig is a job on a server, whose time and that of its processes is moved by hand.
type rig struct {
	t   testing.TB
	clk *clocktest.Fake
	cfg Config
}

func newRig(t testing.TB) *rig { return rigOn(t, redistest.Redis.Shared(t).Addr) }

func rigOn(t testing.TB, addr string) *rig {
	r := &rig{t: t, clk: clocktest.NewFake(noon)}
	r.cfg = Config{
		Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Job: fmt.Sprintf("job-%d", jobs.Add(1)),
		partitions: 1, key: 7, Lease: 12 * time.Second, known: 1 << 12, Worker: "w", Clock: r.clk,
		now: func() int64 { return r.clk.Now().UnixMilli() },
	}
	return r
}

func (r *rig) open(change ...func(*Config)) *Store {
	r.t.Helper()
	cfg := r.cfg
	for _, f := range change {
		f(&cfg)
	}
	s, err := Open(context.Background(), cfg)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// die ends what a process runs, without a word to the server.
func die(s *Store) {
	s.fail(errors.New("it is dead"))
	s.work.Wait()
	s.link.Close()
	s.close = func() error { return nil }
}

func item(t testing.TB, url string) *frontier.Item {
	t.Helper()
	u, err := canonical.Parse(url)
	require.NoError(t, err)
	return &frontier.Item{URL: u, Queued: noon}
}

func put(t testing.TB, s *Store, urls ...string) {
	t.Helper()
	for _, url := range urls {
		it := item(t, url)
		s.Put(it.URL.Host(), it, it.URL.Fingerprint(s.Key()), true)
	}
}

// next is the next answer that is none of news, and the news before it.
func next(t testing.TB, s *Store) (a frontier.Answer, news []frontier.Update) {
	t.Helper()
	for {
		select {
		case a = <-s.Answers():
			if a.Update == nil {
				return a, news
			}
			news = append(news, a.Update())
		case <-s.Failed():
			t.Fatal(s.Err())
		case <-time.After(redistest.Patience):
			t.Fatal("no answer")
		}
	}
}

func activate(t testing.TB, s *Store, n int) frontier.Answer {
	t.Helper()
	s.Activate(n)
	a, _ := next(t, s)
	return a
}

func names(a frontier.Answer) (list []string) {
	for _, h := range a.Hosts {
		list = append(list, h.Name)
	}
	return list
}

func load(t testing.TB, s *Store, host string, n int) (urls []string, a frontier.Answer) {
	t.Helper()
	s.Load(host, frontier.Place{}, n)
	a, _ = next(t, s)
	for _, it := range a.Items {
		urls = append(urls, it.URL.String())
	}
	return urls, a
}

// own has a process put URLs, get the host a.test and load so many of its URLs.
func own(t testing.TB, s *Store, n int, urls ...string) frontier.Answer {
	t.Helper()
	put(t, s, urls...)
	activate(t, s, 1)
	_, a := load(t, s, "a.test", n)
	return a
}

// tenureOf is for how long the process has a host; nil if it does not.
func tenureOf(s *Store, host string) *frontier.Tenure {
	if h := s.find(host); h != nil {
		return h.part.tenure
	}
	return nil
}

// learn has the process note what the limiter knows of a host of its own.
func learn(s *Store, host string) { s.learned(s.find(host)) }

// visit has a process end the visit of a URL that it has loaded.
func visit(s *Store, it *frontier.Item) { s.Done(it.URL.Host(), it, frontier.Visit{}) }

// watched has see called with all commands of a process before they are sent.
func watched(s *Store, see func(ctx context.Context, commands []rueidis.Completed)) {
	s.link.Client = spy{s.link.Client, see}
}

type spy struct {
	rueidis.Client
	see func(ctx context.Context, commands []rueidis.Completed)
}

func (c spy) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if len(commands) > 0 {
		c.see(ctx, commands)
	}
	return c.Client.DoMulti(ctx, commands...)
}

func flush(t testing.TB, s *Store) {
	t.Helper()
	s.Add(true)
	require.Eventually(t, func() bool { n, _ := s.Pending(); return n == 0 || s.Err() != nil }, redistest.Patience, 100*time.Microsecond)
}

// dial is the job as an operator sees it, and status how far it is.
func (r *rig) dial() *Fleet {
	r.t.Helper()
	f, err := Dial(r.t.Context(), r.cfg.Redis, r.cfg.Job)
	require.NoError(r.t, err)
	r.t.Cleanup(f.Close)
	return f
}

func (r *rig) status() Status {
	r.t.Helper()
	return statusOf(r.t, r.dial())
}

func statusOf(t testing.TB, f *Fleet) Status {
	t.Helper()
	st, err := f.Status(t.Context())
	require.NoError(t, err)
	return st
}

// set gives a job other bounds and returns those that it had.
func set(t testing.TB, f *Fleet, b Bounds) map[string]string {
	t.Helper()
	before, err := f.Set(t.Context(), b)
	require.NoError(t, err)
	return before
}

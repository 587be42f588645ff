package pipeline

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/scope"
)

// A paused crawl asks for nothing and does not end, whatever it has left to do, and goes on
// where it was; a seed that comes meanwhile is visited then.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := siteAfter(21, sleeps(0))
		w, net := served(t, map[string]http.Handler{"h.test": page, "late.test": page})
		w.Robots = nil
		w.Scope.AddSeed(parse(t, "http://late.test/"))
		p := w.build(t)
		require.False(t, p.Pause(), "there is nothing to pause before Run")
		ended := make(chan error, 1)
		go func() { ended <- w.run(t.Context(), t, p, "http://h.test/") }()
		time.Sleep(3 * time.Second)
		require.True(t, p.Pause())
		synctest.Wait()
		before := len(net.Requests())
		require.Positive(t, before)
		require.Less(t, before, 21)
		time.Sleep(time.Hour)
		require.Len(t, net.Requests(), before, "requests of a paused crawl")
		h, _ := p.Host("h.test")
		require.Equal(t, "the crawl is paused", h.Reason)
		require.Equal(t, h, p.Snapshot().Hosts[0])
		p.EachHost(func(each frontier.HostState) bool { return assert.Equal(t, h, each) })
		require.True(t, p.AddSeed(request.Seed{URL: parse(t, "http://late.test/")}))
		time.Sleep(time.Hour)
		require.Len(t, net.Requests(), before, "requests of a paused crawl")
		require.EqualValues(t, 21-before+1, p.discovery.frontier.Counts().Queued)

		require.True(t, p.Unpause())
		h, _ = p.Host("h.test")
		require.NotEqual(t, "the crawl is paused", h.Reason)
		require.NoError(t, <-ended)
		requireEnd(t, p, EndDone)
		require.Len(t, w.out.byURL(t), 2*21)
		require.False(t, p.Pause(), "it is over")
		require.False(t, p.AddSeed(request.Seed{URL: parse(t, "http://late.test/more")}))
	})
}

// A paused crawl that is stopped ends, and so does one that pauses with nothing left to do as soon as it may go on.
func TestPausedCrawlsEnd(t *testing.T) {
	for name, stop := range map[string]bool{"stopped": true, "nothing left": false} {
		t.Run(name, bubble(func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Second)
				html(w, "x")
			})})
			w.Robots = nil
			p := w.build(t)
			ended := make(chan error, 1)
			go func() { ended <- w.run(t.Context(), t, p, "http://h.test/") }()
			time.Sleep(time.Millisecond)
			require.True(t, p.Pause())
			time.Sleep(time.Minute)
			require.Empty(t, ended)
			if stop {
				p.Stop()
			} else {
				require.True(t, p.Unpause())
			}
			require.NoError(t, <-ended)
			require.Len(t, w.out.byURL(t), 1)
		}))
	}
}

// Bounds that are set while what is under way is finished wake nobody: the end has been chosen,
// and an instant in the past would be waited for over and over.
func TestBoundsOfACrawlThatStops(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	d := &discovery{ending: ending{began: began}}
	d.bound(3, time.Minute)
	require.Equal(t, began.Add(time.Minute), d.deadline)
	d.hurried, d.deadline = true, time.Time{}
	d.bound(3, time.Second)
	require.Zero(t, d.deadline)
}

// steerable is a crawl of hosts of n pages each, at one page in a second.
func steerable(t *testing.T, n int, hosts ...string) (*world, *fetchtest.Net) {
	t.Helper()
	handlers := map[string]http.Handler{}
	for _, h := range hosts {
		handlers[h] = siteAfter(n, sleeps(0))
	}
	w, net := served(t, handlers)
	w.Robots = nil
	w.limits.Strategy, w.limits.InitialRPS, w.limits.MaxRPS = "fixed", 1, 1
	return w, net
}

func (w *world) begin(t *testing.T, p *Pipeline, seeds ...string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- w.run(t.Context(), t, p, seeds...) }()
	return ended
}

// A blocked host is asked for nothing from that moment on, the others go on, and it goes on
// where it was when it is unblocked.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := steerable(t, 20, "a.test", "b.test")
		w.Scope.AddSeed(parse(t, "http://b.test/"))
		p := w.build(t)
		ok, err := p.Block("a.test")
		require.False(t, ok, "there is no crawl")
		require.NoError(t, err)
		ended := w.begin(t, p, "http://a.test/", "http://b.test/")
		time.Sleep(5500 * time.Millisecond)
		ok, err = p.Block("a.test")
		require.True(t, ok)
		require.NoError(t, err)
		require.Error(t, p.discovery.frontier.Refuse("a.test"))
		before := net.Count("a.test", "")
		require.Equal(t, 6, before)
		time.Sleep(time.Minute)
		require.Equal(t, before, net.Count("a.test", ""))
		require.Equal(t, 20, net.Count("b.test", ""))
		h, ok := p.Host("a.test")
		require.True(t, ok)
		require.True(t, h.Excluded)
		require.Equal(t, "blocked by the operator", h.Reason)
		require.Equal(t, 14, h.Queued)

		require.True(t, p.Unblock("a.test"))
		require.NoError(t, p.discovery.frontier.Refuse("a.test"))
		require.NoError(t, <-ended)
		requireEnd(t, p, EndDone)
		require.Equal(t, 20, net.Count("a.test", ""))
		require.Len(t, w.out.byURL(t), 40)
		require.False(t, p.Unblock("a.test"), "it is over")
	})
}

// A crawl of which only blocked hosts are left ends after MaxBlocked, and no later; with
// MaxBlocked of zero at once, and also if nobody can unblock them. One that was blocked before it began is not asked at all.
func TestOnlyBlockedHostsLeft(t *testing.T) {
	for _, tc := range []struct {
		most, wait time.Duration
		unattended bool
	}{{0, 0, false}, {5 * time.Minute, 5 * time.Minute, false}, {5 * time.Minute, 0, true}} {
		t.Run(fmt.Sprint(tc), bubble(func(t *testing.T) {
			w, net := steerable(t, 5, "a.test", "b.test")
			w.Scope.AddSeed(parse(t, "http://b.test/"))
			w.MaxBlocked, w.Unattended, w.Blocked = tc.most, tc.unattended, []string{"a.test"}
			begun := time.Now()
			p := w.finish(t, EndBlocked, "http://a.test/", "http://b.test/")
			_, reason := p.End()
			require.Equal(t, "only hosts are left that the operator has blocked: a.test", reason)
			require.Zero(t, net.Count("a.test", ""))
			require.Equal(t, 5, net.Count("b.test", ""))
			require.EqualValues(t, 1, p.discovery.frontier.Counts().Queued)
			require.InDelta(t, (4*time.Second + tc.wait).Seconds(), time.Since(begun).Seconds(), 1)
		}))
	}
}

// Who unblocks the last host in time has the crawl go on, and it may be another that is blocked then.
func TestUnblockInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := steerable(t, 3, "a.test")
		p := w.build(t)
		ended := w.begin(t, p, "http://a.test/")
		time.Sleep(100 * time.Millisecond)
		for range 2 { // the second wait begins anew: a page was served between
			ok, err := p.Block("a.test")
			require.True(t, ok)
			require.NoError(t, err)
			time.Sleep(4 * time.Minute)
			require.True(t, p.Unblock("a.test"))
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, <-ended)
		requireEnd(t, p, EndDone)
		require.Equal(t, 3, net.Count("a.test", ""))
	})
}

// A lease that is older than the order is not asked for: it comes back and waits.
func TestBlockBetweenLeaseAndRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := steerable(t, 2, "a.test")
		p := w.build(t)
		l := leaseOf(t, p, "http://a.test/")
		require.NoError(t, p.discovery.frontier.Exclude(time.Now(), "a.test"))
		ev, page, _ := p.visit(t.Context(), l)
		require.Nil(t, page)
		require.Equal(t, fateReturned, ev.fate)
		require.Zero(t, net.Count("a.test", ""))
		require.Zero(t, w.Limiter.Snapshot().Requests, "no permit was spent")
		require.True(t, p.discovery.frontier.Include(time.Now(), "a.test"))
		p.discovery.frontier.Release(time.Now(), l, 0, attribution.Outcome{})
		p.discovery.frontier.End(time.Now(), l, frontier.WaitHost(""))
		ev, page, _ = p.visit(t.Context(), leaseOf(t, p, "http://a.test/2"))
		require.NotNil(t, page)
		page.resp.Release()
		require.Equal(t, 1, net.Count("a.test", ""))
	})
}

func leaseOf(t *testing.T, p *Pipeline, url string) *frontier.Lease {
	t.Helper()
	it := frontier.Item{URL: parse(t, url)}
	require.Equal(t, frontier.Queued, p.discovery.frontier.Add(time.Now(), it, p.discovery.frontier.Fingerprint(&it)))
	l, _ := p.discovery.frontier.Next(time.Now())
	require.NotNil(t, l)
	return l
}

// A narrower scope holds for links and for what is queued, which is recorded with the
// reason, counted by it and not asked for; a wider one holds for what is found then.
func TestSetScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := steerable(t, 20, "a.test")
		p := w.build(t)
		ended := w.begin(t, p, "http://a.test/")
		time.Sleep(4500 * time.Millisecond)
		ok, err := p.SetScope(nil, []string{"("})
		require.False(t, ok)
		require.ErrorContains(t, err, "Exclude[0]")
		ok, err = p.SetScope([]string{"/$", "1"}, []string{"/1[0-4]$"})
		require.True(t, ok)
		require.NoError(t, err)
		require.NoError(t, <-ended)
		requireEnd(t, p, EndDone)
		s := p.Snapshot()
		records := w.out.byURL(t)
		require.Len(t, records, 20)
		counted := map[string]int{}
		for _, rec := range records {
			if rec.Error != nil {
				require.Zero(t, rec.Status)
				counted[rec.Error.Class]++
				require.NotEmpty(t, rec.Error.Message)
			}
		}
		require.Equal(t, len(records), net.Count("a.test", "")+counted["excluded"]+counted["not_included"])
		require.Positive(t, counted["excluded"])
		require.Positive(t, counted["not_included"])
		require.EqualValues(t, counted["excluded"], s.OutOfScope["excluded"])
		require.EqualValues(t, counted["not_included"], s.OutOfScope["not_included"])
		require.Zero(t, s.Unruled)
		ok, err = p.SetScope(nil, nil)
		require.False(t, ok, "it is over")
		require.NoError(t, err)
	})
}

// Seeds that an Exclude matches are recorded as such, and not asked for: nor is their robots.txt.
func TestExcludedSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := steerable(t, 3, "a.test", "b.test")
		cache := newWorldOn(t, fetch.Config{}).Robots
		w.Robots = cache
		var err error
		w.Scope, err = scope.New(scope.Config{MaxDepth: scope.Unlimited, Exclude: []string{"//b.test/"}})
		require.NoError(t, err)
		w.finish(t, EndDone, "http://a.test/", "http://b.test/")
		require.Zero(t, net.Count("b.test", ""))
		require.Equal(t, 4, net.Count("a.test", ""))
		require.Equal(t, scope.Excluded.String(), w.out.byURL(t)["http://b.test/"].Error.Class)
	})
}

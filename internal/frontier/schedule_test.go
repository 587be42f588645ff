package frontier

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

func TestNewMemoryNeedsPacer(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Pacer")
}

func TestAddOnce(t *testing.T) {
	f := open(t, Config{})
	for i, tc := range []struct {
		url  string
		want Added
	}{
		{"http://a.test/", Queued},
		{"http://a.test/", Seen},
		{"http://a.test/x", Queued},
		{"http://a.test/x#frag", Seen},
		{"https://a.test/", Queued},
		{"http://a.test:443/", Queued}, // one budget is one queue, however the port is written
	} {
		if got := add(t, f, start, tc.url); got != tc.want {
			t.Errorf("%d: Add(%s) = %v, want %v", i, tc.url, got, tc.want)
		}
	}
	require.Equal(t, Counts{Queued: 4, Known: 4, Hosts: 1}, f.Counts())
}

func TestBounds(t *testing.T) {
	t.Run("urls", func(t *testing.T) {
		f := open(t, Config{MaxURLs: 2})
		require.Equal(t, Queued, add(t, f, start, "http://a.test/1", "http://a.test/2"))
		require.Equal(t, Full, add(t, f, start, "http://a.test/3"))
		require.Equal(t, Seen, add(t, f, start, "http://a.test/1"))
	})
	t.Run("bytes", func(t *testing.T) {
		f := open(t, Config{MaxURLs: 4})
		long := "http://a.test/" + strings.Repeat("x", 4*usualLength)
		require.Equal(t, Queued, add(t, f, start, long))
		require.Equal(t, Full, add(t, f, start, "http://a.test/2"))
		end(f, start, next(t, f, start))
		require.Equal(t, Queued, add(t, f, start, "http://a.test/2"), "what has been fetched takes no room")
	})
	t.Run("hosts with work are kept", func(t *testing.T) {
		f := open(t, Config{MaxHosts: 1})
		require.Equal(t, Queued, add(t, f, start, "http://a.test/"))
		require.Equal(t, HostsFull, add(t, f, start, "http://b.test/"))
		end(f, start, next(t, f, start))
		require.Equal(t, Queued, add(t, f, start, "http://b.test/"), "a.test has no work left and may be forgotten")
		require.Equal(t, int64(1), f.Counts().Hosts)
		require.Equal(t, Seen, add(t, f, start, "http://a.test/"), "its URLs are not forgotten")
	})
	t.Run("pages of a host", func(t *testing.T) {
		f := open(t, Config{MaxPagesPerHost: 2})
		require.Equal(t, Queued, add(t, f, start, "http://a.test/1", "http://a.test/2"))
		require.Equal(t, HostPages, add(t, f, start, "http://a.test/3"))
		require.Equal(t, Queued, add(t, f, start, "http://b.test/1"))
	})
}

// Between a lease and its permit the limiter does not know of it yet; the frontier
// counts it ahead, and so never leases two URLs for one permit.
func TestLeaseNotYetStartedCountsAhead(t *testing.T) {
	p := newPaced()
	p.interval["a.test"], p.free["a.test"] = time.Second, start
	f := open(t, Config{Pacer: p})
	add(t, f, start, "http://a.test/1", "http://a.test/2")
	l, _ := f.Next(start)
	require.NotNil(t, l)
	wantNone(t, f, start, at(time.Second))
	p.take(l, start)
	wantNone(t, f, start, at(time.Second))
}

func TestPerHost(t *testing.T) {
	f := open(t, Config{PerHost: 2})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	one, _ := next(t, f, start), next(t, f, start)
	wantNone(t, f, start, time.Time{})
	f.Release(at(time.Second), one, time.Second, attribution.Outcome{})
	f.Release(at(time.Second), one, time.Second, attribution.Outcome{}) // a second time changes nothing
	require.NotNil(t, next(t, f, at(time.Second)))
	wantNone(t, f, at(time.Second), time.Time{})
}

// While a host fails, each failure is another URL's: an outage must not use up the tries
// of one.
func TestFailuresAreSpread(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	for i, want := range []string{"/1", "/2", "/3", "/1", "/2"} {
		now := at(time.Duration(i) * time.Minute)
		l := next(t, f, now)
		require.Equal(t, want, l.URL.Path())
		retry(f, now, l, now.Add(time.Second), attribution.Either)
	}
}

func TestRetryWaitsAndGoesFirst(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	l := next(t, f, start)
	retry(f, start, l, at(5*time.Second), attribution.Either)
	end(f, start, next(t, f, start))
	got := next(t, f, at(5*time.Second))
	require.Equal(t, "http://a.test/1", got.URL.String())
	require.Equal(t, uint8(1), got.Attempt)
	retry(f, at(5*time.Second), got, at(6*time.Second), attribution.OfHost)
	end(f, at(5*time.Second), next(t, f, at(5*time.Second)))
	wantNone(t, f, at(5*time.Second), at(6*time.Second))
	wantNone(t, f, at(6*time.Second), at(6*time.Second+quiet)) // it goes alone
	got = next(t, f, at(6*time.Second+quiet))
	require.Equal(t, uint8(1), got.Attempt, "a return spends no try")
	require.Equal(t, uint16(1), got.Returns)
	end(f, at(6*time.Second+quiet), got)
	require.True(t, f.Empty())
}

func TestEndingTwicePanics(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1")
	l := next(t, f, start)
	end(f, start, l)
	require.Panics(t, func() { f.End(start, l, Done(nil)) })
}

func TestGateAsksFirst(t *testing.T) {
	pass := Verdict{Pass: Ask}
	p := newPaced()
	p.interval["a.test"] = time.Second
	f := open(t, Config{Pacer: p, Gate: gateFunc(func(canonical.URL, time.Time) Verdict { return pass })})
	add(t, f, start, "http://a.test/1")

	l := next(t, f, start)
	require.Equal(t, Robots, l.Kind)
	require.Equal(t, "http://a.test/robots.txt", l.URL.String())
	require.Equal(t, "http://a.test", l.Origin)
	require.Equal(t, int64(1), f.Counts().Queued, "the page still waits")

	pass = Verdict{Pass: Wait, Reason: "robots.txt is being fetched"}
	wantNone(t, f, at(2*time.Second), time.Time{})
	pass = Verdict{}
	end(f, at(3*time.Second), l)
	f.Wake(at(3*time.Second), "a.test")
	require.Equal(t, "http://a.test/1", next(t, f, at(3*time.Second)).URL.String())
}

// A sitemap is queued, gated, paced, retried and counted like a page, and known like one.
func TestSitemapIsLikeAPage(t *testing.T) {
	pass := Verdict{Pass: Ask}
	f := open(t, Config{Gate: gateFunc(func(canonical.URL, time.Time) Verdict { return pass })})
	it := link(t, "http://a.test/sitemap.xml")
	it.Kind = Sitemap
	require.Equal(t, Queued, f.Add(start, it, f.Fingerprint(&it)))
	require.Equal(t, Seen, f.Add(start, it, f.Fingerprint(&it)))
	end(f, start, next(t, f, start)) // robots.txt
	pass = Verdict{}
	l := next(t, f, start)
	require.Equal(t, "sitemap", l.Kind.String())
	retry(f, start, l, at(time.Second), attribution.Either)
	wantNone(t, f, start, at(time.Second))
	pass = Verdict{Pass: Refuse, Refusal: &Refusal{Class: "robots"}}
	l = next(t, f, at(time.Second))
	require.Equal(t, Sitemap, l.Kind)
	require.NotNil(t, l.Refused)
	end(f, at(time.Second), l)
	h, _ := f.Host(start, "a.test")
	require.Zero(t, h.Pages, "it is counted apart from pages")
	require.True(t, f.Empty())
}

func TestGateWaitEnds(t *testing.T) {
	f := open(t, Config{Gate: gateFunc(func(_ canonical.URL, now time.Time) Verdict {
		if now.Before(at(time.Minute)) {
			return Verdict{Pass: Wait, Until: at(time.Minute), Reason: "robots.txt unreachable"}
		}
		return Verdict{}
	})})
	add(t, f, start, "http://a.test/1")
	wantNone(t, f, start, at(time.Minute))
	require.Equal(t, Blockage{Whole: true, Until: at(time.Minute), Ordered: true}, f.Blocked(start))
	require.Equal(t, []HostState{{
		Host: "a.test", Queued: 1, Reason: "robots.txt unreachable", Until: at(time.Minute), Blocked: true,
	}}, f.Hosts(start, 10))
	require.NotNil(t, next(t, f, at(time.Minute)))
}

func TestRobotsRedirectGoesAheadOfGateAndSeenSet(t *testing.T) {
	f := open(t, Config{Gate: gateFunc(func(canonical.URL, time.Time) Verdict { return Verdict{Pass: Wait} })})
	add(t, f, start, "http://b.test/robots.txt", "http://b.test/")
	it := link(t, "http://b.test/robots.txt")
	it.Origin = "http://a.test"
	require.True(t, f.AddRobots(start, it))
	l := next(t, f, start)
	require.Equal(t, Robots, l.Kind)
	require.Equal(t, "http://a.test", l.Origin)
}

func TestBlockedOnlyWhenAllRefuse(t *testing.T) {
	p := newPaced()
	p.why = ratelimit.LimitRetryAfter
	p.free["a.test"] = at(time.Minute)
	f := open(t, Config{Pacer: p})
	add(t, f, start, "http://a.test/1")
	wantNone(t, f, start, at(time.Minute))
	require.Equal(t, Blockage{Whole: true, Until: at(time.Minute), Ordered: true}, f.Blocked(start))

	p.why = ratelimit.LimitLearned
	p.free["c.test"] = at(2 * time.Minute)
	add(t, f, start, "http://c.test/1")
	wantNone(t, f, start, at(time.Minute))
	require.Equal(t, Blockage{}, f.Blocked(start), "c.test only keeps its pace, however slow")
}

// A host that refused and then waits at our own pace is blocked, but by no order.
func TestBlockedWithoutOrder(t *testing.T) {
	p := newPaced()
	p.interval["a.test"] = 10 * time.Minute
	f := open(t, Config{Pacer: p})
	add(t, f, start, "http://a.test/1")
	l := next(t, f, start)
	retry(f, start, l, start, attribution.OfHost)
	wantNone(t, f, start, at(10*time.Minute))
	require.Equal(t, Blockage{Whole: true, Until: at(10 * time.Minute)}, f.Blocked(start))
}

// robots.txt goes before pages whose turn came earlier: they may be waiting for it.
func TestRobotsGoesAheadOfRetries(t *testing.T) {
	pass := Verdict{}
	f := open(t, Config{Gate: gateFunc(func(canonical.URL, time.Time) Verdict { return pass })})
	add(t, f, start, "http://a.test/1")
	page := next(t, f, start)
	retry(f, start, page, start, attribution.Either)
	pass = Verdict{Pass: Ask}
	l := next(t, f, at(time.Second))
	require.Equal(t, Robots, l.Kind)
	pass = Verdict{Pass: Wait}
	unused(f, at(2*time.Second), l, false)
	require.Equal(t, Robots, next(t, f, at(2*time.Second)).Kind)
}

// A host whose lease is not acknowledged, or whose slot is not freed, must not be forgotten: a new one of its name would
// be asked beside it.
func TestHostsWithOpenLeasesAreKept(t *testing.T) {
	release := func(f *Frontier, l *Lease) { f.Release(start, l, time.Second, attribution.Outcome{}) }
	done := func(f *Frontier, l *Lease) { f.End(start, l, Done(nil)) }
	for _, steps := range [][2]func(*Frontier, *Lease){{release, done}, {done, release}} {
		f := open(t, Config{MaxHosts: 1})
		add(t, f, start, "http://a.test/1")
		l := next(t, f, start)
		steps[0](f, l)
		require.Equal(t, HostsFull, add(t, f, start, "http://b.test/1"))
		steps[1](f, l)
		require.Equal(t, Queued, add(t, f, start, "http://b.test/1"))
		require.Equal(t, HostsFull, add(t, f, start, "http://a.test/2"))
	}
}

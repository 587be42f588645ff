//go:build unix

package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// What a process puts another gets, in order, by the same IDs, once.
func TestFromOneToAnother(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1", "http://a.test/2", "http://b.test/1", "http://a.test/1")
	flush(t, a)
	put(t, b, "http://a.test/2", "http://a.test/3")
	got := activate(t, b, 10)
	require.Equal(t, []string{"a.test", "b.test"}, names(got))
	require.Equal(t, 3, got.Hosts[0].Queued)
	require.Equal(t, 3, got.Hosts[0].Pages)
	require.EqualValues(t, 1, b.counts.duplicates.Load())
	urls, first := load(t, b, "a.test", 2)
	require.Equal(t, []string{"http://a.test/1", "http://a.test/2"}, urls)
	require.Equal(t, 1, first.Left)
	require.Less(t, first.Items[0].ID, first.Items[1].ID)

	none := activate(t, a, 10)
	require.Empty(t, none.Hosts)
	require.False(t, none.Complete)
	urls, _ = load(t, a, "a.test", 2)
	require.Empty(t, urls, "of a host that is not ours")

	visit(b, &first.Items[0])
	b.Deactivate("a.test", time.Time{})
	require.Equal(t, []string{"a.test"}, names(activate(t, b, 10)))
	urls, again := load(t, b, "a.test", 9)
	require.Equal(t, []string{"http://a.test/2", "http://a.test/3"}, urls)
	require.Equal(t, first.Items[1].ID, again.Items[0].ID)
}

// The crawl is complete when the last URL of any process is done.
func TestComplete(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	require.False(t, activate(t, b, 1).Complete)
	_, got := load(t, a, "a.test", 1)
	put(t, a, "http://b.test/1") // found on it, and told first
	visit(a, &got.Items[0])
	flush(t, a)
	require.Equal(t, []string{"b.test"}, names(activate(t, b, 1)))
	require.False(t, activate(t, a, 1).Complete)
	_, got = load(t, b, "b.test", 1)
	visit(b, &got.Items[0])
	flush(t, b)
	require.True(t, activate(t, a, 1).Complete)
	require.True(t, activate(t, b, 1).Complete)
}

// A process dies: what it had goes to another when its lease has ended and the pause is over
// that the host's rate demands, by the server's clock and no earlier; with what was known.
func TestDeath(t *testing.T) {
	r := newRig(t)
	var recalled []ratelimit.HostMemory
	a := r.open(func(c *Config) {
		c.Remember = func(host string) (ratelimit.HostMemory, time.Duration, bool) {
			return ratelimit.HostMemory{
				Domain: host, LastUsed: r.clk.Now().Add(-time.Second), Learned: ratelimit.Learned{Rate: 0.5, Pause: 3 * time.Second},
				HeldUntil: noon.Add(-time.Hour),
			}, 2 * time.Second, true
		}
	})
	b := r.open(func(c *Config) { c.Recall = func(m ratelimit.HostMemory) { recalled = append(recalled, m) } })
	put(t, a, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	require.Equal(t, []string{"a.test"}, names(activate(t, a, 1)))
	_, got := load(t, a, "a.test", 2)
	visit(a, &got.Items[0])
	learn(a, "a.test")
	flush(t, a)
	die(a)

	// Only b's own leases are renewed when its clock is moved, and it has none.
	r.clk.Advance(r.cfg.Lease - time.Millisecond)
	require.Empty(t, activate(t, b, 1).Hosts, "before the lease has ended")
	r.clk.Advance(2 * time.Millisecond)
	none := activate(t, b, 1)
	require.Empty(t, none.Hosts, "the host was asked until just now, perhaps, and every two seconds")
	require.Equal(t, 2*time.Second-time.Millisecond, none.Next)
	r.clk.Advance(none.Next - time.Millisecond)
	require.Empty(t, activate(t, b, 1).Hosts)
	r.clk.Advance(time.Millisecond)
	require.Equal(t, []string{"a.test"}, names(activate(t, b, 1)))
	urls, _ := load(t, b, "a.test", 9)
	require.Equal(t, []string{"http://a.test/2", "http://a.test/3"}, urls)
	require.Len(t, recalled, 1)
	require.Equal(t, ratelimit.Learned{Rate: 0.5, Pause: 3 * time.Second}, recalled[0].Learned)
	require.Equal(t, noon.UnixMilli(), recalled[0].LastUsed.UnixMilli(), "when the last request was over")
	require.False(t, recalled[0].HeldUntil.IsZero(), "the trial is still due")
	require.NoError(t, recalled[0].Validate())
}

// An order to wait outlives the process that got it.
func TestDeathInARetryAfter(t *testing.T) {
	r := newRig(t)
	a := r.open(remembers(0, func() ratelimit.HostMemory {
		return ratelimit.HostMemory{LastUsed: r.clk.Now(), RetryUntil: noon.Add(time.Minute)}
	}))
	b := r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	learn(a, "a.test")
	flush(t, a)
	die(a)
	r.clk.Advance(time.Minute - time.Millisecond)
	activate(t, b, 1) // takes it back
	require.Empty(t, activate(t, b, 1).Hosts)
	r.clk.Advance(time.Millisecond)
	require.Equal(t, []string{"a.test"}, names(activate(t, b, 1)))
}

// The gap to the next holder is counted from the end of a request, as it may have reached its
// host long after it was let go.
func TestGapFromTheEndOfARequest(t *testing.T) {
	r := newRig(t)
	a := r.open(remembers(time.Second, func() ratelimit.HostMemory { return ratelimit.HostMemory{LastUsed: noon} }))
	b := r.open()
	put(t, a, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	for _, over := range []func(it *frontier.Item){
		func(it *frontier.Item) { a.Done(it.URL.Host(), it, frontier.Visit{}) },
		func(it *frontier.Item) { a.Spent(it.URL.Host(), it) },
	} {
		require.Len(t, activate(t, a, 1).Hosts, 1)
		_, got := load(t, a, "a.test", 1)
		r.clk.Advance(3 * time.Second) // until it is answered
		over(&got.Items[0])
		r.clk.Advance(400 * time.Millisecond)
		a.Deactivate("a.test", time.Time{})
		flush(t, a)
		none := activate(t, b, 1)
		require.Empty(t, none.Hosts)
		require.Equal(t, 600*time.Millisecond, none.Next)
		r.clk.Advance(none.Next)
	}
}

// remembers has a process know so much of each host, whose requests keep a gap.
func remembers(gap time.Duration, m func() ratelimit.HostMemory) func(*Config) {
	return func(c *Config) {
		c.Remember = func(host string) (ratelimit.HostMemory, time.Duration, bool) {
			known := m()
			known.Domain = host
			return known, gap, true
		}
	}
}

// Of a host that has never refused no rate is known, and yet its pace is kept by the next
// holder, however the one before went.
func TestGapWithoutARate(t *testing.T) {
	for name, end := range map[string]func(*Store){
		"closed": func(s *Store) { _ = s.Close() },
		"died":   die,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a := r.open(remembers(1500*time.Millisecond+1, func() ratelimit.HostMemory { return ratelimit.HostMemory{LastUsed: r.clk.Now()} }))
			b := r.open()
			put(t, a, "http://a.test/1")
			activate(t, a, 1)
			learn(a, "a.test")
			flush(t, a)
			wait := activate(t, b, 1).Next
			require.Equal(t, r.cfg.Lease+time.Millisecond, wait, "when the session of a ends, if it does")
			end(a)
			if name == "died" {
				r.clk.Advance(wait)
			}
			none := activate(t, b, 1)
			require.Empty(t, none.Hosts)
			require.InDelta(t, 1501*time.Millisecond, none.Next, float64(2*time.Millisecond))
			r.clk.Advance(none.Next - time.Millisecond)
			require.Empty(t, activate(t, b, 1).Hosts)
			r.clk.Advance(time.Millisecond)
			require.Equal(t, []string{"a.test"}, names(activate(t, b, 1)))
		})
	}
}

// A host that is given back is not asked before it might have been here.
func TestGive(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	load(t, a, "a.test", 1)
	a.Deactivate("a.test", noon.Add(1500*time.Millisecond))
	require.Nil(t, tenureOf(a, "a.test"))
	flush(t, a)
	require.Equal(t, 1500*time.Millisecond, activate(t, b, 1).Next)
	r.clk.Advance(1500 * time.Millisecond)
	require.Equal(t, []string{"a.test"}, names(activate(t, b, 1)))
	require.Zero(t, a.Figures().Loaded)
}

// Who was thought dead and is not has lost its hosts: nothing that it still tells changes anything, and it hears so.
func TestStaleToken(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	got := own(t, a, 2, "http://a.test/1", "http://a.test/2")
	// The server's clock alone goes on.
	server := noon.Add(r.cfg.Lease + time.Millisecond)
	b.cfg.now = func() int64 { return server.UnixMilli() }
	activate(t, b, 1)
	server = server.Add(time.Second)
	require.Equal(t, []string{"a.test"}, names(activate(t, b, 1)))

	visit(a, &got.Items[0])
	a.Spent(got.Items[1].URL.Host(), &got.Items[1])
	a.Deactivate("a.test", time.Time{})
	flush(t, a)
	require.EqualValues(t, 1, a.counts.stale.Load())
	require.Zero(t, a.counts.done.Load())
	urls, _ := load(t, b, "a.test", 9)
	require.Equal(t, []string{"http://a.test/1", "http://a.test/2"}, urls)

	put(t, a, "http://b.test/")
	activate(t, a, 1)
	a.Load("b.test", frontier.Place{}, 1)
	next(t, a)
	server = server.Add(time.Hour)
	require.Equal(t, []string{"b.test"}, names(activate(t, b, 9)))
	urls, _ = load(t, a, "b.test", 1)
	require.Empty(t, urls)
	require.Nil(t, a.find("b.test"), "and it is lost")
}

// When the leases cannot be renewed the process knows by its own clock, and earlier than the server:
// what is under way is cut off and the frontier told.
func TestLapse(t *testing.T) {
	r := newRig(t)
	a := r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	held := tenureOf(a, "a.test")
	require.False(t, held.Over(noon.Add(r.cfg.Lease*3/4-1)))
	require.True(t, held.Over(noon.Add(r.cfg.Lease*3/4)))
	a.link.Close() // nothing reaches the server any more
	r.clk.BlockUntil(2)
	r.clk.Advance(r.cfg.Lease*3/4 - time.Millisecond)
	require.NoError(t, held.Err())
	require.Eventually(t, func() bool {
		r.clk.Advance(time.Millisecond)
		return held.Err() != nil
	}, redistest.Patience, time.Millisecond)
	require.ErrorIs(t, context.Cause(held), context.Canceled)
	require.Nil(t, tenureOf(a, "a.test"))
	var n frontier.Update
	for len(n.Lost) == 0 {
		n = (<-a.Answers()).Update()
	}
	require.Equal(t, []frontier.HostLeft{{Name: "a.test", Lease: 1}}, n.Lost)
	require.EqualValues(t, 1, a.counts.lost.Load())
	die(a)
}

// As long as the process is well its leases go on.
func TestRenewal(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	for range 10 {
		end := r.clk.Now().Add(r.cfg.Lease * 3 / 4)
		r.clk.BlockUntil(4) // both wait to renew, and look for the end of their leases
		r.clk.Advance(r.cfg.Lease / 3)
		require.Eventually(t, func() bool { return !tenureOf(a, "a.test").Over(end) }, redistest.Patience, time.Millisecond)
	}
	require.Empty(t, activate(t, b, 1).Hosts)
	require.NoError(t, tenureOf(a, "a.test").Err())
}

// A process that closes gives all back at once, with what it had loaded.
func TestCloseGivesBack(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1", "http://b.test/1")
	activate(t, a, 2)
	load(t, a, "a.test", 1)
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.ElementsMatch(t, []string{"a.test", "b.test"}, names(activate(t, b, 9)))
	st := r.status()
	require.Len(t, st.Workers, 1)
	require.EqualValues(t, 2, st.Owned)
}

// A process that gets nothing has the others told, until one of them gives something.
func TestWanted(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1", "http://b.test/1")
	require.Len(t, activate(t, a, 2).Hosts, 2)
	require.Empty(t, activate(t, b, 1).Hosts)
	poorest := -1
	wanted := func() []string {
		a.Load("a.test", frontier.Place{}, 1)
		_, news := next(t, a) // news stand before the answer with which they came
		if len(news) == 0 {
			return nil
		}
		poorest = news[0].Poorest
		return news[0].Wanted
	}
	require.ElementsMatch(t, []string{"a.test", "b.test"}, wanted())
	require.Zero(t, poorest)
	c := r.open()
	put(t, c, "http://c.test/1")
	require.Equal(t, []string{"c.test"}, names(activate(t, c, 1)))
	require.Empty(t, activate(t, c, 1).Hosts)
	require.NotEmpty(t, wanted())
	require.Zero(t, poorest, "of two it is who has fewer")
	for _, has := range []int{0, 1} { // who had none has not said so for long, though the other still asks
		r.clk.Advance(2600 * time.Millisecond)
		require.Empty(t, activate(t, c, 1).Hosts)
		require.NotEmpty(t, wanted())
		require.Equal(t, has, poorest)
	}
	r.clk.Advance(6 * time.Second)
	require.Empty(t, wanted(), "nobody has said so again")
	require.Empty(t, activate(t, c, 1).Hosts)
	require.NotEmpty(t, wanted())
	require.Equal(t, 1, poorest)
	a.Deactivate("b.test", time.Time{})
	flush(t, a)
	require.Empty(t, wanted())
	require.Equal(t, []string{"b.test"}, names(activate(t, b, 1)))
}

// The owner of a host hears of URLs that others find for it.
func TestOthersFindURLs(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	load(t, a, "a.test", 9)
	put(t, b, "http://a.test/2")
	flush(t, b)
	learn(a, "a.test") // says nothing, as there is no limiter
	a.Load("a.test", frontier.Place{}, 1)
	_, news := next(t, a)
	require.Len(t, news, 1)
	require.Equal(t, []frontier.HostLeft{{Name: "a.test"}}, news[0].Grown)
	put(t, a, "http://a.test/3") // and of its own
	flush(t, a)
	require.Equal(t, []frontier.HostLeft{{Name: "a.test", Queued: 1}}, (<-a.Answers()).Update().Grown)
}

// While nobody takes answers, news wait as one answer, with each lost host, and nothing else waits for them.
func TestNewsThatNobodyTakes(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	own(t, a, 1, "http://a.test/1", "http://b.test/1")
	require.Equal(t, []string{"b.test"}, names(activate(t, a, 1)))
	require.Empty(t, activate(t, b, 1).Hosts)
	for range 2 * cap(a.Answers()) { // each reply says that b wants hosts
		require.NoError(t, a.renew(t.Context()))
	}
	for i := range 3 {
		put(t, a, fmt.Sprintf("http://a.test/a%d", i))
		put(t, b, fmt.Sprintf("http://b.test/b%d", i))
		flush(t, a)
		flush(t, b)
		require.NoError(t, a.renew(t.Context()))
	}
	a.loseHost(a.find("b.test"))
	require.Len(t, a.Answers(), 1)
	n := (<-a.Answers()).Update()
	require.Equal(t, []string{"a.test"}, n.Wanted)
	require.Equal(t, []frontier.HostLeft{{Name: "a.test", Queued: 3}}, n.Grown)
	require.Equal(t, []frontier.HostLeft{{Name: "b.test", Lease: 2}}, n.Lost)
	a.loseHost(a.find("a.test"))
	require.Len(t, (<-a.Answers()).Update().Lost, 1, "what comes later is an answer of its own")
	for range cap(a.Answers()) {
		require.NoError(t, a.renew(t.Context()))
	}
	require.NoError(t, a.Close())
}

// Ranks go before the order in which URLs were found; of very many the last are one.
func TestRanks(t *testing.T) {
	r := newRig(t)
	a := r.open()
	for i, rank := range []int32{5, -3, 5, 0, -2147483648, 2147483647} {
		it := item(t, "http://a.test/"+string(rune('a'+i)))
		it.Rank = rank
		a.Put("a.test", it, it.URL.Fingerprint(7), true)
	}
	activate(t, a, 1)
	urls, got := load(t, a, "a.test", 5)
	require.Equal(t, []string{"http://a.test/e", "http://a.test/b", "http://a.test/d", "http://a.test/a", "http://a.test/c"}, urls)
	require.Equal(t, 1, got.Left)
	require.EqualValues(t, -2147483648, got.Items[0].Rank)
	for i := range 200 {
		it := item(t, "http://b.test/"+decimal(int64(i)))
		it.Rank = int32(i * 7 % 200)
		a.Put("b.test", it, it.URL.Fingerprint(7), true)
	}
	activate(t, a, 1)
	urls, got = load(t, a, "b.test", 256)
	require.Len(t, urls, 200)
	require.Zero(t, got.Left)
}

// Pages of a host count for its bound, whatever else of it is known; one that is refused makes
// room for another, also for one that was found when there was none.
func TestBoundCountsPages(t *testing.T) {
	r := newRig(t)
	a := r.open(func(c *Config) { c.MaxPagesPerHost = 2 })
	for _, url := range []string{"http://a.test/map1", "http://a.test/map2", "http://a.test/map3"} {
		it := item(t, url)
		it.Kind = frontier.Sitemap
		a.Put("a.test", it, it.URL.Fingerprint(a.Key()), true)
	}
	put(t, a, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	flush(t, a)
	require.EqualValues(t, 1, a.counts.refused.Load())
	third := item(t, "http://a.test/3").URL.Fingerprint(a.Key())
	require.Equal(t, 5, activate(t, a, 1).Hosts[0].Pages, "all that is known")
	urls, got := load(t, a, "a.test", 9)
	require.Len(t, urls, 5)
	done := func(i int, refused bool) {
		a.Done(got.Items[i].URL.Host(), &got.Items[i], frontier.Visit{Refused: refused})
		flush(t, a)
	}
	done(0, true) // a sitemap
	done(3, false)
	put(t, a, "http://a.test/3", "http://a.test/4")
	flush(t, a)
	require.EqualValues(t, 3, a.counts.refused.Load())
	require.False(t, a.Known(third), "there may be room for it later")
	done(4, true)
	put(t, a, "http://a.test/3", "http://a.test/5")
	flush(t, a)
	urls, _ = load(t, a, "a.test", 9)
	require.Equal(t, []string{"http://a.test/3"}, urls)
	require.EqualValues(t, 4, a.counts.refused.Load())
}

// A URL keeps the tries that it has spent.
func TestSpent(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	got := own(t, a, 1, "http://a.test/1")
	it := got.Items[0]
	it.Attempt, it.URLFailures, it.Returns = 2, 1, 300
	a.Spent(it.URL.Host(), &it)
	a.Deactivate("a.test", time.Time{})
	flush(t, a)
	activate(t, b, 1)
	_, got = load(t, b, "a.test", 1)
	require.Equal(t, it, got.Items[0])
}

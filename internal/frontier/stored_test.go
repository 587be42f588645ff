package frontier_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/frontier/frontiertest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

type stored struct {
	*testing.T
	*frontier.Frontier
	store *frontiertest.Naive
}

func newStored(t *testing.T, cfg frontier.Config) *stored {
	t.Helper()
	s := &stored{T: t, store: frontiertest.NewNaive()}
	s.reopen(cfg, frontier.Left{})
	return s
}

func (s *stored) reopen(cfg frontier.Config, left frontier.Left) {
	s.Helper()
	if cfg.Pacer == nil {
		cfg.Pacer = always{}
	}
	cfg.Store, cfg.Left, cfg.Resident = s.store, left, cmp.Or(cfg.Resident, 1)
	var err error
	s.Frontier, err = frontier.New(cfg)
	require.NoError(s, err)
}

func urlOf(t *testing.T, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

func (s *stored) add(url string, rank int32) frontier.Added {
	it := frontier.Item{URL: urlOf(s.T, url), Rank: rank}
	defer s.Prove()
	return s.Add(noon, it, s.Fingerprint(&it))
}

func (s *stored) lease(now time.Time) *frontier.Lease {
	s.Helper()
	l, wake := s.Next(now)
	require.NotNil(s, l, "until %v: %+v", wake, s.Hosts(now, 9))
	return l
}

func (s *stored) end(now time.Time, l *frontier.Lease) {
	s.Release(now, l, time.Millisecond, attribution.Outcome{})
	s.End(now, l, frontier.Done(nil))
}

// answer takes in all answers that are there, and reports whether there were any.
func (s *stored) answer(now time.Time) (some bool) {
	for {
		a, ok := s.store.Answer()
		if !ok {
			return some
		}
		some = true
		require.NoError(s, s.Take(now, a))
	}
}

// drain visits all that is left, and returns how often each URL was leased.
func (s *stored) drain(now time.Time) map[string]int {
	times := map[string]int{}
	for range 10_000 {
		if l, wake := s.Next(now); l != nil {
			times[l.URL.String()]++
			s.end(now, l)
		} else if wake.After(now) {
			now = wake
		}
		s.answer(now)
		if c := s.Counts(); c.Queued+c.Leased == 0 {
			require.Zero(s, s.Bytes())
			return times
		}
	}
	s.Fatalf("it does not drain: %+v, %+v", s.Counts(), s.Hosts(now, 9))
	return nil
}

// A URL that is done while an answer that still has it is under way stays done.
func TestDoneWhileItsHostLoads(t *testing.T) {
	s := newStored(t, frontier.Config{PerHost: 8})
	s.add("http://a.test/out", 5)
	out := s.lease(noon)
	for i := range 6 { // better ones: the place in memory ends before the one that is out
		s.add(fmt.Sprintf("http://a.test/%d", i), 0)
	}
	a, b, c := s.lease(noon), s.lease(noon), s.lease(noon) // and the host asks for more
	s.end(noon, out)
	s.answer(noon)
	for _, l := range []*frontier.Lease{a, b, c} {
		s.end(noon, l)
	}
	require.NotContains(t, s.drain(noon), "http://a.test/out")
}

// robots.txt may move to a host of which URLs are inactive, and to one that nobody knows.
func TestRobotsMoveToAnInactiveHost(t *testing.T) {
	s := newStored(t, frontier.Config{MaxHosts: 1})
	for i := range 3 {
		s.add(fmt.Sprintf("http://a.test/%d", i), 0)
		s.add(fmt.Sprintf("http://b.test/%d", i), 0)
	}
	for _, host := range []string{"b.test", "c.test"} {
		require.True(t, s.AddRobots(noon, frontier.Item{URL: urlOf(t, "http://"+host+"/robots.txt"), Origin: "http://a.test"}))
	}
	s.add("http://b.test/late", 0)
	times := s.drain(noon)
	require.Len(t, times, 9)
	for url, n := range times {
		require.Equal(t, 1, n, url)
	}
}

// What robots.txt refuses is none of the pages of its host, before a restart and after.
func TestRefusedURLsAreNoPagesOfTheBudget(t *testing.T) {
	cfg := frontier.Config{MaxPagesPerHost: 10, Gate: forbids("/no")}
	s := newStored(t, cfg)
	for i := range 8 {
		require.Equal(t, frontier.Queued, s.add(fmt.Sprintf("http://a.test/no%d", i), 0))
	}
	for range 8 {
		l := s.lease(noon)
		require.Equal(t, &frontier.Refusal{Class: "robots"}, l.Refused)
		s.End(noon, l, frontier.Done(nil))
		s.answer(noon)
	}
	for i := range 10 {
		require.Equal(t, frontier.Queued, s.add(fmt.Sprintf("http://a.test/%d", i), 0))
	}
	require.Equal(t, frontier.HostPages, s.add("http://a.test/10", 0))
	s.reopen(cfg, s.store.Reopen())
	require.Len(t, s.drain(noon), 10)
	require.Equal(t, frontier.HostPages, s.add("http://a.test/10", 0))
}

// Of a host that was found beyond its budget while it was inactive the last URLs go. What is
// refused meanwhile makes room for as many.
func TestBudgetOfAnInactiveHost(t *testing.T) {
	s := newStored(t, frontier.Config{MaxHosts: 1, MaxPagesPerHost: 10, Gate: forbids("/no")})
	s.add("http://a.test/", 0)
	for _, page := range []string{"no1", "no2", "no3"} {
		s.add("http://b.test/"+page, 0)
	}
	for i := range 15 {
		s.add(fmt.Sprintf("http://b.test/%d", i), 0)
	}
	times := s.drain(noon)
	require.Len(t, times, 1+3+10)
	require.Contains(t, times, "http://b.test/9")
	refused := 0
	for _, u := range s.store.URLs {
		if u.Refused {
			refused++
		}
	}
	require.Equal(t, 3+5, refused, "they are no pages of the host when the crawl goes on")
}

// What is no page does not count for the budget of a host, whenever the host is looked at.
func TestSitemapsAreNoPagesOfTheBudget(t *testing.T) {
	cfg := frontier.Config{MaxHosts: 1, MaxPagesPerHost: 10}
	s := newStored(t, cfg)
	s.add("http://a.test/", 0)
	sitemaps := func(from, to int) {
		for i := from; i < to; i++ {
			it := frontier.Item{URL: urlOf(t, fmt.Sprintf("http://b.test/s%d", i)), Kind: frontier.Sitemap, Rank: int32(i % 3)}
			require.Equal(t, frontier.Queued, s.Add(noon, it, s.Fingerprint(&it)))
		}
	}
	sitemaps(0, 7)
	for i := range 12 { // beyond the budget, as the host is inactive
		s.add(fmt.Sprintf("http://b.test/%d", i), 1)
	}
	require.Len(t, s.drain(noon), 1+7+10)

	sitemaps(7, 9)
	cfg.MaxHosts = 2
	s.reopen(cfg, s.store.Reopen())
	sitemaps(9, 20)
	require.Len(t, s.drain(noon), 13)
	s.reopen(cfg, s.store.Again())
	require.Len(t, s.drain(noon), 1+20+10, "another round has as many pages")
	require.Equal(t, frontier.HostPages, s.add("http://b.test/more", 0))
}

// In another round, what robots.txt refused in the one before takes nobody's place if it is refused again. If it is
// not, the bound holds all the same.
func TestBudgetOfAnotherRound(t *testing.T) {
	cfg := frontier.Config{MaxPagesPerHost: 10, Gate: forbids("/no")}
	s := newStored(t, cfg)
	for i := range 5 {
		s.add(fmt.Sprintf("http://a.test/no%d", i), 0)
		s.add(fmt.Sprintf("http://a.test/%d", i), 0)
	}
	s.drain(noon)
	for i := range 9 {
		s.add(fmt.Sprintf("http://a.test/%d", i), 0)
	}
	s.drain(noon)
	for round, tc := range []struct {
		gate  string
		pages []string
		more  frontier.Added
	}{
		{"/no", []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"}, frontier.Queued},
		{"/nothing", []string{"no0", "0", "no1", "1", "no2", "2", "no3", "3", "no4", "4"}, frontier.HostPages},
	} {
		cfg.Resident, cfg.Gate = 64, forbids(tc.gate)
		s.reopen(cfg, s.store.Again())
		times := s.drain(noon)
		for _, page := range tc.pages {
			require.Contains(t, times, "http://a.test/"+page)
		}
		require.LessOrEqual(t, len(times), 5+9)
		require.Equal(t, tc.more, s.add(fmt.Sprintf("http://a.test/more%d", round), 0), tc.gate)
		s.drain(noon)
	}
}

// forbids is a gate that refuses URLs that hold it.
type forbids string

func (g forbids) Check(it *frontier.Item, _ time.Time) frontier.Verdict {
	if strings.Contains(it.URL.Path(), string(g)) {
		return frontier.Verdict{Pass: frontier.Refuse, Refusal: &frontier.Refusal{Class: "robots"}}
	}
	return frontier.Verdict{}
}

// An outage does not bring a whole host into memory, URL by URL.
func TestURLsThatWaitForAnotherTryAreBounded(t *testing.T) {
	s := newStored(t, frontier.Config{Resident: 64})
	for i := range 3000 {
		require.Equal(t, frontier.Queued, s.add(fmt.Sprintf("http://a.test/%d", i), 0))
	}
	tries := 0
	for l, _ := s.Next(noon); l != nil; l, _ = s.Next(noon) {
		tries++
		s.Release(noon, l, time.Millisecond, attribution.Outcome{})
		s.End(noon, l, frontier.RetryAt(noon.Add(time.Hour), attribution.Again(l.Tries, attribution.Either)))
		s.answer(noon)
	}
	require.InDelta(t, 1024+64, tries, 64)
	require.Len(t, s.drain(noon.Add(time.Hour)), 3000)
}

// An answer that comes after better URLs have moved the bound is of no use any more.
func TestBetterURLsWhileTheirHostLoads(t *testing.T) {
	s := newStored(t, frontier.Config{PerHost: 99})
	for i := range 6 {
		s.add(fmt.Sprintf("http://a.test/late%d", i), 5)
	}
	for range 3 { // and the host asks for more behind the fourth
		s.lease(noon)
	}
	for i := range 4 { // of which the last sends the fourth back
		s.add(fmt.Sprintf("http://a.test/early%d", i), 0)
	}
	s.answer(noon)
	var order []string
	for range 7 {
		order = append(order, s.lease(noon).URL.Path())
		s.answer(noon)
	}
	require.Equal(t, []string{"/early0", "/early1", "/early2", "/early3", "/late3", "/late4", "/late5"}, order)
}

func TestLaw(t *testing.T) {
	t.Run("memory", func(t *testing.T) { frontiertest.Law(t, nil) })
	t.Run("store", func(t *testing.T) {
		frontiertest.Law(t, func(*rapid.T) frontiertest.Backend { return frontiertest.NewNaive() })
	})
}

func TestBound(t *testing.T) {
	t.Run("memory", func(t *testing.T) { frontiertest.Bound(t, nil) })
	t.Run("store", func(t *testing.T) {
		frontiertest.Bound(t, func(*rapid.T, int) frontiertest.Backend { return frontiertest.NewNaive() })
	})
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type always struct{}

func (always) ReadyAt(string, int, int) (time.Time, ratelimit.Limit) {
	return time.Time{}, ratelimit.LimitNone
}

// What was put and does not come back is no crawl to go on with.
func TestStoreThatLosesURLs(t *testing.T) {
	s := frontiertest.NewNaive()
	f, err := frontier.New(frontier.Config{Pacer: always{}, Store: s, Resident: 1})
	require.NoError(t, err)
	for i := range 20 {
		u, err := canonical.Parse(fmt.Sprintf("http://a.test/%d", i))
		require.NoError(t, err)
		it := frontier.Item{URL: u}
		require.Equal(t, frontier.Queued, f.Add(noon, it, f.Fingerprint(&it)))
	}
	clear(s.URLs)
	f.Prove()
	for range 3 { // of the four in memory: half of them are gone then
		l, _ := f.Next(noon)
		require.NotNil(t, l)
	}
	a, ok := s.Answer()
	require.True(t, ok)
	require.EqualError(t, f.Take(noon, a), "16 URLs of a.test are not where they were put")

	f, err = frontier.New(frontier.Config{Pacer: always{}, Store: s, Left: frontier.Left{Queued: 3, Known: 3, LastID: 3}})
	require.NoError(t, err)
	_, _ = f.Next(noon)
	a, ok = s.Answer()
	require.True(t, ok)
	require.EqualError(t, f.Take(noon, a), "3 URLs of hosts that had no room are not where they were put")
}

// A store asks for a pause while as many calls wait as may, passes them on in order, at the latest when the first has
// waited for long enough, hands answers over to who takes them, and fails once.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c frontier.Calls[int]
		c.Begin(clock.System(), time.Second, 2, 3)
		type taken struct {
			calls     []int
			due, last bool
			after     time.Duration
		}
		var mu sync.Mutex // guards what follows
		var all []taken
		var again time.Duration
		begun, ended := time.Now(), make(chan error)
		go func() {
			ended <- c.Run(func(calls []int, due, last bool) (time.Duration, error) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, taken{slices.Clone(calls), due, last, time.Since(begun)})
				c.Stored(len(calls))
				return again, nil
			})
		}()
		step := func(d time.Duration, want ...taken) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, want, all)
			all = nil
		}
		ask := func(wait time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			again = wait
		}
		require.True(t, c.Add(false, 1))
		require.Nil(t, c.Room())
		step(time.Second / 2)
		require.True(t, c.Add(false, 2))
		require.False(t, c.Ready())
		room := c.Room()
		n, limit := c.Pending()
		require.Equal(t, [2]int64{2, 2}, [2]int64{n, limit})
		step(time.Second/2, taken{[]int{1, 2}, true, false, time.Second})
		<-room
		require.True(t, c.Add(false, 3, 4, 5), "no call is refused")
		step(0, taken{[]int{3, 4, 5}, false, false, time.Second})
		ask(10 * time.Second)
		require.True(t, c.Add(true, 6))
		step(2*time.Second, taken{[]int{6}, false, false, time.Second})
		require.True(t, c.Add(false, 7)) // does not wait for that
		step(time.Second, taken{[]int{7}, true, false, 4 * time.Second})
		ask(0)
		step(time.Minute, taken{[]int{}, true, false, 14 * time.Second})
		c.NoMore()
		require.False(t, c.Add(false, 8))
		require.NoError(t, <-ended)
		step(0, taken{[]int{}, false, true, 64 * time.Second})

		done := make(chan struct{})
		require.True(t, c.Answer(done, frontier.Answer{Host: "a.test"}))
		require.Equal(t, "a.test", (<-c.Answers()).Host)
		for range cap(c.Answers()) {
			require.True(t, c.Answer(done, frontier.Answer{}))
		}
		close(done)
		require.False(t, c.Answer(done, frontier.Answer{}))
		require.NoError(t, c.Err())
		require.True(t, c.Fail(frontier.ErrTooManyExcluded))
		require.False(t, c.Fail(nil))
		<-c.Failed()
		require.ErrorIs(t, c.Err(), frontier.ErrTooManyExcluded)
		require.False(t, c.Add(false, 9))
	})
}

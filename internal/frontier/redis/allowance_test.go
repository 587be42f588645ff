//go:build unix

package redis

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

func use(t testing.TB, s *Store, used, n int) (now int, last bool) {
	t.Helper()
	for now = used; now < used+n; {
		most, last := s.Pages(now)
		switch {
		case now < most:
			now++
		case last:
			return now, true
		default:
			select {
			case <-s.Changed():
			case <-s.Failed():
				t.Fatal(s.Err())
			case <-time.After(redistest.Patience):
				t.Fatal("no news")
			}
		}
	}
	return now, false
}

func pagesOf(n int64) func(*Config) { return func(c *Config) { c.MaxPages = n } }

// However many processes ask, and in whatever order, the job has its pages, and not one more.
func TestPagesOfAllProcesses(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, p redistest.Program) {
		server := p.Shared(t)
		r := rigOn(t, server.Addr)
		const plan = 1000
		var all sync.WaitGroup
		used := make([]int, 3)
		for i := range used {
			s := r.open(pagesOf(plan))
			all.Go(func() {
				for last := false; !last; {
					used[i], last = use(t, s, used[i], 1+i*7)
					if used[i]%50 == 0 {
						server.Do(t, "SCRIPT", "FLUSH")
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, plan, used[0]+used[1]+used[2])
		late, last := use(t, r.open(pagesOf(plan)), 0, 1)
		require.Zero(t, late)
		require.True(t, last, "one who comes later has none")
	})
}

// What was not used is others' when a process leaves. What one that is killed had drawn is
// lost to the job, and that is little.
func TestPagesOfThoseWhoLeave(t *testing.T) {
	r := newRig(t)
	const plan = 2000
	a, b := r.open(pagesOf(plan)), r.open(pagesOf(plan))
	first, _ := use(t, a, 0, 100)
	a.Pages(first - 5) // came back unfetched
	require.NoError(t, a.Close())
	second, _ := use(t, b, 0, 200)
	flush(t, b) // a draw under way would be lost as well
	b.pages.mu.Lock()
	require.False(t, b.pages.asked)
	lost := int(b.pages.drawn) - second
	b.pages.mu.Unlock()
	require.LessOrEqual(t, lost, 2*(plan/drawPart+1))
	die(b)
	c := r.open(pagesOf(plan))
	third, last := use(t, c, 0, plan)
	require.True(t, last)
	require.Equal(t, plan, first-5+second+lost+third)
	st := r.status()
	require.Empty(t, st.Budgets, "the terms have none")
}

// A draw whose answer was lost is the same when it is repeated.
func TestDrawIsIdempotent(t *testing.T) {
	r := newRig(t)
	s := r.open(pagesOf(100))
	use(t, s, 0, 1)
	draw := func(request, n, back string) (got, left int64) {
		reply, err := s.link.one(t.Context(), &call{
			script: scriptDraw, keys: []string{jobKey(r.cfg.Job, "job"), jobKey(r.cfg.Job, "other")},
			args: s.args("w", request, maxPages, "100", n, back),
		})
		require.NoError(t, err)
		return number(reply[0]), number(reply[1])
	}
	for range 2 {
		got, left := draw("1", "30", "0")
		require.Equal(t, []int64{30, 70}, []int64{got, left})
	}
	for range 2 {
		got, left := draw("2", "90", "10")
		require.Equal(t, []int64{80, 0}, []int64{got, left})
	}
}

// A budget of a host counts the URLs that whoever has found, once each, and goes with it.
func TestBudgetsOfHosts(t *testing.T) {
	r := newRig(t)
	calendar := func(c *Config) {
		c.Budget = func(url string) (int, int) {
			if len(url) > len("http://a.test/cal") && url[len("http://a.test"):][:4] == "/cal" {
				return 1, 5
			}
			return 0, 0
		}
	}
	a, b := r.open(calendar), r.open(calendar)
	for i := range 4 {
		put(t, a, fmt.Sprintf("http://a.test/cal/%d", i), fmt.Sprintf("http://b.test/cal/%d", i))
		put(t, b, fmt.Sprintf("http://a.test/cal/%d", i), fmt.Sprintf("http://a.test/%d", i))
	}
	flush(t, a)
	flush(t, b)
	require.EqualValues(t, 12, a.counts.added.Load()+b.counts.added.Load(), "4 of each host and 4 that match nothing")
	put(t, a, "http://a.test/cal/4", "http://a.test/cal/5", "http://b.test/cal/4")
	flush(t, a)
	put(t, b, "http://a.test/cal/6", "http://a.test/cal/0", "http://a.test/9")
	flush(t, b)
	require.EqualValues(t, 2, a.counts.refused.Load()+b.counts.refused.Load(), "the fifth of a is the last, and one that is known is not refused")
	require.Equal(t, []string{"a.test"}, names(activate(t, a, 1)))
	a.Deactivate("a.test", time.Time{})
	flush(t, a)
	require.NoError(t, a.Close())
	c := r.open(calendar)
	seed := item(t, "http://a.test/cal/seed")
	seed.Seed = true
	c.Put("a.test", seed, seed.URL.Fingerprint(c.Key()), true)
	put(t, c, "http://a.test/cal/7")
	flush(t, c)
	require.EqualValues(t, 1, c.counts.added.Load(), "a seed is taken even so")
	require.EqualValues(t, 1, c.counts.refused.Load())
}

// Operators see what the job has and what is used of it: pages drawn, the time since the job was made, whenever its
// processes came, the sum of what these have told, and of a budget that each scope has the busiest.
func TestStatusTellsBudgets(t *testing.T) {
	r := realTime(newRig(t))
	terms := func(c *Config) {
		c.MaxPages = 640
		c.Terms = map[string]string{
			"max_pages": "640", "max_time": "1h", "ratelimit.global_rps": "50", "ratelimit.ip_rps": "5", "ratelimit.site_rps": "9", "depth": "3",
		}
	}
	for rate, ips := range map[float64]map[string]float64{
		20: {"192.0.2.1": 2, "192.0.2.2": 1.5}, 22.5: {"192.0.2.2": 1.5, "192.0.2.3": 2.5},
	} {
		s := r.open(terms, func(c *Config) {
			c.Tell = func(i *WorkerInfo) {
				i.Leased, i.Use, i.Busiest = 3, map[string]float64{"ratelimit.global_rps": rate}, map[string]map[string]float64{"ratelimit.ip_rps": ips}
			}
		})
		use(t, s, 0, 1)
	}
	st := r.status()
	require.Len(t, st.Budgets, 5)
	require.InDelta(t, 12, st.Budgets[0].Used, 10, "drawn, some ahead of their use")
	require.Equal(t, []Budget{
		{Name: "max_pages", Plan: "640", Used: st.Budgets[0].Used},
		{Name: "max_time", Plan: "1h", Used: st.Budgets[1].Used},
		{Name: "ratelimit.global_rps", Plan: "50", Used: 42.5},
		{Name: "ratelimit.ip_rps", Plan: "5", Used: 3, Scope: "192.0.2.2"},
		{Name: "ratelimit.site_rps", Plan: "9"},
	}, st.Budgets)
	require.Len(t, st.Workers, 2)
	require.Equal(t, Crawling, st.Workers[0].Doing)
	require.True(t, st.Complete)
	require.WithinDuration(t, st.Now, st.Workers[0].Until, time.Minute)
	r = newRig(t)
	require.Zero(t, r.open().Elapsed())
	r.clk.Advance(90 * time.Second)
	require.Equal(t, 90*time.Second, r.open().Elapsed())
}

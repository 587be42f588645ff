package frontier

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// crowd is a crawl in virtual time: slots that are busy for as long as a host takes to
// answer, and a log of who had a turn when.
type crowd struct {
	f       *Frontier
	pacer   ratelimit.Pacer
	slots   int
	service func(host string) time.Duration
	now     time.Time
	out     underWay
	turns   map[string][]time.Duration // since start, by host
	calls   int                        // of Next
	ended   map[string]int             // requests that are over, by host
	total   int                        // of them
	late    int                        // leases that would have had to wait for their permit
}

// underWay is the leases that are out, as a [heap.Interface] by the end of their request.
type underWay []visit

type visit struct {
	l   *Lease
	end time.Time
}

func (u underWay) Len() int           { return len(u) }
func (u underWay) Less(i, j int) bool { return u[i].end.Before(u[j].end) }
func (u underWay) Swap(i, j int)      { u[i], u[j] = u[j], u[i] }
func (u *underWay) Push(x any)        { *u = append(*u, x.(visit)) }
func (u *underWay) Pop() any {
	old := *u
	last := old[len(old)-1]
	*u = old[:len(old)-1]
	return last
}

func newCrowd(t testing.TB, pacer ratelimit.Pacer, slots, perHost int, service func(string) time.Duration) *crowd {
	t.Helper()
	f, err := New(Config{Pacer: pacer, Slots: slots, PerHost: perHost})
	require.NoError(t, err)
	return &crowd{f: f, pacer: pacer, slots: slots, service: service, now: start, turns: map[string][]time.Duration{}, ended: map[string]int{}}
}

func (c *crowd) fill(t testing.TB, host string, n int) {
	t.Helper()
	root, err := canonical.Parse("http://" + host + "/")
	require.NoError(t, err)
	for i := range n {
		u, err := root.Resolve(fmt.Sprintf("/%d", i))
		require.NoError(t, err)
		it := Item{URL: u}
		if got := c.f.Add(c.now, it, c.f.Fingerprint(&it)); got != Queued {
			t.Fatalf("Add(%s) = %v, want %v", u, got, Queued)
		}
	}
}

func (c *crowd) run(over func() bool) {
	for !over() {
		wake := c.dispatch()
		if len(c.out) > 0 && (wake.IsZero() || c.out[0].end.Before(wake)) {
			wake = c.out[0].end
		}
		if wake.IsZero() {
			return
		}
		c.now = wake
		for len(c.out) > 0 && !c.out[0].end.After(c.now) {
			v := heap.Pop(&c.out).(visit)
			c.f.Release(c.now, v.l, c.now.Sub(v.l.at), attribution.Outcome{})
			c.f.End(c.now, v.l, Done(nil))
			c.ended[v.l.Host()]++
			c.total++
		}
	}
}

func (c *crowd) dispatch() time.Time {
	for len(c.out) < c.slots {
		c.calls++
		l, wake := c.f.Next(c.now)
		if l == nil {
			return wake
		}
		if p, ok := c.pacer.(*paced); ok {
			if p.free[l.Host()].After(c.now) {
				c.late++
			}
			p.take(l, c.now)
		}
		c.turns[l.Host()] = append(c.turns[l.Host()], c.now.Sub(start))
		heap.Push(&c.out, visit{l, c.now.Add(c.service(l.Host()))})
	}
	return time.Time{}
}

func (c *crowd) widest(host string) (gap time.Duration) {
	for i, at := range c.turns[host][1:] {
		gap = max(gap, at-c.turns[host][i])
	}
	return gap
}

func small(i int) string { return fmt.Sprintf("small%d.test", i) }

// One host with a million URLs beside a thousand with ten: who comes first is a matter of
// when a host may be asked, and not of how much it has. The small hosts are done in the
// time that their own pace takes, and the big one keeps its pace all the while.
func TestSmallHostsBesideABigOne(t *testing.T) {
	const (
		hosts, pages, slots = 1000, 10, 16
		service             = 50 * time.Millisecond
		bigEvery            = 100 * time.Millisecond
		smallEvery          = 10 * time.Second
		// Before their first answer all hosts share half of the slots, so that the first
		// round takes this long; no later one finds the slots taken, since the hosts then
		// come up as spread out as they were first asked.
		firstRound = hosts * service / (slots / 2)
	)
	p := newPaced()
	p.interval["big.test"] = bigEvery
	for i := range hosts {
		p.interval[small(i)] = smallEvery
	}
	c := newCrowd(t, p, slots, 8, func(string) time.Duration { return service })
	c.fill(t, "big.test", 300_000)
	for i := range hosts {
		c.fill(t, small(i), pages)
	}
	c.run(func() bool { return c.total-c.ended["big.test"] == hosts*pages })

	var last time.Duration
	for i := range hosts {
		turns := c.turns[small(i)]
		require.Len(t, turns, pages, small(i))
		last = max(last, turns[pages-1])
		require.LessOrEqual(t, c.widest(small(i)), smallEvery+2*service, small(i))
	}
	require.LessOrEqual(t, last, firstRound+(pages-1)*smallEvery+(pages-1)*service)
	require.LessOrEqual(t, c.widest("big.test"), bigEvery+service, "the big host waits for a slot, and not for its turn")
	require.GreaterOrEqual(t, len(c.turns["big.test"]), int(last/(bigEvery+service/10)), "the big host's pace")
	require.Zero(t, c.late, "no worker waits")
	t.Logf("small hosts done after %v (at best %v), big host asked %d times, %d calls of Next", last, (pages-1)*smallEvery, len(c.turns["big.test"]), c.calls)
}

// More hosts than the slots can serve at their pace take turns: each waits for the others once each, in rounds of as many as
// there are slots, before it is its turn again, however quick the pace of some is or how long their queue.
func TestTurnsAreShared(t *testing.T) {
	for _, tc := range []struct {
		hosts, slots, perHost int
		pace                  time.Duration // zero: all may be asked at any time
	}{
		{1, 16, 8, 0}, {5, 16, 8, 0}, {16, 16, 8, 0}, {17, 16, 8, 0}, {100, 16, 8, 0}, {100, 16, 1, 0}, {7, 1, 1, 0}, {1000, 64, 8, 0}, {401, 16, 8, 100 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d hosts on %d slots, every %v", tc.hosts, tc.slots, tc.pace), func(t *testing.T) {
			const service, pages = 50 * time.Millisecond, 10
			p := newPaced()
			c := newCrowd(t, p, tc.slots, tc.perHost, func(string) time.Duration { return service })
			p.interval["big.test"] = tc.pace / 10
			c.fill(t, "big.test", (40+tc.hosts)*pages)
			for i := range tc.hosts - 1 {
				p.interval[small(i)] = time.Duration(1+i%5) * tc.pace
				c.fill(t, small(i), pages)
			}
			c.run(func() bool { return c.total-c.ended["big.test"] == (tc.hosts-1)*pages && c.total > 0 })
			rounds := (tc.hosts + tc.slots - 1) / tc.slots
			for host := range c.turns {
				if gap, most := c.widest(host), p.interval[host]+time.Duration(rounds)*service; gap > most {
					t.Errorf("%s waited %v between two turns, want at most %v", host, gap, most)
				}
			}
			for i := range tc.hosts - 1 {
				require.Len(t, c.turns[small(i)], pages, small(i))
			}
			require.Zero(t, c.late, "no worker waits")
		})
	}
}

// Slow hosts that could fill every slot leave half of them to quick ones for as long as
// those have work, and none of the slow ones starves either. Then they may have every slot.
func TestSlowHostsBesideQuickOnes(t *testing.T) {
	const quick, slow, slots, pages = 20, 12, 16, 400
	const soon, late = 50 * time.Millisecond, 3 * time.Second
	name := func(i int) string { return fmt.Sprintf("slow%d.test", i) }
	c := newCrowd(t, newPaced(), slots, 8, func(host string) time.Duration {
		if host[0] == 's' && host[1] == 'l' {
			return late
		}
		return soon
	})
	for i := range slow {
		c.fill(t, name(i), pages)
	}
	for i := range quick {
		c.fill(t, small(i), pages)
	}
	served := func() (n int) {
		for i := range quick {
			n += c.ended[small(i)]
		}
		return n
	}
	c.run(func() bool { return served() == quick*pages })
	const half = slots / 2
	for i := range quick {
		require.LessOrEqual(t, c.widest(small(i)), (quick+half-1)/half*soon, small(i))
		// Every second slot goes to a host that nobody knows yet, and slow ones free each slot
		// once in their time; half of the slots are filled with new hosts at the start.
		require.LessOrEqual(t, c.turns[small(i)][0], (slow+quick-half)/(half/2)*late, small(i))
	}
	for i := range slow {
		// At first new hosts take every second of their slots.
		require.LessOrEqual(t, c.widest(name(i)), (slow+half/2-1)/(half/2)*late, name(i))
	}
	most := 0
	c.run(func() bool { // after the first of those that are out has ended
		most = max(most, len(c.out)+1)
		return most == slow
	})
	require.Equal(t, slow, most, "one each")
}

// A stream of hosts that nobody knows yet keeps slow ones waiting for every second slot and
// no longer, also when slots are freed one at a time.
func TestSlowHostsBesideNewOnes(t *testing.T) {
	const slow, fresh, slots, late = 3, 300, 4, 3 * time.Second
	name := func(i int) string { return fmt.Sprintf("slow%d.test", i) }
	c := newCrowd(t, newPaced(), slots, 8, func(host string) time.Duration {
		return late - time.Duration(len(host))*37*time.Millisecond // never two at an instant
	})
	for i := range slow {
		c.fill(t, name(i), fresh)
	}
	for i := range fresh {
		c.fill(t, fmt.Sprintf("fresh%0*d.test", 1+i%9, i), 1)
	}
	c.run(func() bool { return len(c.turns) == slow+fresh })
	for i := range slow {
		// Each of the slow hosts comes up once in two rounds of the shared slots.
		require.LessOrEqual(t, c.widest(name(i)), 2*(slow+slots/2-1)/(slots/2)*late, name(i))
		require.Greater(t, len(c.turns[name(i)]), fresh/slow/2, name(i))
	}
}

// BenchmarkDispatch is one lease and its end among many hosts, ready or waiting.
func BenchmarkDispatch(b *testing.B) {
	for _, hosts := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			p := newPaced()
			f, err := New(Config{Pacer: p})
			require.NoError(b, err)
			for h := range hosts {
				it := link(b, fmt.Sprintf("http://h%d.test/", h))
				f.Add(start, it, f.Fingerprint(&it))
				p.interval[fmt.Sprintf("h%d.test", h)] = time.Duration(h) * time.Millisecond
			}
			f.Prove()
			now := start
			b.ReportAllocs()
			for b.Loop() {
				l, wake := f.Next(now)
				if l == nil {
					now = wake
					continue
				}
				p.take(l, now)
				retry(f, now, l, now, attribution.Nobody)
			}
		})
	}
}

//go:build unix

package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// world is a job that several frontiers work on: pages in a binary tree of links, by turns on some hosts.
type world struct {
	*rig
	rand    *rand.Rand
	pages   int
	hosts   int
	visits  map[string]int
	workers []*worker
}

type worker struct {
	w     *world
	store *Store
	front *frontier.Frontier
	out   []*frontier.Lease
	free  map[string]time.Time
}

func (wk *worker) ReadyAt(host string, ahead, _ int) (time.Time, ratelimit.Limit) {
	return wk.free[host].Add(time.Duration(ahead) * 10 * time.Millisecond), ratelimit.LimitLearned
}

func (w *world) begin() *worker {
	wk := &worker{w: w, store: w.open(), free: map[string]time.Time{}}
	f, err := frontier.New(frontier.Config{
		Pacer: wk, Store: wk.store, Left: wk.store.Left(), Key: wk.store.Key(), Slots: 4, PerHost: 1, MaxHosts: 8, Resident: 20,
	})
	require.NoError(w.t, err)
	wk.front = f
	w.workers = append(w.workers, wk)
	return wk
}

func (wk *worker) add(n int) {
	if n >= wk.w.pages {
		return
	}
	u, err := canonical.Parse(fmt.Sprintf("http://h%d.test/%d", n%wk.w.hosts, n))
	require.NoError(wk.w.t, err)
	it := frontier.Item{URL: u, Found: frontier.Found{Depth: 1}}
	wk.front.Add(wk.w.clk.Now(), it, wk.front.Fingerprint(&it))
}

func (w *world) seed() {
	w.workers[0].add(0)
	flush(w.t, w.workers[0].store)
}

// step does what there is to do for a process now, and reports whether that was anything.
func (wk *worker) step() (busy bool) {
	now := wk.w.clk.Now()
	for len(wk.store.Answers()) > 0 {
		require.NoError(wk.w.t, wk.front.Take(now, <-wk.store.Answers()))
		busy = true
	}
	require.NoError(wk.w.t, wk.store.Err())
	for len(wk.out) < 4 {
		l, _ := wk.front.Next(now)
		if l == nil {
			break
		}
		for _, other := range wk.w.workers {
			for _, o := range other.out {
				if other != wk && o.Host() == l.Host() && o.Tenure.Err() == nil {
					wk.w.t.Fatalf("%s is asked by two processes", l.Host())
				}
			}
		}
		l.Started()
		wk.free[l.Host()] = now.Add(10 * time.Millisecond)
		wk.out = append(wk.out, l)
		busy = true
	}
	for len(wk.out) > 0 && wk.w.rand.IntN(3) > 0 {
		i := wk.w.rand.IntN(len(wk.out))
		l := wk.out[i]
		wk.out = append(wk.out[:i], wk.out[i+1:]...)
		wk.front.Release(now, l, time.Millisecond, attribution.Outcome{})
		if wk.w.rand.IntN(8) == 0 {
			wk.front.End(now, l, frontier.RetryAt(now.Add(time.Millisecond), attribution.Again(l.Tries, attribution.Either)))
			continue
		}
		var n int
		_, err := fmt.Sscanf(l.URL.Path(), "/%d", &n)
		require.NoError(wk.w.t, err)
		wk.w.visits[l.URL.String()]++
		wk.add(2*n + 1)
		wk.add(2*n + 2)
		wk.front.End(now, l, frontier.Done(nil))
		busy = true
	}
	return busy
}

func (w *world) run(every func(step int)) {
	begun := time.Now()
	for step := 0; ; step++ {
		if time.Since(begun) > redistest.Patience {
			for _, wk := range w.workers {
				w.t.Logf("counts %+v, store %+v, hosts %+v", wk.front.Counts(), wk.store.Figures(), wk.front.Hosts(w.clk.Now(), 9))
			}
			w.t.Fatalf("no end after %d steps, %v and %d visits", step, w.clk.Now().Sub(noon), len(w.visits))
		}
		every(step)
		busy, over := false, 0
		for _, wk := range w.workers {
			busy = wk.step() || busy
			if wk.front.Over() && len(wk.out) == 0 {
				over++
				require.Len(w.t, w.visits, w.pages, "it is not over")
			}
		}
		if over == len(w.workers) {
			return
		}
		if !busy {
			time.Sleep(100 * time.Microsecond) // for the server
			w.clk.Advance(5 * time.Millisecond)
		}
	}
}

// A process takes no more hosts than it has slots for, though some of those are kept free for
// hosts that it knows to be quick: others may have slots for the rest.
func TestNoMoreHostsThanSlots(t *testing.T) {
	const slots, all = 4, 60
	r := newRig(t)
	s := r.open()
	for i := range all {
		put(t, s, fmt.Sprintf("http://h%d.test/", i))
	}
	flush(t, s)
	f, err := frontier.New(frontier.Config{
		Pacer: &worker{w: &world{rig: r}}, Store: s, Left: s.Left(), Key: s.Key(), Slots: slots, PerHost: 1, MaxHosts: all, Resident: all,
	})
	require.NoError(t, err)
	leased := 0
	for deadline := time.Now().Add(redistest.Patience); leased < slots/2; {
		require.True(t, time.Now().Before(deadline), "no host is leased")
		if l, _ := f.Next(r.clk.Now()); l != nil {
			l.Started()
			leased++
		}
		takeAll(t, f, s, r.clk.Now())
	}
	for range 40 {
		r.clk.Advance(50 * time.Millisecond)
		l, _ := f.Next(r.clk.Now())
		require.Nil(t, l, "half of the slots are for hosts that have answered")
		flush(t, s)
		takeAll(t, f, s, r.clk.Now())
	}
	require.LessOrEqual(t, s.Hosts(), 2*slots)
}

func takeAll(t *testing.T, f *frontier.Frontier, s *Store, now time.Time) {
	t.Helper()
	for len(s.Answers()) > 0 {
		require.NoError(t, f.Take(now, <-s.Answers()))
	}
}

func newWorld(r *rig, pages int) *world {
	return &world{rig: r, rand: rand.New(rand.NewPCG(1, 2)), pages: pages, hosts: 12, visits: map[string]int{}}
}

// Whoever works on it, each URL is visited once, and no host by two. A server that forgets its scripts at every moment is a
// server.
func TestFleet(t *testing.T) {
	for n, program := range map[int]redistest.Program{1: redistest.Redis, 2: redistest.Valkey, 4: redistest.Redis} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			server := program.Shared(t)
			r := rigOn(t, server.Addr)
			r.cfg.partitions, r.cfg.Lease = 3, 10*time.Minute // no lease ends because the computer is slow
			w := newWorld(r, 300)
			for range n {
				w.begin()
			}
			w.seed()
			w.run(func(step int) {
				if n == 2 && step%20 == 0 {
					server.Do(t, "SCRIPT", "FLUSH")
				}
			})
			for u, n := range w.visits {
				require.Equal(t, 1, n, u)
			}
			w.isWhole()
			if n == 2 {
				require.NotZero(t, w.workers[0].store.link.reloads.Load())
			}
		})
	}
}

// isWhole checks that the job knows what was done, and nothing more.
func (w *world) isWhole() {
	st := w.status()
	require.True(w.t, st.Complete)
	require.EqualValues(w.t, w.pages, st.Known)
	require.EqualValues(w.t, w.pages, st.Done)
	require.Zero(w.t, st.Ready+st.Waiting)
}

// Processes die at any instant and others come: every URL is visited all the same.
func TestFleetOfMortals(t *testing.T) {
	r := newRig(t)
	r.cfg.partitions, r.cfg.Lease = 3, 10*time.Second
	w := newWorld(r, 250)
	for range 3 {
		w.begin()
	}
	w.seed()
	deaths := 0
	w.run(func(step int) {
		if step%40 == 39 && deaths < 6 && len(w.visits) < w.pages {
			deaths++
			i := w.rand.IntN(len(w.workers))
			die(w.workers[i].store)
			w.workers = append(w.workers[:i], w.workers[i+1:]...)
			w.begin()
		}
	})
	require.NotZero(t, deaths)
	w.isWhole()
}

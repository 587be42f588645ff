//go:build unix

package redis

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

type slotted struct {
	share, out, want int
	until            time.Time
}

type slotsRig struct {
	*rig
	store *Store
	plan  int
	procs map[string]*slotted
}

func newSlots(t *testing.T, plan int) *slotsRig {
	r := newRig(t)
	return &slotsRig{r, r.open(), plan, map[string]*slotted{}}
}

func (r *slotsRig) bound(p *slotted) int {
	if !r.clk.Now().Before(p.until) {
		return 0 // it was cut off
	}
	return max(p.share, p.out)
}

// ask has a process ask. One that does not hear the answer keeps what it had.
func (r *slotsRig) ask(name string, heard bool) {
	p := r.procs[name]
	if p == nil {
		p = &slotted{}
		r.procs[name] = p
	}
	reply, err := r.store.link.one(r.t.Context(), &call{
		script: scriptSlots, keys: []string{jobKey(r.cfg.Job, "job"), jobKey(r.cfg.Job, "slots")},
		args: r.store.args(name, decimal(r.cfg.Lease.Milliseconds()), decimal(int64(r.plan)), decimal(int64(r.bound(p))), decimal(int64(p.want))),
	})
	require.NoError(r.t, err)
	if heard {
		if r.bound(p) == 0 {
			p.out = 0
		}
		p.share, p.until = int(number(reply[0])), r.clk.Now().Add(r.cfg.Lease)
	}
	require.LessOrEqual(r.t, r.sum(), r.plan)
}

func (r *slotsRig) sum() (n int) {
	for _, p := range r.procs {
		n += r.bound(p)
	}
	return n
}

// Whatever processes ask for, come and go, and whatever answers are lost, what they may have
// out never adds up to more than the plan.
func TestSlots(t *testing.T) {
	for _, plan := range []int{1, 3, 20} {
		r := newSlots(t, plan)
		rnd := rand.New(rand.NewPCG(1, 2))
		names := []string{"a", "b", "c", "d", "e"}
		for range 400 {
			name := names[rnd.IntN(len(names))]
			if p := r.procs[name]; p != nil {
				p.out = rnd.IntN(r.bound(p) + 1) // it may be out before the answer is here
				p.want = rnd.IntN(plan + 1)
			}
			r.ask(name, rnd.IntN(8) > 0)
			if p := r.procs[name]; rnd.IntN(2) == 0 {
				p.out = r.bound(p)
			}
			if rnd.IntN(4) == 0 {
				r.clk.Advance(time.Duration(rnd.IntN(8)) * time.Second)
			}
			if rnd.IntN(20) == 0 {
				delete(r.procs, name) // killed: its share ends by itself
				r.clk.Advance(r.cfg.Lease)
			}
		}
	}
}

// When all have asked again, each that can use so much has an equal part at least, and nothing
// is left over that somebody could use, though all that may be out always is.
func TestSlotsAreEqualParts(t *testing.T) {
	r := newSlots(t, 20)
	for name, want := range map[string]int{"a": 20, "b": 20, "c": 2, "d": 0} {
		r.procs[name] = &slotted{want: want}
	}
	for range 5 {
		for name, p := range r.procs {
			r.ask(name, true)
			p.out = p.share
		}
	}
	require.Equal(t, 2, r.procs["c"].share)
	require.Zero(t, r.procs["d"].share)
	require.Equal(t, r.plan, r.sum(), "what c and d leave is others'")
	require.GreaterOrEqual(t, min(r.procs["a"].share, r.procs["b"].share), r.plan/3)
}

// With less than one for each they take turns, though what each may have out always is; one
// that was killed is missed only for its lease, and one that can use none has none.
func TestSlotsByTurns(t *testing.T) {
	for plan, names := range map[int][]string{1: {"a", "b"}, 2: {"a", "b", "c", "d", "e"}} {
		r := newSlots(t, plan)
		had := map[string]int{}
		const rounds, every = 400, 250 * time.Millisecond
		for range rounds {
			for _, name := range names {
				r.ask(name, true)
				p := r.procs[name]
				p.out, p.want = p.share, 5
				had[name] += p.share
			}
			r.clk.Advance(every)
		}
		for _, name := range names {
			require.GreaterOrEqual(t, had[name], rounds*plan/len(names)/2, "%s of %d: %v", name, plan, had)
		}
		for name, p := range r.procs {
			p.out = 0
			if p.want = 0; name == "b" {
				p.want = 5
			}
		}
		clear(had)
		for range 12 {
			for _, name := range names[1:] { // a is dead
				r.ask(name, true)
				r.procs[name].out = r.procs[name].share
			}
			r.clk.Advance(r.cfg.Lease / 10)
		}
		require.Equal(t, plan, r.procs["b"].share, "the others want none")
	}
}

// A share is told with the instant up to which it holds, and given back at the end. What is
// stored and cannot be read is nobody's.
func TestSlotsOfStores(t *testing.T) {
	srv := redistest.Redis.Shared(t)
	r := rigOn(t, srv.Addr)
	a, b := r.open(), r.open()
	ask := func(s *Store, held, want int) int {
		share, until, err := s.Slots(t.Context(), 6, held, want)
		require.NoError(t, err)
		require.Equal(t, r.clk.Now().Add(9*time.Second), until)
		return share
	}
	require.Equal(t, 6, ask(a, 0, 6))
	require.Zero(t, ask(b, 0, 6), "a has all of it yet")
	require.Equal(t, 3, ask(a, 6, 6))
	require.Zero(t, ask(b, 0, 6), "a may not have heard of it")
	require.Equal(t, 3, ask(a, 4, 6))
	require.Equal(t, 2, ask(b, 0, 6), "what is out cannot be let go")
	require.NoError(t, a.Close())
	srv.Do(t, "HSET", jobKey(r.cfg.Job, "slots"), "x", "6 y")
	require.Equal(t, 6, ask(b, 2, 6))
}

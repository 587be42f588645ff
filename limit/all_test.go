package limit_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/limit"
)

func TestAllRejects(t *testing.T) {
	a := must(limit.New(limit.Spec{Permits: 1, Per: 1}, limit.WithName("a")))
	_, err := limit.All()
	require.ErrorContains(t, err, "limiters is empty")
	_, err = limit.All(a, a)
	require.EqualError(t, err, "limiters[1] is a again: pass each limiter once to All")
	_, err = limit.All(a, must(limit.All(a)))
	require.ErrorContains(t, err, "limiters[1] is a again")
	_, err = limit.All(a, foreignWeighted{a})
	require.ErrorContains(t, err, "pass limiters of this package")
}

type foreignWeighted struct{ limit.Weighted }

// A refusal of one costs the others nothing, whichever it is.
func TestAllIsAtomic(t *testing.T) {
	clk := fakeClock()
	wide := must(limit.New(limit.Spec{Permits: 10, Per: time.Second}, limit.WithClock(clk), limit.WithName("wide")))
	narrow := must(limit.New(limit.Spec{Kind: limit.KindFixedWindow, Permits: 2, Per: time.Minute}, limit.WithClock(clk), limit.WithName("narrow")))
	held := slots(5, limit.WithClock(clk), limit.WithName("held"))
	l := must(limit.All(wide, narrow, held))
	require.Equal(t, limit.Statistics{Available: 2, Max: 2}, l.Statistics())
	require.True(t, l.TryAcquireN(2))
	for range 3 {
		require.False(t, l.TryAcquire())
	}
	require.EqualValues(t, 8, wide.Statistics().Available)
	require.EqualValues(t, 2, wide.Statistics().Acquired)
	require.Zero(t, wide.Statistics().Rejected, "it refused nobody")
	require.EqualValues(t, 2, held.Statistics().InUse)
	refusal, ok := asLimit(l.AcquireTimeout(t.Context(), 1, 0))
	require.True(t, ok)
	require.Equal(t, &limit.Error{Name: "narrow", Algorithm: "fixed-window", RetryAfter: time.Minute}, refusal)
	require.ErrorIs(t, l.AcquireN(t.Context(), 3), limit.ErrExceedsCapacity)
}

// The wait is the longest of the members'.
func TestAllWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := must(limit.New(limit.Spec{Permits: 1, Per: 10 * time.Second}))
		quick := must(limit.New(limit.Spec{Kind: limit.KindLeakyBucket, Permits: 1, Per: time.Second}))
		l := must(limit.All(quick, slow))
		begin := time.Now()
		require.NoError(t, l.Acquire(t.Context()))
		require.Equal(t, 10*time.Second, l.Wait(1))
		require.NoError(t, l.Acquire(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(begin))
		time.Sleep(9500 * time.Millisecond)
		require.NoError(t, quick.Acquire(t.Context()), "its other users go on")
		require.Equal(t, time.Second, l.Wait(1), "now the quick one is waited for longest")
		require.NoError(t, l.Acquire(t.Context()))
		require.Equal(t, 20500*time.Millisecond, time.Since(begin))
	})
}

// A composite that waits for one member does not keep the others' users waiting, and is
// not passed at the one it waits for.
func TestAllWaitsWhereItIsScarce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := must(limit.New(limit.Spec{Permits: 100, Per: time.Second}))
		host := must(limit.New(limit.Spec{Permits: 1, Per: time.Minute}))
		l, served := must(limit.All(shared, host)), newOrder()
		require.True(t, l.TryAcquire())
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, l.Acquire(t.Context())); served.add("composite") })
		synctest.Wait()
		require.True(t, shared.TryAcquire(), "nobody waits for it")
		require.False(t, host.TryAcquire(), "the composite waits for it")
		wg.Go(func() { require.NoError(t, host.Acquire(t.Context())); served.add("behind it") })
		wg.Wait()
		names, at := served.get()
		require.Equal(t, []string{"composite", "behind it"}, names)
		require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute}, at)
		require.Zero(t, host.Statistics().Queued)
	})
}

// Of two members without room it is the one that takes longest.
func TestAllStandsAtTheScarcest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := must(limit.New(limit.Spec{Permits: 1, Per: time.Second}))
		long := must(limit.New(limit.Spec{Kind: limit.KindFixedWindow, Permits: 1, Per: time.Minute}))
		unknown := slots(1)
		l := must(limit.All(short, long, unknown))
		require.True(t, l.TryAcquire())
		done := make(chan error)
		go func() { done <- l.Acquire(t.Context()) }()
		synctest.Wait()
		require.Zero(t, short.Statistics().Queued)
		require.EqualValues(t, 1, long.Statistics().Queued)
		require.Zero(t, unknown.Statistics().Queued, "it would keep others from slots it cannot take yet")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, unknown.Statistics().Queued)
		unknown.ReleaseN(1)
		l.Release()
		require.NoError(t, <-done)
	})
}

// Nobody passes those who wait at a member for more than there is room for.
func TestAllDoesNotPassAMembersLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member := slots(3)
		l := must(limit.All(member))
		require.True(t, member.TryAcquire())
		done := make(chan error)
		go func() { done <- member.AcquireN(t.Context(), 3) }()
		synctest.Wait()
		require.False(t, l.TryAcquire())
		require.Equal(t, limit.Never, l.Wait(1))
		member.Release()
		require.NoError(t, <-done)
	})
}

// When the member waited for has room and another has none any more, the wait goes on
// there, and the first one's other users are let pass.
func TestAllGoesOverToTheMemberThatIsScarceNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := must(limit.New(limit.Spec{Kind: limit.KindFixedWindow, Permits: 1, Per: 10 * time.Second}))
		second := slots(1)
		l := must(limit.All(first, second))
		require.True(t, first.TryAcquire())
		done := make(chan error)
		go func() { done <- l.Acquire(t.Context()) }()
		synctest.Wait()
		require.True(t, second.TryAcquire(), "not waited for yet")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, second.Statistics().Queued)
		require.Zero(t, first.Statistics().Queued)
		require.True(t, first.TryAcquire(), "free meanwhile")
		second.Release()
		synctest.Wait()
		require.EqualValues(t, 1, first.Statistics().Queued, "and back again")
		require.Zero(t, second.Statistics().InUse, "nothing is held while it waits")
		require.NoError(t, <-done)
		require.EqualValues(t, 1, second.Statistics().InUse)
		l.ReleaseN(2)
		require.Zero(t, second.Statistics().InUse)
		require.EqualValues(t, 1, l.Statistics().OverReleased)
	})
}

// A composite's Release frees what was acquired there and no slot of others.
func TestAllReleasesItsOwnOnly(t *testing.T) {
	held := slots(3)
	l := must(limit.All(held))
	require.True(t, held.TryAcquire())
	require.True(t, l.TryAcquire())
	release := must(limit.AcquireRelease(t.Context(), l))
	l.ReleaseN(2)
	require.EqualValues(t, 2, held.Statistics().InUse, "the other's, and the ticket's")
	require.EqualValues(t, 1, l.Statistics().OverReleased)
	held.ReleaseN(2)
	require.EqualValues(t, 1, held.Statistics().InUse)
	require.EqualValues(t, 1, held.Statistics().OverReleased, "the ticket's is not for the taking")
	release()
	require.Zero(t, held.Statistics().InUse)
}

func TestAllAndAClosedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := slots(1, limit.WithName("a")), slots(1)
		l := must(limit.All(a, b))
		require.True(t, l.TryAcquire())
		done := make(chan error)
		go func() { done <- l.Acquire(t.Context()) }()
		synctest.Wait()
		require.NoError(t, a.Close())
		err := <-done
		require.ErrorIs(t, err, limit.ErrClosed)
		require.ErrorContains(t, err, "acquire a")
		require.ErrorIs(t, l.Acquire(t.Context()), limit.ErrClosed)
		require.Equal(t, limit.Never, l.Wait(1))
		require.False(t, l.TryAcquire())
		require.Zero(t, a.Statistics().Cancelled, "the call was the composite's")
		require.EqualValues(t, 1, l.Statistics().Cancelled)
		require.NoError(t, l.Close())
		b.Release()
		require.EqualValues(t, 1, b.Statistics().OverReleased, "the slot is the composite's")
	})
}

func TestAllUnknownWaitIsZero(t *testing.T) {
	clk := fakeClock()
	held := slots(1, limit.WithClock(clk), limit.WithName("held"))
	rate := must(limit.New(limit.Spec{Permits: 1, Per: time.Second}, limit.WithClock(clk)))
	l := must(limit.All(rate, held))
	require.True(t, l.TryAcquire())
	refusal, ok := asLimit(l.AcquireTimeout(t.Context(), 1, 0))
	require.True(t, ok)
	require.Equal(t, &limit.Error{Name: "held", Algorithm: "concurrency"}, refusal)
	require.Equal(t, limit.Never, l.Wait(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	err := l.AcquireTimeout(ctx, 1, time.Second-1)
	refusal, ok = asLimit(err)
	require.True(t, ok)
	require.Equal(t, time.Second, refusal.RetryAfter, "at least so long, and that is too late")
}

// Composites that share their members in different orders, and their members' own users,
// never lock each other out and never lose a permit.
func TestCompositesThatShareMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := slots(2), slots(2), slots(2)
		limiters := []limit.Weighted{must(limit.All(a, b)), must(limit.All(b, a)), must(limit.All(b, c)), must(limit.All(c, a, b)), a, b, c}
		var wg sync.WaitGroup
		for g := range 14 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(7, uint64(g)))
				l := limiters[g%len(limiters)]
				for range 100 {
					n := 1 + rnd.Int64N(2)
					if hammer(t, l, rnd, n) {
						time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
						l.ReleaseN(n)
					}
				}
			})
		}
		wg.Wait()
		for _, l := range limiters {
			st := l.Statistics()
			require.Zero(t, st.InUse)
			require.Zero(t, st.Queued)
			require.Zero(t, st.OverReleased)
			require.EqualValues(t, 2, st.Available)
		}
	})
}

// A composite of rates grants what each of them would have granted to it alone: checked
// over random courses against twins that are asked one by one.
func TestAllAgainstTwins(t *testing.T) {
	kinds := limit.Kinds()[:5]
	rapid.Check(t, func(rt *rapid.T) {
		clk := fakeClock()
		var members, twins []limit.Weighted
		for range rapid.IntRange(1, 4).Draw(rt, "members") {
			spec := limit.Spec{
				Kind: rapid.SampledFrom(kinds).Draw(rt, "kind"), Permits: rapid.Int64Range(1, 5).Draw(rt, "permits"),
				Per: time.Duration(rapid.Int64Range(1, 1000).Draw(rt, "per")),
			}
			members = append(members, must(limit.New(spec, limit.WithClock(clk))))
			twins = append(twins, must(limit.New(spec, limit.WithClock(clk))))
		}
		l := must(limit.All(members...))
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			clk.Advance(time.Duration(rapid.Int64Range(0, 700).Draw(rt, "pass")))
			n := rapid.Int64Range(1, 5).Draw(rt, "n")
			want := time.Duration(0)
			for _, m := range twins {
				want = max(want, m.Wait(n))
			}
			if got := l.Wait(n); got != want {
				rt.Fatalf("Wait(%d) = %v, want %v", n, got, want)
			}
			if got := l.TryAcquireN(n); got != (want == 0) {
				rt.Fatalf("TryAcquireN(%d) = %v with a wait of %v", n, got, want)
			}
			for _, m := range twins {
				if want == 0 && !m.TryAcquireN(n) {
					rt.Fatalf("a twin refuses %d", n)
				}
			}
		}
	})
}

//go:build unix

package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/redis"
)

type rig struct {
	s   *server
	clk *admissiontest.Clock
}

func newRig(t testing.TB) rig {
	t.Helper()
	return rig{sharedServer(t), admissiontest.NewClock()}
}

func (g rig) open(t testing.TB, cfg redis.Config) *redis.Repository {
	t.Helper()
	cfg.Clock = g.clk
	r := open(t, cfg, g.s.Addr)
	r.SetTime(g.clk)
	return r
}

func trips(r *redis.Repository, f func()) uint64 {
	before := r.Statistics().Trips
	f()
	return r.Statistics().Trips - before
}

// While a key is limited nobody asks Redis, and at the microsecond at which it no longer
// is, at the latest, Redis is asked.
func TestDenialsTakeNoTrips(t *testing.T) {
	g := newRig(t)
	r, other := g.open(t, redis.Config{}), g.open(t, redis.Config{Keys: -1})
	b, f := bucket("b", 10, 1), fixed("f", 1000, time.Hour)
	for range 10 {
		take(t, r, "ann", 1, b, f)
	}
	require.Equal(t, time.Second, take(t, r, "ann", 1, b, f).Wait)
	require.Zero(t, trips(r, func() {
		for i := range 500 {
			res := take(t, r, "ann", 1, b, f)
			require.Equal(t, take(t, other, "ann", 1, b, f), res)
			require.Equal(t, time.Second-time.Duration(i)*time.Millisecond, res.Wait)
			require.Equal(t, take(t, other, "ann", 3, b, f), take(t, r, "ann", 3, b, f))
			g.clk.Move(time.Millisecond)
		}
	}))
	require.Equal(t, uint64(1000), r.Statistics().Denials)
	g.clk.Move(500 * time.Millisecond)
	require.True(t, take(t, r, "ann", 1, b, f).Allowed, "at the time it was told")

	// Of another plan nothing is known, and of no tokens nothing is denied.
	take(t, r, "ann", 1, b, f)
	require.Equal(t, uint64(1), trips(r, func() { take(t, r, "ann", 1, b, fixed("other", 5, time.Hour)) }))
	require.Equal(t, uint64(1), trips(r, func() { take(t, r, "ann", 0, b, f) }))
	require.Equal(t, uint64(1), trips(r, func() { take(t, r, "bob", 1, b, f) }))
}

// What is remembered never denies what Redis would allow, whoever asks between.
func TestRememberedDenialsAreTrue(t *testing.T) {
	g := newRig(t)
	r, other := g.open(t, redis.Config{}), g.open(t, redis.Config{Keys: -1})
	plans := []admission.Plan{bucket("b", 7, 3.3), fixed("f", 9, 3*time.Second), sliding("s", 8, 2*time.Second)}
	count := 0
	property := func(n, theirs uint8, mask uint8, passed uint16) bool {
		var chosen []admission.Plan
		for i, p := range plans {
			if mask>>i&1 == 1 {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == 0 {
			return true
		}
		g.clk.Move(time.Duration(passed%800) * time.Millisecond)
		take(t, other, "ann", int64(theirs%3), chosen...)
		// One plan at a time says what Redis would decide, and charges nothing.
		want := int64(n % 5)
		could := true
		for _, p := range chosen {
			could = could && take(t, other, "ann", 0, p).Remaining >= want
		}
		before := r.Statistics().Denials
		res := take(t, r, "ann", want, chosen...)
		count += int(r.Statistics().Denials - before)
		return res.Allowed == could
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 2000}))
	require.NotZero(t, count, "no denial was remembered")
}

// What others have changed is seen after a minute at most.
func TestDenialsAreBelievedForAMinute(t *testing.T) {
	g := newRig(t)
	r, other := g.open(t, redis.Config{}), g.open(t, redis.Config{})
	p := bucket("p", 1, 1e-6)
	plans := []admission.Plan{p}
	take(t, r, "ann", 1, p)
	require.False(t, take(t, r, "ann", 1, p).Allowed)
	require.NoError(t, other.Remove(context.Background(), "ann", plans))
	g.clk.Move(time.Minute)
	require.Zero(t, trips(r, func() { require.False(t, take(t, r, "ann", 1, p).Allowed) }))
	g.clk.Move(time.Microsecond)
	require.True(t, take(t, r, "ann", 1, p).Allowed)

	require.False(t, take(t, r, "ann", 1, p).Allowed)
	require.NoError(t, r.Remove(context.Background(), "ann", plans))
	require.True(t, take(t, r, "ann", 1, p).Allowed, "removed here, and seen here at once")
}

// However many keys are denied, what is remembered is bounded.
func TestKeysAreBounded(t *testing.T) {
	g := newRig(t)
	r := g.open(t, redis.Config{Keys: 64})
	p := bucket("p", 1, 1e-6)
	for i := range 1000 {
		key := fmt.Sprint(i)
		take(t, r, key, 1, p)
		require.False(t, take(t, r, key, 1, p).Allowed)
	}
	made := trips(r, func() {
		for i := range 1000 {
			require.False(t, take(t, r, fmt.Sprint(i), 1, p).Allowed)
		}
	})
	require.GreaterOrEqual(t, made, uint64(1000-64))
}

// A lease of a hundred: a trip for each hundred.
func TestLeasesSaveTrips(t *testing.T) {
	g := newRig(t)
	r := g.open(t, redis.Config{Lease: 100 * time.Millisecond})
	plans := []admission.Plan{bucket("b", 1000, 1000), fixed("f", 1e7, time.Hour)}
	ask := func(n int) {
		for range n {
			require.True(t, take(t, r, "ann", 1, plans...).Allowed)
			g.clk.Move(time.Millisecond + time.Microsecond)
		}
	}
	ask(1000) // it has to see first how much is needed
	made := trips(r, func() { ask(10000) })
	t.Logf("%d trips for 10000 decisions", made)
	require.LessOrEqual(t, made, uint64(10000/80), "leases are of a hundred")
}

// Who asks rarely gets no leases: what is not used of one is lost.
func TestLeasesAreForTheBusy(t *testing.T) {
	g := newRig(t)
	r := g.open(t, redis.Config{Lease: 100 * time.Millisecond})
	p := bucket("p", 1000, 100)
	for range 50 {
		require.True(t, take(t, r, "ann", 1, p).Allowed)
		g.clk.Move(time.Second)
	}
	// One more where a test beside this one has the server forget its scripts.
	require.GreaterOrEqual(t, r.Statistics().Trips, uint64(50))
	require.Zero(t, r.Statistics().Leased)

	slow := bucket("slow", 1000, 10) // a tenth of a second of it is one token
	for range 50 {
		take(t, r, "bob", 1, slow)
	}
	require.Zero(t, r.Statistics().Leased)
}

// The bound that the package comment states: over any time W, all processes together
// admit at most capacity + rate·(W+L). And the long run is exact.
func TestLeaseBound(t *testing.T) {
	const (
		instances = 3
		capacity  = 60
		rate      = 200.0
		length    = 100 * time.Millisecond
	)
	g := newRig(t)
	var all []*redis.Repository
	for range instances {
		all = append(all, g.open(t, redis.Config{Lease: length, Instances: instances}))
	}
	p := bucket("p", capacity, rate)
	type grant struct{ at, n int }
	var grants []grant
	seed := uint64(7)
	leased := uint64(0)
	for ms := range 4000 {
		n := 0
		for i, r := range all {
			// Loud and quiet times, other ones for each, some of them together.
			seed = seed*6364136223846793005 + 1442695040888963407
			for range int(seed>>60) / 4 * ((ms/(300+100*i) + i) % 2) {
				if take(t, r, "ann", 1, p).Allowed {
					n++
				}
			}
		}
		grants = append(grants, grant{ms, n})
		g.clk.Move(time.Millisecond)
	}
	for _, r := range all {
		leased += r.Statistics().Leased
	}
	require.NotZero(t, leased, "no lease was taken")
	total := 0
	for from := range grants {
		sum := 0
		for to := from; to < len(grants); to++ {
			sum += grants[to].n
			window := float64(to-from) / 1e3
			if bound := capacity + rate*(window+length.Seconds()); float64(sum) > bound {
				t.Fatalf("%d granted from %d to %d ms, want at most %v", sum, from, to, bound)
			}
		}
		total += grants[from].n
	}
	t.Logf("%d granted in 4s, %d of them from leases", total, leased)
	require.LessOrEqual(t, float64(total), capacity+rate*4)
}

// No lease reaches over the end of a fixed window, and none makes it admit more.
func TestLeaseOfAFixedWindow(t *testing.T) {
	g := newRig(t)
	g.clk.Set(time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC))
	r := g.open(t, redis.Config{Lease: time.Second})
	p := fixed("p", 100, time.Second)
	for window := range 10 {
		granted := 0
		for range 1000 {
			if take(t, r, "ann", 1, p).Allowed {
				granted++
			}
			g.clk.Move(time.Millisecond)
		}
		require.Equal(t, 100, granted, "window %d", window)
	}
	require.NotZero(t, r.Statistics().Leased)
}

// The count is exact, with leases too, whoever of how many asks.
func TestManyAtOnceWithLeases(t *testing.T) {
	s := sharedServer(t)
	var all []*redis.Repository
	for range 4 {
		all = append(all, open(t, redis.Config{Lease: 10 * time.Second, Instances: 4}, s.Addr))
	}
	for _, p := range []admission.Plan{bucket("p", 100, 0.1+1e-3), bucket("fast", 100, 0.5)} {
		begun := time.Now()
		n := granted(t, 2000, func(i int) (admission.Result, error) {
			return all[i%4].Take(context.Background(), "ann", []admission.Plan{p}, 1)
		})
		// What flows in meanwhile may be granted as well; what is left in a lease is not.
		require.LessOrEqual(t, float64(n), 100+p.TokensPerSecond*(time.Since(begun).Seconds()+1))
		require.Greater(t, n, int64(80))
	}
}

// Those who come while a lease is fetched wait for it instead of fetching their own.
func TestOneFetchesALease(t *testing.T) {
	s := sharedServer(t)
	r := open(t, redis.Config{Lease: 10 * time.Second}, s.Addr)
	p := bucket("p", 1e6, 1e5)
	for range 2000 { // until it is a large one
		take(t, r, "ann", 1, p)
	}
	made := trips(r, func() {
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for range 1000 {
					take(t, r, "ann", 1, p)
				}
			})
		}
		group.Wait()
	})
	t.Logf("%d trips for 64000 decisions of 64 at a time", made)
	require.LessOrEqual(t, made, uint64(64000/20))
}

// A key that is removed while a lease is fetched keeps nothing of it.
func TestRemoveDropsLeases(t *testing.T) {
	g := newRig(t)
	r := g.open(t, redis.Config{Lease: time.Second})
	p := bucket("p", 100, 100)
	for range 30 {
		take(t, r, "ann", 1, p)
	}
	require.NotZero(t, r.Statistics().Leased)
	require.NoError(t, r.Remove(context.Background(), "ann", []admission.Plan{p}))
	require.Equal(t, int64(99), take(t, r, "ann", 1, p).Remaining)
}

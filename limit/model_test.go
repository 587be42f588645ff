package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

// model says what an algorithm may grant in the plainest way there is: from the list of
// all grants there have been, in fractions of unbounded numbers, from the start every time.
type model interface {
	fits(now clock.Instant, n int64) bool
	grant(now clock.Instant, n int64)
}

type grants struct {
	permits int64
	per     time.Duration
	burst   int64
	log     []granted
}

type granted struct {
	at clock.Instant
	n  int64
}

func (g *grants) grant(now clock.Instant, n int64) { g.log = append(g.log, granted{now, n}) }

func fraction(n int64, of time.Duration, by int64) *big.Rat {
	r := new(big.Rat).SetInt64(n)
	r.Mul(r, new(big.Rat).SetInt64(int64(of)))
	return r.Quo(r, new(big.Rat).SetInt64(by))
}

// bucketModel fills with permits·time/per, from each grant to the next.
type bucketModel struct{ grants }

func (m *bucketModel) fits(now clock.Instant, n int64) bool {
	level, at, burst := new(big.Rat).SetInt64(m.burst), clock.Instant(0), new(big.Rat).SetInt64(m.burst)
	for _, e := range append(slices.Clip(m.log), granted{now, n}) {
		level.Add(level, fraction(m.permits, e.at.Sub(at), int64(m.per)))
		if level.Cmp(burst) > 0 {
			level.Set(burst)
		}
		level.Sub(level, new(big.Rat).SetInt64(e.n))
		at = e.at
	}
	return level.Sign() >= 0
}

// intervalModel fills with permits at each whole period that ends between two grants.
type intervalModel struct{ grants }

func (m *intervalModel) fits(now clock.Instant, n int64) bool {
	level, period := big.NewInt(m.burst), int64(0)
	for _, e := range append(slices.Clip(m.log), granted{now, n}) {
		in := big.NewInt(int64(e.at)/int64(m.per) - period)
		level.Add(level, in.Mul(in, big.NewInt(m.permits)))
		if level.Cmp(big.NewInt(m.burst)) > 0 {
			level.SetInt64(m.burst)
		}
		level.Sub(level, big.NewInt(e.n))
		period = int64(e.at) / int64(m.per)
	}
	return level.Sign() >= 0
}

// in counts the grants of a window of the grid.
func (g *grants) in(window int64) int64 {
	sum := int64(0)
	for _, e := range g.log {
		if int64(e.at)/int64(g.per) == window {
			sum += e.n
		}
	}
	return sum
}

type fixedModel struct{ grants }

func (m *fixedModel) fits(now clock.Instant, n int64) bool {
	return n <= m.permits-m.in(int64(now)/int64(m.per))
}

// slidingModel is previous·(1−elapsed/window) + current + n − 1 < permits, of the window that
// ends with the nanosecond of now.
type slidingModel struct{ grants }

func (m *slidingModel) fits(now clock.Instant, n int64) bool {
	window, elapsed := int64(now)/int64(m.per), int64(now)%int64(m.per)
	share := fraction(m.in(window-1), m.per-time.Duration(elapsed)-1, int64(m.per))
	share.Add(share, new(big.Rat).SetInt64(m.in(window)))
	share.Add(share, new(big.Rat).SetInt64(n-1))
	return share.Cmp(new(big.Rat).SetInt64(m.permits)) < 0
}

// logModel counts the grants less than a window old.
type logModel struct{ grants }

func (m *logModel) fits(now clock.Instant, n int64) bool {
	left := m.permits
	for _, e := range m.log {
		if now.Sub(e.at) < m.per {
			left -= e.n
		}
	}
	return n <= left
}

// pacerModel: the slot after a grant is as many intervals later as it weighs, counted from the slot it took if it took
// it in the first possible nanosecond, and else from when it came.
type pacerModel struct{ grants }

func (m *pacerModel) fits(now clock.Instant, _ int64) bool {
	slot := new(big.Rat)
	for _, e := range m.log {
		at := new(big.Rat).SetInt64(int64(e.at))
		if late := new(big.Rat).Sub(at, slot); late.Cmp(big.NewRat(1, 1)) >= 0 {
			slot = at
		}
		slot.Add(slot, fraction(e.n, m.per, m.permits))
	}
	return new(big.Rat).SetInt64(int64(now)).Cmp(slot) >= 0
}

type modelled struct {
	name  string
	spec  Spec // but for the numbers
	model func(g grants) model
}

// alg is the algorithm of a limiter of these numbers.
func (m modelled) alg(g grants) algorithm {
	s := m.spec
	if s.Permits, s.Per = g.permits, g.per; s.Kind == KindTokenBucket {
		s.Burst = g.burst
	}
	set, err := newSettings(s, nil)
	if err != nil {
		panic(err)
	}
	return set.build().(interface{ cores() []*core }).cores()[0].alg
}

func models() []modelled {
	return []modelled{
		{"token-bucket", Spec{Kind: KindTokenBucket}, func(g grants) model { return &bucketModel{g} }},
		{"token-bucket-interval", Spec{Kind: KindTokenBucket, Refill: RefillInterval}, func(g grants) model { return &intervalModel{g} }},
		{"fixed-window", Spec{Kind: KindFixedWindow}, func(g grants) model { return &fixedModel{g} }},
		{"sliding-window", Spec{Kind: KindSlidingWindow}, func(g grants) model { return &slidingModel{g} }},
		{"sliding-window-log", Spec{Kind: KindSlidingWindowLog}, func(g grants) model { return &logModel{g} }},
		{"leaky-bucket", Spec{Kind: KindLeakyBucket}, func(g grants) model { return &pacerModel{g} }},
	}
}

const years = 365 * 24 * time.Hour

// sizes are rates from one in centuries to more than one in a nanosecond.
func drawGrants(t *rapid.T) grants {
	permits := rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, 1e12), rapid.Int64Range(1, 1<<62))
	per := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, int64(time.Minute)), rapid.Int64Range(1, int64(200*years)))
	g := grants{permits: permits.Draw(t, "permits"), per: time.Duration(per.Draw(t, "per"))}
	g.burst = rapid.OneOf(rapid.Just(g.permits), permits).Draw(t, "burst")
	return g
}

// property checks an algorithm against its model over a random course of asking and waiting: both say the same, and
// wait is the first nanosecond for which the model says yes. A clone leaves the original alone.
func property(m modelled) func(t *rapid.T) {
	return func(t *rapid.T) {
		g := drawGrants(t)
		alg, mod := m.alg(g), m.model(g)
		most := g.permits
		if _, ok := alg.(*bucket); ok {
			most = g.burst
		}
		now := clock.Instant(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = later(now, drawStep(t, g))
			n := rapid.OneOf(rapid.Int64Range(1, min(3, most)), rapid.Int64Range(1, most)).Draw(t, "n")
			wait := checkWait(t, alg, mod, now, n)
			if rapid.Bool().Draw(t, "wait") && wait != Never {
				now = later(now, wait)
			}
			copied, want := alg.clone(), mod.fits(now, n)
			require.EqualValues(t, want, copied.take(now, n))
			require.EqualValues(t, want, alg.take(now, n))
			if want {
				mod.grant(now, n)
			}
			checkAvailable(t, alg, mod, now, most)
		}
	}
}

func later(now clock.Instant, d time.Duration) clock.Instant {
	return clock.Instant(min(uint64(now)+uint64(d), uint64(280*years)))
}

func drawStep(t *rapid.T, g grants) time.Duration {
	return time.Duration(rapid.OneOf(
		rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, int64(g.per)),
		rapid.SampledFrom([]int64{int64(g.per) - 1, int64(g.per), int64(100 * years)}),
	).Draw(t, "step"))
}

func checkWait(t *rapid.T, alg algorithm, mod model, now clock.Instant, n int64) time.Duration {
	wait := alg.wait(now, n)
	if again := alg.wait(now, n); again != wait {
		t.Fatalf("wait changes something: %d, then %d", wait, again)
	}
	then := now.Add(wait)
	if wait == Never || then < now { // past the end of time
		if mod.fits(math.MaxInt64, n) {
			t.Fatalf("wait for %d at %d = %d, which is past the end of time, but it fits then", n, now, wait)
		}
		return Never
	}
	if !mod.fits(then, n) {
		t.Fatalf("wait for %d at %d = %d, but it does not fit then", n, now, wait)
	}
	if wait > 0 && mod.fits(then-1, n) {
		t.Fatalf("wait for %d at %d = %d, but it fits a nanosecond before", n, now, wait)
	}
	if then < clock.Instant(280*years) && !alg.clone().take(then, n) {
		t.Fatalf("wait for %d at %d = %d, but take fails then", n, now, wait)
	}
	return wait
}

func checkAvailable(t *rapid.T, alg algorithm, mod model, now clock.Instant, most int64) {
	n := alg.available(now)
	if n < 0 || n > most {
		t.Fatalf("available at %d = %d, want 0 to %d", now, n, most)
	}
	if n > 0 && !mod.fits(now, n) {
		t.Fatalf("available at %d = %d, which does not fit", now, n)
	}
	if n < most && mod.fits(now, n+1) {
		t.Fatalf("available at %d = %d, but one more fits", now, n)
	}
}

func TestAlgorithmsAgainstModels(t *testing.T) {
	for _, m := range models() {
		t.Run(m.name, func(t *testing.T) { rapid.Check(t, property(m)) })
	}
}

// FuzzAlgorithms runs the same property on courses that the fuzzer makes up.
func FuzzAlgorithms(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		property(rapid.SampledFrom(models()).Draw(t, "algorithm"))(t)
	}))
}

func longLog(t *testing.T, entries int64) *journal {
	t.Helper()
	j := &journal{set: &settings{max: entries, spec: Spec{Per: time.Hour}}}
	for i := range entries {
		require.True(t, j.take(clock.Instant(i), 1))
	}
	return j
}

// While somebody waits, each further question plays the line through: with a log of a million grants that must not
// copy them. The steps are counted as bytes allocated, and as entries of the copy that were forgotten or taken.
func TestLongLogIsNotCopied(t *testing.T) {
	const entries = 1 << 20
	j := longLog(t, entries)
	var c core
	c.init(&settings{timed: true, max: entries}, j)
	c.last = entries
	c.line.push(newWaiter(1))
	perCall := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			c.untilLocked(1)
		}
	}).AllocedBytesPerOp()
	require.Less(t, perCall, int64(1024), "bytes a call of a log of %d entries", entries)

	copied := j.clone().(*journal)
	f := forecast{alg: copied, from: c.last}
	for range 100 {
		f.serve(f.wait(1), 1)
	}
	require.Equal(t, time.Hour-entries+99, f.at)
	require.Equal(t, []int{entries - 100, 100}, []int{copied.n, len(copied.ahead)}, "entries left of the original, and taken")
	require.Equal(t, entries, j.n, "the original is as it was")
	require.EqualValues(t, entries, j.used)
}

// A heavy request looks for the entry that it waits for by halves.
func TestLongLogWaitsForManyEntries(t *testing.T) {
	const entries = 1 << 12
	j := longLog(t, entries)
	for n := int64(1); n <= entries; n++ {
		require.Equal(t, time.Hour-entries+time.Duration(n)-1, j.wait(entries, n), "for %d", n)
	}
}

type caller struct {
	comes, patience time.Duration
	n               int64
	left            clock.Instant // when it was served or gave up
	served          bool
}

// TestLineAgainstModels plays random callers against the plain models: each is served in the order of arrival, at the
// first nanosecond at which those before it have left and there is room, and leaves no trace when it gives up.
func TestLineAgainstModels(t *testing.T) {
	for _, m := range models() {
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				g := grants{permits: rapid.Int64Range(1, 6).Draw(rt, "permits"), per: time.Duration(rapid.Int64Range(1, 1000).Draw(rt, "per"))}
				g.burst = g.permits
				var callers []*caller
				for at := time.Duration(0); len(callers) < 12; at += time.Duration(rapid.Int64Range(1, 300).Draw(rt, "gap")) {
					callers = append(callers, &caller{
						comes: at, n: rapid.Int64Range(1, g.permits).Draw(rt, "n"),
						patience: time.Duration(rapid.SampledFrom([]int64{0, 1, 50, 200, 1000, 1e6, 1e6, 1e6}).Draw(rt, "patience")),
					})
				}
				var verdict error
				synctest.Test(t, func(t *testing.T) { verdict = playLine(t, m, g, callers) })
				if verdict != nil {
					rt.Fatal(verdict)
				}
			})
		})
	}
}

func playLine(t *testing.T, m modelled, g grants, callers []*caller) error {
	l := &core{}
	set, err := newSettings(Spec{Permits: g.permits, Per: g.per}, nil)
	if err != nil {
		return err
	}
	l.init(set, m.alg(g))
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			time.Sleep(c.comes)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(c.patience, cancel).Stop()
			c.served = l.AcquireN(ctx, c.n) == nil
			c.left = clock.Instant(clock.System().Since(set.epoch))
		})
	}
	wg.Wait()
	if l.line.n != 0 || l.line.head != nil {
		return errors.New("somebody is left in the line")
	}
	return judgeLine(m.model(g), callers)
}

func judgeLine(mod model, callers []*caller) error {
	free := clock.Instant(0) // when the line was first without those before
	for i, c := range callers {
		free = max(free, clock.Instant(c.comes))
		switch {
		case !c.served && c.left != clock.Instant(c.comes+c.patience):
			return fmt.Errorf("caller %d gave up at %d, not at its time", i, c.left)
		case !c.served && free < c.left-1 && mod.fits(c.left-1, c.n):
			return fmt.Errorf("caller %d gave up at %d, but there was room before", i, c.left)
		case c.served && !mod.fits(c.left, c.n):
			return fmt.Errorf("caller %d was served %d at %d, where there is no room", i, c.n, c.left)
		case c.served && c.left < free:
			return fmt.Errorf("caller %d was served at %d, before those who came first", i, c.left)
		case c.served && c.left > free && mod.fits(c.left-1, c.n):
			return fmt.Errorf("caller %d was served %d at %d, and could have been before; first since %d", i, c.n, c.left, free)
		}
		if c.served {
			mod.grant(c.left, c.n)
		}
		free = max(free, c.left)
	}
	return nil
}

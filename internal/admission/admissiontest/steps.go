package admissiontest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

// stepPlans returns plans of each kind: whole and fractional rates, the shortest and a long window, capacities of one
// token and of more than any step takes.
func stepPlans() []admission.Plan {
	return []admission.Plan{
		Bucket("b10", 10, 1), Bucket("b100", 100, 33.3), Bucket("b7", 7, 0.1), Bucket("b3", 3, 1.0/3),
		Bucket("slow", 2, 1e-9), Bucket("vast", admission.MaxCapacity, 1e9),
		Fixed("f5", 5, time.Second), Fixed("f100", 100, time.Minute), Fixed("f9", 9, 24*time.Hour),
		Sliding("s10", 10, time.Second), Sliding("s100", 100, time.Hour), Sliding("s3", 3, time.Millisecond),
		Sliding("s7", 7, 1234567*time.Microsecond),
	}
}

// latest is where the clock stops: a double still holds its microseconds.
var latest = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)

// goesBack is how far the clock goes back in steps, at most, from the latest time it showed. Stores may forget what was
// over by that latest time, and keep it for a while longer because of this.
const goesBack = 30 * time.Second

func (s *suite) steps() {
	furthest := s.clk.Now()
	for seed := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for range s.opts.Steps {
			to := s.clk.Now().Add(anyMove(rnd))
			if to.Before(latest) && to.After(furthest.Add(-goesBack)) {
				s.clk.Set(to)
			}
			if to = s.clk.Now(); to.After(furthest) {
				furthest = to
			}
			s.anyTake(rnd)
		}
	}
}

// closeSteps compares decisions while the clock moves by steps as on a busy server.
func (s *suite) closeSteps() {
	rnd := rand.New(rand.NewPCG(4, 1))
	for range s.opts.Steps {
		s.clk.Move(below(rnd, 400*time.Millisecond))
		s.anyTake(rnd)
	}
}

func (s *suite) anyTake(rnd *rand.Rand) {
	s.Helper()
	plans := stepPlans()
	rnd.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	plans = plans[:1+rnd.IntN(4)]
	n := int64(1)
	switch rnd.IntN(6) {
	case 0:
		n = rnd.Int64N(12)
	case 1:
		n = rnd.Int64N(plans[0].Capacity + 2)
	}
	s.compare([]string{"ann", "bob", ""}[rnd.IntN(3)], n, plans...)
}

func anyMove(rnd *rand.Rand) time.Duration {
	const year = 365 * 24 * time.Hour
	sizes := []time.Duration{0, time.Microsecond, time.Millisecond, time.Second, time.Second, time.Minute, time.Hour, 40 * 24 * time.Hour}
	switch rnd.IntN(100) {
	case 0:
		return below(rnd, 8*year)
	case 1, 2, 3, 4, 5, 6:
		return -below(rnd, goesBack)
	}
	size := sizes[rnd.IntN(len(sizes))]
	if rnd.IntN(3) == 0 {
		return size // exactly, to test the borders
	}
	return below(rnd, 2*size+time.Microsecond)
}

func below(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(d.Microseconds())) * time.Microsecond
}

func (s *suite) replacedSteps() {
	rnd := rand.New(rand.NewPCG(5, 1))
	forms := []admission.Plan{
		Sliding("p", 10, time.Second), Sliding("p", 20, 10*time.Second), Sliding("p", 7, time.Minute), Sliding("p", 50, 1234567*time.Microsecond),
		Fixed("p", 5, time.Second), Fixed("p", 30, 7*time.Second), Fixed("p", 9, time.Minute),
		Bucket("p", 10, 1), Bucket("p", 100, 33.3), Bucket("p", 2, 0.1),
	}
	for range s.opts.Steps {
		s.clk.Move(below(rnd, 2*time.Second))
		if rnd.IntN(10) == 0 {
			s.clk.Move(-below(rnd, 3*time.Second))
		}
		p := forms[rnd.IntN(len(forms))]
		s.compare([]string{"ann", "bob"}[rnd.IntN(2)], rnd.Int64N(p.Capacity+1), p)
	}
}

// allOrNone has the last of three plans deny: the first two must be unchanged, not even refilled, which the rounding of
// later decisions would show.
func (s *suite) allOrNone() {
	first, second, third := Bucket("first", 100, 1.0/3), Sliding("second", 100, time.Minute), Fixed("third", 2, time.Hour)
	for range 2 {
		s.compare("key", 1, first, second, third)
	}
	for range 20 {
		s.clk.Move(123457 * time.Microsecond)
		r := s.compare("key", 1, first, second, third)
		require.False(s, r.Allowed)
		require.Equal(s, "third", r.Plan)
	}
	for _, p := range []admission.Plan{first, second} {
		require.Contains(s, []int64{98, 100}, s.compare("key", 0, p).Remaining, "%s: two were charged, and may have refilled", p.Name)
		s.compare("key", 7, p)
	}
}

// looking takes no tokens, which is always allowed and changes nothing, also for an unknown key.
func (s *suite) looking() {
	p := Bucket("b", 3, 1)
	for range 5 {
		require.Equal(s, admission.Result{Allowed: true, Limit: 3, Remaining: 3, Plan: "b"}, s.compare("key", 0, p))
	}
	s.compare("key", 3, p)
	require.Equal(s, admission.Result{Allowed: true, Limit: 3, Reset: 3 * time.Second, Plan: "b"}, s.compare("key", 0, p))
}

func (s *suite) endedContext() {
	p := Bucket("b", 1, 1)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := s.repo.Take(ctx, "key", []admission.Plan{p}, 1)
	require.ErrorIs(s, err, context.Canceled)
	require.True(s, s.take("key", 1, p).Allowed, "the one with the ended context was charged")
}

// littleBack moves the clock back by less than a plan remembers, and to before the beginning of the window. Nothing may
// be granted twice. A denial must tell the time when the clock has caught up and the tokens are there, and at that time
// they must be granted.
func (s *suite) littleBack() {
	for _, tc := range []struct {
		plan admission.Plan
		wait time.Duration // the clock is 2s back, a second before the window
	}{
		{Bucket("b", 10, 1), 2*time.Second + time.Second},
		{Fixed("f", 10, 10*time.Second), time.Second + 10*time.Second},
		{Sliding("s", 10, 10*time.Second), time.Second + 10*time.Second},
	} {
		key := tc.plan.Name
		s.clk.Set(start.Truncate(10 * time.Second).Add(time.Second))
		granted := s.admits(key, 10, tc.plan)
		for range 10 {
			s.clk.Move(-2 * time.Second)
			r := s.take(key, 1, tc.plan)
			require.False(s, r.Allowed, key)
			require.Equal(s, tc.wait, r.Wait, key)
			granted += s.admits(key, 10, tc.plan)
			s.clk.Move(2 * time.Second)
			granted += s.admits(key, 10, tc.plan)
		}
		require.Equal(s, 10, granted, "%s: while the clock went to and fro", key)
		s.clk.Move(tc.wait - 2*time.Second)
		require.True(s, s.take(key, 1, tc.plan).Allowed, "%s: the clock has caught up", key)
	}
}

// farBack moves the clock back by more than plans remember: then a wrong clock wrote the state, and nobody may be
// blocked until that time.
func (s *suite) farBack() {
	for _, p := range []admission.Plan{Bucket("b", 10, 1), Fixed("f", 10, 10*time.Second), Sliding("s", 10, 10*time.Second)} {
		s.clk.Set(start.AddDate(20, 0, 0))
		s.admits(p.Name, 10, p)
		s.clk.Set(start)
		require.Equal(s, 10, s.admits(p.Name, 10, p), "%s: the clock was set back by 20 years", p.Name)
	}
}

// idle leaves keys unused for two hundred years, where sums of nanoseconds overflow.
func (s *suite) idle() {
	for _, p := range stepPlans() {
		s.clk.Set(start)
		s.compare("key", min(p.Capacity, 2), p)
		s.clk.Set(start.AddDate(200, 0, 0))
		r := s.compare("key", 1, p)
		require.True(s, r.Allowed && (p.Name == "vast" || r.Remaining == p.Capacity-1), "%s after 200 years: %+v", p.Name, r)
	}
}

func (s *suite) extremes() {
	const most = admission.MaxCapacity
	for _, p := range []admission.Plan{
		Bucket("slowest", most, 1e-9), Bucket("fastest", 1, 1e9), Bucket("vast", most, 1e9), Bucket("one", 1, 1e-9),
		Fixed("shortest", most, time.Millisecond), Sliding("short", most, time.Millisecond),
		Fixed("longest", most, 366*24*time.Hour), Sliding("long", most, 366*24*time.Hour),
	} {
		for _, n := range []int64{1, p.Capacity - 1, p.Capacity, p.Capacity + 1, 1} {
			for _, d := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Second} {
				s.clk.Move(d)
				s.compare("key", n, p)
			}
		}
	}
}

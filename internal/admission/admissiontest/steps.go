package admissiontest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

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
		if r := s.compare("key", 1, first, second, third); r.Allowed || r.Plan != "third" {
			s.Fatalf("Take of all three = %+v, want third to deny", r)
		}
	}
	for _, p := range []admission.Plan{first, second} {
		if r := s.compare("key", 0, p); r.Remaining != 100 && r.Remaining != 98 {
			s.Errorf("%s has %d of 100 left after two were charged, want 98 or, refilled, 100", p.Name, r.Remaining)
		}
		s.compare("key", 7, p)
	}
}

// looking takes no tokens, which is always allowed and changes nothing, also for an unknown key.
func (s *suite) looking() {
	p := Bucket("b", 3, 1)
	for range 5 {
		if r := s.compare("key", 0, p); !r.Allowed || r.Remaining != 3 || r.Reset != 0 {
			s.Fatalf("Take(0) = %+v, want all 3 left", r)
		}
	}
	s.compare("key", 3, p)
	if r := s.compare("key", 0, p); !r.Allowed || r.Remaining != 0 || r.Reset != 3*time.Second {
		s.Errorf("Take(0) of an empty bucket = %+v, want it allowed with 0 left, full in 3s", r)
	}
}

func (s *suite) endedContext() {
	p := Bucket("b", 1, 1)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if r, err := s.repo.Take(ctx, "key", []admission.Plan{p}, 1); !errors.Is(err, context.Canceled) {
		s.Errorf("Take with an ended context = %+v, %v, want context.Canceled", r, err)
	}
	if r := s.take("key", 1, p); !r.Allowed {
		s.Errorf("Take = %+v: the one with the ended context was charged", r)
	}
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
			if r := s.take(key, 1, tc.plan); r.Allowed || r.Wait != tc.wait {
				s.Errorf("%s: Take with the clock 2s back = %+v, want a wait of %v", key, r, tc.wait)
			}
			granted += s.admits(key, 10, tc.plan)
			s.clk.Move(2 * time.Second)
			granted += s.admits(key, 10, tc.plan)
		}
		if granted != 10 {
			s.Errorf("%s: %d granted while the clock went to and fro, want 10", key, granted)
		}
		s.clk.Move(tc.wait - 2*time.Second)
		if r := s.take(key, 1, tc.plan); !r.Allowed {
			s.Errorf("%s: Take after the clock has caught up = %+v, want it allowed", key, r)
		}
	}
}

// farBack moves the clock back by more than plans remember: then a wrong clock wrote the state, and nobody may be
// blocked until that time.
func (s *suite) farBack() {
	for _, p := range []admission.Plan{Bucket("b", 10, 1), Fixed("f", 10, 10*time.Second), Sliding("s", 10, 10*time.Second)} {
		s.clk.Set(start.AddDate(20, 0, 0))
		s.admits(p.Name, 10, p)
		s.clk.Set(start)
		if got := s.admits(p.Name, 10, p); got != 10 {
			s.Errorf("%s: %d granted after the clock was set back by 20 years, want 10", p.Name, got)
		}
	}
}

// idle leaves keys unused for two hundred years, where sums of nanoseconds overflow.
func (s *suite) idle() {
	for _, p := range stepPlans() {
		s.clk.Set(start)
		s.compare("key", min(p.Capacity, 2), p)
		s.clk.Set(start.AddDate(200, 0, 0))
		if r := s.compare("key", 1, p); !r.Allowed || p.Name != "vast" && r.Remaining != p.Capacity-1 {
			s.Errorf("%s: Take after 200 years = %+v, want all but that one left", p.Name, r)
		}
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

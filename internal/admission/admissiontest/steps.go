package admissiontest

import (
	"math/rand/v2"
	"time"

	"github.com/treadlight/crawl/internal/admission"
)

// stepPlans are of each kind: whole and broken rates, the shortest and a long window, one
// token and more than anyone asks for.
func stepPlans() []admission.Plan {
	return []admission.Plan{
		bucket("b10", 10, 1), bucket("b100", 100, 33.3), bucket("b7", 7, 0.1), bucket("b3", 3, 1.0/3),
		bucket("slow", 2, 1e-9), bucket("vast", admission.MaxCapacity, 1e9),
		fixed("f5", 5, time.Second), fixed("f100", 100, time.Minute), fixed("f9", 9, 24*time.Hour),
		sliding("s10", 10, time.Second), sliding("s100", 100, time.Hour), sliding("s3", 3, time.Millisecond),
		sliding("s7", 7, 1234567*time.Microsecond),
	}
}

// latest is where the clock stays: a double still holds its microseconds.
var latest = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)

// goesBack is how far behind the furthest it was the clock goes in steps. Stores may have
// forgotten what was over by that time, and keep it for a while because of this.
const goesBack = 30 * time.Second

// steps compares while the clock goes anywhere, mostly a little on.
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

// closeSteps compares while the clock goes on by what a busy server sees.
func (s *suite) closeSteps() {
	rnd := rand.New(rand.NewPCG(4, 1))
	for range s.opts.Steps {
		s.clk.Move(below(rnd, 400*time.Millisecond))
		s.anyTake(rnd)
	}
}

// anyTake asks for any weight under one to four plans.
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
		return size // exactly, for the borders
	}
	return below(rnd, 2*size+time.Microsecond)
}

// below is a whole number of microseconds in [0, d).
func below(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(d.Microseconds())) * time.Microsecond
}

// replacedSteps compares while a plan is replaced by others of its name.
func (s *suite) replacedSteps() {
	rnd := rand.New(rand.NewPCG(5, 1))
	forms := []admission.Plan{
		sliding("p", 10, time.Second), sliding("p", 20, 10*time.Second), sliding("p", 7, time.Minute), sliding("p", 50, 1234567*time.Microsecond),
		fixed("p", 5, time.Second), fixed("p", 30, 7*time.Second), fixed("p", 9, time.Minute),
		bucket("p", 10, 1), bucket("p", 100, 33.3), bucket("p", 2, 0.1),
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

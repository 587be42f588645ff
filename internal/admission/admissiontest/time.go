package admissiontest

import (
	"time"

	"github.com/treadlight/crawl/internal/admission"
)

// littleBack has the clock go back by less than a plan remembers, and beyond where the
// window began. Nothing is granted twice, what is denied is told to come when the clock
// has caught up and the tokens are there, and then it gets them.
func (s *suite) littleBack() {
	for _, tc := range []struct {
		plan admission.Plan
		wait time.Duration // 2s back, which is a second before the window
	}{
		{bucket("b", 10, 1), 2*time.Second + time.Second},
		{fixed("f", 10, 10*time.Second), time.Second + 10*time.Second},
		{sliding("s", 10, 10*time.Second), time.Second + 10*time.Second},
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

// farBack has the clock go back by more than plans remember: whoever wrote the state had
// a wrong clock, and nobody may be blocked until that time comes.
func (s *suite) farBack() {
	for _, p := range []admission.Plan{bucket("b", 10, 1), fixed("f", 10, 10*time.Second), sliding("s", 10, 10*time.Second)} {
		s.clk.Set(start.AddDate(20, 0, 0))
		s.admits(p.Name, 10, p)
		s.clk.Set(start)
		if got := s.admits(p.Name, 10, p); got != 10 {
			s.Errorf("%s: %d granted after the clock was set back by 20 years, want 10", p.Name, got)
		}
	}
}

// idle leaves keys alone for two hundred years, where sums of nanoseconds overflow.
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

// extremes are the plans at the ends of their ranges.
func (s *suite) extremes() {
	const most = admission.MaxCapacity
	for _, p := range []admission.Plan{
		bucket("slowest", most, 1e-9), bucket("fastest", 1, 1e9), bucket("vast", most, 1e9), bucket("one", 1, 1e-9),
		fixed("shortest", most, time.Millisecond), sliding("short", most, time.Millisecond),
		fixed("longest", most, 366*24*time.Hour), sliding("long", most, 366*24*time.Hour),
	} {
		for _, n := range []int64{1, p.Capacity - 1, p.Capacity, p.Capacity + 1, 1} {
			for _, d := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Second} {
				s.clk.Move(d)
				s.compare("key", n, p)
			}
		}
	}
}

// replaced puts other plans of the same name in a plan's place: what was used stays used,
// a bucket holds no more than the new one can, and one of another kind does not fail.
func (s *suite) replaced() {
	s.compare("key", 60, bucket("p", 100, 1))
	if r := s.compare("key", 1, bucket("p", 10, 1)); !r.Allowed || r.Remaining != 9 {
		s.Errorf("Take after the capacity was cut from 100 to 10 = %+v, want 9 left", r)
	}
	if r := s.compare("key", 1, bucket("p", 1000, 1)); !r.Allowed || r.Remaining != 8 {
		s.Errorf("Take after the capacity was raised to 1000 = %+v, want 8 left", r)
	}
	s.clk.Move(time.Second)
	if r := s.compare("key", 1, bucket("p", 1000, 5)); !r.Allowed || r.Remaining != 12 {
		s.Errorf("Take 1s after the rate was raised to 5/s = %+v, want 12 left", r)
	}
	s.compare("w", 8, fixed("w", 10, time.Minute))
	if r := s.compare("w", 1, fixed("w", 5, time.Minute)); r.Allowed {
		s.Errorf("Take of a window that was cut below what is used = %+v, want it denied", r)
	}
	s.compare("w", 1, fixed("w", 10, time.Hour))
	s.compare("w", 1, fixed("w", 10, time.Second))
	if r := s.compare("key", 4, sliding("p", 4, time.Hour)); !r.Allowed {
		s.Errorf("Take(4) of a bucket that became a window of 4 = %+v, want it to begin anew", r)
	}
	if r := s.compare("w", 10, bucket("w", 10, 1)); !r.Allowed {
		s.Errorf("Take(10) of a window that became a bucket of 10 = %+v, want it to begin anew", r)
	}
}

package admissiontest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/admission"
)

// exactInstants is a table that does not lean on the pure functions. The clock is set to
// a whole day first, where all windows begin.
func (s *suite) exactInstants() {
	day := time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)
	ms := time.Millisecond
	type step struct {
		at          time.Duration
		n           int64
		allowed     bool
		remaining   int64
		wait, reset time.Duration
	}
	for _, tc := range []struct {
		plan  admission.Plan
		steps []step
	}{
		{bucket("bucket", 5, 2), []step{
			{0, 3, true, 2, 0, 1500 * ms},
			{0, 3, false, 2, 500 * ms, 1500 * ms},
			{250 * ms, 3, false, 2, 250 * ms, 1250 * ms},
			{499 * ms, 3, false, 2, 1 * ms, 1001 * ms},
			{500 * ms, 3, true, 0, 0, 2500 * ms},
			{501 * ms, 1, false, 0, 499 * ms, 2499 * ms},
			{time.Hour, 5, true, 0, 0, 2500 * ms},
			{time.Hour, 6, false, 0, admission.Never, 2500 * ms},
		}},
		{fixed("fixed", 3, time.Second), []step{
			{0, 2, true, 1, 0, 1000 * ms},
			{900 * ms, 2, false, 1, 100 * ms, 100 * ms},
			{900 * ms, 1, true, 0, 0, 100 * ms},
			{999 * ms, 1, false, 0, 1 * ms, 1 * ms},
			{1000 * ms, 3, true, 0, 0, 1000 * ms},
			{3500 * ms, 1, true, 2, 0, 500 * ms},
			{3600 * ms, 4, false, 2, admission.Never, 400 * ms},
		}},
		{sliding("sliding", 10, time.Second), []step{
			{0, 10, true, 0, 0, 2000 * ms},
			{500 * ms, 1, false, 0, 500 * ms, 1500 * ms},
			{1000 * ms, 1, true, 0, 0, 2000 * ms}, // of the ten, a microsecond has left the window
			{1000 * ms, 1, false, 0, 100 * ms, 2000 * ms},
			{1100 * ms, 1, true, 0, 0, 1900 * ms},
			{1500 * ms, 5, false, 4, 100 * ms, 1500 * ms}, // 5 of before, 2 of now, and 4 more before the last
			{1600 * ms, 5, true, 0, 0, 1400 * ms},
			{2000 * ms, 4, true, 0, 0, 2000 * ms}, // 7 of before
			{4000 * ms, 0, true, 10, 0, 0},
		}},
	} {
		for i, st := range tc.steps {
			s.clk.Set(day.Add(st.at))
			got := s.take("key", st.n, tc.plan)
			want := admission.Result{
				Allowed: st.allowed, Limit: tc.plan.Capacity, Remaining: st.remaining,
				Wait: st.wait, Reset: st.reset, Plan: tc.plan.Name,
			}
			switch {
			case st.wait == admission.Never:
				want.Reason = admission.ReasonTooLarge
			case !st.allowed:
				want.Reason = admission.ReasonLimited
			}
			told := admission.Result{
				Allowed: got.Allowed, Limit: got.Limit, Remaining: got.Remaining,
				Wait: got.Wait, Reset: got.Reset, Plan: got.Plan, Reason: got.Reason,
			}
			if told != want {
				s.Errorf("%s, step %d: Take(%d) at %v =\n %+v, want\n %+v", tc.plan.Name, i, st.n, st.at, got, want)
			}
		}
	}
}

// steady has a client ask as often as a plan allows, evenly and without a look at the
// answers: it gets all of it, wherever in the window it begins.
func (s *suite) steady() {
	phases := []time.Duration{333333 * time.Microsecond, 0, time.Microsecond, 999999 * time.Microsecond}
	for _, capacity := range []int64{1, 2, 3, 5, 10, 100} {
		for i, phase := range phases {
			s.steadily(sliding(fmt.Sprintf("s%d-%d", capacity, i), capacity, time.Second), phase)
		}
		s.steadily(fixed(fmt.Sprintf("f%d", capacity), capacity, time.Second), phases[0])
		s.steadily(bucket(fmt.Sprintf("b%d", capacity), capacity, float64(capacity)), phases[0])
	}
}

// steadily asks for all that p allows in a second, from phase on.
func (s *suite) steadily(p admission.Plan, phase time.Duration) {
	begin := s.clk.Now().Truncate(time.Second).Add(2*time.Second + phase)
	for n := range min(100, 4*p.Capacity) + 1 {
		s.clk.Set(begin.Add(time.Duration(n) * time.Second / time.Duration(p.Capacity)).Truncate(time.Microsecond))
		if r := s.compare("key", 1, p); !r.Allowed {
			s.Fatalf("%s from %v: request %d = %+v, want it allowed", p.Name, phase, n, r)
		}
	}
}

// allOrNone has the last of three plans deny: the first two must not have been charged,
// nor so much as refilled, which would show in the rounding of what comes after.
func (s *suite) allOrNone() {
	first, second, third := bucket("first", 100, 1.0/3), sliding("second", 100, time.Minute), fixed("third", 2, time.Hour)
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

// tightest has plans that differ in who denies for longest and who has least left.
func (s *suite) tightest() {
	a, b, c := bucket("a", 5, 1), bucket("b", 3, 0.1), fixed("c", 4, time.Second)
	for _, want := range []struct {
		plan      string
		remaining int64
	}{{"b", 2}, {"b", 1}, {"b", 0}} {
		if r := s.compare("key", 1, a, b, c); r.Plan != want.plan || r.Remaining != want.remaining || !r.Allowed {
			s.Errorf("Take = %+v, want %s allowing with %d left", r, want.plan, want.remaining)
		}
	}
	s.take("key", 1, c)
	if r := s.take("key", 1, a, b, c); r.Allowed || r.Plan != "b" || r.Wait != 10*time.Second {
		s.Errorf("Take = %+v, want b denying for 10s, which is longer than c does", r)
	}
	d, e := bucket("d", 2, 1), bucket("e", 2, 1)
	if r := s.take("key", 1, d, e); r.Plan != "d" {
		s.Errorf("of equals %q is told, want the first", r.Plan)
	}
}

func (s *suite) weights() {
	for _, p := range []admission.Plan{bucket("b", 10, 1), fixed("f", 10, time.Hour), sliding("s", 10, time.Hour)} {
		for _, n := range []int64{3, 4} {
			if r := s.compare("key", n, p); !r.Allowed {
				s.Errorf("%s: Take(%d) = %+v, want it allowed", p.Name, n, r)
			}
		}
		if r := s.compare("key", 4, p); r.Allowed || r.Remaining != 3 {
			s.Errorf("%s: Take(4) of 3 = %+v, want it denied with 3 left", p.Name, r)
		}
		if r := s.compare("key", 3, p); !r.Allowed || r.Remaining != 0 {
			s.Errorf("%s: Take(3) of 3 after a denial = %+v, want it allowed", p.Name, r)
		}
		if r := s.compare("new", math.MaxInt64, p); r.Reason != admission.ReasonTooLarge || r.Wait != admission.Never {
			s.Errorf("%s: Take of more than it ever has = %+v, want TOO_LARGE", p.Name, r)
		}
	}
}

// looking asks for no tokens, which is always allowed and changes nothing, not for a key
// that is not known either.
func (s *suite) looking() {
	p := bucket("b", 3, 1)
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

// waiting does as it is told: at Wait it is let in, and a microsecond before it is not.
func (s *suite) waiting() {
	for _, p := range stepPlans() {
		if p.Name == "slow" || p.Name == "vast" {
			continue // the one waits too long for a clock, the other not at all
		}
		for _, n := range []int64{1, 2, p.Capacity} {
			s.clk.Move(12345678 * time.Microsecond)
			var r admission.Result
			for r = s.compare(p.Name, n, p); r.Allowed; r = s.compare(p.Name, n, p) {
			}
			s.clk.Move(r.Wait - time.Microsecond)
			if early := s.compare(p.Name, n, p); early.Allowed || early.Wait != time.Microsecond {
				s.Errorf("%s: Take(%d) 1µs before the Wait of %v = %+v, want 1µs more", p.Name, n, r.Wait, early)
			}
			s.clk.Move(time.Microsecond)
			if r := s.compare(p.Name, n, p); !r.Allowed {
				s.Errorf("%s: Take(%d) after its Wait = %+v, want it allowed", p.Name, n, r)
			}
		}
	}
}

func (s *suite) endedContext() {
	p := bucket("b", 1, 1)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if r, err := s.repo.Take(ctx, "key", []admission.Plan{p}, 1); !errors.Is(err, context.Canceled) {
		s.Errorf("Take with an ended context = %+v, %v, want context.Canceled", r, err)
	}
	if r := s.take("key", 1, p); !r.Allowed {
		s.Errorf("Take = %+v: the one with the ended context was charged", r)
	}
}

package memory

import (
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/admission"
)

// account is what a key has used of one plan.
type account struct {
	plan   string // its name; "" if there is no account
	window bool   // whether state is that of a window; of another kind it says nothing
	class  uint8  // of the sketch it goes to
	share  uint16 // of the plan that was used when it was last charged
	state  admission.State
	until  admission.Micros // from then on nothing in state counts
}

// is reports whether a is an account of p.
func (a *account) is(p *admission.Plan) bool {
	return a.plan == p.Name && a.window == (p.Window != 0)
}

// until is the time at which nothing counts any more, by the Result of a decision at now.
func until(now admission.Micros, res *admission.Result) admission.Micros {
	if res.Reset == admission.Never {
		return math.MaxInt64
	}
	return now + admission.Micros(res.Reset/time.Microsecond)
}

// slot is a key and its accounts, of which there is at least one, or it is free.
type slot struct {
	hash  uint64
	key   string
	first account
	more  []account
}

func (s *slot) taken() bool { return s.first.plan != "" }

// over reports whether the key may be forgotten.
func (s *slot) over(now admission.Micros) bool {
	if now < s.first.until {
		return false
	}
	return !slices.ContainsFunc(s.more, func(a account) bool { return now < a.until })
}

// weight is how much the key's forgetting would give it: the largest share of a plan that it
// has used.
func (s *slot) weight(now admission.Micros) (most uint16) {
	if now < s.first.until {
		most = s.first.share
	}
	for i := range s.more {
		if now < s.more[i].until {
			most = max(most, s.more[i].share)
		}
	}
	return most
}

// find is the account of that plan, whatever its kind is, or nil.
func (s *slot) find(plan string) *account {
	if s.first.plan == plan {
		return &s.first
	}
	for i := range s.more {
		if s.more[i].plan == plan {
			return &s.more[i]
		}
	}
	return nil
}

// takeAll charges n tokens of all plans or of none, and writes the tightest's Result.
func (s *slot) takeAll(plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) {
	var room [usualPlans]account
	next := room[:0]
	*res = admission.Result{Allowed: true}
	for i := range plans {
		p := &plans[i]
		a := account{plan: p.Name, window: p.Window != 0, class: classOf(p)}
		if known := s.find(p.Name); known != nil && known.is(p) {
			a.state = known.state
		} else {
			a.state = p.Fresh(now)
		}
		var r admission.Result
		p.Charge(&a.state, now, n, &r)
		a.until, a.share = until(now, &r), shareOf(&r)
		next = append(next, a)
		if i == 0 || r.Tighter(res) {
			*res = r
		}
	}
	if res.Allowed && n > 0 {
		for i := range next {
			s.set(&next[i], now)
		}
	}
}

// set puts an account in the place of the one of its plan, of one that is over, or behind
// all others. So a key has no more accounts than plans that still count for it.
func (s *slot) set(a *account, now admission.Micros) {
	if old := s.find(a.plan); old != nil {
		*old = *a
		return
	}
	if !s.taken() {
		s.first = *a
		return
	}
	for i := range s.more {
		if s.more[i].until <= now-keepFor {
			s.more[i] = *a
			return
		}
	}
	s.more = append(s.more, *a)
}

// drop removes the accounts of plans and reports whether none is left.
func (s *slot) drop(plans []admission.Plan) bool {
	gone := func(a account) bool {
		return slices.ContainsFunc(plans, func(p admission.Plan) bool { return p.Name == a.plan })
	}
	s.more = slices.DeleteFunc(s.more, gone)
	if gone(s.first) {
		s.first = account{}
		if len(s.more) > 0 {
			s.first = s.more[0]
			s.more = slices.Delete(s.more, 0, 1)
		}
	}
	return !s.taken()
}

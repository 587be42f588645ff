package redis

import (
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// lease is tokens of a list of plans that were charged already.
type lease struct {
	plans []admission.Plan
	until clock.Instant // when what is left is dropped
	left  int64
	used  int64 // since it began, by the question that brought it too
	size  int64 // what is asked for at a time; 1 while it is not asked often enough to pay

	// states are those after what was used, as if the rest had not been charged yet.
	// By them headers tell what is left; only others' use is missing.
	states []admission.State
	sight

	fetching chan struct{} // closed when the next has landed; nil if none is under way
}

// largest is how many tokens a lease of plans may have: what flows in while it lasts, and
// so little of a capacity that all processes together hold half of it at most.
func (l *local) largest(plans []admission.Plan) int64 {
	if l.cfg.Lease == 0 {
		return 0
	}
	most := admission.MaxCapacity
	for i := range plans {
		p := &plans[i]
		rate := p.TokensPerSecond
		if p.Window != 0 {
			rate = float64(p.Capacity) / p.Window.Seconds()
		}
		flow := min(rate*l.cfg.Lease.Seconds(), float64(admission.MaxCapacity))
		most = min(most, int64(flow), p.Capacity/int64(2*l.cfg.Instances))
	}
	return most
}

// lease is that of a list of plans, made if there is none. Plans whose numbers were
// replaced are another list.
func (e *entry) lease(plans []admission.Plan) *lease {
	for _, ls := range e.leases {
		if slices.Equal(ls.plans, plans) {
			return ls
		}
	}
	if len(e.leases) == perKey {
		e.leases = slices.Delete(e.leases, 0, 1)
	}
	ls := &lease{plans: slices.Clone(plans), size: 1}
	e.leases = append(e.leases, ls)
	return ls
}

// take charges n to the lease if it has so many.
func (ls *lease) take(now clock.Instant, n int64) (admission.Result, bool) {
	if now >= ls.until || ls.left < n {
		return admission.Result{}, false
	}
	res := admission.TakeAll(ls.states, ls.plans, ls.earliest(now), n)
	if !res.Allowed { // by a plan of which not even the tokens charged are there any more
		return admission.Result{}, false
	}
	ls.left -= n
	ls.used += n
	return res, true
}

// fetch says how many tokens to ask for when n are needed and the lease does not have
// them. Whoever asks for more than it needs is alone in it, and others wait.
func (ls *lease) fetch(v *look, now clock.Instant, n, most int64) {
	if ls.fetching != nil {
		v.wait = ls.fetching
		return
	}
	size := ls.used
	if now < ls.until { // it was used up early: at this pace it would have needed so many
		pace := float64(ls.until.Sub(ls.sent)) / float64(max(1, now.Sub(ls.sent)))
		size = int64(math.Ceil(min(float64(ls.used)*pace, float64(2*max(ls.size, n)))))
	}
	ls.size = min(max(size, 1), most)
	if ls.size > n {
		v.most = ls.size
		v.fetching = make(chan struct{})
		ls.fetching = v.fetching
	}
}

// begin takes the place of the lease before. Time counts from when it was asked for, so
// that no token is used later than a lease's length after it was charged, and in a fixed
// window none is used after its end.
func (ls *lease) begin(length time.Duration, t *told, n int64) {
	if ls.left > t.taken-n && t.sent < ls.until {
		return // by one that asked for no more than it needed
	}
	for i := range ls.plans {
		if p := &ls.plans[i]; p.Kind == admission.KindFixedWindow {
			passed := time.Duration(t.answer.now%admission.Micros(p.Window.Microseconds())) * time.Microsecond
			length = min(length, p.Window-passed)
		}
	}
	ls.until, ls.left, ls.used = t.sent.Add(length), t.taken-n, n
	ls.states = append(ls.states[:0], t.states...)
	ls.sight = sight{t.answer.now, t.sent, t.received}
	admission.TakeAll(ls.states, ls.plans, t.answer.now, n)
}

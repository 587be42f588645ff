package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// window finds a limiter that counts over a span of time and refuses until the span is over, whether its windows are
// fixed or slide. It weighs two explanations of a refusal that lasts. One (rest) is the span that ended when the
// refusals did, of which only the rest was waited for; the same number is admitted in each such span. The other (order)
// is for a limiter whose Retry-After is the length of its window: the span of that length before the refusal.
type window struct {
	spells [2]spell // the latest two refusals that lasted, the newest first; zero if there was none
	now    spell    // the refusal that goes on, or the latest one
	rest   quota    // the first explanation, by the two spells; zero if there is none
	order  quota    // the second explanation; zero if there is none
	habit  bool     // the host's Retry-After is no length of a window: much more was admitted in as long
}

// spell is a refusal that went on for a while: from the first request that was refused to the first that was admitted
// again.
type spell struct {
	since clock.Instant // end of the spell before; before the first, when the strategy was made
	from  clock.Instant // when the request was sent that was refused first
	told  clock.Instant // when its response came
	// The host began to admit again between last and to: last is the latest time at which it still refused, to is when
	// the first admitted request was sent. to is zero while the spell goes on.
	last, to clock.Instant
	order    time.Duration // the latest Retry-After; zero if there was none
	rate     float32       // the controller's rate at from, in requests per second
	sure     bool          // the first refusal leaves no doubt that it is one
}

// took returns how long the spell went on.
func (s *spell) took() time.Duration { return s.to.Sub(s.from) }

// like reports whether both spells may have lasted equally long. A host that locks out for a while refuses so, while
// what is left of a window depends on how soon it was used up.
func (s *spell) like(o *spell) bool {
	return s.last.Sub(s.from) < o.took() && o.last.Sub(o.from) < s.took()
}

// quota is a limit of n requests in a span. The zero quota says nothing.
type quota struct {
	// n is the number of requests, and length the shortest span that is possible, in seconds.
	n, length float64
	// longest is the longest span that is possible, in seconds.
	longest float64
	// low and high bound the rate that the limit sustains, in requests per second.
	low, high float64
	// weight is how likely the quota was to be right, from 0 to 1, when the newest spell ended; see fresh.
	weight float64
}

const (
	// longOrder is the shortest Retry-After that is taken for a window's: a shorter one tells of a bucket's next token.
	longOrder = 3 * time.Second
	// longestSpan is the longest span that is looked at, in seconds; the history reaches further back.
	longestSpan = 600
	// agreed is the weight of an explanation on which two spells agree.
	agreed = .91
	// slack is the share by which a rate that was measured from the history may be wrong.
	slack = .03
)

// observe takes in a response, and reports whether it ended a spell that was long enough to be a window's.
func (w *window) observe(h *history, x *Sample) {
	s := &w.now
	switch open := s.from != 0 && s.to == 0; {
	case x.refused() && !open:
		if s.to != 0 {
			s.since = s.to
		}
		*s = spell{since: s.since, from: x.SentAt, told: x.At, last: x.SentAt, order: x.RetryAfter, rate: float32(x.Rate), sure: x.ordered()}
	case x.refused():
		s.last, s.order = max(s.last, x.SentAt), x.RetryAfter
		if s.order > 0 {
			s.last = max(s.last, x.At.Add(s.order-time.Second))
		}
	case open && x.admitted() && x.SentAt > s.told:
		s.to = x.SentAt
		s.last = min(max(s.last, s.from.Add(s.order-time.Second)), s.to)
		w.weigh(h, x.Tuning)
	}
}

// weigh takes in a spell that has ended if it was too long for a bucket. It compares the spell with the one before.
func (w *window) weigh(h *history, t *Tuning) {
	if !lasting(w.now.took(), float64(w.now.rate)) {
		return
	}
	w.spells = [2]spell{w.now, w.spells[0]}
	w.weighOrder(h, t)
	w.weighRest(h)
}

// sameOrder reports whether both spells had a Retry-After of the same length, to 5 % and to a second.
func (w *window) sameOrder() bool {
	a, b := w.spells[0].order, w.spells[1].order
	return a > 0 && math.Abs(float64(a-b)) <= min(.05*float64(a), float64(rounding)/2)
}

// weighOrder weighs whether the Retry-After is the length of a window: the count is what was admitted in as long before
// the refusal. One round number is weak evidence, the same length twice with the same count is strong. If much more was
// admitted in as long than before, or if twice in a row a rate was refused that such a window admits, the Retry-After is
// a habit of the host.
func (w *window) weighOrder(h *history, t *Tuning) {
	a, known, rate := &w.spells[0], w.order.n, float64(w.spells[0].rate)
	w.order = quota{}
	n := h.between(a.from.Add(-a.order), a.from)
	switch {
	case a.order < longOrder:
		w.habit = w.habit || n > 1 && w.sameOrder()
		return
	case n < 1: // the rate is slower than that, and no window admits less than one request
		return
	}
	weight := .1
	switch {
	case w.sameOrder() && known > 0:
		if w.habit = w.habit || n > t.TooMany*known+1; w.habit {
			return
		}
		low := known / a.order.Seconds()
		if w.habit = rate <= low && float64(w.spells[1].rate) <= 1.02*low; w.habit {
			return
		}
		if rate > 1.02*low {
			n = known // the window was not empty again after the pause before
		}
		if weight = .75; rate < 2*low {
			weight = agreed // it was counted over the whole span
		}
	case w.habit:
		return
	case isRound(a.order):
		weight = .6
	}
	l := a.order.Seconds()
	w.order = quota{n: n, length: l, longest: l, low: n / l, high: n / l, weight: weight}
}

// weighRest takes what the newest spell says for the quota. If the spell before is compatible with it, the bounds of
// both are intersected. They agree unless it may be a lockout. A Retry-After that is the same twice speaks against this
// explanation, since what is left of a window differs each time.
func (w *window) weighRest(h *history) {
	a, b := &w.spells[0], &w.spells[1]
	switch {
	case a.order > 0 && a.order <= rounding && w.rest.weight > 0:
		return // a Retry-After that short is mostly rounding, and says nothing
	case w.sameOrder() && a.order > rounding:
		w.rest = quota{} // what is left of a window differs each time
		return
	}
	q, p := w.one(h, a), w.rest
	switch {
	case q.n < 1: // no window admits less than one request
		w.rest = quota{}
		return
	case b.to != 0 && p.n > 0 && q.low < p.high*(1+slack) && p.low < q.high*(1+slack):
		if q.high = max(min(q.high, p.high), q.low); p.low < q.high {
			q.low = max(q.low, p.low)
		}
		if q.weight = agreed; p.weight < agreed && a.sure && a.like(b) {
			q.weight = .6
		}
	case b.to != 0:
		q.weight = .4
	case a.order > 0 && isRound(a.order):
		q.weight = .1
	default:
		q.weight = .6
	}
	w.rest = q
}

// one returns what a single spell says. The rate is at least the mean since the spell before (all that was admitted
// since then was in one window), and at most the highest mean over any span that ends with the spell.
func (w *window) one(h *history, s *spell) (q quota) {
	age := s.to.Sub(s.since).Seconds()
	q.n, q.longest = h.between(s.since, s.from), age
	q.low = q.n / age
	for x := max(1, s.last.Sub(s.from).Seconds()); x < min(age, longestSpan); x *= 1.02 {
		if n := h.between(s.last.Add(-seconds(x)), s.last); n/x > q.high {
			q.high, q.length = n/x, x
		}
	}
	q.high = max(q.high, q.low)
	q.length = min(max(q.length, q.n/q.high), q.longest)
	return q
}

// chance returns how likely a rate is refused by the two quotas, and the mean pause that this costs, in seconds.
// Between low and high of a quota the chance rises with the logarithm of the rate.
func (w *window) chance(now clock.Instant, x float64) (p, pause float64) {
	ok := 1.
	for i, q := range [...]*quota{&w.order, &w.rest} {
		if q.weight == 0 || x <= q.low {
			continue
		}
		c := q.weight * w.fresh(now, q)
		if x < q.high {
			c *= math.Log(x/q.low) / math.Log(q.high/q.low)
		}
		ok *= 1 - c
		if i > 0 {
			pause += c * q.length * (1 - q.low/x)
		} else {
			pause += c * q.length
		}
	}
	return min(1-ok, .97), pause
}

// fresh returns how much of a quota's weight is left, from 1 down to 0: it falls with the time since the newest spell,
// since limits change.
func (w *window) fresh(now clock.Instant, q *quota) float64 {
	return math.Exp(-now.Sub(w.spells[0].to).Seconds() / max(120, 20*q.length))
}

// proof returns how many seconds a rate must go well to refute the quotas that speak against it; zero if none does.
func (w *window) proof(now clock.Instant, x float64) (seconds float64) {
	for _, q := range [...]*quota{&w.order, &w.rest} {
		if x > q.low && q.weight*w.fresh(now, q) > .05 {
			seconds = max(seconds, 1.05*q.length)
		}
	}
	return seconds
}

// estimate returns the likelier of the two explanations.
func (w *window) estimate() Estimate {
	q := &w.rest
	if w.order.weight > q.weight {
		q = &w.order
	}
	return Estimate{Rate: q.low, Most: q.high, Confidence: q.weight, Cause: control.CauseQuota}
}

// refute drops a quota if much more was admitted over its longest span than it allows. since is when the rate began
// that was not refused. If the explanation by the Retry-After falls, the Retry-After is a habit.
func (w *window) refute(t *Tuning, h *history, since, now clock.Instant) {
	for _, q := range [...]*quota{&w.order, &w.rest} {
		if q.weight > 0 && now.Sub(since).Seconds() >= q.length && h.between(now.Add(-seconds(q.longest)), now) > t.TooMany*q.high*q.longest+1 {
			w.habit = w.habit || q == &w.order
			*q = quota{}
		}
	}
}

// isRound reports whether a person is likely to have configured the Retry-After.
func isRound(order time.Duration) bool {
	tenths := order.Round(100 * time.Millisecond)
	if tenths%time.Second != 0 {
		return false
	}
	switch tenths / time.Second {
	case 1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600:
		return true
	}
	return false
}

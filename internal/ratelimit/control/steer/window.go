package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// window finds a limiter that counts over a span of time and refuses until the span is over, whether its windows are
// fixed or slide. Each refusal that lasted, a spell, bounds the rate that such a limiter admits; the bounds of two
// spells are intersected. If the Retry-After may be the length of the window, the count is what was admitted in as long
// before the refusal.
type window struct {
	spell       // the latest that lasted
	quota quota // what the spells say; zero if nothing
	habit bool  // the host's Retry-After is no length of a window: much more was admitted in as long
}

// spell is a refusal that went on for a while.
type spell struct {
	from clock.Instant // when the request was sent that was refused first
	// The host began to admit again between last and to: last is the latest time at which it still refused, to is when
	// the first admitted request was sent.
	last, to clock.Instant
	order    time.Duration // the latest Retry-After; zero if there was none
	rate     float64       // the controller's rate at from, in requests per second
}

// took returns how long the spell went on.
func (s *spell) took() time.Duration { return s.to.Sub(s.from) }

// like reports whether both spells may have lasted equally long. A host that locks out for a while refuses so, while
// what is left of a window depends on how soon it was used up.
func (s *spell) like(o *spell) bool {
	return s.last.Sub(s.from) < o.took() && o.last.Sub(o.from) < s.took()
}

// sameOrder reports whether both spells had a Retry-After of the same length, to 5 % and to a second.
func (s *spell) sameOrder(o *spell) bool {
	return s.order > 0 && math.Abs(float64(s.order-o.order)) <= min(.05*float64(s.order), float64(rounding)/2)
}

// again reports whether another pause resembles the spell: it ended within ten minutes of it, and began soon after.
func (s *spell) again(began, ended clock.Instant) bool {
	return s.to != 0 && ended.Sub(s.to) < max(10*time.Minute, 10*s.took()) && began.Sub(s.to) < max(30*time.Second, s.took()*6/5)
}

// quota is a limit on the requests in a span. The zero quota says nothing.
type quota struct {
	// low and high bound the rate that the limit sustains, in requests per second.
	low, high float64
	// length is the shortest span that is possible, in seconds.
	length float64
	// weight is how likely the quota was to be right, from 0 to 1, when the newest spell ended; see fresh.
	weight float64
}

const (
	// longestSpan is the longest span that is looked at, in seconds.
	longestSpan = 600
	// single is the weight of a quota that the first spell gave, disputed of one of which a later spell says something
	// else, and agreed of one on which two spells agree.
	single, disputed, agreed = .6, .4, .91
	// slack is the share by which a rate that was measured from the history may be wrong.
	slack = .03
)

// weigh takes in a spell that lasted. since is the end of the pause before, and sure says that the first refusal leaves
// no doubt that it is one. A Retry-After of the same length as before is the window's or says nothing, since what is
// left of a window differs each time. Nor does one that is mostly rounding say anything once a quota is known.
func (w *window) weigh(t *Tuning, h *history, since clock.Instant, s spell, sure bool) {
	before, known, told := w.spell, w.quota, w.told()
	w.spell = s
	switch {
	case s.order > rounding && s.sameOrder(&before):
		if !told {
			known = before.ordered(h)
		}
		w.quota = w.byOrder(t, h, before.rate, known)
	case s.order == 0 || s.order > rounding || told || known.low == 0:
		q := w.rest(h, since)
		if before.to == 0 && (s.order == 0 || s.order > rounding) {
			q.weight = single
		}
		w.quota = q.and(known, sure && s.like(&before))
	}
}

// told reports whether the quota is that of a window as long as the Retry-After.
func (w *window) told() bool { return w.order > 0 && w.quota.length == w.order.Seconds() }

// byOrder returns the quota of a window as long as the Retry-After that came again, if as much was admitted in as long
// before both refusals. If much more was this time, or if twice in a row a rate was refused that such a window admits,
// the Retry-After is a habit of the host, and says nothing.
func (w *window) byOrder(t *Tuning, h *history, before float64, known quota) quota {
	q := w.ordered(h)
	w.habit = w.habit || known.low > 0 && (q.low > t.TooMany*known.low+1/q.length || w.rate <= known.low && before <= 1.02*known.low)
	if w.habit || q.low == 0 || known.low == 0 {
		return quota{}
	}
	same := q.low <= known.low*(1+slack)+1/q.length // no more was admitted than before
	if w.rate > 1.02*known.low {
		q.low, q.high = known.low, known.high // the window was not empty again after the pause before
	}
	if q.weight = .75; same || w.rate < 2*known.low { // else it may not have been counted over the whole span
		q.weight = known.confirmed()
	}
	return q
}

// and returns what the quota of a spell says together with what was known before. If they are compatible, the bounds of
// both are intersected. They agree then, unless it may be a lockout.
func (q quota) and(known quota, lockout bool) quota {
	switch {
	case q.low == 0: // no window admits less than one request
		return quota{}
	case known.low == 0 || q.low >= known.high*(1+slack) || known.low >= q.high*(1+slack):
		return q
	}
	if q.high = max(min(q.high, known.high), q.low); known.low < q.high {
		q.low = max(q.low, known.low)
	}
	if q.weight = known.confirmed(); known.weight < agreed && lockout {
		q.weight = single
	}
	return q
}

// confirmed returns the weight of a quota on which one more spell agrees: each halves the doubt.
func (q *quota) confirmed() float64 { return max(agreed, (1+q.weight)/2) }

// ordered returns the quota of a window as long as the Retry-After.
func (s *spell) ordered(h *history) quota {
	l := s.order.Seconds()
	n := h.between(s.from.Add(-s.order), s.from)
	return quota{low: n / l, high: n / l, length: l}
}

// rest returns what the spell says if it is the rest of a window. The rate is at least the mean since the spell before
// (all that was admitted since then was in one window), and at most the highest mean over any span that ends with the
// spell.
func (w *window) rest(h *history, since clock.Instant) (q quota) {
	age := w.to.Sub(since).Seconds()
	q.low, q.weight = h.between(since, w.from)/age, disputed
	for x := max(1, w.last.Sub(w.from).Seconds()); x < min(age, longestSpan); x *= 1.02 {
		if n := h.between(w.last.Add(-seconds(x)), w.last); n/x > q.high {
			q.high, q.length = n/x, x
		}
	}
	q.high = max(q.high, q.low)
	q.length = min(max(q.length, q.low*age/q.high), age)
	return q
}

// chance returns how likely a rate is refused by the quota, and the mean pause that this costs, in seconds. Between low
// and high the chance rises with the logarithm of the rate.
func (w *window) chance(now clock.Instant, x float64) (p, pause float64) {
	if x <= w.quota.low || w.quota.weight == 0 {
		return 0, 0
	}
	p = w.quota.weight * w.fresh(now)
	if x < w.quota.high {
		p *= math.Log(x/w.quota.low) / math.Log(w.quota.high/w.quota.low)
	}
	if w.told() {
		return p, p * w.quota.length
	}
	return p, p * w.quota.length * (1 - w.quota.low/x)
}

// fresh returns how much of the quota's weight is left, from 1 down to 0: it falls with the time since the spell, since
// limits change, and more slowly the more spells agreed.
func (w *window) fresh(now clock.Instant) float64 {
	slower := min(1, (1-w.quota.weight)/(1-agreed))
	return math.Exp(-now.Sub(w.to).Seconds() * slower / max(120, 20*w.quota.length))
}

// proof returns how many seconds a rate must go well to refute the quota if that speaks against it; otherwise zero.
func (w *window) proof(now clock.Instant, x float64) (seconds float64) {
	if x > w.quota.low && w.quota.weight*w.fresh(now) > .05 {
		return 1.05 * w.quota.length
	}
	return 0
}

// estimate returns the quota.
func (w *window) estimate() Estimate {
	return Estimate{Rate: w.quota.low, Most: w.quota.high, Confidence: w.quota.weight, Cause: control.CauseQuota}
}

// refute drops the quota if a rate was proven that is much faster. If the span was a Retry-After, that is a habit.
func (w *window) refute(t *Tuning, proven float64) {
	if w.quota.weight > 0 && proven > t.TooMany*w.quota.high {
		w.habit = w.habit || w.told()
		w.quota = quota{}
	}
}

package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// window finds a limiter that counts over a span of time and refuses until the span is over, fixed or
// sliding. Two explanations of a refusal that lasts are weighed: the span that ended with it (rest),
// in which as much is admitted each time; and for one that orders to wait as long as it counts, the
// span of that length before the refusal (order).
type window struct {
	spells [2]spell // the latest refusals that lasted, the newest first
	now    spell    // the present one, or one that did not last
	rest   quota
	order  quota
	single quota // rest, as the newest refusal alone says
	habit  bool  // the order is no window's
	agree  uint8 // refusals in a row that say the same
}

// spell is a refusal that went on for a while.
type spell struct {
	since    clock.Instant // end of the last one, or the first request of all
	from     clock.Instant // when what was refused first was sent
	told     clock.Instant // when that was known
	last, to clock.Instant // it ended between these; to is zero until it ended
	order    time.Duration // to wait, as told last
	rate     float64       // that was asked for
}

func (s *spell) took() time.Duration { return s.to.Sub(s.from) }

// quota is so many requests in a span, of which low and high bound the rate.
type quota struct {
	n, length float64 // length in seconds, the shortest that is possible
	longest   float64
	low, high float64 // requests per second
	weight    float64 // from 0 to 1, as of the newest spell
}

const (
	longOrder    = 3 * time.Second // what is shorter is a bucket's next token
	longestSpan  = 600             // seconds; the history reaches further
	sameStops    = 10 * time.Minute
	leastCounted = 5
	slack        = .03 // of what a history measures
	tooFew       = .6  // of a window's count is refused for another reason
)

// observe takes in an answer, and reports whether it ended a refusal that lasted.
func (w *window) observe(h *history, x *Sample) bool {
	s := &w.now
	switch open := s.from != 0 && s.to == 0; {
	case x.refused() && !open:
		if s.to != 0 {
			s.since = s.to
		}
		*s = spell{since: s.since, from: x.SentAt, told: x.At, last: x.SentAt, order: x.RetryAfter, rate: x.Rate}
	case x.refused():
		s.last, s.order = max(s.last, x.SentAt), x.RetryAfter
		if s.order > 0 {
			s.last = max(s.last, x.At.Add(s.order-time.Second))
		}
	case open && x.admitted() && x.SentAt > s.told:
		s.to = x.SentAt
		s.last = min(max(s.last, s.from.Add(s.order-time.Second)), s.to)
		return w.lasted(h, x.Tuning)
	}
	return false
}

// lasted weighs a refusal that is over, if it was longer than a bucket needs for its next token.
func (w *window) lasted(h *history, t *Tuning) bool {
	tokens := 8.
	if w.now.order > 0 {
		tokens = 3
	}
	if w.now.took() < max(time.Second, seconds(tokens/w.now.rate)) {
		return false
	}
	before := w.spells[0]
	if before.to == 0 || w.now.to.Sub(before.to) > max(sameStops, 10*before.took()) {
		before = spell{}
	}
	w.spells = [2]spell{w.now, before}
	w.weighOrder(h, t)
	w.weighRest(h)
	if w.order.weight < .9 && w.rest.weight < .9 {
		w.agree = 0
	}
	return true
}

// agreed counts one refusal more that says the same as the one before, and is how much that is worth.
func (w *window) agreed() float64 {
	w.agree = min(w.agree+1, 3)
	return 1 - math.Pow(.3, float64(w.agree)+1)
}

// sameOrder reports whether both refusals ordered the same wait.
func (w *window) sameOrder() bool {
	a, b := w.spells[0].order, w.spells[1].order
	return a > 0 && math.Abs(float64(a-b)) <= min(.05*float64(a), float64(rounding)/2)
}

// weighOrder looks whether the order is the length.
func (w *window) weighOrder(h *history, t *Tuning) {
	a, known, was := &w.spells[0], w.order.n, w.order.weight
	w.order = quota{}
	if a.order < longOrder && !w.sameOrder() {
		return
	}
	n := h.between(a.from.Add(-a.order), a.from)
	if n < leastCounted {
		return
	}
	weight := .1
	switch {
	case w.sameOrder():
		if w.habit = w.habit || n > t.TooMany*known+1; w.habit {
			return
		}
		if n < tooFew*known {
			n, weight = known, was
			break
		}
		low := known / a.order.Seconds()
		if a.rate > 1.02*low {
			n = known // it is not whole again after the pause before
		}
		if weight = .75; a.rate < 2*low {
			weight = w.agreed() // it was counted over the whole span
		}
	case w.habit:
		return
	case isRound(a.order):
		weight = .6
	}
	l := a.order.Seconds()
	w.order = quota{n: n, length: l, longest: l, low: n / l, high: n / l, weight: weight}
}

// weighRest takes what the newest refusal says, narrowed to what the one before says too.
func (w *window) weighRest(h *history) {
	a, b := &w.spells[0], &w.spells[1]
	switch {
	case a.order > 0 && a.order <= rounding && w.rest.weight > 0:
		return // it is rounded up, and says nothing
	case w.sameOrder() && a.order > rounding:
		w.rest = quota{} // what is left of a window differs
		return
	}
	q, p := w.one(h, a), w.single
	w.single = q
	switch {
	case b.to != 0 && p.n > 0 && q.low < p.high*(1+slack) && p.low < q.high*(1+slack):
		if q.high = max(min(q.high, p.high), q.low); p.low < q.high {
			q.low = max(q.low, p.low)
		}
		q.weight = w.agreed()
	case b.to != 0:
		q.weight = .4
	case a.order == 0:
		q.weight = .6
	case isRound(a.order):
		q.weight = .1
	default:
		q.weight = .6
	}
	w.rest = q
}

// one is what a single refusal says: all of what was admitted since the last one was in the window, or
// the window is the span before the end with the highest mean.
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

// chance is how likely a rate is refused, and the seconds of pause that this costs in the mean.
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

// fresh falls with the time since the evidence: limits change.
func (w *window) fresh(now clock.Instant, q *quota) float64 {
	return math.Exp(-now.Sub(w.spells[0].to).Seconds() / max(120, 20*q.length))
}

// proof is how long a rate must go well to refute what stands against it.
func (w *window) proof(now clock.Instant, x float64) (seconds float64) {
	for _, q := range [...]*quota{&w.order, &w.rest} {
		if x > q.low && q.weight*w.fresh(now, q) > .05 {
			seconds = max(seconds, 1.05*q.length)
		}
	}
	return seconds
}

// estimate is the likelier explanation.
func (w *window) estimate() Estimate {
	q := &w.rest
	if w.order.weight > q.weight {
		q = &w.order
	}
	return Estimate{Rate: q.low, Most: q.high, Confidence: q.weight, Cause: control.CauseQuota}
}

// refute drops what is contradicted by a rate that was not refused since an instant.
func (w *window) refute(t *Tuning, h *history, since, now clock.Instant) {
	for _, q := range [...]*quota{&w.order, &w.rest} {
		if q.weight > 0 && now.Sub(since).Seconds() >= q.length && h.between(now.Add(-seconds(q.longest)), now) > t.TooMany*q.high*q.longest+1 {
			w.habit = w.habit || q == &w.order
			*q = quota{}
		}
	}
}

// isRound reports whether a person chose the order.
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

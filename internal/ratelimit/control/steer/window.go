package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// window is what a stop says of a limiter that counts over a span of time and refuses until the span is over, fixed or
// sliding. Two explanations are weighed: the span that ended with the stop (rest), in which as much is admitted each
// time; and of one that orders to wait as long as it counts, the span of that length before it (order).
type window struct {
	low, high float32 // bounds of the rate, if the span ended with it
	length    float32 // of that span in seconds, the shortest that is possible
	ordered   float32 // admitted in as long as the order, before it
}

// quota is so many requests in a span, of which low and high bound the rate.
type quota struct {
	length, longest float64 // seconds
	low, high       float64 // requests per second
	weight          float64 // from 0 to 1, as of the newest stop
	order           bool    // the order is the length
}

const (
	longOrder    = 3 * time.Second // what is shorter is a bucket's next token
	longestSpan  = 600             // seconds; the history reaches further
	sameStops    = 10 * time.Minute
	leastCounted = 5
	slack        = .05 // of what a history measures
	tooFew       = .6  // of a window's count is refused for another reason
)

// measure has the newest stop, which is over, say what it does of a window: all of what was admitted since the one
// before was in the window, or the window is the span before the end with the highest mean.
func (r *stops) measure(h *history) {
	s, since := &r[0], r[1].to
	s.last = min(max(s.last, s.from.Add(s.order-time.Second)), s.to)
	if !s.long() {
		return
	}
	s.ordered = float32(h.between(s.from.Add(-s.order), s.from))
	age, n := s.to.Sub(since).Seconds(), h.between(since, s.from)
	low, high, length := n/age, 0., 0.
	for x := max(1, s.last.Sub(s.from).Seconds()); x < min(age, longestSpan); x *= 1.02 {
		if n := h.between(s.last.Add(-seconds(x)), s.last); n/x > high {
			high, length = n/x, x
		}
	}
	high = max(high, low)
	s.low, s.high, s.length = float32(low), float32(high), float32(min(max(length, n/high), age))
}

// weigh has the newest stop say what it does of a window.
func (p *pause) weigh(t *Tuning, h *history) {
	p.stops.measure(h)
	if _, habit := p.stops.order(t, 0); habit {
		p.habit = true
	}
}

// before is the long stop before that of an index, if that may be the same limiter's; else the length of the ring.
func (r *stops) before(i int) int {
	j := r.latest(i+1, (*stop).long)
	if j < len(r) && r[i].to.Sub(r[j].to) > max(sameStops, 10*r[j].to.Sub(r[j].from)) {
		return len(r)
	}
	return j
}

// agreed is how much it is worth that so many stops before say the same.
func agreed(n int) float64 { return 1 - math.Pow(.3, float64(n)+1) }

// order looks whether the order of a stop is the length. It cannot be where far more was admitted in as long before.
func (r *stops) order(t *Tuning, i int) (q quota, habit bool) {
	a, j := &r[i], r.before(i)
	same := j < len(r) && a.sameOrder(&r[j])
	if a.order < longOrder && !same || a.ordered < leastCounted {
		return q, false
	}
	l, n, weight := a.order.Seconds(), float64(a.ordered), .1
	if same {
		was, never := r.order(t, j)
		known := was.low * l
		switch {
		case never || n > t.TooMany*known+1:
			return q, true
		case n < tooFew*known:
			n, weight = known, was.weight
		default:
			if weight = .75; a.rate < 2*was.low { // it was counted over the whole span
				weight = max(agreed(1), 1-.3*(1-was.weight))
			}
			if a.rate > 1.02*was.low {
				n = known // it is not whole again after the pause before
			}
		}
	} else if isRound(a.order) {
		weight = .6
	}
	return quota{length: l, longest: l, low: n / l, high: n / l, weight: weight, order: true}, false
}

// rest takes what the newest long stop says, narrowed to what the one before says too.
func (r *stops) rest() (q quota) {
	i := r.latest(0, func(s *stop) bool { return s.long() && (s.order == 0 || s.order > rounding) }) // else it is rounded up
	if i == len(r) {
		return q
	}
	a, j := &r[i], r.before(i)
	if a.high == 0 || j < len(r) && a.sameOrder(&r[j]) && a.order > rounding {
		return q // what is left of a window differs
	}
	q = quota{low: float64(a.low), high: float64(a.high), length: float64(a.length), longest: float64(a.length), weight: .6}
	if i+1 < len(r) {
		q.longest = a.to.Sub(r[i+1].to).Seconds()
	}
	n := 0
	for k := i; j < len(r) && r[k].agrees(&r[j].window); k, j = j, r.before(j) {
		if n++; n == 1 {
			if q.high = max(min(q.high, float64(r[j].high)), q.low); float64(r[j].low) < q.high {
				q.low = max(q.low, float64(r[j].low))
			}
		}
	}
	switch {
	case n > 0:
		q.weight = agreed(n)
	case j < len(r):
		q.weight = .4
	case isRound(a.order):
		q.weight = .1
	}
	return q
}

// agrees reports whether two stops may be one window's.
func (w *window) agrees(b *window) bool {
	return b.high > 0 && w.low < b.high*(1+slack) && b.low < w.high*(1+slack)
}

// quotas are both explanations, of which the weight falls with the time since: limits change.
func (s *Steer) quotas(now clock.Instant) (q [2]quota) {
	i := s.latest(0, (*stop).long)
	if i == len(s.stops) || !s.tune.has(Windows) {
		return q
	}
	if q[0] = s.rest(); !s.habit {
		q[1], _ = s.stops.order(s.tune, i)
	}
	for k := range q {
		q[k].weight *= math.Exp(-now.Sub(s.stops[i].to).Seconds() / max(120, 20*q[k].length))
	}
	return q
}

// refused is how likely a rate is refused, and the seconds of pause that this costs in the mean.
func refused(quotas *[2]quota, x float64) (p, pause float64) {
	ok := 1.
	for i := range quotas {
		q := &quotas[i]
		if q.weight == 0 || x <= q.low {
			continue
		}
		c, lost := q.weight, q.length
		if x < q.high {
			c *= math.Log(x/q.low) / math.Log(q.high/q.low)
		}
		if !q.order {
			lost *= 1 - q.low/x
		}
		ok *= 1 - c
		pause += c * lost
	}
	return min(1-ok, .97), pause
}

// proof is how long a rate must go well to refute what stands against it.
func proof(quotas *[2]quota, x float64) (seconds float64) {
	for i := range quotas {
		if q := &quotas[i]; x > q.low && q.weight > .05 {
			seconds = max(seconds, 1.05*q.length)
		}
	}
	return seconds
}

// likelier is the explanation with more weight.
func likelier(quotas *[2]quota) Estimate {
	q := &quotas[0]
	if quotas[1].weight > q.weight {
		q = &quotas[1]
	}
	return Estimate{Rate: q.low, Most: q.high, Confidence: q.weight, Cause: control.CauseQuota}
}

// refute drops what is contradicted by a rate that was not refused since an instant.
func (s *Steer) refute(since, now clock.Instant) {
	quotas := s.quotas(now)
	for i := range quotas {
		q := &quotas[i]
		if q.weight == 0 || now.Sub(since).Seconds() < q.length || s.history.between(now.Add(-seconds(q.longest)), now) <= s.tune.TooMany*q.high*q.longest+1 {
			continue
		}
		if s.habit = s.habit || q.order; !q.order {
			for k := range s.stops {
				s.stops[k].window = window{}
			}
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

package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// window finds a limiter that counts over a span of time and refuses until the span is over. What
// was admitted in the span that ends where a refusal ends is the same each time; for one that orders
// to wait as long as it counts, what was admitted in the span before the refusal.
type window struct {
	stops [2]span // the latest refusals that lasted, the newest first
	told  quota   // that the order names
	least quota   // the shortest that explains both stops
	most  quota   // the longest

	known    bool
	agreed   bool          // two refusals agree on what was told
	gate     quota         // what may be asked for
	gateTill clock.Instant // until then it gives back what was taken before it was known
}

// span is a refusal: when it began and when it was over.
type span struct {
	from, to clock.Instant
	order    time.Duration
}

// quota is so many requests in so many seconds, with a weight from 0 to 1.
type quota struct{ n, length, weight float64 }

func (q quota) rate() float64 { return q.n / q.length }

// note takes in a refusal at the end of its pause.
func (w *window) note(s *Steer, now clock.Instant) {
	stop := span{from: s.sentAt, to: now, order: s.order}
	if s.order > 0 && s.tries == 0 {
		stop.to = min(now, s.pause.refused)
	}
	least := max(time.Second, seconds(8/s.failRate))
	if s.order > 0 {
		least = max(time.Second, seconds(3/s.failRate))
	}
	if stop.to.Sub(s.at) < least {
		return
	}
	if w.stops[0].to != 0 && now.Sub(w.stops[0].to) < 10*time.Minute {
		w.stops[1] = w.stops[0]
	} else {
		w.stops[1] = span{}
	}
	w.stops[0] = stop
	w.fitTold(s)
	w.fit(s)
	w.settle(s, now)
}

// settle takes a window that two refusals agree on for the belief.
func (w *window) settle(s *Steer, now clock.Instant) {
	low, high := w.most, w.least
	if w.agreed {
		low, high = w.told, w.told
	}
	if w.known = (w.agreed || low.weight+high.weight > .8) && high.rate() < s.failRate*(1+s.tune.Near); !w.known {
		return
	}
	near := s.tune.Near / 2
	s.interval = interval{lo: low.rate() * (1 - near), hi: max(s.hi, high.rate()*(1+near)), run: float32(low.n), open: s.tune.Near}
	s.sure, s.doubts = interval{}, 0
	if low == w.most {
		s.cost = min(s.cost, float32(s.tune.Near*low.length))
	}
	w.gate, w.gateTill = low, now.Add(seconds(2*low.length))
}

// apply keeps a plan from asking for what a window has not given back yet.
func (w *window) apply(s *Steer, now clock.Instant, p *control.Plan) {
	if !w.known || now >= w.gateTill {
		return
	}
	if s.history.between(now.Add(-seconds(w.gate.length)), now)+float64(s.out) >= w.gate.n-1 {
		p.NotBefore = now.Add(max(beat, seconds(1/p.Rate)))
		p.Review = p.NotBefore
	}
}

// predicts reports whether a refusal is of what the window has not given back.
func (w *window) predicts(s *Steer, now clock.Instant) bool {
	return w.known && now < w.gateTill && s.history.between(s.sentAt.Add(-seconds(w.gate.length)), s.sentAt) >= .95*w.gate.n
}

// fitTold looks whether the order is the length.
func (w *window) fitTold(s *Steer) {
	a, b := w.stops[0], w.stops[1]
	if a.order < 3*time.Second && !(a.order > 0 && a.order == b.order) {
		w.told = quota{}
		return
	}
	length := a.order.Seconds()
	n := s.history.between(a.from.Add(-a.order), a.from)
	switch {
	case n < 5:
		w.told = quota{}
	case b.to == 0 || b.order == 0 || math.Abs(b.order.Seconds()/length-1) > .02:
		w.told = quota{n, length, 0}
		if isRound(a.order) && b.to == 0 {
			w.told.weight = .9
		}
	default:
		m := s.history.between(b.from.Add(-a.order), b.from)
		if math.Abs(m-n) <= max(1.5, .1*n) {
			w.told = quota{min(m, n), length, .97}
		} else {
			w.told.weight = 0
		}
	}
}

// fit looks for the lengths in which as much was admitted up to the ends of both refusals.
func (w *window) fit(s *Steer) {
	w.least, w.most = quota{}, quota{}
	w.agreed = w.told.weight > .95
	if w.agreed {
		w.told.weight = .9
	}
	a, b := w.stops[0], w.stops[1]
	if b.to == 0 || a.order > 0 && math.Abs(a.order.Seconds()/b.order.Seconds()-1) < .02 {
		return // an order that is always the same is no rest of a window
	}
	age := b.to.Sub(s.begun).Seconds()
	for x := max(1, a.to.Sub(a.from).Seconds(), b.to.Sub(b.from).Seconds()); x < min(age, 600); x *= 1.02 {
		m, n := s.history.between(a.to.Add(-seconds(x)), a.to), s.history.between(b.to.Add(-seconds(x)), b.to)
		if m >= 5 && math.Abs(m-n) <= max(1.5, .04*m) {
			w.most = quota{(m + n) / 2, x, .5}
			if w.least.n == 0 {
				w.least = w.most
			}
		} else if w.least.n > 0 {
			break
		}
	}
	if w.agreed {
		w.least.weight, w.most.weight = 0, 0
	} else {
		w.told.weight = min(w.told.weight, .4)
		w.least.weight, w.most.weight = min(w.least.weight, .5-w.told.weight/2), min(w.most.weight, .47-w.told.weight/2)
	}
}

// chance is how likely the windows that are known of refuse a rate, and the seconds of pause that
// this costs in the mean.
func (s *Steer) chance(now clock.Instant, x float64) (p, pause float64) {
	if s.pause == nil {
		return 0, 0
	}
	for i, q := range [...]quota{s.win.told, s.win.least, s.win.most} {
		if q.n == 0 || x <= q.rate() {
			continue
		}
		w := q.weight * math.Exp(-now.Sub(s.win.stops[0].to).Seconds()/max(120, 20*q.length))
		p += w
		if i == 0 {
			pause += w * q.length
		} else {
			pause += w * q.length * (1 - q.rate()/x)
		}
	}
	return min(p, .97), pause
}

// refute drops the windows that admitted more than they can.
func (s *Steer) refute(now clock.Instant) {
	if s.pause == nil {
		return
	}
	for _, q := range [...]*quota{&s.win.told, &s.win.least, &s.win.most} {
		if q.n > 0 && s.history.between(now.Add(-seconds(q.length)), now) > 1.04*q.n+1 {
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

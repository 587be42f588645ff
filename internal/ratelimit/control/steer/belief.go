package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// belief is the interval in which the host's ceiling lies.
type belief struct {
	interval

	answered uint32 // willing answers ever
	driftN   uint32

	credit   float32
	creditAt clock.Instant
}

// doubt is what was believed before evidence that is doubtful.
type doubt struct {
	sure      interval // zero for none
	doubtTill clock.Instant
	doubts    uint8
}

// probe is the present upward move, or the last.
type probe struct {
	from, rate float64
	at         clock.Instant
	answers    uint32
	hides      float64 // so many answers above what was proven may be a burst
}

// interval is that of the ceiling.
type interval struct {
	lo  float64 // the highest rate that is proven
	hi  float64 // the lowest that was refused of late; infinite before any was
	run float32 // answers that prove lo
}

// best is the rate with the greatest expected number of pages over the horizon, at least lo.
func (s *Steer) best(now clock.Instant) float64 {
	b, t, most := &s.interval, s.tune, s.most
	if s.pause == nil || !(b.hi > b.lo) {
		return b.lo
	}
	ln := math.Log(b.hi / b.lo)
	top, value := b.lo, 0.0
	const grid = 32
	for i := 1; i < grid; i++ {
		at := float64(i*i) / (grid * grid)
		x := b.lo * math.Exp(at*ln)
		if x > most {
			x = most
			at = max(0, math.Log(x/b.lo)/ln)
		}
		ok := 1 - at
		p, pause := s.chance(now, x)
		ok *= 1 - p
		risk := at*(1-p)*float64(s.cost) + pause + (1-ok)*t.Fixed // seconds
		v := ok*(x-b.lo)*t.Horizon - risk*t.Aversion*b.lo
		if v > value {
			top, value = x, v
		}
		if x >= most {
			break
		}
	}
	return top
}

// drift opens the interval: limits change.
func (s *Steer) drift(now clock.Instant) {
	dt, dn := now.Sub(s.stepAt).Seconds(), float64(s.answered-s.driftN)
	s.stepAt, s.driftN = now, s.answered
	if math.IsInf(s.hi, 1) || !s.use.busy(now, s.rate) {
		return
	}
	t := s.tune
	per := max(t.DriftTime, t.DriftCosts*float64(s.cost))
	n := t.DriftAnswers
	by := t.Drift
	if s.recovering(now) {
		per, n, by = max(10, 2*float64(s.cost)), 10, .5
	}
	share := min(dt/per, dn/n)
	most := 1e9
	if s.recovering(now) {
		most = max(s.hi, 1.2*s.wellNow(now))
	}
	if !s.recovering(now) {
		by *= float64(s.loose)
	}
	s.hi = min(s.hi*math.Exp(by*share), most)
	s.run += float32(dn)
	s.noteWell(now)
}

// recovering reports whether lo is far below what was proven of late.
func (s *Steer) recovering(now clock.Instant) bool {
	return s.pause != nil && s.lo < 0.7*s.wellNow(now)
}

func (s *Steer) wellNow(now clock.Instant) float64 {
	return float64(s.peak) * math.Exp2(-now.Sub(s.peakAt).Seconds()/s.tune.WellHalf)
}

func (s *Steer) noteWell(now clock.Instant) {
	const span = 30
	rate := s.history.between(now.Add(-span*time.Second), now) / span
	switch {
	case s.cycled && s.refill.n >= leastCycle:
		rate, _ = s.refill.mean(now)
	case s.cycled, now.Sub(s.refill.since) < span*time.Second:
		return // a burst allowance may be in it
	}
	if rate >= s.wellNow(now) {
		s.peak, s.peakAt = float32(rate), now
	}
}

// earn adds to the budget what time alone earns.
func (s *Steer) earn(now clock.Instant) {
	per := s.tune.CreditPerSecond
	if s.recovering(now) {
		per = 1. / 30
	}
	s.credit = min(s.credit+float32(per*now.Sub(s.creditAt).Seconds()), float32(s.tune.CreditMax))
	s.creditAt = now
}

func (s *Steer) pay(n float64) { s.credit = max(s.credit-float32(n), -4) }

// learn takes in a refusal at a rate, at the end of its pause.
func (s *Steer) learn(now clock.Instant, rate float64, took time.Duration) {
	t := s.tune
	mean, n := s.refill.sustained(s.sentAt)
	lasted := lasting(took, rate) && (s.order == 0 || !s.win.habit)
	if lasted {
		mean, n = s.refill.mean(now)
	}
	if s.cost == 0 {
		s.cost = float32(took.Seconds())
	}
	s.cost += .3 * (float32(took.Seconds()) - s.cost)
	s.guessed = !s.explicit
	switch {
	case math.IsInf(s.hi, 1): // the search's first
		s.peak = 0
		s.lo, s.run = min(mean, rate/1.1), max(0, float32(n)-ordinaryBurst)
		s.hi = rate
		if n < 5 {
			s.lo, s.run = rate/4, 0
		}
	case n < float64(s.run)/2 && s.lo > rate/(1+t.Near): // the belief is doubtful
		if s.sure.run == 0 {
			s.sure = s.interval
			s.doubts++
		}
		s.doubtTill = now.Add(seconds(min(max(float64(s.refill.longest), 5), 60) * float64(int(1)<<min(s.doubts, 4)) / 2))
		s.narrow(rate, mean, n, lasted)
	default:
		s.narrow(rate, mean, n, lasted)
	}
	s.lo = max(s.lo, float64(s.floor))
	s.hi = max(s.hi, s.lo*(1+t.Near/4))
}

// narrow takes in a refusal of a rate after n answers with that mean.
func (s *Steer) narrow(rate, mean, n float64, lasted bool) {
	t := s.tune
	if rate > s.lo {
		s.loose = max(.05, s.loose*float32(t.Confirm))
	} else {
		s.loose = 1
	}
	s.hi = rate
	if n > float64(s.run) && n >= 10 && (mean > s.lo || s.run < ordinaryBurst || lasted) {
		s.lo, s.run = min(mean, rate), float32(n)
	}
	if s.lo > rate/(1+t.Near) {
		s.lo, s.run = max(min(mean, rate/(1+t.Near)), rate*t.Fall), 0
	}
	if s.sure.run > 0 && (n >= float64(s.sure.run) || s.doubts > 3) {
		s.sure, s.doubts = interval{}, 0
	}
}

// settle takes what a window says of a refusal that has just ended for the belief.
func (s *Steer) settle() {
	w := &s.win
	e := w.estimate()
	if w.spells[0].from < s.sentAt.Add(-time.Second) || e.Confidence < .9 || e.Most > 1.2*e.Rate {
		return
	}
	s.interval = interval{lo: e.Rate, hi: max(s.hi, e.Most*(1+s.tune.Near/2)), run: float32(w.rest.n)}
	s.sure, s.doubts = interval{}, 0
}

// chance is how likely a rate is refused by what is known of windows, and the seconds that this costs.
func (s *Steer) chance(now clock.Instant, x float64) (p, pause float64) {
	if s.pause == nil {
		return 0, 0
	}
	p, pause = s.win.chance(now, x)
	return min(p, .97), pause
}

// endDoubt goes back to what was believed before.
func (s *Steer) endDoubt(now clock.Instant) bool {
	if s.pause == nil || s.sure.run == 0 || now < s.doubtTill {
		return false
	}
	s.interval, s.sure = s.sure, interval{}
	s.run *= .7
	s.on(now, Returning)
	s.rate = s.bounded(s.cruise() / 2)
	return true
}

const ordinaryBurst = 25

// lasting reports a pause that is longer than a bucket needs for its next token.
func lasting(took time.Duration, rate float64) bool {
	return took > max(time.Second, seconds(8/rate))
}

package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// interval is that in which the host's ceiling lies.
type interval struct {
	lo  float64 // the highest rate that is proven
	hi  float64 // the lowest that was refused of late; infinite before any was
	run float32 // answers that prove lo
}

// unbounded reports that nothing was refused yet.
func (i *interval) unbounded() bool { return math.IsInf(i.hi, 1) }

// best is the rate with the greatest expected number of pages over the horizon, at least lo. A refusal costs
// some seconds, fixed ones and more; beside the interval, quotas say how likely a rate is refused and how long that takes.
func (i *interval) best(horizon, most, cost, fixed float64, quotas *[2]quota) float64 {
	if !(i.hi > i.lo) {
		return i.lo
	}
	ln := math.Log(i.hi / i.lo)
	top, value := i.lo, 0.0
	const grid = 32
	for n := 1; n < grid; n++ {
		at := float64(n*n) / (grid * grid)
		x := i.lo * math.Exp(at*ln)
		if x > most {
			x = most
			at = max(0, math.Log(x/i.lo)/ln)
		}
		p, pause := refused(quotas, x)
		ok := (1 - at) * (1 - p)
		risk := at*(1-p)*cost + pause + (1-ok)*fixed // seconds
		if v := ok*(x-i.lo)*horizon - risk*i.lo; v > value {
			top, value = x, v
		}
		if x >= most {
			break
		}
	}
	return top
}

// narrow takes in a refusal of a rate, after a cycle with that mean of so many answers.
func (i *interval) narrow(t *Tuning, rate float64, cycle Estimate, lasted bool) {
	n, mean := cycle.Answers, cycle.Rate
	i.hi = rate
	if n > float64(i.run) && n >= t.Cycle && (mean > i.lo || float64(i.run) < t.Burst || lasted) {
		i.lo, i.run = min(mean, rate), float32(n)
	}
	if i.lo > rate/(1+t.Near) {
		i.lo, i.run = max(min(mean, rate/(1+t.Near)), rate*t.Fall), 0
	}
}

// budget is the refusals that may be risked.
type budget struct {
	left float32
	at   clock.Instant
}

// earn adds what time alone earns, at so much a second.
func (b *budget) earn(now clock.Instant, per, most float64) {
	b.add(per*now.Sub(b.at).Seconds(), most)
	b.at = now
}

func (b *budget) add(n, most float64) { b.left = min(b.left+float32(n), float32(most)) }

func (b *budget) pay(n float64) { b.left = max(b.left-float32(n), 0) }

// peakSpan is over what a rate is measured whose refusals nobody knows.
const peakSpan = 30 * time.Second

// notePeak takes in what was admitted of late, unless a burst allowance may be in it.
func (s *Steer) notePeak(now clock.Instant) {
	c := s.cycle(s.tune, 0, s.admitted, now)
	rate := c.mean().Rate
	if !c.full {
		if s.stops[0].rate > 0 || now.Sub(s.stops[0].from) < peakSpan {
			return
		}
		rate = s.history.between(now.Add(-peakSpan), now) / peakSpan.Seconds()
	}
	s.peak = max(s.peak, float32(rate))
}

// drift opens the interval: limits change.
func (s *Steer) drift(now clock.Instant) {
	dt, dn := now.Sub(s.stepAt).Seconds(), float64(s.admitted-s.stepN)
	s.stepAt, s.stepN = now, s.admitted
	if s.unbounded() || !s.busy(now) {
		return
	}
	t := s.tune
	if s.recovering() {
		share := min(dt/max(10, 2*s.cost()), dn/10)
		s.hi = min(s.hi*math.Exp(.5*share), max(s.hi, 1.2*float64(s.peak)))
	} else {
		share := min(dt/max(t.DriftTime, t.DriftCosts*s.cost()), dn/t.DriftAnswers)
		s.hi = min(s.hi*math.Exp(t.Drift*float64(s.loose)*share), 1e9)
	}
	s.run += float32(dn)
	s.peak *= float32(math.Exp2(-dt / t.WellHalf))
	s.notePeak(now)
}

// recovering reports whether lo is far below what was proven of late.
func (s *Steer) recovering() bool { return s.pause != nil && s.lo < .7*float64(s.peak) }

// learn takes in a refusal at a rate, at the end of its pause or of an experiment.
func (s *Steer) learn(now clock.Instant, rate float64, took time.Duration) {
	t, a := s.tune, &s.stops[0]
	a.taught, s.guessed = true, !a.explicit()
	c := s.cycle(t, 1, a.admitted, a.from)
	cycle, active := c.estimate(t), c.active(t)
	lasted := lasting(took, rate) && (a.order == 0 || !s.habit)
	if lasted {
		c.span += now.Sub(a.from).Seconds()
		cycle = c.mean()
	}
	if !t.has(Refill) {
		cycle = Estimate{}
	}
	if s.unbounded() { // the search's first
		if s.peak = float32(active); took > longOutage {
			s.peak = float32(cycle.Rate) // it was the beginning of a window
		}
		s.interval = interval{min(cycle.Rate, rate/1.1), rate, max(0, float32(cycle.Answers-t.Burst))}
		if cycle.Answers < 5 {
			s.lo, s.run = rate/4, 0
		}
	} else {
		if s.loose = max(.05, s.loose*float32(t.Confirm)); rate <= s.lo {
			s.loose = 1
		}
		s.narrow(t, rate, cycle, lasted)
	}
	s.lo = max(s.lo, float64(s.floor))
	s.hi = max(s.hi, s.lo*(1+t.Near/4))
}

// lasting reports a pause that is longer than a bucket needs for its next token.
func lasting(took time.Duration, rate float64) bool {
	return took > max(time.Second, seconds(8/rate))
}

// settle takes what a window says of a refusal that has just ended for the belief, and reports whether it does.
func (s *Steer) settle(now clock.Instant) bool {
	quotas := s.quotas(now)
	e := likelier(&quotas)
	if s.stops[0].high == 0 || e.Confidence < .9 || e.Most > 1.2*e.Rate {
		return false
	}
	s.interval = interval{lo: e.Rate, hi: max(s.hi, e.Most*(1+s.tune.Near/2)), run: float32(s.stops[0].admitted - s.stops[1].admitted)}
	s.peak = 0 // what went well was the beginning of a window
	return true
}

package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// belief is the interval in which the host's ceiling lies, and what may be risked to narrow it.
type belief struct {
	interval
	answered uint32 // willing answers ever
	budget   budget
}

// interval is that of the ceiling.
type interval struct {
	lo  float64 // the highest rate that is proven
	hi  float64 // the lowest that was refused of late; infinite before any was
	run float32 // answers that prove lo
}

// unbounded reports that nothing was refused yet.
func (i *interval) unbounded() bool { return math.IsInf(i.hi, 1) }

// best is the rate with the greatest expected number of pages over the horizon, at least lo. A refusal costs
// some seconds; beside the interval, chance says how likely a rate is refused and how long that takes.
func (i *interval) best(t *Tuning, most, cost float64, chance func(rate float64) (p, pause float64)) float64 {
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
		p, pause := chance(x)
		ok := (1 - at) * (1 - p)
		risk := at*(1-p)*cost + pause + (1-ok)*t.Fixed // seconds
		if v := ok*(x-i.lo)*t.Horizon - risk*i.lo; v > value {
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

// peak is the highest rate that went well of late.
type peak struct {
	rate float32
	at   clock.Instant
}

// now is what is not forgotten of it.
func (p *peak) now(now clock.Instant, half float64) float64 {
	return float64(p.rate) * math.Exp2(-now.Sub(p.at).Seconds()/half)
}

// peakSpan is over what a rate is measured whose refusals nobody knows.
const peakSpan = 30 * time.Second

// note takes in what was admitted of late, unless a burst allowance may be in it.
func (p *peak) note(t *Tuning, now clock.Instant, r *refill, h *history) {
	rate := h.between(now.Add(-peakSpan), now) / peakSpan.Seconds()
	switch {
	case r.cycled && float64(r.n) >= t.Cycle:
		rate = r.mean(now).Rate
	case r.cycled, now.Sub(r.since) < peakSpan:
		return
	}
	if rate >= p.now(now, t.WellHalf) {
		*p = peak{float32(rate), now}
	}
}

// doubt is what was believed before evidence that is doubtful.
type doubt struct {
	sure    interval      // zero for none
	before  interval      // the experiment on failures
	until   clock.Instant // then it is gone back to
	times   uint8
	guessed bool // what is refused is known from failures only
}

// postpone keeps what is believed, for some of the longest cycles and for longer each time.
func (d *doubt) postpone(i interval, now clock.Instant, longest float64) {
	if d.sure.run == 0 {
		d.sure = i
		d.times++
	}
	d.until = now.Add(seconds(min(max(longest, 5), 60) * float64(int(1)<<min(d.times, 4)) / 2))
}

// clear ends all doubt.
func (d *doubt) clear() { d.sure, d.times = interval{}, 0 }

// drift opens the interval: limits change.
func (s *Steer) drift(now clock.Instant) {
	dt := now.Sub(s.stepAt).Seconds()
	dn := s.rate * dt // answers
	s.stepAt = now
	if s.unbounded() || !s.busy(now) {
		return
	}
	t := s.tune
	if s.recovering(now) {
		share := min(dt/max(10, 2*float64(s.cost)), dn/10)
		s.hi = min(s.hi*math.Exp(.5*share), max(s.hi, 1.2*s.peak.now(now, t.WellHalf)))
	} else {
		share := min(dt/max(t.DriftTime, t.DriftCosts*float64(s.cost)), dn/t.DriftAnswers)
		s.hi = min(s.hi*math.Exp(t.Drift*float64(s.loose)*share), 1e9)
	}
	s.run += float32(dn)
	s.peak.note(t, now, &s.refill, &s.history)
}

// recovering reports whether lo is far below what was proven of late.
func (s *Steer) recovering(now clock.Instant) bool {
	return s.pause != nil && s.lo < .7*s.peak.now(now, s.tune.WellHalf)
}

// learn takes in a refusal at a rate, at the end of its pause.
func (s *Steer) learn(now clock.Instant, rate float64, took time.Duration) {
	t := s.tune
	cycle := s.refill.estimate(t, s.sentAt)
	lasted := lasting(took, rate) && (s.order == 0 || !s.win.habit)
	if lasted {
		cycle = s.refill.mean(now)
		lasted = rate <= s.lo || cycle.Rate > s.lo // a block after a step up is in the mean, and says nothing against what is proven
	}
	if !t.has(Refill) {
		cycle = Estimate{}
	}
	s.cost = float32(took.Seconds())
	s.guessed = !s.explicit()
	if s.unbounded() { // the search's first
		if s.peak = (peak{float32(s.refill.active(t, s.sentAt)), now}); took > longOutage {
			s.peak.rate = float32(cycle.Rate) // it was the beginning of a window
		}
		s.interval = interval{min(cycle.Rate, rate/1.1), rate, max(0, float32(cycle.Answers-t.Burst))}
		if cycle.Answers < 5 {
			s.lo, s.run = rate/4, 0
		}
	} else {
		if cycle.Answers < float64(s.run)/2 && s.lo > rate/(1+t.Near) { // much less says that it is too fast
			s.postpone(s.interval, now, float64(s.refill.longest))
		}
		if s.loose = max(.05, s.loose*float32(t.Confirm)); rate <= s.lo {
			s.loose = 1
		}
		s.narrow(t, rate, cycle, lasted)
		if s.sure.run > 0 && (cycle.Answers >= float64(s.sure.run) || s.doubt.times > 3) {
			s.doubt.clear()
		}
	}
	s.lo = max(s.lo, float64(s.floor))
	s.hi = max(s.hi, s.lo*(1+t.Near/4))
}

// settle takes what a window says of a refusal that has just ended for the belief, and reports whether it does.
func (s *Steer) settle() bool {
	w := &s.win
	e := w.estimate()
	if w.spells[0].from < s.sentAt.Add(-time.Second) || e.Confidence < .9 || e.Most > 1.2*e.Rate {
		return false
	}
	if s.above(s.failRate) && e.Most < .9*s.lo { // more was borne for long enough
		return false
	}
	s.interval = interval{lo: e.Rate, hi: max(s.hi, e.Most*(1+s.tune.Near/2)), run: float32(w.rest.n)}
	s.doubt.clear()
	s.peak.rate = 0 // what went well was the beginning of a window
	return true
}

// endDoubt goes back to what was believed before.
func (s *Steer) endDoubt(now clock.Instant) bool {
	if s.pause == nil || s.sure.run == 0 || now < s.doubt.until {
		return false
	}
	s.interval, s.sure = s.sure, interval{}
	s.run *= .7
	s.on(now, Returning)
	s.rate = s.bounded(s.cruise() / 2)
	return true
}

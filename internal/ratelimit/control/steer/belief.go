package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// belief is the interval in which the host's ceiling lies, and what may be risked to narrow it. Only the controller
// writes it, not the estimators.
type belief struct {
	interval
	answered uint32 // requests admitted ever, but for trials and what was sent before a pause
	budget   budget
}

// interval bounds the host's ceiling.
type interval struct {
	lo  float64 // highest rate that is proven, in requests per second; at first the owner's floor
	hi  float64 // lowest rate that was refused of late; infinite before any was
	run float32 // number of responses that prove lo; zero if lo is a guess
}

// unbounded reports whether nothing was refused yet.
func (i *interval) unbounded() bool { return math.IsInf(i.hi, 1) }

// fixedCost is the seconds that any refusal costs, however short its pause: the requests that are in flight when it is
// known, and the trial.
const fixedCost = .5

// best returns the rate with the most pages to be expected over the horizon, at least lo and at most most. The chance
// that the ceiling is below a rate grows with the logarithm of the rate from lo to hi. cost is the pause that such a
// refusal leads to, in seconds. chance says how likely a window refuses the rate, and the mean pause of that.
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
		risk := at*(1-p)*cost + pause + (1-ok)*fixedCost // seconds
		if v := ok*(x-i.lo)*t.Horizon - risk*i.lo; v > value {
			top, value = x, v
		}
		if x >= most {
			break
		}
	}
	return top
}

// narrow takes in a refusal of a rate, after a cycle with that mean. hi becomes the rate. lo becomes the mean of at
// least Cycle responses, and of more than lo rests on, if that is higher or lo rests on fewer than Burst. If lo was at
// the rate or above (within Near), it falls to the mean, or to just below the rate if that is lower, but not below Fall
// times the rate; it is a guess then.
func (i *interval) narrow(t *Tuning, rate float64, cycle Estimate) {
	n, mean := cycle.Answers, cycle.Rate
	i.hi = rate
	if n > float64(i.run) && n >= t.Cycle && (mean > i.lo || float64(i.run) < t.Burst) {
		i.lo, i.run = mean, float32(n)
	}
	if i.lo > rate/(1+t.Near) {
		i.lo, i.run = max(min(mean, rate/(1+t.Near)), rate*t.Fall), 0
	}
}

// budget is what may be risked: refusals and trials take from it, responses and time add to it.
type budget struct {
	left float32       // refusals that may be risked, from zero to CreditMax; below one no faster rate is tried
	at   clock.Instant // when time last added to it
}

// earn adds what the time since the last call earns, at so many refusals per second.
func (b *budget) earn(now clock.Instant, per, most float64) {
	b.add(per*now.Sub(b.at).Seconds(), most)
	b.at = now
}

// add adds n refusals, up to most.
func (b *budget) add(n, most float64) { b.left = min(b.left+float32(n), float32(most)) }

// pay takes n refusals off. The budget never gets negative, so there is no debt.
func (b *budget) pay(n float64) { b.left = max(b.left-float32(n), 0) }

// driftPauses is the least time that a drift takes, in pauses as long as the latest, of a second at least: pauses take a
// sixtieth of the time at most.
const driftPauses = 60

// drift raises hi with time, since limits change: by Drift in a minute, in 60 pauses or in 800 requests, whichever is
// longest, and slower after each refusal that told nothing new. While lo is far below a rate that went well it rises
// much faster, up to 1.2 times that. It counts the requests of the time for lo's proof, and notes what goes well.
// Nothing drifts while the rate is not used.
func (s *Steer) drift(now clock.Instant) {
	dt := now.Sub(s.stepAt).Seconds()
	dn := s.rate * dt // requests in that time
	s.stepAt = now
	t := s.tune
	if s.unbounded() || !s.busy(now) {
		return
	}
	s.well *= math.Exp2(-dt / t.WellHalf)
	if s.recovering() {
		share := dt / max(10, 2*float64(s.cost))
		s.hi = min(s.hi*math.Exp(.5*share), max(s.hi, 1.2*s.well))
	} else {
		share := min(dt/(driftPauses*max(1, float64(s.cost))), dn/t.DriftAnswers)
		s.hi = min(s.hi*math.Exp(t.Drift*float64(s.loose)*share), 1e9)
	}
	s.run += float32(dn)
	if cycle := s.refill.mean(&s.history, now); cycle.Answers >= t.Cycle { // early in a cycle a burst may be in it
		s.well = max(s.well, cycle.Rate)
	}
}

// recovering reports whether lo is below 70 % of a rate that went well not long ago.
func (s *Steer) recovering() bool {
	return s.pause != nil && s.lo < .7*s.well
}

// overruled divides the evidence for lo when a refusal with little evidence contradicts it: after three such refusals of
// a limit that has fallen, the next one is believed.
const overruled = 8

// learn takes in a refusal of a rate, at the end of its pause of length took. The evidence is the cycle before it: up
// to the refusal if the pause is as short as a bucket's, else with the pause, as for a window. After a search the
// cycle's mean is lo, or a quarter of the rate if there are fewer than five responses. Later, narrow judges; but a cycle
// with less than half of lo's evidence that contradicts lo only takes evidence from it.
func (s *Steer) learn(now clock.Instant, rate float64, took time.Duration) {
	t := s.tune
	cycle := s.refill.estimate(t, &s.history, s.endAt, s.sentAt)
	if lasting(took, rate) && !s.win.habit {
		cycle = s.refill.mean(&s.history, now)
	}
	if !t.has(Refill) {
		cycle = Estimate{}
	}
	s.cost = float32(took.Seconds())
	if s.explicit() {
		s.health.extra = otherwise
	}
	if s.unbounded() { // the first refusal, in a search
		if s.well = active(t, &s.history, s.began(), s.sentAt); took > longOutage || s.tries > 0 && lasting(took, rate) {
			s.well = cycle.Rate // it was the beginning of a window, and no sustained rate
		}
		s.interval = interval{min(cycle.Rate, rate/1.1), rate, max(0, float32(cycle.Answers-t.Burst))}
		if cycle.Answers < 5 {
			s.lo, s.run = rate/4, 0
		}
	} else {
		if s.loose = max(.05, s.loose*float32(t.Confirm)); rate <= s.lo {
			s.loose = 1
		}
		if cycle.Answers < float64(s.run)/2 && s.lo > rate/(1+t.Near) { // much less evidence contradicts lo
			s.run /= overruled
			return
		}
		s.narrow(t, rate, cycle)
	}
	s.lo = max(s.lo, float64(s.floor))
	s.hi = max(s.hi, s.lo*(1+t.Near/4))
}

// settle makes what window concluded from the refusal of a rate that has just ended the belief, if that is sure (.9) and
// exact (to 20 %), and reports whether it did. After a refusal well above lo it does not believe a window that admits
// less than nine tenths of lo.
func (s *Steer) settle(refused float64) bool {
	w := &s.win
	e := w.estimate()
	if w.from != s.sentAt || !s.counted(&w.spell) || e.Confidence < .9 || e.Most > 1.2*e.Rate {
		return false
	}
	if s.above(refused) && e.Most < .9*s.lo { // more than the window allows went well for long enough
		return false
	}
	s.interval = interval{lo: e.Rate, hi: max(s.hi, e.Most*(1+s.tune.Near/2)), run: float32(w.quota.low * w.quota.length)}
	s.well = 0 // what went well was the beginning of a window
	return true
}

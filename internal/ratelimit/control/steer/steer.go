package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Steer is the strategy.
type Steer struct {
	cfg    *control.Config
	tune   *Tuning
	most   float64 // bounds of the rate, as the owner gives them
	floor  float32
	mode   Mode
	demand uint16        // URLs that wait for the host, and one; zero if nobody told, or there are many
	stepAt clock.Instant // of the last step of growth, drift or ramp
	rate   float64       // the rate that is wanted now

	belief
	refill
	use usage
	history
	queueing
	hint   *hint
	*pause // nil before the first refusal or probe
}

// Maker makes steers with these constants, which must not change afterwards. Nil means [DefaultTuning].
func Maker(t *Tuning) control.Maker {
	if t == nil {
		t = &DefaultTuning
	}
	return func(cfg *control.Config, now clock.Instant, h control.Host) control.Strategy {
		return newSteer(t, cfg, now, h)
	}
}

// newSteer begins with a stranger, or with what is remembered.
func newSteer(t *Tuning, cfg *control.Config, now clock.Instant, h control.Host) *Steer {
	s := &Steer{cfg: cfg, tune: t, floor: float32(h.Floor), most: h.Ceiling, rate: h.Start, stepAt: now}
	s.belief = belief{interval: interval{lo: h.Floor, hi: unlimited}, budget: budget{float32(t.CreditStart), now}}
	s.refill.since = now
	s.use.last = now
	s.recall(now, h.Memory)
	return s
}

// recall takes up what was known of the host: the way back to the remembered rate.
func (s *Steer) recall(now clock.Instant, m control.Memory) {
	if m.Rate > 0 {
		s.lo = s.bounded(float64(m.Rate)) / (1 - s.tune.Margin)
		s.hi = s.lo * (1 + 2*s.tune.Near)
		s.meetPause()
		s.cost = float32(m.Pause.Seconds())
		s.on(now, Returning)
		s.rate = s.bounded(s.cruise() / 4)
	}
	if m.Held != 0 {
		s.note(now, control.CauseFailures, s.rate, 0, m.Held.Sub(now))
		s.meetPause()
		s.pause.begin(now, s.rate)
		s.on(now, Refused)
		s.till = m.Held
		s.wait = time.Second
	}
}

func (s *Steer) bounded(r float64) float64 { return min(max(r, float64(s.floor)), s.most) }

// cruise is the rate just below what is proven.
func (s *Steer) cruise() float64 { return min(s.most, (1-s.tune.Margin)*s.lo) }

// step is the least time in which the effect of a change of rate shows.
func (q *queueing) step() time.Duration { return max(time.Second, seconds(2*float64(q.srtt))) }

// Plan implements [control.Strategy].
func (s *Steer) Plan(now clock.Instant) control.Plan {
	s.tick(now)
	s.rate = s.bounded(s.rate)
	p := control.Plan{Rate: s.rate, Review: now.Add(max(beat, seconds(1/s.rate))), InFlight: s.inFlight(now, s.queueAllows(s.rate)), CatchUp: catchUp(s.rate)}
	if s.pause != nil {
		p.Event = s.event
	}
	if s.mode == Wait {
		s.pause.plan(now, &p)
		return p
	}
	p.Rate = s.queueAllows(p.Rate)
	if s.mode == Recover {
		p.Review = now.Add(beat)
	}
	if s.use.late >= 1 {
		p.Rate = min(makeUp*p.Rate, s.most)
	}
	if e := s.hint.estimate(now); e.Confidence > 0 {
		p.Rate, p.NotBefore = lower(p.Rate, e.Rate), max(p.NotBefore, e.NotBefore)
		p.Review = min(p.Review, s.hint.reset, now.Add(time.Second))
	}
	return p
}

// beat is how often the plan is looked at when nothing happens.
const beat = 250 * time.Millisecond

// catchUp is the lateness of timers that is made good: more where requests are close together.
func catchUp(rate float64) time.Duration {
	if rate*0.01 > 1 {
		return 10 * time.Millisecond
	}
	return time.Millisecond
}

// Sent implements [control.Strategy].
func (s *Steer) Sent(now clock.Instant, inFlight int) (trial uint32) {
	s.keepUp(now, inFlight)
	s.use.send(now)
	s.hint.send()
	if s.mode != Wait {
		return 0
	}
	s.out = now
	s.number++
	return s.number
}

// keepUp notes whether a grant came late because the sender's machine was busy, and for no other reason.
func (s *Steer) keepUp(now clock.Instant, inFlight int) {
	paced := s.hint.active(now) || s.queueAllows(s.rate) < s.rate || inFlight >= s.inFlight(now, s.rate)
	paused := s.pause != nil && (s.block.gap > 0 || s.use.last < s.endAt)
	if s.mode == Wait || s.mode == Search || paced || paused {
		s.use.late = 0
		return
	}
	s.use.behind(now, s.rate)
}

// Lost implements [control.Strategy].
func (s *Steer) Lost(now clock.Instant, trial uint32) {
	if s.mode == Wait && s.out != 0 && trial == s.number {
		s.out = 0
		s.till = now.Add(s.wait)
	}
}

// Observe implements [control.Strategy].
func (s *Steer) Observe(now clock.Instant, o control.Observation) {
	s.allow(now, o.Floor, o.Ceiling)
	o.Forbidden = o.Forbidden && s.tune.has(Blocks)
	trial := s.mode == Wait && s.out != 0 && o.SentAt >= s.out
	if !speaks(o.Class) {
		if trial {
			s.Lost(now, s.number)
		}
		return
	}
	if o.RetryAfter == 0 {
		o.Window.Add(now, o.Class.Overload())
	}
	s.tick(now)
	if s.hint == nil && !o.Quota.IsZero() && s.tune.has(Quotas) {
		s.hint = &hint{askedAt: never}
	}
	x := Sample{&o, s.tune, now, s.rate, s.mode, s.step()}
	s.hint.observe(&x)
	if x.refused() {
		s.meetPause()
	}
	if s.pause != nil && s.tune.has(Windows) {
		s.win.observe(&s.history, &x)
	}
	perSecond := s.tune.CreditPerSecond
	if float64(s.budget.left) < s.tune.CreditMax && s.recovering(now) {
		perSecond = min(recoverCredit, max(perSecond, recoverShare*s.lo))
	}
	s.budget.earn(now, perSecond, s.tune.CreditMax)
	if o.Class.Overload() || o.Forbidden {
		s.failed(&x, trial)
	} else {
		s.succeeded(&x, trial)
	}
}

// recoverCredit is what a second earns while the rate is far below what went well: steps up are no risk.
const (
	recoverCredit = 1. / 30
	recoverShare  = .01 // of the answers at most
)

// allow takes in the bounds of the rate.
func (s *Steer) allow(now clock.Instant, floor, most float64) {
	s.floor = float32(min(floor, most))
	if most > s.most && s.unbounded() && s.mode == Cruise {
		s.on(now, Raised) // only the owner's bound ended the search
	}
	s.most = most
}

// succeeded takes in an answer that is no refusal.
func (s *Steer) succeeded(x *Sample, trial bool) {
	now := x.At
	s.history.add(x.SentAt)
	s.budget.add(s.tune.CreditPerAnswer, s.tune.CreditMax)
	s.refill.observe(x)
	s.queueing.time(x.Latency)
	if s.pause != nil {
		s.connections.passed(x)
		s.block.observe(x)
	}
	if trial {
		s.resume(now)
		return
	}
	if s.pause != nil {
		s.block.tally.add(x.Second)
	}
	if s.mode == Wait || s.pause != nil && x.SentAt <= s.at {
		return // of the time before the refusal
	}
	s.answered++
	if s.pause != nil {
		s.heed(x, false)
	}
	if s.mode != Recover && s.tune.has(Queues) {
		x.Mode, x.Rate = s.mode, s.rate
		if cause := s.queueing.observe(x); cause != 0 {
			s.note(now, cause, s.rate, s.queueing.estimate().Rate, 0)
		}
	}
	if s.mode == Search {
		s.grow(now)
	}
}

// queueAllows is a rate that makes no queue.
func (s *Steer) queueAllows(rate float64) float64 {
	if e := s.queueing.estimate(); e.Rate > 0 {
		return s.bounded(min(rate, e.Rate))
	}
	return rate
}

// busy reports whether the sender uses the rate that it has.
func (s *Steer) busy(now clock.Instant) bool { return !s.tune.has(Use) || s.use.busy(now, s.rate) }

// grow raises the rate of a host that has refused nothing yet.
func (s *Steer) grow(now clock.Instant) {
	dt := min(now.Sub(s.stepAt).Seconds(), 1)
	s.stepAt = now
	if !s.busy(now) {
		return
	}
	s.rate *= math.Exp(s.tune.Growth * dt / s.step().Seconds())
	if s.rate >= s.most {
		s.lo = s.most / (1 - s.tune.Margin)
		s.on(now, Bounded)
		s.rate = s.most
	}
}

// tick does what time alone brings about.
func (s *Steer) tick(now clock.Instant) {
	switch s.mode {
	case Recover:
		s.ramp(now)
	case Cruise:
		if now >= s.stepAt.Add(time.Second) {
			s.drift(now)
			if !s.endDoubt(now) {
				s.decide(now)
			}
		}
	case Probe:
		if now >= s.stepAt.Add(time.Second) {
			s.drift(now)
		}
		if !s.endDoubt(now) {
			s.prove(now)
		}
	case Search, Wait:
	}
}

// ramp doubles the rate with each step until it is cruise.
func (s *Steer) ramp(now clock.Instant) {
	for step := s.step(); s.rate < s.cruise() && now >= s.stepAt.Add(step); {
		s.stepAt = s.stepAt.Add(step)
		s.rate = min(s.cruise(), 2*s.rate)
	}
	if s.rate >= s.cruise() {
		s.on(now, Settled)
		s.decide(now)
	}
}

// decide chooses the next rate by the one rule.
func (s *Steer) decide(now clock.Instant) {
	s.rate = s.cruise()
	if s.pause == nil {
		return
	}
	if e := s.health.test; e != nil {
		if s.rate = e.rate; !s.unbounded() {
			s.rate = min(s.cruise(), s.rate)
		}
		s.rate = s.bounded(s.rate)
		return
	}
	if few(s.tune, s.demand) || s.budget.left < 1 || s.lo >= s.most/(1-s.tune.Margin) || s.hint.binds(now, s.rate) || !s.busy(now) {
		return
	}
	x := s.best(s.tune, s.most, float64(s.cost), func(x float64) (p, pause float64) { return s.win.chance(now, x) })
	if x <= s.lo {
		return
	}
	if !s.recovering(now) && !s.win.habit { // a refusal soon above says more than one far above
		x = min(x, s.lo*s.tune.Climb)
	}
	s.on(now, Promising)
	s.probe = probe{now, s.answered}
	s.rate = x
}

// probe is the present upward move, or the last.
type probe struct {
	at      clock.Instant // when it began,
	answers uint32        // after so many
}

// prove ends a probe that was not refused for long enough. Where a burst allowance may hide the limit it
// goes on, for a minute at most.
func (s *Steer) prove(now clock.Instant) {
	took := now.Sub(s.probe.at)
	if took < s.proofTime() {
		return
	}
	n := float64(s.answered - s.probe.answers)
	if n < s.tune.Used*s.health.likely()*s.rate*(took.Seconds()-float64(s.srtt)) || s.hint.binds(now, s.rate) {
		s.on(now, Settled)
		s.rate = s.cruise()
		return
	}
	// What a limiter can have saved since it last refused hides it, up to an ordinary burst allowance.
	hides := min(s.tune.Burst, 2+s.lo*(s.last+.03*s.probe.at.Sub(s.endAt).Seconds()))
	if n-s.lo*took.Seconds() < hides && took < time.Minute && s.rate < s.most {
		return
	}
	from := s.lo
	s.lo, s.run = max(from, s.rate), float32(n)
	s.hi = max(s.hi, s.lo*(1+s.tune.Near))
	s.win.refute(s.tune, &s.history, s.probe.at, now)
	if s.lo > 1.05*from {
		s.loose = 1
		s.note(now, control.CauseProbed, from, s.rate, 0)
	}
	s.on(now, Settled)
	s.decide(now)
}

// SetDemand tells how many URLs wait for the host. Where they are few, no faster rate is tried; until it is told, many
// are taken to wait.
func (s *Steer) SetDemand(urls int) { s.demand = uint16(min(max(urls, 0), math.MaxUint16) + 1) }

// few reports that too few URLs wait to tell whether a faster rate is borne.
func few(t *Tuning, demand uint16) bool { return demand > 0 && float64(demand-1) < t.Cycle }

// proofTime is how long a rate must have gone well to be proven.
func (s *Steer) proofTime() time.Duration {
	least := max(1, s.win.proof(s.probe.at, s.rate), min(1.2*s.last, 20), min(float64(s.refill.longest)/4, 20))
	return seconds(least + 2*float64(s.srtt))
}

// Memory implements [control.Strategy].
func (s *Steer) Memory(now clock.Instant) control.Memory {
	var m control.Memory
	if !s.unbounded() {
		m.Rate, m.Pause = float32(s.cruise()), seconds(float64(s.cost))
	}
	if s.mode == Wait {
		m.Held = max(s.till, now)
	}
	return m
}

// Failures implements [control.Strategy].
func (s *Steer) Failures() int {
	if s.pause == nil {
		return 0
	}
	return int(s.health.consecutive)
}

// note makes the latest event one of now.
func (s *Steer) note(now clock.Instant, c control.Cause, from, to float64, hold time.Duration) {
	s.meetPause()
	s.event = s.event.Next(now, c, from, to, hold)
}

// speaks is true of outcomes that say something of the host.
func speaks(c outcome.Class) bool {
	switch c {
	case outcome.TLS, outcome.Protocol, outcome.Decode, outcome.TooLarge, outcome.Bomb, outcome.Filtered:
		return true
	}
	return c.Answered() || c.Overload()
}

const (
	forever = clock.Instant(1<<62 - 1)
	never   = -forever
)

// unlimited is the rate that was refused of a host that refused none.
var unlimited = math.Inf(1)

// seconds is a number of seconds as a duration, bounded to what can be added to any instant.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 1e8) * float64(time.Second))
}

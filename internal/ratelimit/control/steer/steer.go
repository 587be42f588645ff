package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Steer is the strategy of one host, made by a [Maker]. It is not safe for concurrent use.
type Steer struct {
	cfg  *control.Config // of all hosts
	tune *Tuning         // of all hosts
	// most and floor bound the rate, in requests per second, as the owner last gave them.
	most  float64
	floor float32
	// mode is what the controller does at present.
	mode Mode
	// demand is one more than the number of URLs that wait for the host; zero if nobody told, so that many are assumed.
	demand uint16
	// stepAt is when the mode last changed, or growth, drift or ramp last took a step.
	stepAt clock.Instant
	// rate is the rate that the controller wants, in requests per second, before hint and queueing lower it.
	rate float64

	belief
	refill
	use     usage
	tally   tally
	history history
	queueing
	// hint is nil until a response tells a quota.
	hint *hint
	// pause is nil until the first refusal, failure or event.
	*pause
}

// Maker returns a maker of steers with these constants, which must not change afterwards. Nil means [DefaultTuning].
func Maker(t *Tuning) control.Maker {
	if t == nil {
		t = &DefaultTuning
	}
	return func(cfg *control.Config, now clock.Instant, h control.Host) control.Strategy {
		return newSteer(t, cfg, now, h)
	}
}

// newSteer makes the strategy of a host of which nothing is known but what h says.
func newSteer(t *Tuning, cfg *control.Config, now clock.Instant, h control.Host) *Steer {
	s := &Steer{cfg: cfg, tune: t, floor: float32(h.Floor), most: h.Ceiling, rate: h.Start, stepAt: now}
	s.belief = belief{interval: interval{lo: h.Floor, hi: unlimited}, budget: budget{float32(t.CreditStart), now}}
	s.refill.since = now
	s.use.last = now
	s.recall(now, h.Memory)
	return s
}

// recall takes in what was remembered of the host. With a rate, the mode is Recover: from a quarter of that rate back
// to it. If the host was paused, the pause goes on, of unknown cause, until the remembered end.
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
		s.begin(now)
		s.till = m.Held
		s.wait = time.Second
	}
}

// bounded returns the rate within the owner's bounds.
func (s *Steer) bounded(r float64) float64 { return min(max(r, float64(s.floor)), s.most) }

// cruise returns the rate just below what is proven, at most the owner's ceiling.
func (s *Steer) cruise() float64 { return min(s.most, (1-s.tune.Margin)*s.lo) }

// step returns the time between two steps of growth or ramp: the effect of a change shows after two round trips, and a
// second at least is needed to see it.
func (q *queueing) step() time.Duration { return max(time.Second, seconds(2*float64(q.usual))) }

// Plan implements [control.Strategy]. Outside a pause it is the slowest rate, the latest time and the fewest requests
// in flight of controller, queueing, connections and hint, and somewhat faster after late grants.
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

// beat is how often the owner asks for a plan at least while nothing happens, or once per request if that is rarer.
const beat = 250 * time.Millisecond

// catchUp returns how late a grant may be without delaying the next: ten milliseconds above 100 requests a second,
// where a late timer costs a request or more, else one.
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

// keepUp lets usage compare the time of a grant with the rate, if nothing but a busy machine of ours can have made the
// grant late. It does not in a search or a pause, right after one, at a host that ever blocked, or while hint, queueing
// or the requests in flight set the pace.
func (s *Steer) keepUp(now clock.Instant, inFlight int) {
	paced := s.hint.active(now) || s.queueAllows(s.rate) < s.rate || inFlight >= s.inFlight(now, s.rate)
	paused := s.pause != nil && (s.block.gap > 0 || s.use.last < s.endAt)
	if s.mode == Wait || s.mode == Search || paced || paused {
		s.use.late = 0
		return
	}
	s.use.behind(now, s.rate)
}

// Lost implements [control.Strategy]. The next trial is due after the same wait.
func (s *Steer) Lost(now clock.Instant, trial uint32) {
	if s.mode == Wait && s.out != 0 && trial == s.number {
		s.out = 0
		s.till = now.Add(s.wait)
	}
}

// Observe implements [control.Strategy]. It hands the outcome to hint and window, adds to the budget of refusals, and
// then goes on in failed or succeeded.
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
	perSecond := s.tune.CreditPerSecond
	if float64(s.budget.left) < s.tune.CreditMax && s.recovering() {
		perSecond = min(recoverCredit, max(perSecond, recoverShare*s.lo))
	}
	s.budget.earn(now, perSecond, s.tune.CreditMax)
	if o.Class.Overload() || o.Forbidden {
		s.failed(&x, trial)
	} else {
		s.succeeded(&x, trial)
	}
}

// While the rate is far below what went well before, a step up is no risk, and the budget fills faster.
const (
	recoverCredit = 1. / 30 // refusals that a second earns at most meanwhile
	recoverShare  = .01     // refusals that a response at the rate lo earns at most meanwhile
)

// allow takes in the owner's bounds. If the ceiling rises and only the ceiling had ended the search, the search goes
// on.
func (s *Steer) allow(now clock.Instant, floor, most float64) {
	s.floor = float32(min(floor, most))
	if most > s.most && s.unbounded() && s.mode == Cruise {
		s.on(now, Raised) // only the owner's bound ended the search
	}
	s.most = most
}

// succeeded takes in a response that is neither a failure nor a 403. That of a trial ends the pause. Others teach the
// estimators, but not those to requests from before the pause began.
func (s *Steer) succeeded(x *Sample, trial bool) {
	now := x.At
	s.history.add(x.SentAt)
	s.budget.add(s.tune.CreditPerAnswer, s.tune.CreditMax)
	if s.pause != nil {
		s.connections.passed(x)
		s.block.observe(x)
	}
	if trial {
		s.resume(now)
		return
	}
	s.tally.add(x.Second)
	if s.mode == Wait || s.pause != nil && x.SentAt < s.endAt {
		return // sent before the refusal
	}
	s.answered++
	if s.pause != nil {
		s.heed(x, false)
	}
	if s.mode != Recover && s.queueing.observe(x) {
		s.note(now, control.CauseLatency, s.rate, s.queueAllows(s.rate), 0)
	}
	if s.mode == Search {
		s.grow(now)
	}
}

// queueAllows returns the rate, lowered to what makes no queue at the host but not below the floor.
func (s *Steer) queueAllows(rate float64) float64 {
	return s.bounded(lower(rate, s.queueing.estimate(s.tune).Rate))
}

// busy reports whether requests are sent at nearly the rate that the plan allows.
func (s *Steer) busy(now clock.Instant) bool { return !s.tune.has(Use) || s.use.busy(now, s.rate) }

// toldGrowth is how many times as fast a search goes below the average rate of a told quota.
const toldGrowth = 4

// grow raises the rate exponentially in a search, while the rate is used. At the owner's ceiling the search ends, and
// that rate counts as proven.
func (s *Steer) grow(now clock.Instant) {
	dt := min(now.Sub(s.stepAt).Seconds(), 1)
	s.stepAt = now
	if !s.busy(now) {
		return
	}
	growth := s.tune.Growth
	if s.hint.active(now) && s.rate < s.hint.mean() {
		growth *= toldGrowth
	}
	s.rate *= math.Exp(growth * dt / s.step().Seconds())
	if s.rate >= s.most {
		s.lo = s.most / (1 - s.tune.Margin)
		s.on(now, Bounded)
		s.rate = s.most
	}
}

// tick does what time alone brings about: the ramp of Recover, the drift of hi, the choice of the next rate in Cruise,
// and the end of a probe.
func (s *Steer) tick(now clock.Instant) {
	switch s.mode {
	case Recover:
		s.ramp(now)
	case Cruise:
		if now >= s.stepAt.Add(time.Second) {
			s.drift(now)
			s.decide(now)
		}
	case Probe:
		if now >= s.stepAt.Add(time.Second) {
			s.drift(now)
		}
		s.prove(now)
	case Search, Wait:
	}
}

// ramp doubles the rate with each step until it is that of Cruise.
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

// decide chooses the next rate: that of an experiment on failures if one goes on, else the best rate by the one rule if
// it may be tried, else that of Cruise. No faster rate is tried while few URLs wait, the budget is empty, the ceiling
// is proven, a told quota binds or the rate is not used.
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
	if !s.recovering() && !s.win.habit { // a refusal soon above lo tells more than one far above it
		climb := s.tune.Climb
		if s.explicit() && s.order == 0 { // it may lock out whoever is too fast: few refusals are to tell the limit
			climb = max(climb, math.Sqrt(s.hi/s.lo))
		}
		x = min(x, s.lo*climb)
	}
	s.on(now, Promising)
	s.probe = probe{now, s.answered}
	s.rate = x
}

// probe is the present attempt at a faster rate, or the latest.
type probe struct {
	at      clock.Instant // when it began
	answers uint32        // admitted requests ever, at that time
}

// prove ends a probe that was not refused for long enough, and takes its rate for proven if enough of it was admitted.
// While a burst that the limiter saved may hide the limit the probe goes on, for a minute at most.
func (s *Steer) prove(now clock.Instant) {
	took := now.Sub(s.probe.at)
	if took < s.proofTime() {
		return
	}
	n := float64(s.answered - s.probe.answers)
	if n < s.tune.Used*s.health.likely()*s.rate*(took.Seconds()-float64(s.usual)) || s.hint.binds(now, s.rate) {
		s.on(now, Settled)
		s.rate = s.cruise()
		return
	}
	// A limiter can have saved tokens since it last refused, up to an ordinary burst, which hide that the rate is too
	// fast.
	hides := min(s.tune.Burst, 2+s.lo*(s.last+.03*s.probe.at.Sub(s.endAt).Seconds()))
	if n-s.lo*took.Seconds() < hides && took < time.Minute && s.rate < s.most {
		return
	}
	from := s.lo
	s.lo, s.run = max(from, s.rate), float32(n)
	s.hi = max(s.hi, s.lo*(1+s.tune.Near))
	s.win.refute(s.tune, s.rate)
	if s.lo > 1.05*from {
		s.loose = 1
		s.note(now, control.CauseProbed, from, s.rate, 0)
	}
	s.on(now, Settled)
	s.decide(now)
}

// SetDemand tells how many URLs wait for the host. While fewer than ten wait, no faster rate is tried. Until it is
// called, many are assumed.
func (s *Steer) SetDemand(urls int) { s.demand = uint16(min(max(urls, 0), math.MaxUint16) + 1) }

// few reports whether fewer URLs wait than it takes to tell that a faster rate is tolerated. demand is as in Steer.
func few(t *Tuning, demand uint16) bool { return demand > 0 && float64(demand-1) < t.Cycle }

// proofTime returns how long a rate must go well to be proven: a second, the length of a window that speaks against it,
// 1.2 times the last pause and a quarter of the cycle before (20 s at most each), and two round trips.
func (s *Steer) proofTime() time.Duration {
	least := max(1, s.win.proof(s.probe.at, s.rate), min(1.2*s.last, 20), min(s.probe.at.Sub(s.refill.since).Seconds()/4, 20))
	return seconds(least + 2*float64(s.usual))
}

// Memory implements [control.Strategy]. The rate is zero while nothing was refused.
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

// note makes a new latest event, for people. It changes no mode.
func (s *Steer) note(now clock.Instant, c control.Cause, from, to float64, hold time.Duration) {
	s.meetPause()
	s.event = s.event.Next(now, c, from, to, hold)
}

// speaks reports whether an outcome says something of the host: the host responded, or is in trouble, or its response
// could not be used.
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

// unlimited is hi, the lowest refused rate, of a host that has refused nothing.
var unlimited = math.Inf(1)

// seconds returns s seconds as a duration, from zero to three years, which can be added to any instant.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 1e8) * float64(time.Second))
}

package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// mode is what a steer does at present.
type mode uint8

const (
	searching mode = iota // growing exponentially: the ceiling is not known
	cruising              // just under the ceiling, creeping upward
	probing               // a quick upward move
	held                  // nothing goes out; then one trial
	ramping               // back to cruise after a long hold
	draining              // slower for a while, so that the host's queue empties
)

// steer finds a host's ceiling and stays just under it. See the package comment for
// the idea; each part of it has a file.
type steer struct {
	cfg     *Config
	ceilMax float64 // of the rate, as the owner bounds it
	floor   float32 // likewise
	mode    mode
	grown   bool // the limit may have risen in this cycle, or we were starved
	tally   tally
	noise
	rate   float64
	modeAt clock.Instant // since when the mode lasts
	stepAt clock.Instant // of the last step of growth, climb, creep, ramp or probe

	ceiling
	rise
	queue
	history
	flight
	*trouble // calm, until there is some
	*quota   // nil for a host that told of none
}

func newSteer(cfg *Config, now clock.Instant, h Host) *steer {
	s := &steer{cfg: cfg, floor: float32(h.Floor), ceilMax: h.Ceiling, rate: h.Start, modeAt: now, stepAt: now}
	s.ceiling = ceiling{belief: belief{ceil: math.Inf(1), provisional: true}, prevAt: now}
	s.rise = rise{credit: creditStart, creditAt: now, probeWait: probeWaitMin, peakAt: int32(secondOf(now))}
	s.lastSent = now
	s.trouble = &calm
	s.recall(now, h.Memory)
	return s
}

// recall takes up what was known: it goes back to the remembered ceiling from a
// quarter of it, as after a hold.
func (s *steer) recall(now clock.Instant, m Memory) {
	if m.Rate > 0 {
		s.ceil = s.bounded(float64(m.Rate)) / (1 - margin)
		if m.Rate >= float32(s.ceilMax) { // as it would be if that had been the bound before
			s.ceil, s.ours = s.top(), true
		}
		// What has changed since is found by a second search from there.
		s.proven, s.provisional, s.climbs = s.ceil, true, true
		if m.Pause > 0 {
			s.meetTrouble()
			s.meetWindow()
			s.lag = min(m.Pause, longestWindow)
		}
		s.peak = float32(s.ceil)
		s.enter(now, ramping)
		s.rate = s.bounded(s.cruise() / 4)
	}
	if m.Held != 0 {
		s.note(now, CauseFailures, s.rate, 0, m.Held.Sub(now))
		s.mode, s.from, s.till, s.tries, s.foreign = held, s.mode, m.Held, 1, true
		s.at, s.sentAt, s.failRate, s.wait = now, now, s.rate, min(time.Second, s.cfg.Breaker.OpenFor)
	}
}

// cruise is the rate at which the ceiling is not touched.
func (s *steer) cruise() float64 { return min(s.ceilMax, (1-margin)*s.ceil) }

// top is the ceiling whose cruise is all that the owner allows: a higher one changes nothing.
func (s *steer) top() float64 { return s.ceilMax / (1 - margin) }

// step is the least time in which the effect of a change of rate shows.
func (s *steer) step() time.Duration {
	return max(time.Second, duration(2*float64(s.srtt)))
}

func (s *steer) bounded(r float64) float64 { return min(max(r, float64(s.floor)), s.ceilMax) }

// allow takes in what the owner allows from now on. Of a ceiling above that nobody would
// notice that it has fallen, so it is forgotten, and the bound is in its place; one that
// was at the bound may be anything beyond it.
func (s *steer) allow(floor, most float64) {
	raised, atBound := most > s.ceilMax, s.ceil >= s.top()
	s.floor, s.ceilMax = float32(min(floor, most)), most
	switch top := s.top(); {
	case math.IsInf(s.ceil, 1):
	case s.ceil > top:
		s.ceil, s.proven, s.ours = top, min(s.proven, top), true
	case raised && atBound && !s.ours && s.mode != held:
		s.provisional, s.climbs = true, true
	}
}

func (s *steer) enter(now clock.Instant, m mode) {
	s.mode, s.modeAt, s.stepAt = m, now, now
}

// beat is how often the plan is looked at when nothing happens.
const beat = 250 * time.Millisecond

// catchUp makes good what timers and schedulers miss each time. It brings two requests
// closer together, which a limiter without a burst allowance does not bear: so by no more
// than a timer is usually late, unless requests are too close for that to matter.
func catchUp(rate float64) time.Duration {
	const exact, crowded = time.Millisecond, 10 * time.Millisecond
	if rate*seconds(crowded) > 1 {
		return crowded
	}
	return exact
}

// Plan implements [Strategy].
func (s *steer) Plan(now clock.Instant) Plan {
	s.tick(now)
	s.rate = s.bounded(s.rate)
	p := Plan{Rate: s.rate, Review: now.Add(max(beat, duration(1/s.rate))), InFlight: s.inFlightBound(now), CatchUp: catchUp(s.rate), Event: s.event}
	if s.mode != held {
		if s.mode == ramping {
			p.Review = now.Add(beat)
		}
		if s.missed >= 1 {
			p.Rate = min(makeUp*p.Rate, s.ceilMax)
		}
		s.quota.apply(now, &p)
		return p
	}
	switch {
	case s.trialAt != 0:
		p.State, p.NotBefore = breaker.HalfOpen, s.trialAt.Add(trialLost)
		p.Rate /= 2 // the next request is not to follow the trial as closely as those that were refused
	case now < s.till:
		p.State, p.NotBefore = breaker.Open, s.till
	default:
		p.State = breaker.HalfOpen
	}
	if s.patient() {
		p.State = breaker.Closed // a pause, not an outage: who waits may go on waiting
	}
	if p.Review = p.NotBefore; p.Review == 0 {
		p.Review = forever
	}
	return p
}

// inFlightBound is the most requests the host may have at once.
func (s *steer) inFlightBound(now clock.Instant) int {
	n := 4 + int(4*s.rate*float64(s.queue.mean))
	if s.queue.answers > 0 {
		n = bound(s.rate, float64(s.queue.mean))
	}
	if d := s.doors.bound(now); d > 0 {
		n = min(n, d)
	}
	return n
}

// Sent implements [Strategy].
func (s *steer) Sent(now clock.Instant, inFlight int) (trial uint32) {
	starved := now > s.lastSent.Add(max(time.Second, duration(3/s.rate)))
	s.keepUp(now, inFlight)
	s.flight.send(now)
	s.quota.send()
	if s.mode != held {
		if starved {
			s.grown, s.starvedIn = true, int32(secondOf(now)+1) // what this cycle admits is not the ceiling
		}
		return 0
	}
	s.trialAt = now
	s.trials++
	return s.trials
}

// keepUp notes whether the grant came late for want of processors. Where the number in
// flight or a quota sets the pace it did not, and who was locked out for coming too close
// together does not do so.
func (s *steer) keepUp(now clock.Instant, inFlight int) {
	if s.mode == held || s.mode == searching || s.lastSent < s.resumeAt || s.blockGap > 0 || s.quota.active(now) || inFlight >= s.inFlightBound(now) {
		s.missed = 0
		return
	}
	s.behind(now, s.rate)
}

// Lost implements [Strategy].
func (s *steer) Lost(now clock.Instant, trial uint32) {
	if s.mode == held && s.trialAt != 0 && trial == s.trials {
		s.trialAt = 0
		s.till = now.Add(s.wait) // nothing is known of it, so it may have been refused
	}
}

// Observe implements [Strategy].
func (s *steer) Observe(now clock.Instant, o Observation) {
	s.allow(o.Floor, o.Ceiling)
	trial := s.mode == held && s.trialAt != 0 && o.SentAt >= s.trialAt
	if !speaks(o.Class) { // an order that came with it is the owner's to keep
		if trial {
			s.Lost(now, s.trials)
		}
		return
	}
	if o.RetryAfter == 0 {
		o.Window.Add(now, o.Class.Overload())
	}
	s.tick(now)
	if s.quota == nil && !o.Quota.IsZero() {
		s.quota = &quota{askedAt: never}
	}
	s.quota.observe(now, &o)
	s.earn(now)
	switch {
	case o.Class.Overload(), o.Forbidden:
		s.failed(now, &o, trial)
	default:
		s.succeeded(now, &o, trial)
	}
}

// succeeded takes in an answer that the host gave willingly.
func (s *steer) succeeded(now clock.Instant, o *Observation, trial bool) {
	s.history.add(o.SentAt)
	if s.seldom != &noSeldom {
		s.doors.passed(o.InFlight)
	}
	s.resumed = plus(s.resumed, 1)
	s.gainCredit(s.creditPerAnswer())
	if s.mode == held && o.SentAt > s.sentAt {
		s.next = plus(s.next, 1)
	} else {
		s.cycle = plus(s.cycle, 1)
		if o.SentAt >= s.probeAt {
			s.probed = plus(s.probed, 1)
		}
	}
	s.consecutive = 0
	if s.forbidden > 0 && o.SentAt > s.forbidAt {
		s.forbidden = 0 // what was asked for before the first 403 does not end the run
	}
	if o.Lifted && !s.soft {
		s.meetTrouble()
		s.soft = true
	}
	s.time(o)
	if trial {
		s.resume(now)
		return
	}
	s.tally.add(o.Second) // not a trial's, which would take the place of the second that was blocked
	if s.mode == held || o.SentAt <= s.at {
		return // of the time before the refusal: counted, and no news
	}
	s.noise.pass(s, now)
	s.queue.observe(s, now, o)
	switch {
	case s.mode == searching:
		s.grow(now)
	case s.mode == cruising && s.climbs:
		s.climb(now)
	}
}

// tick does what time alone brings about.
func (s *steer) tick(now clock.Instant) {
	switch s.mode {
	case ramping:
		s.ramp(now)
	case cruising:
		s.sail(now)
	case probing:
		s.probe(now)
	}
}

// Memory implements [Strategy]. Of a host that only the owner's bound held there is nothing
// to tell: with another bound it would be wrong.
func (s *steer) Memory(now clock.Instant) Memory {
	var m Memory
	switch {
	case !math.IsInf(s.ceil, 1) && !s.ours:
		m.Rate, m.Pause = float32(s.cruise()), s.lag
	case s.mode == held && s.explicit && s.cycle > 0: // about what the end of the pause will make of it
		m.Rate, m.Pause = float32(min(s.ceilMax, (1-margin)*s.bounded(s.searched()))), s.lag
	}
	if s.mode == held {
		m.Held = max(s.till, now)
	}
	return m
}

// Failures implements [Strategy].
func (s *steer) Failures() int { return int(s.consecutive) }

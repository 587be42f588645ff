package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// pause is the latest refusal or outage and what followed: nothing is sent for a while, and then one trial. It also
// holds all else that a host needs from its first refusal on. Instants are never before the first pause.
type pause struct {
	trial
	// sentAt is when the request was sent whose response began the pause, the event; of a block, the last 403 of the
	// run. The response came at stepAt, and rate was the rate then: both stay while the pause goes on.
	sentAt clock.Instant
	endAt  clock.Instant // end of the latest pause that is over
	last   float64       // length of that pause in seconds; zero if it was an outage
	order  time.Duration // Retry-After of the event, or of the latest failed trial
	class  outcome.Class // outcome of the event's request
	// cause is CauseRefused, CauseFailures, CauseForbidden or CauseConnections; CauseNone if the pause was remembered
	// from before the host was forgotten.
	cause control.Cause

	before interval // what was believed before the experiment on failures
	// event is the latest event, for people. Its zero value means that there was none.
	event control.Event
	probe probe
	// loose is a factor of the drift, from .05 to 1: less after each refusal that told nothing new.
	loose float32
	// cost is the seconds that the latest refusal cost; zero before any was learned from.
	cost float32
	// well is the highest rate that went well, in requests per second; zero for none. Half of it is forgotten in WellHalf
	// seconds. While lo is far below it, hi drifts faster.
	well float64

	health      health
	connections connections
	win         window
	block       block
}

// trial is the request that shows whether a pause is over.
type trial struct {
	till   clock.Instant // the earliest time of the next trial
	out    clock.Instant // when the trial in flight was sent; zero if none is
	wait   time.Duration // from a failed or lost trial to the next one
	number uint32        // number of the latest trial of this host, from 1; zero for none
	tries  uint8         // failed trials in this pause
}

// meetPause makes the state that a host needs from its first refusal, failure or event on, if there is none.
func (s *Steer) meetPause() {
	if s.pause == nil {
		s.pause = &pause{sentAt: never, endAt: never, loose: 1}
		s.health.keep(sample{n: min(float32(s.answered), 1000)})
	}
}

// begin starts a pause. hit sets the rest from the response.
func (s *Steer) begin(now clock.Instant) {
	s.meetPause()
	s.sentAt, s.tries, s.out = now, 0, 0
	s.queueing.late = min(s.queueing.late, 0) // a queue empties in a pause
	s.on(now, Refused)
}

// explicit reports whether the host says that it refuses, and does not just fail.
func (p *pause) explicit() bool {
	return p.cause == control.CauseRefused || p.cause == control.CauseConnections || p.blocked()
}

// blocked reports whether the pause is a block, by a run of 403.
func (p *pause) blocked() bool { return p.cause == control.CauseForbidden }

// down reports whether the event was a failure that no limiter answers with: neither 429 nor 503.
func (p *pause) down() bool {
	return p.class.Overload() && p.class != outcome.Throttled && p.class != outcome.Unavailable
}

// patient reports whether a pause is a limiter's and no outage, so that callers who wait for a permit may go on
// waiting. The plan then shows a closed circuit.
func (p *pause) patient() bool { return p.explicit() && !p.blocked() && (p.tries == 0 || p.order > 0) }

// longestWait bounds the time to the next trial: a quarter of the pause so far, at least two seconds, and for an outage
// what the user set.
func (s *Steer) longestWait(now clock.Instant) time.Duration {
	w := max(2*time.Second, now.Sub(s.stepAt)/4)
	if !s.explicit() {
		w = min(w, s.cfg.Breaker.OpenFor)
	}
	return w
}

// plan fills in the plan of a paused host: nothing before till, then one trial. A trial without an outcome counts as
// lost after five minutes.
func (p *pause) plan(now clock.Instant, plan *control.Plan) {
	switch {
	case p.out != 0:
		plan.State, plan.NotBefore = breaker.HalfOpen, p.out.Add(5*time.Minute)
		plan.Rate /= 2
	case now < p.till:
		plan.State, plan.NotBefore = breaker.Open, p.till
	default:
		plan.State = breaker.HalfOpen
	}
	if p.patient() {
		plan.State = breaker.Closed
	}
	if plan.Review = plan.NotBefore; plan.Review == 0 {
		plan.Review = forever
	}
}

// failed takes in a refusal, a failure or a 403. It decides which cause it speaks for: the trial of a pause, a bound on
// connections, a refusal, a block, or a failure that health judges. During a pause a late one can only prolong the
// pause.
func (s *Steer) failed(x *Sample, trial bool) {
	s.meetPause()
	switch {
	case trial:
		s.trialFailed(x)
	case s.mode == Wait:
		s.till = max(s.till, x.At.Add(x.RetryAfter))
		if s.blocked() && x.Forbidden {
			s.till = max(s.till, x.At.Add(s.wait))
		}
	case x.SentAt < s.endAt: // sent before the refusal
	case s.tune.has(Connections) && s.connections.refused(x):
		s.hit(x, control.CauseConnections)
	case x.ordered():
		s.budget.pay(1)
		s.hit(x, control.CauseRefused)
	case x.Forbidden && s.block.observe(x):
		s.hit(x, control.CauseForbidden)
	case !s.tune.has(Health) && !x.Forbidden: // without health every failure is a refusal
		s.hit(x, control.CauseRefused)
	case !x.Forbidden || s.block.soft:
		s.heed(x, true)
	}
}

// heed hands an outcome to health and applies what it finds.
func (s *Steer) heed(x *Sample, bad bool) {
	now, e := x.At, s.health.test
	switch s.health.observe(x, bad) {
	case failing:
		if e == nil {
			s.budget.pay(1)
		}
		s.hit(x, control.CauseFailures)
	case doubtful:
		s.before = s.interval
		s.health.doubt(x)
		s.on(now, Settled)
		s.decide(now)
	case slower:
		s.rate = s.bounded(e.rate)
	case hopeless:
		s.learn(now, e.rate, 0)
		s.decide(now)
	case limited: // the limit is above the rate that was tried, and below the one that failed before
		if e.failed < e.first {
			s.lo, s.run, s.hi = e.rate, 0, min(s.hi, e.failed)
		}
		s.decide(now)
	case random:
		from := s.rate
		s.interval = s.before
		s.budget.add(2, s.tune.CreditMax)
		s.back(now, e.first)
		s.note(now, control.CauseNoise, from, s.rate, 0)
	case unclear, passing:
		if bad && e == nil && s.health.noisy() { // a failure at random counts as admitted
			s.history.add(x.SentAt)
		}
	}
}

// hit begins a pause. The first trial is due when both the Retry-After and a wait are over. The wait of a block is
// blockWait or that of the last block. Any other is 100 ms, one round trip, two intervals of the rate or a third of the
// last pause, whichever is longest, within longestWait.
func (s *Steer) hit(x *Sample, cause control.Cause) {
	now := x.At
	s.begin(now)
	s.sentAt, s.order, s.cause, s.class = x.SentAt, x.RetryAfter, cause, x.Class
	s.wait = max(100*time.Millisecond, seconds(float64(s.usual)), seconds(2/s.rate), seconds(s.last/3))
	s.wait = min(s.wait, s.longestWait(now))
	if s.blocked() {
		s.wait = max(blockWait, s.block.gap)
	}
	s.till = now.Add(max(s.wait, x.RetryAfter))
	s.note(now, cause, s.rate, 0, s.till.Sub(now))
}

// trialFailed prolongs the pause. The wait doubles, within longestWait; that of a block grows by half. An outcome that
// tells more of the cause than the event did changes the cause.
func (s *Steer) trialFailed(x *Sample) {
	now := x.At
	s.out, s.order, s.tries = 0, x.RetryAfter, min(s.tries+1, 200)
	switch {
	case s.cause == control.CauseNone:
	case x.Forbidden:
		s.cause = control.CauseForbidden
	case x.ordered() && !s.explicit():
		s.cause = control.CauseRefused
	}
	if x.ordered() {
		s.budget.pay(s.tune.Trial)
	}
	if s.blocked() {
		s.wait = min(max(blockWait, s.wait*3/2), time.Hour)
	} else {
		s.wait = min(2*s.wait, s.longestWait(now))
	}
	s.till = now.Add(max(s.wait, x.RetryAfter))
	s.note(now, control.CauseTrial, s.rate, 0, s.till.Sub(now))
}

// resume ends a pause whose trial succeeded. It decides what the pause teaches: nothing (remembered, or an outage), a
// bound on connections, what health judges of failures, or what endRefusal learns from a refusal. Then the next cycle
// begins.
func (s *Steer) resume(now clock.Instant) {
	took, rate, cause := now.Sub(s.stepAt), s.rate, control.CauseRecovered
	outage := s.outage(now, took)
	s.weigh()
	s.last, s.out = took.Seconds(), 0
	from := s.sentAt // of the next cycle; never if the present one goes on
	switch {
	case s.cause == control.CauseNone:
		s.back(now, rate)
	case s.cause == control.CauseConnections:
		cause = s.cause
		if s.unbounded() { // any rate may be tolerated
			s.lo, s.hi = rate, 4*rate
		}
		s.on(now, Settled)
		s.decide(now)
	case outage:
		s.last = 0
		s.health.reset()
		s.back(now, rate)
		if from = never; s.down() {
			s.refill = refill{since: now}
		}
	case !s.explicit():
		if cause = s.judge(now, took); s.settle(rate) && cause != control.CauseNone {
			cause = control.CauseQuota
		}
	default:
		cause = s.endRefusal(now, took)
	}
	s.endAt = now
	if from != never {
		s.refill.begin(s.tune, &s.history, from)
	}
	if cause != control.CauseNone {
		s.note(now, cause, 0, s.rate, 0)
	}
}

// spelled returns the present pause as window sees it, at its end.
func (s *Steer) spelled() spell {
	x := spell{from: s.sentAt, to: s.out, order: s.order, rate: s.rate}
	x.last = s.till.Add(-max(s.wait, s.order)) // when the latest refusal came
	if s.order > time.Second {
		x.last = min(x.last.Add(s.order-time.Second), x.to)
	}
	return x
}

// weigh hands the present pause to window, unless it is known to be something else or is as short as a bucket's.
func (s *Steer) weigh() {
	switch x := s.spelled(); {
	case s.blocked() || s.cause == control.CauseNone || s.cause == control.CauseConnections:
	case s.counted(&x):
		s.win.weigh(s.tune, &s.history, s.began(), x, s.class == outcome.Throttled || x.order > 0)
	case x.took() >= s.longPause():
		s.win.spell = x
	}
}

// counted reports whether a pause may be that of a limiter that counts over a window.
func (s *Steer) counted(x *spell) bool {
	return lasting(x.took(), x.rate) && (!s.down() || x.order > 0) && s.tune.has(Windows)
}

// began returns the end of the pause before the present one; before the first, when the strategy was made.
func (s *Steer) began() clock.Instant { return max(s.endAt, s.refill.since) }

// endRefusal learns from a pause in which the host said that it refuses, and returns the cause that says what is known
// now. After a block, the rate stays just under what was blocked; otherwise learn and settle take in the refusal.
func (s *Steer) endRefusal(now clock.Instant, took time.Duration) control.Cause {
	cause := control.CauseMeasured
	if s.blocked() {
		cause = control.CauseBlocked
		s.block.gap = s.wait
		x := s.block.estimate(s.rate, &s.tally).Rate
		if lo := s.bounded(x); s.unbounded() {
			s.lo = lo
		} else { // in a probe: less than what was blocked had been proven
			s.lo = min(s.lo, lo)
		}
		s.run, s.hi = 0, max(s.lo*(1+s.tune.Near/2), x)
		s.cost = max(s.cost, float32(took.Seconds()))
	} else {
		if s.unbounded() {
			cause = control.CauseSearched
		}
		s.learn(now, s.rate, took)
		if s.settle(s.rate) {
			cause = control.CauseQuota
		}
	}
	s.on(now, Settled)
	s.decide(now)
	return cause
}

// judge ends a pause that failures led to, and returns the cause that says what became known; CauseNone while an
// experiment goes on.
func (s *Steer) judge(now clock.Instant, took time.Duration) control.Cause {
	before, rate := s.interval, s.rate
	if s.health.extra < otherwise {
		before.hi = unlimited // if requests fail at any rate, hi was no limit either
	}
	found := s.health.resumed(int(s.tries), s.down(), s.answered)
	switch found {
	case slower:
		s.on(now, Settled)
		s.rate = s.bounded(s.health.test.rate)
		return control.CauseNone
	case passing:
		s.back(now, rate)
		return control.CauseRecovered
	}
	s.learn(now, rate, took)
	if found == failing {
		s.health.begin(s.tune, rate, s.cruise(), 0)
		s.before = before
	}
	s.on(now, Settled)
	s.decide(now)
	return control.CauseEstimated
}

// cheapOrder is the longest Retry-After that may be an outage's. To wait for it once more shows whether it depends on
// the rate, and costs little.
const cheapOrder = 5 * time.Second

// longOutage is the longest pause that may be an outage though the host says that it refuses. If a longer one was an
// outage after all, to climb back from the rate that was learned takes at most half as long as it did.
const longOutage = 2 * time.Minute

// expected reports a 429 that is no outage: it has a Retry-After, refused a rate well above lo, or came in a search
// after as many requests as an ordinary burst.
func (s *Steer) expected() bool {
	searched := s.unbounded() && s.rate < s.most && s.history.between(s.refill.since, s.sentAt) >= s.tune.Burst
	return s.class == outcome.Throttled && (s.order > 0 || s.above(s.rate) || searched)
}

// longPause returns the shortest pause that may be an outage: a bucket's next token is there sooner.
func (s *Steer) longPause() time.Duration { return max(2*time.Second, seconds(4/s.rate)) }

// outage reports whether a pause says nothing of the rate: it is the first of its kind, and too long for a bucket's. A
// pause whose first trial succeeded is none, unless after a Retry-After of at most cheapOrder. Nor is a pause longer
// than longOutage of a host that says that it refuses, or one that was to be expected. In resume it is asked before the
// pause becomes the latest spell.
func (s *Steer) outage(now clock.Instant, took time.Duration) bool {
	if s.blocked() || s.expected() || took < s.longPause() || s.tries == 0 && (s.order == 0 || s.order > cheapOrder) {
		return false
	}
	if s.explicit() && took > longOutage {
		return false
	}
	return !s.win.again(s.stepAt, now)
}

// wellAbove is how many times lo a rate has to be for its refusal to be no surprise: jitter makes much less than that.
const wellAbove = 1.1

// above reports whether a refused rate was well above lo: its refusal says nothing against lo. Before the first refusal
// it is false.
func (i *interval) above(refused float64) bool { return !i.unbounded() && refused > wellAbove*i.lo }

// back resumes after a pause that taught nothing. If no limit is known, the search goes on from half of that rate.
// Otherwise the mode is Recover, from half of that rate or of Cruise's, whichever is lower.
func (s *Steer) back(now clock.Instant, rate float64) {
	if s.unbounded() {
		s.on(now, Restarted)
		s.rate = s.bounded(rate / 2)
		if s.lo >= s.most {
			s.on(now, Returning)
		}
		return
	}
	s.on(now, Returning)
	s.rate = s.bounded(min(rate, s.cruise()) / 2)
}

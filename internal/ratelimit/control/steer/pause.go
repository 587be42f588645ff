package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// pause is what a refusal or an outage leads to: nothing goes out for a while, and then one trial. It holds
// all that a host needs from its first refusal on.
type pause struct {
	trial
	at       clock.Instant // when the event was noticed
	sentAt   clock.Instant // when the request was sent that brought it
	endAt    clock.Instant // end of the last pause
	last     float64       // seconds of the last pause; zero if it was an outage
	order    time.Duration // the Retry-After of the event, or of its last trial
	failRate float64
	class    outcome.Class // of the event
	cause    control.Cause // of CauseRefused, CauseFailures, CauseForbidden and CauseConnections; none if it is of before the host was forgotten

	doubt
	event control.Event
	probe probe
	loose float32 // of the drift: less after each refusal that was no news
	cost  float32 // seconds that the latest refusal cost
	peak  peak

	health      health
	outages     outages
	connections connections
	win         window
	block       block
}

// trial is the request that shows whether a pause is over.
type trial struct {
	till   clock.Instant // none before
	out    clock.Instant // when the one that is out was sent; zero for none
	wait   time.Duration // until the next
	number uint32        // of the latest
	tries  uint8         // that failed in this pause
}

func (s *Steer) meetPause() {
	if s.pause == nil {
		s.pause = &pause{at: never, sentAt: never, endAt: never, loose: 1}
		s.win.now.since = s.refill.since
		s.block.since = never
		s.health.keep(min(float32(s.answered), 1000), 0)
	}
}

func (p *pause) begin(now clock.Instant, rate float64) {
	p.at, p.sentAt, p.failRate, p.tries, p.out = now, now, rate, 0, 0
}

// explicit reports that the host refuses, and does not just fail.
func (p *pause) explicit() bool {
	return p.cause == control.CauseRefused || p.cause == control.CauseConnections || p.blocked()
}

func (p *pause) blocked() bool { return p.cause == control.CauseForbidden }

// down reports a failure that no limit answers with.
func (p *pause) down() bool {
	return p.class.Overload() && p.class != outcome.Throttled && p.class != outcome.Unavailable
}

// patient is true of a pause that is no outage: who waits may go on waiting.
func (p *pause) patient() bool { return p.explicit() && !p.blocked() && (p.tries == 0 || p.order > 0) }

// longestWait bounds the wait for the next trial: a quarter of the pause so far, and what the user set for outages.
func (p *pause) longestWait(now clock.Instant, outage time.Duration) time.Duration {
	w := max(2*time.Second, now.Sub(p.at)/4)
	if !p.explicit() {
		w = min(w, outage)
	}
	return w
}

// plan is that of a host that is to wait.
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

// failed takes in a refusal or a failure.
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
	case x.SentAt <= s.at: // of the time before the refusal
	case s.tune.has(Connections) && s.connections.refused(x):
		s.hit(x, control.CauseConnections)
	case x.ordered():
		s.budget.pay(1)
		s.hit(x, control.CauseRefused)
	case x.Forbidden && s.block.observe(x):
		s.hit(x, control.CauseForbidden)
		s.sentAt = s.block.since
	case !s.tune.has(Health) && !x.Forbidden: // every failure is a refusal
		s.hit(x, control.CauseRefused)
	case !x.Forbidden || s.block.soft:
		s.heed(x, true)
	}
}

// heed does what the health estimator finds.
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
	case limited: // above the rate that was tried, and below the one that failed before it
		if e.stage > 0 {
			s.lo, s.run, s.hi = e.rate, 0, min(s.hi, e.failed)
		}
		s.decide(now)
	case random:
		from := s.rate
		s.interval, s.sure = s.before, interval{}
		s.budget.add(2, s.tune.CreditMax)
		s.back(now, e.first)
		s.note(now, control.CauseNoise, from, s.rate, 0)
	case unclear, passing:
		if bad && e == nil && s.health.noisy() { // it is as good as admitted
			s.history.add(x.SentAt)
			s.refill.observe(x)
		}
	}
}

// hit is the event: the host refuses, or is in trouble.
func (s *Steer) hit(x *Sample, cause control.Cause) {
	now := x.At
	s.pause.begin(now, s.rate)
	s.sentAt, s.order, s.cause, s.class = x.SentAt, x.RetryAfter, cause, x.Class
	s.wait = max(100*time.Millisecond, seconds(float64(s.srtt)), seconds(2/s.rate), seconds(s.last/3))
	s.wait = min(s.wait, s.longestWait(now, s.cfg.Breaker.OpenFor))
	if s.blocked() {
		s.wait = max(seconds(s.tune.BlockWait), s.block.gap)
	}
	s.on(now, Refused)
	s.till = now.Add(max(s.wait, x.RetryAfter))
	s.note(now, cause, s.rate, 0, s.till.Sub(now))
}

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
		s.wait = min(max(seconds(s.tune.BlockWait), s.wait*3/2), time.Hour)
	} else {
		s.wait = min(2*s.wait, s.longestWait(now, s.cfg.Breaker.OpenFor))
	}
	s.till = now.Add(max(s.wait, x.RetryAfter))
	s.note(now, control.CauseTrial, s.rate, 0, s.till.Sub(now))
}

// resume is the end of a pause: its trial was answered.
func (s *Steer) resume(now clock.Instant) {
	took, cause := now.Sub(s.at), control.CauseRecovered
	s.last, s.endAt, s.out = took.Seconds(), now, 0
	from := s.sentAt                                            // of the next cycle
	bold := s.class == outcome.Throttled && s.above(s.failRate) // no outage: it was to be expected
	switch {
	case s.cause == control.CauseNone:
		s.back(now, s.failRate)
	case s.cause == control.CauseConnections:
		cause = s.cause
		if s.unbounded() { // the rate may be anything
			s.lo, s.hi = s.failRate, 4*s.failRate
		}
		s.on(now, Settled)
		s.decide(now)
	case !s.blocked() && !bold && s.outage(now, took, float64(s.refill.n)):
		s.last = 0
		s.health.reset()
		s.back(now, s.failRate)
		if from = never; s.down() {
			s.refill.skip(now.Sub(s.sentAt))
		}
	case !s.explicit():
		if cause = s.judge(now, took); s.settle() && cause != control.CauseNone {
			cause = control.CauseQuota
		}
	default:
		cause = s.endRefusal(now, took)
	}
	if from != never {
		s.refill.begin(s.tune, from, now.Sub(from))
	}
	if cause != control.CauseNone {
		s.note(now, cause, 0, s.rate, 0)
	}
}

// endRefusal learns from a pause that the host wanted, and says what is known now.
func (s *Steer) endRefusal(now clock.Instant, took time.Duration) control.Cause {
	cause := control.CauseMeasured
	if s.blocked() {
		cause = control.CauseBlocked
		s.block.gap = s.wait
		x := s.block.estimate(s.failRate).Rate
		if lo := s.bounded(x); s.unbounded() {
			s.lo = lo
		} else { // in a probe it was proven that less goes well
			s.lo = min(s.lo, lo)
		}
		s.run, s.hi = 0, max(s.lo*(1+s.tune.Near/2), x)
		s.cost = max(s.cost, float32(took.Seconds()))
	} else {
		if s.unbounded() {
			cause = control.CauseSearched
		}
		s.learn(now, s.failRate, took)
		if s.settle() {
			cause = control.CauseQuota
		}
	}
	if took > 5*time.Second && s.order == 0 && !s.unbounded() {
		s.on(now, Returning)
		s.rate = s.bounded(s.cruise() / 2)
		return cause
	}
	s.on(now, Settled)
	s.decide(now)
	return cause
}

// judge ends a pause that failures led to, and says what became known; nothing while an experiment goes on.
func (s *Steer) judge(now clock.Instant, took time.Duration) control.Cause {
	before, rate := s.interval, s.failRate
	if s.guessed {
		before.hi = unlimited // if it fails at any rate, that was no limit either
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
		s.health.begin(rate, max(min(s.cruise(), s.tune.Slower*rate), rate/2))
		s.before = before
	}
	s.on(now, Settled)
	s.decide(now)
	return control.CauseEstimated
}

// cheapOrder is the longest that is waited for once more to know whether it has to do with the rate.
const cheapOrder = 5 * time.Second

// longOutage is the longest pause of a host that says that it refuses which may be an outage: to climb again takes no
// longer than half of it.
const longOutage = 2 * time.Minute

// outage reports a pause that says nothing of the rate: it comes out of the blue, after so many answers, and
// is the first of its kind.
func (p *pause) outage(now clock.Instant, took time.Duration, admitted float64) bool {
	if took < max(2*time.Second, seconds(4/p.failRate)) || p.tries == 0 && (p.order == 0 || p.order > cheapOrder) || p.class == outcome.Throttled && p.order > 0 {
		return false
	}
	if p.explicit() && took > longOutage {
		return false
	}
	return !p.outages.again(p.at, now, admitted)
}

// wellAbove is how many times what is proven a rate is that may be refused without surprise: jitter is far below.
const wellAbove = 1.1

// above reports a refusal of a rate well above what is proven, which says nothing against that.
func (i *interval) above(refused float64) bool { return !i.unbounded() && refused > wellAbove*i.lo }

// back goes back to a rate after a pause that taught nothing.
func (s *Steer) back(now clock.Instant, rate float64) {
	if s.unbounded() {
		s.on(now, Restarted)
		if s.rate = s.bounded(rate / 2); s.down() {
			s.rate = s.bounded(rate)
		}
		if s.lo >= s.most {
			s.on(now, Returning)
		}
		return
	}
	s.on(now, Returning)
	s.rate = s.bounded(min(rate, s.cruise()) / 2)
}

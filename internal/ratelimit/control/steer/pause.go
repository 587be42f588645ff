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
	stops
	till    clock.Instant // no trial before
	out     clock.Instant // when the one that is out was sent; zero for none
	wait    time.Duration // until the next
	number  uint32        // of the latest
	event   control.Event
	loose   float32  // of the drift: less after each refusal that was no news
	peak    float32  // the highest rate that went well of late
	before  interval // the experiment on failures
	guessed bool     // what is refused is known from failures only
	habit   bool     // the host orders to wait as long as it does whatever it counts

	health      health
	connections connections
	block       block
}

func (s *Steer) meetPause() {
	if s.pause == nil {
		s.pause = &pause{loose: 1}
		s.stops[0] = stop{from: s.began, at: s.began - 1, last: s.began, to: s.began}
		s.block.since = never
		s.health.keep(min(float32(s.admitted), 1000), 0)
	}
}

// patient is true of a pause that is no outage: who waits may go on waiting.
func (p *pause) patient() bool {
	a := &p.stops[0]
	return a.explicit() && !a.blocked() && (a.tries == 0 || a.order > 0)
}

// longestWait bounds the wait for the next trial: a quarter of the pause so far, and what the user set for outages.
func (p *pause) longestWait(now clock.Instant, outage time.Duration) time.Duration {
	w := max(2*time.Second, now.Sub(p.stops[0].at)/4)
	if !p.stops[0].explicit() {
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
	a := &s.stops[0]
	switch {
	case trial:
		s.trialFailed(x)
	case s.mode == Wait:
		a.last = max(a.last, x.SentAt)
		s.till = max(s.till, x.At.Add(x.RetryAfter))
		if a.blocked() && x.Forbidden {
			s.till = max(s.till, x.At.Add(s.wait))
		}
	case x.SentAt <= a.at: // of the time before the refusal
	case s.tune.has(Connections) && s.connections.refused(x):
		s.hit(x, control.CauseConnections)
	case x.ordered():
		s.budget.pay(1)
		s.hit(x, control.CauseRefused)
	case x.Forbidden && s.block.observe(x):
		s.hit(x, control.CauseForbidden)
		s.stops[0].from = s.block.since
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
		s.health.doubt(s.rate, s.tune.Slower*s.rate, s.tune.Limit, now.Add(x.Settle))
		s.on(now, Settled)
		s.decide(now)
	case slower:
		s.rate = s.bounded(e.rate)
	case hopeless:
		s.learn(now, e.rate, 0)
		s.decide(now)
	case limited: // above the rate that was tried
		if e.stage > 0 {
			s.lo, s.run = e.rate, 0
		}
		s.decide(now)
	case random:
		from := s.rate
		s.interval = s.before
		s.budget.add(2, s.tune.CreditMax)
		s.back(now, e.first)
		s.note(now, control.CauseNoise, from, s.rate, 0)
	case unclear, passing:
		if bad && e == nil && s.health.noisy() { // it is as good as admitted
			s.history.add(x.SentAt)
			s.admitted++
		}
	}
}

// hit is the event: the host refuses, or is in trouble.
func (s *Steer) hit(x *Sample, cause control.Cause) {
	now, last := x.At, s.last()
	s.stops.open(s.tune, stop{from: x.SentAt, at: now, last: x.SentAt, rate: s.rate, order: x.RetryAfter, class: x.Class, cause: cause})
	s.wait = max(100*time.Millisecond, seconds(float64(s.srtt)), seconds(2/s.rate), seconds(last/3))
	s.wait = min(s.wait, s.longestWait(now, s.cfg.Breaker.OpenFor))
	if cause == control.CauseForbidden {
		silence, _ := s.blocks(1)
		s.wait = max(seconds(s.tune.BlockWait), silence)
	}
	s.out = 0
	s.on(now, Refused)
	s.till = now.Add(max(s.wait, x.RetryAfter))
	s.note(now, cause, s.rate, 0, s.till.Sub(now))
}

func (s *Steer) trialFailed(x *Sample) {
	now, a := x.At, &s.stops[0]
	s.out, a.order, a.tries = 0, x.RetryAfter, min(a.tries+1, 200)
	a.last = max(a.last, x.SentAt)
	switch {
	case x.Forbidden:
		a.cause = control.CauseForbidden
	case x.ordered() && !a.explicit():
		a.cause = control.CauseRefused
	}
	if x.ordered() {
		s.budget.pay(s.tune.Trial)
		a.last = max(a.last, now.Add(a.order-time.Second))
	}
	if a.blocked() {
		s.wait = min(max(seconds(s.tune.BlockWait), s.wait*3/2), time.Hour)
	} else {
		s.wait = min(2*s.wait, s.longestWait(now, s.cfg.Breaker.OpenFor))
	}
	s.till = now.Add(max(s.wait, x.RetryAfter))
	s.note(now, control.CauseTrial, s.rate, 0, s.till.Sub(now))
}

// resume is the end of a pause: its trial was answered.
func (s *Steer) resume(now clock.Instant) {
	a, cause := &s.stops[0], control.CauseRecovered
	a.to, a.admitted = s.out, s.admitted
	s.out = 0
	s.weigh(s.tune, &s.history)
	took := now.Sub(a.at)
	switch {
	case a.cause == control.CauseNone:
		s.back(now, a.rate)
	case a.cause == control.CauseConnections:
		cause = a.cause
		if a.taught = true; s.unbounded() { // the rate may be anything
			s.lo, s.hi = a.rate, 4*a.rate
		}
		s.on(now, Settled)
		s.decide(now)
	case !a.blocked() && a.outage(took) && !s.again():
		s.health.reset()
		s.back(now, a.rate)
	case !a.explicit():
		if cause = s.judge(now, took); s.settle(now) && cause != control.CauseNone {
			cause = control.CauseQuota
		}
	default:
		cause = s.endRefusal(now, took)
	}
	if cause != control.CauseNone {
		s.note(now, cause, 0, s.rate, 0)
	}
}

// endRefusal learns from a pause that the host wanted, and says what is known now.
func (s *Steer) endRefusal(now clock.Instant, took time.Duration) control.Cause {
	cause, a := control.CauseMeasured, &s.stops[0]
	if a.blocked() {
		cause, a.taught = control.CauseBlocked, true
		x := s.block.estimate(a.rate).Rate
		lo := s.bounded(x)
		if !s.unbounded() {
			lo = min(lo, s.lo)
		}
		s.interval = interval{lo: lo, hi: max(lo*(1+s.tune.Near/2), x)}
	} else {
		if s.unbounded() {
			cause = control.CauseSearched
		}
		s.learn(now, a.rate, took)
		if s.settle(now) {
			cause = control.CauseQuota
		}
	}
	if took > 5*time.Second && a.order == 0 && !s.unbounded() {
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
	a, before := &s.stops[0], s.interval
	if s.guessed {
		before.hi = unlimited // if it fails at any rate, that was no limit either
	}
	found := s.health.resumed(int(a.tries))
	if found == failing && (a.down() || s.health.noisy()) && !s.soonAgain() {
		s.health.reset()
		found = passing // no limiter answers so, unless it does so again
	}
	switch found {
	case slower:
		s.on(now, Settled)
		s.rate = s.bounded(s.health.test.rate)
		return control.CauseNone
	case passing:
		s.back(now, a.rate)
		return control.CauseRecovered
	}
	s.learn(now, a.rate, took)
	if found == failing {
		s.health.begin(a.rate, min(s.cruise(), s.tune.Slower*a.rate))
		s.before = before
	}
	s.on(now, Settled)
	s.decide(now)
	return control.CauseEstimated
}

// soonAgain reports whether the newest stop follows soon after one that failures led to.
func (s *Steer) soonAgain() bool {
	i := s.latest(1, func(s *stop) bool { return s.cause == control.CauseFailures })
	return i < len(s.stops) && s.admitted-s.stops[i].admitted < soonAgain
}

// cheapOrder is the longest that is waited for once more to know whether it has to do with the rate.
const cheapOrder = 5 * time.Second

// longOutage is the longest pause of a host that says that it refuses which may be an outage: to climb again takes no
// longer than half of it.
const longOutage = 2 * time.Minute

// outage reports a pause that may say nothing of the rate: it came out of the blue.
func (s *stop) outage(took time.Duration) bool {
	if took < max(2*time.Second, seconds(4/s.rate)) || s.tries == 0 && (s.order == 0 || s.order > cheapOrder) {
		return false
	}
	ordered := s.class == outcome.Throttled && s.order > 0
	s.odd = !ordered && (!s.explicit() || took <= longOutage)
	return s.odd
}

// back goes back to a rate after a pause that taught nothing.
func (s *Steer) back(now clock.Instant, rate float64) {
	if s.unbounded() {
		s.on(now, Restarted)
		if s.rate = s.bounded(rate / 2); s.stops[0].down() {
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

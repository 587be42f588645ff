package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// pause is what a refusal or an outage leads to: nothing goes out for a while, and then one trial.
type pause struct {
	at       clock.Instant // when the event was noticed
	sentAt   clock.Instant // when the request was sent that brought it
	endAt    clock.Instant // end of the last pause
	till     clock.Instant // no trial before
	refused  clock.Instant // the host has said or shown that it refuses until then
	trialAt  clock.Instant // when the trial that is out was sent; zero for none
	order    time.Duration // the Retry-After of the event
	wait     time.Duration // until the next trial
	last     float64       // seconds of the last pause
	failRate float64
	trials   uint32
	tries    uint8
	from     Mode
	explicit bool
	rates    bool // the host said that it is the rate
	down     bool // the failure was one that a limit does not give
	foreign  bool
	opened   bool // by the number in flight
	guessed  bool // what is refused is known from failures only

	doubt
	health
	connections
	event  control.Event
	probe  probe
	loose  float32 // of the drift: less after each refusal that was no news
	cost   float32 // seconds that a refusal costs, smoothed
	peak   float32 // the highest rate that went well of late
	peakAt clock.Instant

	unlearned stop // the last pause that taught nothing
	win       window
	block
}

// stop is a pause that nobody knows the reason of.
type stop struct {
	at   clock.Instant
	rate float64
	n    float64
	took float64
}

func (s *Steer) meetPause() {
	if s.pause == nil {
		s.pause = &pause{at: never, sentAt: never, endAt: never}
		s.unlearned.at = never
		s.win.now.since = s.refill.since
		s.loose = 1
		s.block.forbidAt = never
		s.health.keep(min(float32(s.answered), 1000), 0)
	}
}

func (p *pause) begin(now clock.Instant, from Mode, rate float64) {
	p.at, p.sentAt, p.from, p.failRate, p.tries, p.trialAt = now, now, from, rate, 0, 0
}

func (p *pause) passed(o *control.Observation) {
	if p.forbidden > 0 && o.SentAt > p.forbidAt {
		p.forbidden = 0
	}
	if o.Lifted {
		p.soft = true
	}
}

func (s *Steer) lastPause() float64 {
	if s.pause == nil {
		return 0
	}
	return s.last
}

// refused reports an answer that leaves no doubt.
func refused(o *control.Observation) bool { return o.RetryAfter > 0 || o.Class == outcome.Throttled }

// failed takes in a refusal or a failure.
func (s *Steer) failed(now clock.Instant, o *control.Observation, trial bool) {
	s.meetPause()
	switch {
	case trial:
		s.trialFailed(now, o)
	case s.mode == Wait:
		s.till = max(s.till, now.Add(o.RetryAfter))
		s.pause.refused = max(s.pause.refused, now.Add(o.RetryAfter))
		if s.blocked && o.Forbidden {
			s.till = max(s.till, now.Add(s.wait))
		}
	case o.SentAt <= s.at:
	case (o.Class == outcome.Throttled || o.Class == outcome.Unavailable) && s.connections.refused(now, o.InFlight):
		s.opened = true
		s.hit(now, o, control.CauseConnections)
	case refused(o):
		s.pay(1)
		s.hit(now, o, control.CauseRefused)
	case o.Forbidden:
		s.forbid(now, o)
	default:
		s.health.fail(s, now, o)
	}
}

// hit is the event: the host refuses, or is in trouble.
func (s *Steer) hit(now clock.Instant, o *control.Observation, cause control.Cause) {
	s.pause.begin(now, s.mode, s.rate)
	s.sentAt, s.order = o.SentAt, o.RetryAfter
	s.pause.refused = now.Add(o.RetryAfter)
	s.blocked = cause == control.CauseForbidden
	s.opened = cause == control.CauseConnections
	s.explicit = cause == control.CauseRefused || s.opened || s.blocked
	s.rates = o.Class == outcome.Throttled || s.blocked
	s.down = o.Class.Overload() && o.Class != outcome.Throttled && o.Class != outcome.Unavailable
	s.wait = max(100*time.Millisecond, seconds(float64(s.srtt)), seconds(2/s.rate), seconds(s.last/3))
	s.wait = min(s.wait, s.longestWait(now))
	if s.blocked {
		s.wait = max(blockWait, s.gap)
	}
	s.on(now, Refused)
	s.till = now.Add(max(s.wait, o.RetryAfter))
	s.note(now, cause, s.rate, 0, s.till.Sub(now))
}

func (s *Steer) trialFailed(now clock.Instant, o *control.Observation) {
	s.trialAt, s.order = 0, max(o.RetryAfter, 0)
	s.tries = min(s.tries+1, 200)
	s.pause.refused = max(now, now.Add(o.RetryAfter))
	if o.Forbidden {
		s.blocked = true
	}
	s.explicit = s.explicit || s.blocked || refused(o)
	if refused(o) {
		s.pay(s.tune.Trial)
	}
	if s.blocked {
		s.wait = min(max(blockWait, s.wait*3/2), time.Hour)
	} else {
		s.wait = min(2*s.wait, s.longestWait(now))
	}
	s.till = now.Add(max(s.wait, o.RetryAfter))
	s.note(now, control.CauseTrial, s.rate, 0, s.till.Sub(now))
}

// longestWait bounds the wait for the next trial: a quarter of the pause so far.
func (s *Steer) longestWait(now clock.Instant) time.Duration {
	w := max(2*time.Second, now.Sub(s.at)/4)
	if !s.explicit {
		w = min(w, s.cfg.Breaker.OpenFor)
	}
	return w
}

// planPause is the plan of a host that is to wait.
func (s *Steer) planPause(now clock.Instant, p *control.Plan) {
	switch {
	case s.trialAt != 0:
		p.State, p.NotBefore = breaker.HalfOpen, s.trialAt.Add(5*time.Minute)
		p.Rate /= 2
	case now < s.till:
		p.State, p.NotBefore = breaker.Open, s.till
	default:
		p.State = breaker.HalfOpen
	}
	if s.patient() {
		p.State = breaker.Closed
	}
	if p.Review = p.NotBefore; p.Review == 0 {
		p.Review = forever
	}
}

// patient is true of a pause that is no outage: who waits may go on waiting.
func (s *Steer) patient() bool { return s.explicit && !s.blocked && (s.tries == 0 || s.order > 0) }

// resume is the end of a pause: its trial was answered.
func (s *Steer) resume(now clock.Instant) {
	s.trialAt = 0
	took := now.Sub(s.at)
	s.last, s.endAt = took.Seconds(), now
	switch {
	case s.foreign:
		s.foreign = false
		s.refill.begin(s.sentAt, now.Sub(s.sentAt))
		s.back(now, s.failRate)
		s.note(now, control.CauseRecovered, 0, s.rate, 0)
		return
	case s.opened:
		s.refill.begin(s.sentAt, now.Sub(s.sentAt))
		if math.IsInf(s.hi, 1) { // the rate may be anything
			s.lo, s.hi = s.failRate, 4*s.failRate
		}
		s.on(now, Settled)
		s.decide(now)
		s.note(now, control.CauseConnections, 0, s.rate, 0)
		return
	case s.blocked:
		s.endBlock(took)
	case s.outage(now, took):
		if s.last = 0; s.down {
			s.refill.skip(now.Sub(s.sentAt))
		}
		s.health.reset()
		s.back(now, s.failRate)
		s.note(now, control.CauseRecovered, 0, s.rate, 0)
		return
	case !s.explicit:
		s.health.judge(s, now)
		s.settle()
		s.refill.begin(s.sentAt, now.Sub(s.sentAt))
		return
	default:
		s.learn(now, s.failRate, took)
		s.settle()
	}
	s.refill.begin(s.sentAt, now.Sub(s.sentAt))
	if took > 5*time.Second && s.order == 0 && !math.IsInf(s.hi, 1) {
		s.on(now, Returning)
		s.rate = s.bounded(s.cruise() / 2)
	} else {
		s.on(now, Settled)
		s.decide(now)
	}
	s.note(now, control.CauseMeasured, 0, s.rate, 0)
}

// cheapOrder is the longest that is waited for once more to know whether it has to do with the rate.
const cheapOrder = 5 * time.Second

// outage reports a pause that says nothing of the rate: it comes out of the blue, and is the first
// of its kind.
func (s *Steer) outage(now clock.Instant, took time.Duration) bool {
	if took < max(2*time.Second, seconds(4/s.failRate)) || s.tries == 0 && (s.order == 0 || s.order > cheapOrder) || s.rates && s.order > 0 {
		return false
	}
	if s.down {
		return true
	}
	u := s.unlearned
	n := float64(s.refill.n)
	s.unlearned = stop{at: now, rate: s.failRate, n: n, took: took.Seconds()}
	again := u.at != never && now.Sub(u.at) < max(10*time.Minute, seconds(10*u.took)) &&
		(s.at.Sub(u.at) < max(30*time.Second, seconds(1.2*u.took)) || math.Abs(n/u.n-1) < .25)
	return !again
}

// back goes back to a rate after a pause that taught nothing.
func (s *Steer) back(now clock.Instant, rate float64) {
	if math.IsInf(s.hi, 1) {
		s.on(now, Restarted)
		if s.rate = s.bounded(rate / 2); s.down {
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

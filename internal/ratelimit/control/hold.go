package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// hold is what a refusal or an outage leads to: nothing goes out for a while, and
// then one trial. It is the circuit breaker of this strategy: waiting for a trial's
// time is open, the trial is half-open, and its success closes.
type hold struct {
	at          clock.Instant // when the event was noticed
	sentAt      clock.Instant // when the request was sent that brought it
	till        clock.Instant // no trial before
	refusedTill clock.Instant // the host has said or shown that it refuses until then
	trialAt     clock.Instant // when the trial that is out was sent; zero for none
	lastSent    clock.Instant
	failedAt    clock.Instant // of the last outage
	forbidAt    clock.Instant // when the first of the run of 403 was sent
	order       time.Duration // the Retry-After of the event; zero for none
	wait        time.Duration // least pause; grows with failed trials
	blockGap    time.Duration // the pause that outlasted the last block
	failRate    float64       // the rate at the event
	trials      uint32        // ever
	next        int           // admitted of what was sent after the refused one
	peace       uint8
	tries       uint8 // failed trials of this hold
	forbidden   uint8 // 403s in a row
	fromMode    mode  // at the event
	backMode    mode  // to go on with if the event turns out to be noise
	explicit    bool  // the host said that it refuses
	dense       bool  // failures followed on each other
	block       bool  // a run of 403
	stays       bool  // unused pauses
}

const (
	trialLost = 5 * time.Minute // longer than any request is let live
	startCut  = 0.9
	// rest is how many times a pause's loss is spent without any upward move: at most
	// about 3 % of the time is lost to pauses of our own making.
	rest = 30
	// forbidRun is the number of 403 in a row that is a block and no private page.
	forbidRun = 5
	// blockWaitMin is a little more than the ten seconds for which the most common block
	// lasts. Each request renews it, so that asking sooner costs as much again.
	blockWaitMin = 11 * time.Second
	// blockWaitMax bounds the waits for the end of a block.
	blockWaitMax = time.Hour
)

// patient reports a hold that is a mere pause: the host said so, and no trial failed.
func (s *steer) patient() bool { return s.explicit && !s.block && s.tries == 0 }

// failed takes in a refusal or a failure.
func (s *steer) failed(now clock.Instant, o *Observation, trial bool) {
	switch {
	case trial:
		s.trialFailed(now, o)
		return
	case s.mode == held:
		s.till = max(s.till, now.Add(o.RetryAfter))
		return
	case o.SentAt <= s.at:
		return // of the same event
	}
	switch {
	case o.RetryAfter > 0 || o.Class == outcome.Throttled:
		s.pay(1)
		s.hit(now, o, CauseRefused)
	case o.Forbidden:
		s.forbid(now, o)
	default:
		s.noise.fail(s, now, o)
	}
}

// forbid counts a 403. One is a private page, a run is a block.
func (s *steer) forbid(now clock.Instant, o *Observation) {
	if s.forbidden++; s.forbidden == 1 {
		s.forbidAt = o.SentAt
	}
	if s.forbidden < forbidRun {
		return
	}
	s.forbidden = 0
	s.hit(now, o, CauseForbidden)
	s.sentAt, s.block, s.explicit = s.forbidAt, true, true
	s.wait = max(blockWaitMin, s.blockGap)
	s.till = now.Add(max(s.wait, o.RetryAfter))
}

// hit is the event: the host refuses, or is in trouble.
func (s *steer) hit(now clock.Instant, o *Observation, cause Cause) {
	s.fromMode, s.failRate = s.mode, s.rate
	s.at, s.sentAt, s.refusedTill, s.order = now, o.SentAt, now.Add(o.RetryAfter), o.RetryAfter
	s.explicit, s.block, s.dense = cause == CauseRefused, false, s.consecutive >= 3
	s.stopTest()
	s.noise.clear()
	spacing := time.Duration(3 / s.rate * float64(time.Second))
	s.wait = max(s.wait, time.Duration(s.srtt*float64(time.Second)), min(time.Second, spacing), min(spacing/3, s.cfg.Hold))
	if o.RetryAfter >= 3*time.Second {
		s.sameOrder = math.Abs(float64(o.RetryAfter-s.lastOrder)) <= 0.05*float64(o.RetryAfter)
		s.lastOrder = o.RetryAfter
	}
	s.enter(now, held)
	s.tries, s.next, s.trialAt = 0, 0, 0
	s.till = now.Add(max(s.wait, o.RetryAfter))
	s.event = s.event.next(now, cause, s.rate, 0, s.till.Sub(now))
}

// trialFailed waits longer. A block is never asked sooner than the last one took to
// end, since each request may renew it.
func (s *steer) trialFailed(now clock.Instant, o *Observation) {
	s.trialAt = 0
	s.tries = min(s.tries+1, 200)
	s.refusedTill = now.Add(o.RetryAfter)
	s.explicit = s.explicit || o.RetryAfter > 0 || o.Class == outcome.Throttled || o.Forbidden
	s.block = s.block || o.Forbidden
	if s.block {
		s.wait = min(max(blockWaitMin, s.wait*3/2), blockWaitMax)
	} else {
		s.wait = min(2*s.wait, s.cfg.Hold)
	}
	s.till = now.Add(max(s.wait, o.RetryAfter))
	s.event = s.event.next(now, CauseTrial, s.rate, 0, s.till.Sub(now))
}

// resume is the end of a hold: its trial was answered.
func (s *steer) resume(now clock.Instant) {
	s.trialAt = 0
	pause := now.Sub(s.at)
	carry, before, cause := false, *s, CauseRecovered
	if !s.explicit && pause >= 2*time.Second {
		first := s.failedAt == never || s.at.Sub(s.failedAt) > 600*time.Second
		s.failedAt = now
		if first && s.fromMode != searching {
			s.backTo(now, pause)
			s.event = s.event.next(now, cause, 0, s.rate, 0)
			return // an outage: nothing was learned of the ceiling
		}
	}
	quota := s.isQuota()
	lost := s.lostIn(now, pause)
	carry = s.judge(now)
	if s.block {
		s.blockGap = s.wait
	}
	if !carry {
		s.idle = 0
	}
	// What a bucket surely saves up in a pause is one request.
	s.idle += max(0, now.Sub(s.sentAt)-s.sentAt.Sub(s.prevAt)/time.Duration(s.cycle+1))
	if !carry {
		s.prevAt, s.cycle = s.sentAt, 0
	}
	s.cycle += s.next
	s.resumed, s.resumeAt, s.resumeCeil, s.grown = 0, now, s.ceil, false
	if (quota && s.fromMode != searching || s.block) && lost > 500*time.Millisecond {
		s.peace = min(2*max(s.peace, 1), 16)
		s.quietTill = now.Add(rest * time.Duration(s.peace) / 2 * lost)
	}
	if !s.explicit && !s.dense && s.tries == 0 {
		s.startTest(now, &before)
	}
	s.backTo(now, pause)
	s.event = s.event.next(now, s.evidence(quota), 0, s.rate, 0)
}

// lostIn is the time a pause cost: not more than the host had not yet got in answers.
func (s *steer) lostIn(now clock.Instant, pause time.Duration) time.Duration {
	if !s.known() {
		return pause
	}
	due := now.Sub(s.resumeAt) - time.Duration(float64(s.resumed)/s.ceil*float64(time.Second))
	return min(pause, due)
}

func (s *steer) evidence(quota bool) Cause {
	switch {
	case s.fromMode == searching:
		return CauseSearched
	case quota:
		return CauseQuota
	}
	return CauseMeasured
}

// backTo goes back to cruise: at once after a short pause, by doubling after a long
// one, the lower the more trials failed.
func (s *steer) backTo(now clock.Instant, pause time.Duration) {
	if pause < 2*time.Second {
		s.sailOut(now)
		return
	}
	s.enter(now, ramping)
	s.rate = s.bounded(s.cruise() / float64(int(1)<<(min(max(s.tries, 1), 4)+s.short)))
}

// ramp doubles the rate with each step until it is cruise.
func (s *steer) ramp(now clock.Instant) {
	for now >= s.stepAt.Add(s.step()) {
		s.stepAt = s.stepAt.Add(s.step())
		s.rate = min(s.cruise(), 2*s.rate)
	}
	if s.rate >= s.cruise() {
		s.sailOut(now)
	}
}

package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// hold is what a refusal or an outage leads to: nothing goes out for a while, and
// then one trial. It is the circuit breaker of this strategy: the wait for the trial
// is open, the trial is half-open, and its success closes.
type hold struct {
	at          clock.Instant // when the event was noticed
	sentAt      clock.Instant // when the request was sent that brought it
	till        clock.Instant // no trial before
	refusedTill clock.Instant // the host has said or shown that it refuses until then
	trialAt     clock.Instant // when the trial that is out was sent; zero for none
	order       time.Duration // the Retry-After of the event; zero for none
	wait        time.Duration // least pause; grows with failed trials
	failRate    float64       // the rate at the event
	trials      uint32        // ever
	next        int32         // admitted of what was sent after the refused one
	peace       uint8         // times a pause bought, in halves; doubles with each
	tries       uint8         // failed trials of this hold
	forbidden   uint8         // 403s in a row
	from        mode          // at the event
	explicit    bool          // the host said that it refuses
	dense       bool          // failures followed on each other
	blocked     bool          // it was a run of 403
	down        bool          // the failure was one that a limit does not give
	soft        bool          // the host's 403 has meant later, not never
	opened      bool          // the number in flight was what was refused, not the rate
	foreign     bool          // it began with somebody else, and its event says nothing of our requests
	// Not of the hold; there is room for them here.
	short   uint8 // short cycles since a cruise went well
	cycled  bool  // the cycle began with a refusal
	regains bool  // the climb is to what the search was given, no further
	open    bool  // the latest probe has had no verdict
}

// block is what a run of 403 leaves behind.
type block struct {
	forbidAt clock.Instant // when the first of the run was sent
	blockGap time.Duration // the pause that outlasted the last one
	inSecond uint16        // admitted in forbidIn, if it may be that which is counted
	forbidIn uint8         // the second of the host's clock in which the run began; zero for not known
	spared   uint8         // blocks that were not taken for the rate's doing
}

const (
	// trialLost is when a trial counts as lost: longer than any request is let live.
	trialLost = 5 * time.Minute
	// rest is how many times a pause's loss is spent without any upward move: at most
	// about 3 % of the time is then lost to pauses of our own making.
	rest = 30
	// breather is for how many windows of a quota no upward move follows a refusal that cost
	// little: it came near the window's end, and the next one's may not.
	breather = 2
	// mostPeace bounds the doubling of rest where each upward move is refused: at 16
	// halves a pause of a minute is risked every four hours.
	mostPeace = 16
	// forbidRun is the number of 403 in a row that is a block and no private page.
	forbidRun = 5
	softRun   = 2
	// blockWaitMin is a little more than the ten seconds for which the most common block
	// lasts. Each request renews it, so that asking sooner costs as much again; but the last
	// one came before its answer did, and from there on the wait counts.
	blockWaitMin = 10050 * time.Millisecond
	// blockWaitMax bounds the waits for the end of a block.
	blockWaitMax = time.Hour
	// mere is a pause too short for anything to have changed in it.
	mere = 2 * time.Second
	// restful is the shortest order after which a host is as good as new. A shorter one is
	// often the rest of a window that slides, and the next refusal comes at once.
	restful = 5 * time.Second
	// outageRest is how long after an outage the next pause without a refusal is taken
	// for a limit that does not say so.
	outageRest = 10 * time.Minute
	// longerBy is the share of a refusal's length by which the wait for its end may exceed it.
	longerBy = 4
	// downBy is the same of a host that is down: what it was down for may be over at any moment, and each
	// trial is a request that fails.
	downBy = 3
	// trialCost is what a refused trial takes from the budget: a part of a refusal, since one
	// that had to be made is not for a rise to answer for alone.
	trialCost = 0.25
	// costly is a loss worth a rest.
	costly = 500 * time.Millisecond
)

// patient reports a hold that is a mere pause: the host said so, and no trial failed or
// the host says until when.
func (s *steer) patient() bool { return s.explicit && !s.blocked && (s.tries == 0 || s.order > 0) }

// spacing is the time in which n requests go out at the rate of the event.
func (s *steer) spacing(n float64) time.Duration { return duration(n / s.failRate) }

// failed takes in a refusal or a failure.
func (s *steer) failed(now clock.Instant, o *Observation, trial bool) {
	s.meetTrouble()
	switch {
	case trial:
		s.trialFailed(now, o)
	case s.mode == held:
		s.till = max(s.till, now.Add(o.RetryAfter))
		if s.blocked && o.Forbidden {
			s.till = max(s.till, now.Add(s.wait)) // it renewed the block
		}
	case o.SentAt <= s.at, o.Class == outcome.Timeout && secondOf(o.SentAt) < int64(s.newest):
		// It was on its way when the last event was noticed, and is a part of it; or what was sent
		// after it has been answered, so that it tells of a trouble that is over.
	case s.atDoor(now, o):
		s.hit(now, o, CauseDoors)
	case refused(o):
		s.pay(1)
		s.hit(now, o, CauseRefused)
	case o.Forbidden:
		s.forbid(now, o)
	default:
		s.noise.fail(s, now, o)
	}
}

// atDoor reports a refusal that shows a bound on the requests in flight.
func (s *steer) atDoor(now clock.Instant, o *Observation) bool {
	if o.Class != outcome.Throttled && o.Class != outcome.Unavailable {
		return false
	}
	if o.InFlight >= fewestDoors {
		s.meetSeldom()
	} else if s.seldom == &noSeldom {
		s.opened = false // with so few in flight it never is
		return false
	}
	s.opened = s.doors.refused(now, o.InFlight)
	return s.opened
}

// refused reports an answer that leaves no doubt.
func refused(o *Observation) bool { return o.RetryAfter > 0 || o.Class == outcome.Throttled }

// forbid counts a 403. One is a private page, a run is a block. Where one has meant "later",
// it is a failure that may be the rate's, and two are a block if there was one before.
func (s *steer) forbid(now clock.Instant, o *Observation) {
	s.meetSeldom()
	if s.forbidden++; s.forbidden == 1 {
		s.forbidAt, s.forbidIn = o.SentAt, o.Second
	}
	run := uint8(forbidRun)
	if s.soft && s.blockGap > 0 {
		run = softRun
	}
	if s.forbidden < run {
		if s.soft {
			s.noise.fail(s, now, o)
		}
		return
	}
	s.forbidden = 0
	s.blocked = true
	s.hit(now, o, CauseForbidden)
	s.sentAt = s.forbidAt
}

// hit is the event: the host refuses, or is in trouble.
func (s *steer) hit(now clock.Instant, o *Observation, cause Cause) {
	s.from, s.failRate = s.mode, s.rate
	s.at, s.sentAt, s.order = now, o.SentAt, o.RetryAfter
	s.refusedTill = now.Add(o.RetryAfter)
	if s.blocked = cause == CauseForbidden; !s.blocked && s.seldom != &noSeldom {
		s.forbidIn = 0 // a 403 to a trial tells of no second that was full
	}
	s.explicit = cause == CauseRefused || cause == CauseDoors || s.blocked
	s.dense = s.consecutive >= 3
	s.down = o.Class.Overload() && o.Class != outcome.Throttled && o.Class != outcome.Unavailable
	s.stopTest()
	s.clearOutcomes()
	if o.RetryAfter > 0 {
		s.meetWindow()
		s.noteOrder(o.RetryAfter)
		s.bucket.explain(s.needs(), s.from == searching)
	}
	s.wait = max(min(s.wait, s.cfg.Breaker.OpenFor), duration(float64(s.srtt)), min(time.Second, s.spacing(3)), min(s.spacing(1), s.cfg.Breaker.OpenFor))
	if s.blocked {
		s.wait = max(blockWaitMin, s.blockGap)
	}
	s.enter(now, held)
	s.tries, s.next, s.trialAt = 0, 0, 0
	s.pause(now, o.RetryAfter, cause)
}

// pause holds for as long as the wait and the order say.
func (s *steer) pause(now clock.Instant, order time.Duration, cause Cause) {
	s.till = now.Add(max(s.wait, order))
	s.note(now, cause, s.rate, 0, s.till.Sub(now))
}

// trialFailed waits longer. A block is never asked sooner than the last one took to
// end, since each request may renew it.
func (s *steer) trialFailed(now clock.Instant, o *Observation) {
	s.trialAt, s.order = 0, o.RetryAfter
	s.tries = min(s.tries+1, 200)
	s.refusedTill = now.Add(o.RetryAfter)
	if o.Forbidden {
		s.meetSeldom()
		s.blocked = true
	}
	s.explicit = s.explicit || s.blocked || refused(o)
	if refused(o) {
		s.pay(trialCost)
	}
	if s.blocked {
		s.wait = min(max(blockWaitMin, s.wait*3/2), blockWaitMax)
	} else {
		s.wait = min(max(2*s.wait, min(time.Second, s.spacing(3))), s.longestWait(now))
	}
	wait := s.wait
	if end := s.began().Add(duration(float64(s.within))); s.order == 0 && !s.blocked && s.fullAgain(1) && end > now {
		s.wait = end.Sub(now) // when the same window was over
	}
	s.pause(now, o.RetryAfter, CauseTrial)
	s.wait = wait
}

// longestWait bounds the wait for the next trial. A host that is down may be back at any moment, and that
// is to cost a third more than it took; who says for minutes that it refuses counts, over as long, and a
// quarter more is soon enough: of a window of ten minutes that costs ten trials.
func (s *steer) longestWait(now clock.Instant) time.Duration {
	pause := now.Sub(s.at)
	switch {
	case s.explicit:
		return max(s.cfg.Breaker.OpenFor, pause/longerBy)
	case s.down:
		return min(s.cfg.Breaker.OpenFor, max(mere, pause/downBy))
	}
	return s.cfg.Breaker.OpenFor
}

// resume is the end of a hold: its trial was answered.
func (s *steer) resume(now clock.Instant) {
	s.trialAt = 0
	if s.foreign {
		s.takeOver(now)
		return
	}
	pause := now.Sub(s.at)
	if s.wasOutage(now, pause) {
		if s.from == searching {
			s.enter(now, searching)
			s.rate = s.bounded(s.failRate / 2)
		} else {
			s.backTo(now, pause)
		}
		s.noteEnd(now, CauseRecovered)
		return // nothing was learned of the ceiling
	}
	before, quota, lost := s.believed(s.from), s.isQuota(pause), s.lostIn(now, pause)
	found := s.judge(now)
	why := s.evidence(found, quota)
	if s.blocked {
		s.blockGap = s.wait
	}
	s.beginCycle(now, found == nothing)
	if s.opened {
		s.opened, s.provisional, s.climbs = false, true, true // the rate may be anything yet
	}
	// The first guess at a quota that does not say how long it refuses is a rough one.
	rough := s.climbs || s.from == searching && s.order == 0
	if (quota && !rough || s.blocked) && lost > costly {
		s.peace = min(2*max(s.peace, 1), mostPeace)
		if s.blocked && s.from == searching && s.inSecond > 0 {
			s.peace = mostPeace // it was counted to the request: there is little to be found above
		}
		times := rest * time.Duration(s.peace) / 2
		if s.order == 0 && !s.blocked && s.peace == 2 {
			times /= 3 // the first window that nobody named is measured roughly: look again sooner
		}
		s.quietTill = now.Add(times * lost)
	}
	if s.lag > 0 && s.from != searching {
		s.quietTill = max(s.quietTill, now.Add(breather*s.lag))
	}
	if known := s.explicit || s.dense || s.from == probing && s.telling(); !known && s.tries == 0 {
		s.startTest(now, before)
	}
	s.backTo(now, pause)
	s.noteEnd(now, why)
}

// takeOver is the end of a hold that was somebody else's. Of the refusal that it began with
// nothing is known, so there is nothing to measure: the rate is what it would have been without,
// and half of it for each trial that failed since.
func (s *steer) takeOver(now clock.Instant) {
	s.foreign = false
	s.beginCycle(now, false)
	s.cycled = false
	m := ramping
	if math.IsInf(s.ceil, 1) {
		m = searching
	}
	s.enter(now, m)
	s.rate = s.bounded(s.failRate / float64(int(1)<<min(max(s.tries, 1)-1, 4)))
	s.noteEnd(now, CauseRecovered)
}

// wasOutage tells an outage from a limit that refuses without saying so: it comes out
// of the blue, at a rate that had gone well or with what no limit answers, and is not the
// second within minutes. In the search no rate has gone well for long.
func (s *steer) wasOutage(now clock.Instant, pause time.Duration) bool {
	if s.explicit || pause < mere {
		return false
	}
	first := s.failedAt == never || s.at.Sub(s.failedAt) > outageRest
	s.meetSeldom()
	s.failedAt = now
	if s.from == draining {
		return s.down // of a queue that is known
	}
	return s.down || first && s.from == cruising && s.settled && !s.climbs
}

// lostIn is the time a pause cost: not more than the host had not yet got in answers.
func (s *steer) lostIn(now clock.Instant, pause time.Duration) time.Duration {
	if s.from == searching {
		return pause
	}
	return min(pause, now.Sub(s.resumeAt)-duration(float64(s.resumed)/s.ceil))
}

// evidence is what the new ceiling rests on. A measurement is between two refusals: from
// the first request to the first refusal a burst allowance was used up too.
func (s *steer) evidence(found finding, quota bool) Cause {
	switch {
	case s.from == searching:
		return CauseSearched
	case quota:
		return CauseQuota
	case s.blocked:
		return CauseBlocked
	case found != measured || s.provisional || s.opened || !s.cycled:
		return CauseEstimated
	}
	return CauseMeasured
}

// noteEnd notes the end of a pause: the rate from then on or, where that is but the begin
// of a way back up, both ends of it.
func (s *steer) noteEnd(now clock.Instant, c Cause) {
	if s.mode == ramping {
		s.note(now, c, s.rate, s.cruise(), 0)
		return
	}
	s.note(now, c, 0, s.rate, 0)
}

// rested reports a pause after which the host gives again what it gave, so that to come back
// slowly wastes it: one that it ordered, for longer than a bucket needs for some tokens, and
// kept to, or a block whose count is known. At a slow host a ramp is but a request or two, and
// what they tell is worth more.
func (s *steer) rested() bool {
	if s.blocked {
		return s.inSecond > 0
	}
	return s.explicit && s.tries == 0 && s.order >= restful && s.failRate >= slowest
}

// backTo goes back to cruise: at once after a mere pause and after one that the host had
// its rest in, by doubling after a long one, and from the lower the more trials failed.
func (s *steer) backTo(now clock.Instant, pause time.Duration) {
	if pause < mere || s.rested() {
		s.sailOut(now)
		return
	}
	s.enter(now, ramping)
	s.rate = s.bounded(s.cruise() / float64(int(1)<<min(max(s.tries, 1), 4)))
}

// ramp doubles the rate with each step until it is cruise. What it leaves unused a bucket
// that is full cannot give later: so much of the cycle is idle.
func (s *steer) ramp(now clock.Instant) {
	s.meetTrouble() // a host that is remembered begins with a ramp, and needs none before
	for step := s.step(); s.rate < s.cruise() && now >= s.stepAt.Add(step); {
		s.stepAt = s.stepAt.Add(step)
		s.idle += float32(max(0, 1-s.rate/s.cruise()) * seconds(step))
		s.rate = min(s.cruise(), 2*s.rate)
	}
	if s.rate >= s.cruise() {
		s.sailOut(now)
	}
}

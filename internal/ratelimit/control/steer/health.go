package steer

import (
	"math"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// health tells failures that depend on the rate from those that do not, by a cumulative sum (Page,
// "Continuous inspection schemes", 1954): it grows with each failure and shrinks with each answer, by
// how much more likely that is of a host that refuses than at its usual share of failures.
type health struct {
	sum         float32 // evidence that the host refuses
	runN, runB  uint16  // outcomes and failures since the sum was zero
	good, bad   float32 // at rates that are proven, of late
	consecutive uint16
	suspect     *suspect // the latest event, until its failures are explained
}

// suspect is an event that may be of the rate or not.
type suspect struct {
	rate, share float64
	before      interval
	from        Mode
	answers     int64
}

// usual is the share of failures that has nothing to do with the rate.
func (h *health) usual() float64 { return float64(h.bad+.5) / float64(h.good+h.bad+50) }

func (h *health) count(s *Steer, bad bool) {
	u := h.usual()
	refusing := min(max(.2, 4*u), .8)
	by := math.Log((1 - refusing) / (1 - u))
	if bad {
		by = math.Log(refusing / u)
	}
	if h.sum == 0 {
		h.runN, h.runB = 0, 0
	}
	h.sum = max(0, h.sum+float32(by))
	h.runN = min(h.runN, math.MaxUint16-1) + 1
	if bad {
		h.runB++
	}
	if s.mode == Probe {
		return
	}
	if bad {
		h.bad++
	} else {
		h.good++
	}
	if h.good+h.bad > 1000 {
		h.good, h.bad = h.good/2, h.bad/2
	}
}

// pass counts a willing answer.
func (h *health) pass(s *Steer, _ clock.Instant) {
	h.consecutive = 0
	h.count(s, false)
}

// fail counts a failure that may be a limit's or not.
func (h *health) fail(s *Steer, now clock.Instant, o *control.Observation) {
	h.consecutive = min(h.consecutive, math.MaxUint16-1) + 1
	h.count(s, true)
	enough := float32(9)
	if s.mode == Probe {
		enough = 6
	}
	if h.sum >= enough {
		s.pay(1)
		s.hit(now, o, control.CauseFailures)
	}
}

// share is the share of failures in the run that was the event.
func (h *health) share() float64 { return float64(h.runB) / float64(h.runN+4) }

// judge takes an event that ended soon for a refusal by the rate, and two that fail as much at a much
// lower rate for what the host usually fails.
func (h *health) judge(s *Steer, now clock.Instant) {
	share := h.share()
	h.bad = max(0, h.bad-float32(h.runB))
	p := h.suspect
	if p != nil && s.failRate < .7*p.rate && share > .5*p.share && share < .5 && h.runN >= 8 && s.answered-p.answers < 500 {
		h.suspect = nil
		n := max(100, h.good+h.bad)
		h.good, h.bad = n*float32(1-share), n*float32(share)
		from := s.rate
		s.interval, s.sure = p.before, interval{}
		s.credit = min(s.credit+2, float32(s.tune.CreditMax))
		if math.IsInf(s.hi, 1) {
			s.enter(now, Search)
			s.rate = s.bounded(p.rate)
		} else {
			s.enter(now, Recover)
		}
		s.note(now, control.CauseNoise, from, s.rate, 0)
		return
	}
	before := s.interval
	if p != nil && s.answered-p.answers < 500 {
		before = p.before
	}
	rate := s.failRate
	s.learn(now, rate, now.Sub(s.at))
	if most := .85 * rate * (1 - share); s.lo > most && s.run < 30 {
		s.lo = s.bounded(most)
	}
	h.suspect = &suspect{rate: rate, share: share, before: before, from: s.from, answers: s.answered}
	s.enter(now, Cruise)
	s.decide(now)
	s.note(now, control.CauseEstimated, 0, s.rate, 0)
}

func (h *health) reset() { h.sum, h.runN, h.runB = 0, 0, 0 }

package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// ceiling is the rate that the host is believed to sustain, and how it is measured.
//
// Between two refusals a bucket of any size admits exactly its sustained rate: it was
// empty at both. So what was admitted in a cycle, from refusal to refusal, over the
// cycle's length is the ceiling, whatever the burst allowance. A quota goes on
// refusing for as long as its window lasts: its ceiling is what one window admitted.
type ceiling struct {
	ceil        float64 // requests per second; infinite while not known
	proven      float64 // the last ceiling that was measured and not guessed
	provisional bool    // guessed: the next cycle measures it

	prevAt clock.Instant // when the last refused request was sent: the cycle's begin
	cycle  int           // admitted in this cycle
	idle   time.Duration // of this cycle, spent in pauses

	resumeAt   clock.Instant // end of the last pause
	resumed    int           // admitted since
	resumeCeil float64       // the ceiling then
	grown      bool          // the cycle was no steady one: it searched upward or was starved

	lag       time.Duration // longest pause of a quota
	lastOrder time.Duration // the last long Retry-After
	sameOrder bool          // and it was the one before too
}

const (
	// margin is how far cruise stays under the ceiling. Creep crosses it now and then;
	// a wider one gives away what it costs to learn less.
	margin = 0.03
	// minCycle is how many answers a cycle needs to be a measurement.
	minCycle = 10
)

// judge is the one place where a pause ends in knowledge. It reports whether the
// cycle goes on because the pause taught nothing.
func (s *steer) judge(now clock.Instant) (carry bool) {
	pause := now.Sub(s.at)
	long := s.isQuota()
	before, provenBefore := s.ceil, s.proven
	defer func() {
		if !s.provisional {
			s.proven = s.ceil
		}
	}()
	if s.fromMode == searching {
		est := startCut * min(s.history.between(s.sentAt.Add(-2*time.Second), s.sentAt)/2, s.failRate)
		if long {
			est = min(est, s.windowRate(now, pause))
			s.lag = max(s.lag, pause)
		}
		s.ceil, s.provisional = s.bounded(est), !s.block
		s.stays = false
		return false
	}
	switch {
	case s.block:
		s.ceil = 0.95 * s.failRate
		if s.fromMode == probing {
			s.ceil = min(s.ceil, s.probeCeil)
		}
		s.provisional = false
		s.verdict(provenBefore)
	case long:
		s.ceil, s.provisional = min(s.windowRate(now, pause), 0.97*s.failRate), false
		s.lag = max(s.lag, pause)
		s.verdict(provenBefore)
	case s.grown && !s.provisional:
		est := min(s.probedRate(), 0.95*s.failRate)
		if est > 1.1*s.proven {
			s.ceil, s.provisional = est, true
		} else {
			s.ceil = s.proven
			s.verdict(provenBefore)
		}
	case s.grown:
		s.ceil, s.provisional = max(s.proven, 0.95*s.failRate), true
	case s.cycle >= minCycle:
		est := s.cycleRate()
		if s.sentAt.Sub(s.prevAt) > 20*time.Second {
			est = max(est, 0.95*s.failRate)
		}
		s.ceil = min(max(est, 0.5*before), 0.97*s.failRate)
		s.provisional = est < 0.5*before
		s.verdict(provenBefore)
	default:
		return s.tooShort()
	}
	s.short = 0
	return false
}

// cycleRate is what a bucket sustained since the last refusal. Half of the pauses
// count: how much of them the limiter saved up is unknown.
func (s *steer) cycleRate() float64 {
	span := s.sentAt.Sub(s.prevAt) - s.idle/2
	return float64(s.cycle) / max(seconds(span), 0.001)
}

func (s *steer) probedRate() float64 {
	return float64(s.probed) / max(seconds(s.sentAt.Sub(s.probeAt)), 0.001)
}

// isQuota reports whether the host went on refusing, or said it would, for longer
// than a bucket needs to have a token again.
func (s *steer) isQuota() bool {
	return !s.block && s.refusedTill.Sub(s.at) > max(time.Second, time.Duration(3/s.failRate*float64(time.Second))) &&
		s.resumed >= minCycle
}

// windowRate is what one window of a quota admitted.
func (s *steer) windowRate(now clock.Instant, pause time.Duration) float64 {
	before := s.history.between(s.sentAt.Add(-pause), s.sentAt) / seconds(pause)
	switch {
	case s.sameOrder: // the order is the window, and refused ones may count
		return 0.96 * before
	case s.lag == 0: // errs upwards; one more pause makes it exact
		return before
	}
	best := 0.0
	for w := pause + time.Second; w <= min(600*time.Second, time.Duration(now)); w += time.Second {
		best = max(best, s.history.between(now.Add(-w), now)/seconds(w))
	}
	return best
}

// tooShort is the judgement on a cycle with too few answers to measure anything.
func (s *steer) tooShort() (carry bool) {
	s.wait = min(2*s.wait, s.cfg.Hold)
	if s.short++; s.short < 3 {
		return true
	}
	s.short = 0
	s.ceil, s.provisional = 0.7*s.ceil, true
	return false
}

func (s *steer) known() bool { return !math.IsInf(s.ceil, 1) }

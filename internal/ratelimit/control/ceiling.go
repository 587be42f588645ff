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
	climbs      bool    // guessed so roughly that a second search is worth its refusal

	prevAt clock.Instant // when the last refused request was sent: the cycle's begin
	cycle  int           // admitted in this cycle
	idle   time.Duration // of this cycle, spent in pauses

	resumeAt   clock.Instant // end of the last pause
	resumed    int           // admitted since
	resumeCeil float64       // the ceiling then
	grown      bool          // the cycle was no steady one: it searched upward or was starved

	windowless bool          // the host's order to wait is no window: the same whatever was admitted
	short      uint8         // steps by which the next ramp begins lower
	window     float64       // admitted in one window of a quota
	refilled   clock.Instant // when a window that refused is sure to be whole again
	lag        time.Duration // longest pause of a quota
	lastOrder  time.Duration // the last long Retry-After
	sameOrder  bool          // and it was the one before too
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
		est := startCut * min(s.admittedIn(2*time.Second)/2, s.failRate)
		if s.block {
			est = 0.95 / startCut * est // it is not searched from above, so the cut is smaller
		}
		if long {
			w := pause
			if !isRound(s.order) {
				w += s.sentAt.Sub(s.startAt) // the window began with the first request
			}
			s.window = s.admittedIn(w)
			est = min(est, s.window/seconds(w))
			s.lag = max(s.lag, pause)
			s.refilled = now.Add(w)
		}
		s.ceil, s.provisional = s.bounded(est), !s.block && (!long || s.order > 0)
		s.climbs = s.provisional
		s.stays = false
		return false
	}
	s.climbs = false
	if long {
		s.refilled = now.Add(max(s.lag, pause))
	}
	switch {
	case !long && !s.block && s.sentAt < s.refilled:
		// A sliding window gives back what it took in the order in which it took it: the
		// search's own growth comes again, and says nothing of the ceiling.
		s.wait = min(2*s.wait, s.cfg.Hold)
		s.short = min(s.short+2, 8)
		return true
	case s.block:
		s.ceil = 0.95 * s.failRate
		if s.fromMode == probing {
			s.ceil = min(s.ceil, s.probeCeil)
		}
		s.provisional = false
		s.verdict(provenBefore)
	case long && s.windowless && !(s.sameOrder && s.sentAt.Sub(s.resumeAt) > pause && s.admittedIn(pause) < 1.15*s.window):
		s.ceil, s.provisional = min(max(s.sustained(), 0.9*s.failRate), 0.97*s.failRate), false
		s.lag = max(s.lag, pause)
		s.verdict(provenBefore)
	case long && s.sameOrder && s.admittedIn(pause) > 1.6*s.window:
		// The order is the same, but more was admitted than before it: it is no window.
		s.windowless = true
		s.ceil, s.provisional = min(max(s.sustained(), 0.75*s.failRate), 0.97*s.failRate), false
		s.lag = max(s.lag, pause)
		s.verdict(provenBefore)
	case long:
		s.windowless = false
		if s.window == 0 || !s.sameOrder {
			s.window = s.admittedIn(pause)
		}
		s.ceil, s.provisional = min(s.windowRate(now, pause), 0.97*s.failRate), s.lag == 0 && s.order > 0
		s.climbs = s.provisional
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
		if s.resumed >= minCycle && s.sentAt.Sub(s.resumeAt) > 20*time.Second {
			est = max(est, 0.95*s.failRate)
		}
		s.ceil = min(max(est, 0.5*before), 0.985*s.failRate)
		s.provisional = est < 0.5*before
		s.verdict(provenBefore)
	default:
		return s.tooShort()
	}
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

// sustained is the least that a bucket with an ordinary burst allowance sustains, if
// it admitted what it did before the refusal.
func (s *steer) sustained() float64 {
	best := 0.0
	for w := time.Second; w <= time.Minute && clock.Instant(w) < s.sentAt; w += time.Second {
		best = max(best, (s.admittedIn(w)-probeVolume)/seconds(w))
	}
	return best
}

// isRound reports whether a person chose the order: it is then the same each time, be
// it the window or not. An order that is worked out is the rest of the window.
func isRound(order time.Duration) bool {
	switch order.Round(100*time.Millisecond) / time.Second {
	case 1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600:
		return true
	}
	return false
}

// admittedIn is what was admitted in as long before the refusal as the pause was.
func (s *steer) admittedIn(pause time.Duration) float64 {
	return s.history.between(s.sentAt.Add(-pause), s.sentAt)
}

// windowRate is what one window of a quota admitted.
func (s *steer) windowRate(now clock.Instant, pause time.Duration) float64 {
	before := s.admittedIn(pause) / seconds(pause)
	switch {
	case s.sameOrder: // the order is the window, and refused ones may count
		return s.window / seconds(pause)
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
	// One more than was admitted, over the time it took, is more than the host sustains.
	most := float64(s.cycle+s.next+1) / max(seconds(s.sentAt.Sub(s.prevAt)-s.idle/2), 0.001)
	if most < 0.9*s.ceil && s.sentAt.Sub(s.prevAt) > 2*s.lag {
		s.ceil, s.provisional = most, true
	} else {
		s.wait = min(2*s.wait, s.cfg.Hold)
		s.short = min(s.short+2, 8)
	}
	return true
}

func (s *steer) known() bool { return !math.IsInf(s.ceil, 1) }

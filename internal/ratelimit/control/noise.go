package control

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// noise tells failures that come of overload from those that come of broken pages.
// A 503 may mean either. What a host usually fails is measured, more than that is an
// event; and after an event that taught nothing for sure the rate is lowered as an
// experiment: failures that stay at the lower rate had nothing to do with it.
type noise struct {
	consecutive uint16
	filled      uint8 // outcomes that count, of the last ringSize
	testing     bool  // an experiment goes on
}

// experiment is the present one, if there is one, and what was found in all.
type experiment struct {
	ring     [2]uint64 // the last 100 outcomes, a bit each; one is a failure
	judged   float64   // answers that were tested in experiments
	failures float64   // of them

	slower   float64 // share of cruise, while testing
	tested   int32   // answers in this experiment
	failing  int32   // failures among them
	paid     uint8   // refusals, from the budget for the failures of the latest event
	testAt   clock.Instant
	testRate float64 // at which the failures began
	untested belief  // what was believed before
}

const (
	ringSize = 100
	// failN failures of a hundred are an event at a host that usually has none, one less
	// where requests are so few that waiting for more would be rude.
	failN   = 3
	slowest = 5 // requests per second
	// many requests per second end an experiment so soon that it is let run: what it finds
	// says more than a few failures of a hundred, which would lower the rate again and again.
	many = 20
	// fewFailures is a host whose every failure is news: it has had none in as many as
	// hushed answers.
	fewFailures = 0.001
	hushed      = 300
	// testGain lowers the rate so far that overload would end; a test takes testMost
	// answers, or testLeast if they take testTime.
	testGain  = 0.7
	testMost  = 50
	testLeast = 30
	testTime  = 30 * time.Second
	// overloaded is the share of failures that no test explains away.
	overloaded = 0.08
	// worstNoise bounds what may be taken for a host's usual failures, and remembered the
	// answers it is reckoned from, so that it can change.
	worstNoise = 0.05
	remembered = 2000
)

// usual is the share of failures that has nothing to do with the rate.
func (e *experiment) usual() float64 { return min(worstNoise, e.failures/(e.judged+20)) }

// telling reports a host whose experiments have shown that it fails for the rate alone.
func (e *experiment) telling() bool { return e.usual() < fewFailures && e.judged >= hushed }

// countOutcome takes in a willing answer as 0 and a failure as 1. Until the first failure the
// ring would be all zeros, so there is none.
func (s *steer) countOutcome(bad uint64) {
	s.filled = min(s.filled+1, ringSize)
	if e := s.experiment; e != &noExperiment {
		e.ring[1] = (e.ring[1]<<1 | e.ring[0]>>63) & (1<<(ringSize-64) - 1)
		e.ring[0] = e.ring[0]<<1 | bad
	}
}

// recent is how many of the last outcomes were failures.
func (e *experiment) recent() int { return bits.OnesCount64(e.ring[0]) + bits.OnesCount64(e.ring[1]) }

// clearOutcomes forgets those before an event.
func (s *steer) clearOutcomes() {
	s.filled = 0
	if s.experiment != &noExperiment {
		s.ring = [2]uint64{}
	}
}

func (s *steer) factor() float64 {
	if s.testing {
		return s.slower
	}
	return 1
}

// pass counts an answer that was given willingly.
func (n *noise) pass(s *steer, now clock.Instant) {
	s.countOutcome(0)
	n.testOne(s, now, 0)
}

// fail counts a failure that may be overload or not.
func (n *noise) fail(s *steer, now clock.Instant, o *Observation) {
	s.meetExperiment()
	s.countOutcome(1)
	if n.consecutive < 1<<16-1 {
		n.consecutive++
	}
	u := s.usual()
	need := failN + 3*u*float64(n.filled)
	if s.rate < slowest {
		need--
	}
	if u < fewFailures && (s.mode == probing || s.telling()) {
		need = 1
	}
	if n.testing && s.rate > many && float64(s.failing+1) <= overloaded*testMost {
		need = math.Inf(1)
	}
	if float64(s.recent()) >= need || float64(n.consecutive) >= 3+20*u {
		s.paid = uint8(s.recent())
		s.pay(float64(s.paid))
		s.hit(now, o, CauseFailures)
		return
	}
	n.testOne(s, now, 1)
}

// startTest lowers the rate to see whether the failures go away.
func (s *steer) startTest(now clock.Instant, before belief) {
	s.meetExperiment()
	s.testing, s.slower = true, min(0.9, testGain*s.failRate/s.cruise())
	s.tested, s.failing, s.testAt = 0, 0, now
	s.untested, s.testRate = before, s.failRate
}

func (s *steer) stopTest() { s.testing = false }

// testOne counts an answer in the experiment, and ends it when there are enough.
func (n *noise) testOne(s *steer, now clock.Instant, bad int32) {
	if !n.testing {
		return
	}
	e := s.experiment
	e.tested++
	e.failing += bad
	if e.tested < testMost && (e.tested < testLeast || now < e.testAt.Add(testTime)) {
		return
	}
	n.testing = false
	if float64(e.failing) > overloaded*float64(e.tested) {
		return // it fails at any rate: the lower ceiling stays
	}
	e.judged += float64(e.tested)
	e.failures += float64(e.failing)
	if e.judged > remembered {
		e.judged, e.failures = e.judged/2, e.failures/2
	}
	if e.failing == 0 {
		return // it was overload, and the lower ceiling is right
	}
	from := s.rate
	s.belief = e.untested
	s.gainCredit(float64(s.paid)) // they were none
	if s.search {
		s.enter(now, searching)
		s.rate = s.bounded(testGain * e.testRate)
	}
	s.note(now, CauseNoise, from, s.cruise(), 0)
}

package control

import (
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// noise tells failures that come of overload from those that come of broken pages.
// A 503 may mean either. What a host usually fails is measured, more than that is an
// event; and after an event that taught nothing for sure the rate is lowered as an
// experiment: failures that stay at the lower rate had nothing to do with it.
type noise struct {
	ring        [2]uint64 // the last 100 outcomes, a bit each; one is a failure
	filled      uint8
	consecutive uint16
	answers     float64 // tested in experiments
	failures    float64 // of them

	testing     bool
	factor1     float64 // of cruise, while testing
	testN       int
	testF       int
	testAt      clock.Instant
	oldCeil     float64
	oldProv     bool
	oldSearch   bool
	testAtStart float64 // the rate at which failures began
}

const (
	ringSize  = 100
	failN     = 3
	testGain  = 0.7
	testMost  = 50
	testLeast = 30
	testTime  = 30 * time.Second
	// worstNoise bounds what may be taken for a host's usual failures.
	worstNoise = 0.05
)

// usual is the share of failures that has nothing to do with the rate.
func (n *noise) usual() float64 { return min(worstNoise, n.failures/(n.answers+20)) }

func (n *noise) shift(bad uint64) {
	n.ring[1] = (n.ring[1]<<1 | n.ring[0]>>63) & (1<<(ringSize-64) - 1)
	n.ring[0] = n.ring[0]<<1 | bad
	n.filled = min(n.filled+1, ringSize)
}

func (n *noise) recent() int { return bits.OnesCount64(n.ring[0]) + bits.OnesCount64(n.ring[1]) }

func (n *noise) clear() { n.ring, n.filled = [2]uint64{}, 0 }

func (n *noise) factor() float64 {
	if n.testing {
		return n.factor1
	}
	return 1
}

// pass counts an answer that was given willingly.
func (n *noise) pass(s *steer, now clock.Instant) {
	n.shift(0)
	n.testOne(s, now, 0)
}

// fail counts a failure that may be overload or not.
func (n *noise) fail(s *steer, now clock.Instant, o *Observation) {
	n.shift(1)
	if n.consecutive < 1<<16-1 {
		n.consecutive++
	}
	u := n.usual()
	need := failN + 3*u*float64(n.filled)
	if s.rate < 5 {
		need--
	}
	if u < 0.001 && (s.mode == probing || n.answers >= 300) {
		need = 1
	}
	if float64(n.recent()) >= need || float64(n.consecutive) >= 3+20*u {
		s.pay(float64(n.recent()))
		s.hit(now, o, CauseFailures)
		return
	}
	n.testOne(s, now, 1)
}

// startTest lowers the rate to see whether the failures go away.
func (s *steer) startTest(now clock.Instant, before *steer) {
	s.testing = true
	s.factor1 = min(0.9, testGain*s.failRate/s.cruise())
	s.testN, s.testF, s.testAt = 0, 0, now
	s.oldCeil, s.oldProv, s.oldSearch = before.ceil, before.provisional, before.fromMode == searching
	s.testAtStart = s.failRate
}

func (s *steer) stopTest() { s.testing = false }

// testOne counts an answer in the experiment, and ends it when there are enough.
func (n *noise) testOne(s *steer, now clock.Instant, bad int) {
	if !n.testing {
		return
	}
	n.testN++
	n.testF += bad
	if n.testN < testMost && (n.testN < testLeast || now < n.testAt.Add(testTime)) {
		return
	}
	n.testing = false
	f := float64(n.testF) / float64(n.testN)
	switch {
	case f > 0.08: // still overloaded: the lower ceiling stays
	case n.testF == 0:
		n.answers += float64(n.testN)
		n.halve()
	default:
		n.answers += float64(n.testN)
		n.failures += float64(n.testF)
		n.halve()
		s.ceil, s.provisional = n.oldCeil, n.oldProv
		if n.oldSearch {
			s.enter(now, searching)
			s.rate = s.bounded(testGain * n.testAtStart)
		}
		s.event = s.event.next(now, CauseNoise, s.rate, s.cruise(), 0)
	}
}

func (n *noise) halve() {
	if n.answers > 2000 {
		n.answers, n.failures = n.answers/2, n.failures/2
	}
}

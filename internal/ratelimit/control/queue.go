package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// queue watches for answers that wait at the host. A queue shows in the latency
// before anything is refused, and keeping it short is politeness too. Latencies are
// compared in logarithms, where one huge page weighs little, window by window, and
// with an absolute floor: on a near host a third of a millisecond becomes one by the
// scheduler's doing, and that is no queue.
type queue struct {
	windowAt     clock.Instant
	windowSum    float32
	windowSquare float32
	windowPlain  float32
	srtt         float32 // smoothed latency in seconds
	mu, variance float32 // of the logarithms of undisturbed latencies
	mean         float32 // of undisturbed latencies, in seconds; the least of all before there are any
	windowN      uint16
	answers      uint8 // in mu and variance
	bad          uint8 // windows in a row
}

// drainage is the slow time in which a host's queue empties.
type drainage struct {
	before  float64 // mean of logarithms that began it
	drained clock.Instant
	undrain belief // what was believed before
	drains  uint8
	deeper  bool
}

const (
	// Slow is twice as slow as usual, and beyond four standard errors of the two means:
	// windows come by the thousand, and one in thirty thousand is then slow by chance.
	latencyRatio = 2
	latencyZ     = 4
	// latencyFloor is more than a scheduler adds; in seconds.
	latencyFloor = 0.05
	// plainAnswers make a plain mean, after which what is usual moves slowly. Of fewer than
	// fewAnswers the spread is not believed to be less than a factor of two either way.
	plainAnswers = 200
	fewAnswers   = 50
	leastSpread  = 0.5
)

// time takes in a latency, of whatever answer.
func (s *steer) time(o *Observation) {
	l := float32(max(seconds(o.Latency), 1e-6))
	if s.srtt == 0 {
		s.srtt, s.queue.mean = l, l
	}
	s.srtt += 0.125 * (l - s.srtt)
	if s.queue.answers == 0 {
		s.queue.mean = min(s.queue.mean, l)
	}
}

// observe takes in the latency of an answer that was given in the ordinary course.
func (q *queue) observe(s *steer, now clock.Instant, o *Observation) {
	l := max(seconds(o.Latency), 1e-6)
	if q.windowN == 0 {
		q.windowAt = now
	}
	ln := math.Log(l)
	q.windowN++
	q.windowSum += float32(ln)
	q.windowSquare += float32(ln * ln)
	q.windowPlain += float32(l)
	age := now.Sub(q.windowAt)
	first := q.answers == 0 && q.windowN >= 4
	full := q.windowN >= 16 && age >= time.Second || q.windowN >= 4 && age >= 5*time.Second || q.windowN == math.MaxUint16
	if !first && !full {
		return
	}
	q.judge(s, now)
	q.windowN, q.windowSum, q.windowSquare, q.windowPlain = 0, 0, 0, 0
}

// judge compares a full window with what is usual.
func (q *queue) judge(s *steer, now clock.Instant) {
	n := float64(q.windowN)
	m := float64(q.windowSum) / n
	v := max(float64(q.windowSquare)/n-m*m, 0)
	plain := float64(q.windowPlain) / n
	if q.answers == 0 {
		q.learn(m, v, plain)
		return
	}
	mu := float64(q.mu)
	slow := math.Exp(m)-math.Exp(mu) > latencyFloor &&
		m-mu > max(math.Log(latencyRatio), latencyZ*math.Sqrt(q.spread()*(1/n+1/float64(q.answers))))
	if !slow {
		q.bad = 0
		if s.mode == draining {
			s.sailOut(now)
		}
		if s.mode != probing {
			q.learn(m, v, plain)
		}
		return
	}
	q.bad++
	switch s.mode {
	case draining:
		q.drainOn(s, now, m, plain)
	case cruising:
		if q.bad >= 2 {
			q.drain(s, now, m)
		}
	case searching, probing:
		q.drain(s, now, m)
	case ramping, held: // what is left of a queue that was there before
	}
}

// spread is the variance that latencies have for sure: few answers show less of it
// than there is.
func (q *queue) spread() float64 {
	if q.answers < fewAnswers {
		return max(float64(q.variance), leastSpread)
	}
	return float64(q.variance)
}

// learn moves what is usual towards a window.
func (q *queue) learn(m, v, plain float64) {
	n := float64(q.windowN)
	weight := n / (float64(q.answers) + n)
	if q.answers >= plainAnswers {
		weight = 0.02
		if m < float64(q.mu) {
			weight = 0.1
		}
	}
	q.mu = towards(q.mu, m, weight)
	q.variance = towards(q.variance, v, weight)
	q.mean = towards(q.mean, plain, weight)
	q.answers = uint8(min(int(q.answers)+int(q.windowN), plainAnswers))
}

// towards moves a mean by a weight.
func towards(mean float32, to, weight float64) float32 {
	return float32(float64(mean) + weight*(to-float64(mean)))
}

// drain lowers the ceiling to what the host got done and slows down, so that its
// queue empties.
func (q *queue) drain(s *steer, now clock.Instant, m float64) {
	s.meetTrouble()
	s.meetSeldom()
	s.drainage = drainage{undrain: s.believed(s.mode)}
	done := float64(q.windowN-1) / max(seconds(now.Sub(q.windowAt)), 0.001)
	ceil := 0.98 * min(s.rate, done)
	if s.mode == probing {
		ceil = max(ceil, 0.99*s.proven)
	}
	from := s.rate
	provenBefore := s.proven
	s.ceil, s.provisional, s.climbs, s.ours = s.bounded(ceil), false, false, false
	s.proven = s.ceil
	s.verdict(provenBefore)
	s.stopTest()
	s.before, q.bad = m, 0
	s.enter(now, draining)
	s.rate = s.bounded(0.7 * s.ceil)
	s.drained = now.Add(q.drainTime())
	s.note(now, CauseLatency, from, s.rate, 0)
}

func (q *queue) drainTime() time.Duration {
	return max(3*time.Second, duration(4*float64(q.mean)))
}

// drainOn goes lower while that helps. What does not get better at half the rate has
// nothing to do with it: the host is slower now, and that is the new usual.
func (q *queue) drainOn(s *steer, now clock.Instant, m, plain float64) {
	if now < s.drained {
		return
	}
	s.drained = now.Add(q.drainTime())
	better := m < s.before-0.1
	switch {
	case better && s.drains < 5:
		s.drains++
		s.before = m
		s.ceil *= 0.9
	case !better && !s.deeper:
		s.deeper = true
		s.rate = s.bounded(0.7 * s.rate)
		return
	default:
		q.mu, q.mean, q.bad = float32(m), float32(plain), 0
		from := s.rate
		s.belief = s.undrain
		if s.search {
			s.enter(now, searching)
		} else {
			s.sailOut(now)
		}
		s.note(now, CauseRebased, from, s.rate, 0)
		return
	}
	s.rate = s.bounded(0.7 * s.ceil)
}

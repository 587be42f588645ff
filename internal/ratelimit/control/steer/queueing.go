package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// queueing watches for answers that wait at the host.
type queueing struct {
	windowAt            clock.Instant
	sum, squares, plain float32
	srtt                float32 // smoothed latency in seconds
	mu, variance, usual float32 // of undisturbed latencies: mean and variance of their logarithms, and their mean
	n                   uint16
	answers             uint8 // in mu and variance
	bad                 uint8 // slow windows in a row
	limits              bool  // a queue was the last limit that was met
	drain               *drain
}

// drain is the slow time in which a host's queue empties.
type drain struct {
	before float64 // mean of logarithms that began it
	until  clock.Instant
	lo, hi float64 // as believed before
	from   Mode
	times  uint8
	deeper bool
	at     float64 // the rate that is proven slow
}

const (
	latencyRatio = 2
	latencyZ     = 4
	latencyFloor = 0.05
	plainAnswers = 200
	fewAnswers   = 50
	leastSpread  = 0.5
)

func (q *queueing) time(o *control.Observation) {
	l := float32(max(o.Latency.Seconds(), 1e-6))
	if q.srtt == 0 {
		q.srtt, q.usual = l, l
	}
	q.srtt += 0.125 * (l - q.srtt)
	if q.answers == 0 {
		q.usual = min(q.usual, l)
	}
}

func (q *queueing) observe(s *Steer, now clock.Instant, o *control.Observation) {
	l := max(o.Latency.Seconds(), 1e-6)
	if q.n == 0 {
		q.windowAt = now
	}
	ln := math.Log(l)
	q.n++
	q.sum += float32(ln)
	q.squares += float32(ln * ln)
	q.plain += float32(l)
	age := now.Sub(q.windowAt)
	first := q.answers == 0 && q.n >= 4
	full := q.n >= 16 && age >= time.Second || q.n >= 4 && age >= 5*time.Second || q.n == math.MaxUint16
	if !first && !full {
		return
	}
	q.judge(s, now)
	q.n, q.sum, q.squares, q.plain = 0, 0, 0, 0
}

func (q *queueing) judge(s *Steer, now clock.Instant) {
	n := float64(q.n)
	m := float64(q.sum) / n
	v := max(float64(q.squares)/n-m*m, 0)
	plain := float64(q.plain) / n
	if q.answers == 0 {
		q.learn(m, v, plain)
		return
	}
	mu := float64(q.mu)
	slow := math.Exp(m)-math.Exp(mu) > latencyFloor &&
		m-mu > max(math.Log(latencyRatio), latencyZ*math.Sqrt(q.spread()*(1/n+1/float64(q.answers))))
	if !slow {
		q.bad = 0
		if q.drain != nil {
			q.drain = nil
			s.enter(now, Cruise)
			s.decide(now)
		}
		if s.mode != Probe {
			q.learn(m, v, plain)
		}
		return
	}
	q.bad++
	switch {
	case q.drain != nil:
		q.drainOn(s, now, m, plain)
	case s.mode == Search, s.mode == Probe, s.mode == Cruise && q.bad >= 2:
		q.begin(s, now, m)
	}
}

func (q *queueing) spread() float64 {
	if q.answers < fewAnswers {
		return max(float64(q.variance), leastSpread)
	}
	return float64(q.variance)
}

func (q *queueing) learn(m, v, plain float64) {
	n := float64(q.n)
	weight := n / (float64(q.answers) + n)
	if q.answers >= plainAnswers {
		weight = 0.02
		if m < float64(q.mu) {
			weight = 0.1
		}
	}
	q.mu = towards(q.mu, m, weight)
	q.variance = towards(q.variance, v, weight)
	q.usual = towards(q.usual, plain, weight)
	q.answers = uint8(min(int(q.answers)+int(q.n), plainAnswers))
}

func towards(mean float32, to, weight float64) float32 {
	return float32(float64(mean) + weight*(to-float64(mean)))
}

// begin lowers the rate to what the host got done and slows down, so that its queue empties.
func (q *queueing) begin(s *Steer, now clock.Instant, m float64) {
	q.drain = &drain{before: m, lo: s.lo, hi: s.hi, from: s.mode}
	done := float64(q.n-1) / max(now.Sub(q.windowAt).Seconds(), 0.001)
	ceil := 0.98 * min(s.rate, done)
	from := s.rate
	if s.mode == Probe {
		ceil = max(ceil, .7*s.lo)
	}
	s.lo, s.run = s.bounded(ceil), 0
	s.hi = s.lo * (1 + s.tune.Near/2)
	s.cost = max(s.cost, 3)
	s.open = s.tune.Near
	q.limits = true
	q.bad = 0
	s.enter(now, Cruise)
	s.slower(now)
	q.drain.until = now.Add(q.drainTime())
	s.note(now, control.CauseLatency, from, s.rate, 0)
}

// slower is the rate while a queue empties.
func (s *Steer) slower(clock.Instant) { s.rate = s.bounded(.7 * s.lo) }

func (q *queueing) drainTime() time.Duration {
	return max(3*time.Second, seconds(4*float64(q.usual)))
}

// drainOn goes lower while that helps. What does not get better at half the rate has nothing to do with it.
func (q *queueing) drainOn(s *Steer, now clock.Instant, m, plain float64) {
	d := q.drain
	if now < d.until {
		return
	}
	d.until = now.Add(q.drainTime())
	better := m < d.before-0.1
	switch {
	case better && d.times < 5:
		d.times++
		d.before = m
		s.lo *= .9
		s.hi = s.lo * (1 + s.tune.Near/2)
		s.slower(now)
	case !better && !d.deeper:
		d.deeper = true
		s.rate = s.bounded(.7 * s.rate)
	default:
		q.mu, q.usual, q.bad = float32(m), float32(plain), 0
		from := s.rate
		s.lo, s.hi = d.lo, d.hi
		if math.IsInf(s.hi, 1) && d.from == Search {
			s.enter(now, Search)
		} else {
			s.enter(now, Cruise)
			s.rate = s.cruise()
		}
		q.drain = nil
		s.note(now, control.CauseRebased, from, s.rate, 0)
	}
}

package steer

import (
	"math"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// health tells failures that depend on the rate from those that do not. An event is a cumulative
// sum (Page, "Continuous inspection schemes", 1954): it grows with each failure and shrinks with each
// answer, by how much more likely that is of a host that refuses than of its usual share of failures,
// which the run itself teaches too. Then an experiment lowers the rate, twice at most, and a sequential
// test (Wald, 1945) says whether it fails as often there: if it does twice, it fails at any rate.
type health struct {
	sum         float32 // evidence that the host refuses
	runN, runB  uint16  // outcomes and failures since the sum was zero
	good, bad   float32 // outcomes that no limit explains, of late
	tested      float32 // answers of experiments that found limits
	consecutive uint16
	cleared     uint32      // answers before the latest failures that no limiter gives
	test        *experiment // nil if none goes on
}

// experiment is the present one.
type experiment struct {
	rate   float64  // what is tried
	failed float64  // the rate that failed before it
	share  float64  // of failures there
	first  float64  // the rate of the event
	before interval // what was believed
	from   Mode     // of the event
	sum    float64  // evidence that it fails here too
	n, b   float32  // outcomes and failures in all
	stage  uint8
	since  clock.Instant // what was sent before was at another rate
	n0, b0 float32       // outcomes before this stage
}

const (
	eventSum   = 8.0  // the evidence that makes an event
	probeSum   = 3.0  // and in a probe, where a limit is likely
	noisySum   = 11.0 // and of a host that is known to fail at random
	slower     = 0.7
	noiseSum   = 4.0  // the evidence that it fails at a lower rate too
	limitSum   = -2.5 // and that it does not
	leastShare = 0.06
	mostShare  = 0.6
	tells      = 300  // tested answers after which a host is known to fail for its rate alone
	priorBad   = 0.1  // failures of a stranger,
	priorAll   = 10   // in so many outcomes
	byChance   = .01  // what is less likely is not taken for chance
	noisyShare = .005 // of failures, above which chance is reckoned with
)

// share is that of failures that has nothing to do with the rate, if n outcomes more with b failures are counted.
func (h *health) share(n, b float64) float64 {
	return (float64(h.bad) + b + priorBad) / (float64(h.good+h.bad) + n + priorAll)
}

// usual is the share of failures that has nothing to do with the rate.
func (h *health) usual() float64 { return h.share(0, 0) }

// chance is how likely so many failures in a row are by chance alone.
func (h *health) chance(k int) float64 {
	n, b := float64(h.runN), float64(h.runB)
	if e := h.test; e != nil {
		n, b = n+float64(e.n), b+float64(e.b)
	}
	row := min(float64(h.consecutive), b)
	return math.Pow(h.share(n-row, b-row), float64(k))
}

// noisy reports whether the host is known to fail at random.
func (h *health) noisy() bool { return h.bad >= 1 && h.usual() > noisyShare }

// likely is the share of answers to be expected now.
func (h *health) likely() float64 { return 1 - h.share(float64(h.runN), float64(h.runB)) }

// telling reports whether the host fails for its rate alone.
func (h *health) telling() bool { return h.tested > tells }

// pass counts a willing answer.
func (h *health) pass(s *Steer, now clock.Instant, o *control.Observation) {
	h.consecutive = 0
	if h.test != nil {
		h.try(s, now, o, false)
		return
	}
	h.count(false)
}

func (h *health) count(bad bool) {
	if h.sum <= 0 {
		h.keep(float32(h.runN-h.runB), float32(h.runB))
		h.reset()
	}
	u, p := h.usual(), h.share(float64(h.runN), float64(h.runB))
	refusing := min(max(float64(h.runB+1)/float64(h.runN+2), .03+1.3*u), .95)
	h.runN = min(h.runN, math.MaxUint16-3) + 1
	if bad {
		h.runB++
		h.sum += float32(math.Log(refusing / p))
	} else {
		h.sum += float32(math.Log((1 - refusing) / (1 - p)))
	}
}

// fail counts a failure that may be a limit's or not.
func (h *health) fail(s *Steer, now clock.Instant, o *control.Observation) {
	h.consecutive = min(h.consecutive, math.MaxUint16-1) + 1
	if h.test != nil {
		h.try(s, now, o, true)
		if h.test != nil && h.chance(int(h.consecutive)) < byChance*byChance {
			s.hit(now, o, control.CauseFailures)
		}
		return
	}
	h.count(true)
	enough := float32(eventSum)
	if h.noisy() {
		enough = noisySum
	} else if s.mode == Probe || h.telling() {
		enough = probeSum
	}
	if h.sum >= enough {
		s.pay(1)
		s.hit(now, o, control.CauseFailures)
	} else if h.noisy() {
		s.history.add(o.SentAt)
		s.refill.add(o.SentAt)
	}
}

// judge is the end of a pause that failures led to.
func (h *health) judge(s *Steer, now clock.Instant) {
	e := h.test
	lasted := s.tries >= 2 && h.chance(int(s.tries)) < byChance
	if e != nil && !lasted {
		s.on(now, Settled)
		s.rate = s.bounded(e.rate)
		return
	}
	before, rate := s.interval, s.failRate
	if s.guessed {
		before.hi = math.Inf(1) // if it fails at any rate, that was no limit either
	}
	h.test = nil
	if again := h.cleared > 0 && s.answered+1-h.cleared < 500; (s.down || h.noisy()) && !lasted && !again {
		h.cleared = s.answered + 1 // no limiter answers so, unless it does so again
		h.reset()
		s.back(now, rate)
		s.note(now, control.CauseRecovered, 0, s.rate, 0)
		return
	}
	s.learn(now, rate, now.Sub(s.at))
	if !lasted && !h.telling() {
		share := min(max(float64(h.runB)/float64(h.runN+1), leastShare), mostShare)
		h.test = &experiment{first: rate, failed: rate, share: share, before: before, from: s.from}
		if h.test.rate = slower * rate; !math.IsInf(s.hi, 1) {
			h.test.rate = max(min(s.cruise(), h.test.rate), rate/2)
		}
	}
	if h.test == nil {
		h.reset()
	}
	s.on(now, Settled)
	if math.IsInf(s.hi, 1) && h.test == nil {
		s.back(now, 2*rate)
	} else {
		s.decide(now)
	}
	s.note(now, control.CauseEstimated, 0, s.rate, 0)
}

// try counts an outcome of the experiment.
func (h *health) try(s *Steer, now clock.Instant, o *control.Observation, bad bool) {
	e, u := h.test, h.usual()
	if o.SentAt < e.since {
		return // at the rate before
	}
	share := max(e.share, 2*u)
	e.n++
	if bad {
		e.b++
		e.sum += math.Log(share / u)
	} else {
		e.sum += math.Log((1 - share) / (1 - u))
	}
	n, b := e.n-e.n0, e.b-e.b0
	switch {
	case e.sum > limitSum*max(1, min(e.first/8, 8)) && (e.sum < noiseSum || n < 8 || b < 3):
	case e.sum < noiseSum && b > 0 && h.noisy(): // some, as always
		h.noise(s, now)
	case e.sum < noiseSum:
		h.end(s, now)
	case b > .5*n: // who fails so often at any rate is down, or it is a limit still
		s.learn(now, e.rate, 0)
		h.test = nil
		s.decide(now)
	case e.stage == 0 || float64(b/n) < .7*e.share && e.stage < 4:
		// A limit admits no more of this than of a slower rate, so none would fail at what was admitted.
		e.stage, e.sum, e.failed, e.n0, e.b0, e.since = e.stage+1, 0, e.rate, e.n, e.b, now.Add(s.step())
		e.share = min(max(float64(b/n), leastShare), mostShare)
		e.rate *= min(.5, .6*float64(1-b/n))
		s.rate = s.bounded(e.rate)
	default:
		h.noise(s, now)
	}
}

// end is that of an experiment that found a limit: above the rate that was tried, and below the one
// that failed before it.
func (h *health) end(s *Steer, now clock.Instant) {
	e := h.test
	h.test = nil
	h.reset()
	h.tested += e.n
	h.keep(e.n-e.b, 0)
	if e.stage > 0 {
		s.lo, s.run = e.rate, 0
		s.hi = min(s.hi, e.failed)
	}
	if math.IsInf(s.hi, 1) {
		s.back(now, 2*e.rate)
		return
	}
	s.decide(now)
}

// noise is the end of one that found that the host fails at any rate.
func (h *health) noise(s *Steer, now clock.Instant) {
	e := h.test
	h.test = nil
	h.keep(float32(h.runN-h.runB)+e.n-e.b, float32(h.runB)+e.b)
	h.tested = 0
	h.reset()
	from := s.rate
	s.interval, s.sure = e.before, interval{}
	s.credit = min(s.credit+2, float32(s.tune.CreditMax))
	s.back(now, e.first)
	s.note(now, control.CauseNoise, from, s.rate, 0)
}

// keep counts outcomes that no limit explains. What was found is not final.
func (h *health) keep(good, bad float32) {
	h.good, h.bad = h.good+good, h.bad+bad
	if n := h.good + h.bad; n > 2000 {
		h.good, h.bad = h.good/2, h.bad/2
	}
}

func (h *health) reset() { h.sum, h.runN, h.runB = 0, 0, 0 }

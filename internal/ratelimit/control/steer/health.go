package steer

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// health tells failures that depend on the rate from those that do not. An event is a cumulative
// sum (Page, "Continuous inspection schemes", 1954): it grows with each failure and shrinks with each
// answer, by how much more likely that is of a host that refuses than of its usual share of failures,
// which the run itself teaches too. Then an experiment lowers the rate until failures no longer get
// fewer, and a sequential test (Wald, 1945) says whether it fails as often there: if it does, it fails
// at any rate.
type health struct {
	sum         float32 // evidence that the host refuses
	runN, runB  uint16  // outcomes and failures since the sum was zero
	good, bad   float32 // outcomes that no limit explains, of late
	tested      float32 // answers of experiments that found limits
	cleared     uint32  // willing answers before the latest failures that no limiter gives
	consecutive uint16
	borne       uint16      // failures by chance in all
	test        *experiment // nil if none goes on
}

// experiment is the present one.
type experiment struct {
	rate   float64       // what is tried
	failed float64       // the rate that failed before it
	share  float64       // of failures there
	first  float64       // the rate of the event
	sum    float64       // evidence that it fails here too
	n, b   float32       // outcomes and failures in all
	n0, b0 float32       // before this stage
	since  clock.Instant // what was sent before was at another rate
	stage  uint8

	good, bad float32 // outcomes that were believed to be no limit's, if that is looked into
}

// finding is what health makes of an answer.
type finding uint8

const (
	unclear  finding = iota
	failing          // the host refuses or is down: nothing is to go out for a while
	slower           // a slower rate is to be tried
	limited          // the failures depend on the rate
	hopeless         // they are most of the answers at a slower rate too
	random           // they do not depend on the rate
	passing          // the host was away, and that says nothing of the rate
	doubtful         // much was borne: whether it still fails at random is to be looked into
)

const (
	leastShare = 0.06 // bounds of the share of failures that a limit is reckoned to make
	mostShare  = 0.6
	tells      = 300  // tested answers after which a host is known to fail for its rate alone
	priorBad   = 0.1  // failures of a stranger,
	priorAll   = 10   // in so many outcomes
	byChance   = .01  // what is less likely is not taken for chance
	noisyShare = .005 // of failures, above which chance is reckoned with
	stages     = 4    // times at most that an experiment goes on lower
	soonAgain  = 500  // answers within which a second outage is one too many
	remembered = 2000 // outcomes at most: what was found is not final
	borneShare = .04  // of failures, which is worth the trouble
	leastBorne = 51   // failures by chance after which it is looked into whether it is chance,
	mostBorne  = 32   // again when they are 3, 7, 15 and 31 times as many, and after 32 times as many each
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

// observe takes in an answer, or a failure that may be a limit's or not.
func (h *health) observe(x *Sample, bad bool) finding {
	if !bad {
		if h.consecutive = 0; h.test != nil {
			return h.try(x, false)
		}
		h.count(false)
		return unclear
	}
	h.consecutive = min(h.consecutive, math.MaxUint16-1) + 1
	if h.test != nil {
		f := h.try(x, true)
		if f == unclear && h.chance(int(h.consecutive)) < byChance*byChance {
			return failing
		}
		return f
	}
	h.count(true)
	enough := x.Event
	if h.noisy() {
		enough = x.NoisyEvent
	} else if x.Mode == Probe || h.telling() {
		enough = x.ProbeEvent
	}
	switch {
	case float64(h.sum) >= enough:
		return failing
	case h.noisy() && h.usual() > borneShare && x.Mode != Wait && x.Mode != Recover:
		h.borne++
		if n := h.borne/leastBorne + 1; h.borne%leastBorne == 0 && (bits.OnesCount16(n) == 1 || n%mostBorne == 0) {
			return doubtful
		}
	}
	return unclear
}

// doubt begins an experiment at a slower rate on whether failures that were found to be random still are.
func (h *health) doubt(x *Sample) {
	h.test = &experiment{
		first: x.Rate, failed: x.Rate, share: h.usual(), rate: x.Slower * x.Rate, since: x.At.Add(x.Settle),
		sum: x.Limit, stage: 1, good: h.good, bad: h.bad,
	}
	h.good, h.bad = 0, 0
	h.reset()
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

// resumed takes in the end of a pause that failures led to, after so many failed trials and so many willing
// answers ever. If the host is found failing an experiment may tell.
func (h *health) resumed(tries int, down bool, answered uint32) finding {
	lasted := tries >= 2 && h.chance(tries) < byChance
	if h.test != nil && !lasted {
		return slower
	}
	h.test = nil
	again := h.cleared > 0 && answered+1-h.cleared < soonAgain
	switch {
	case lasted:
		h.reset()
		return limited
	case (down || h.noisy()) && !again:
		h.cleared = answered + 1 // no limiter answers so, unless it does so again
		h.reset()
		return passing
	case h.telling():
		h.reset()
		return limited
	}
	return failing
}

// begin starts an experiment at a rate after another failed.
func (h *health) begin(failed, rate float64) {
	share := min(max(float64(h.runB)/float64(h.runN+1), leastShare), mostShare)
	h.test = &experiment{first: failed, failed: failed, share: share, rate: rate}
}

// try counts an outcome of the experiment.
func (h *health) try(x *Sample, bad bool) finding {
	e, u := h.test, h.usual()
	if x.SentAt < e.since {
		return unclear // at the rate before
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
	case e.sum > -x.Limit*max(1, min(e.first/8, 8)) && (e.sum < x.Noise || n < 8 || b < 3):
		return unclear
	case e.sum < x.Noise && (b == 0 || !h.noisy() && float64(b/n) < share/3):
		h.end(0, e.n-e.b)
		h.tested += e.n
		return limited
	case e.sum >= x.Noise && b > .5*n: // who fails so often at any rate is down, or it is a limit still
		h.test = nil
		return hopeless
	case e.sum >= x.Noise && (e.stage == 0 || float64(b/n) < .7*e.share && e.stage < stages):
		h.deepen(x.At.Add(x.Settle), float64(b/n))
		return slower
	}
	h.end(float32(h.runB)+e.bad+e.b, float32(h.runN-h.runB)+e.good+e.n-e.b)
	h.tested = 0
	return random
}

// deepen goes on at a slower rate: a limit admits no more of this than of a slower one, so none would fail
// at what was admitted.
func (h *health) deepen(since clock.Instant, share float64) {
	e := h.test
	e.stage, e.sum, e.failed, e.n0, e.b0, e.since = e.stage+1, 0, e.rate, e.n, e.b, since
	e.share = min(max(share, leastShare), mostShare)
	e.rate *= min(.5, .6*(1-share))
}

// end ends an experiment, after so many failures and answers that no limit explains.
func (h *health) end(bad, good float32) {
	h.test = nil
	h.keep(good, bad)
	h.reset()
}

// keep counts outcomes that no limit explains.
func (h *health) keep(good, bad float32) {
	h.good, h.bad = h.good+good, h.bad+bad
	if n := h.good + h.bad; n > remembered {
		h.good, h.bad = h.good/2, h.bad/2
	}
}

func (h *health) reset() { h.sum, h.runN, h.runB = 0, 0, 0 }

// outages tell a pause out of the blue, which says nothing of the rate, from one of a limit.
type outages struct {
	at   clock.Instant // of the latest pause that taught nothing; zero for none
	n    float64       // admitted before it
	took time.Duration
}

// again reports whether a pause of a host that had admitted n comes as the one before it came.
func (u *outages) again(began, now clock.Instant, n float64) bool {
	was := *u
	*u = outages{now, n, now.Sub(began)}
	return was.at != 0 && now.Sub(was.at) < max(10*time.Minute, 10*was.took) &&
		(began.Sub(was.at) < max(30*time.Second, was.took*6/5) || math.Abs(n/was.n-1) < .25)
}

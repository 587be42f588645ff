package steer

import (
	"math"

	"github.com/treadlight/crawl/internal/clock"
)

// health tells failures that depend on the rate from those that do not. An event is a cumulative
// sum (Page, "Continuous inspection schemes", 1954): it grows with each failure and shrinks with each
// answer, by how much more likely that is of a host that refuses than of its usual share of failures,
// which the run itself teaches too. Then an experiment lowers the rate until failures no longer get
// fewer, and a sequential test (Wald, 1945) says whether it fails as often there: if it does, it fails
// at any rate.
type health struct {
	known       outcomes    // that no limit explains, of late
	run         evidence    // that the host refuses, since that was zero
	consecutive uint16      // failures
	borne       uint16      // failures by chance since that was looked into
	patience    uint16      // so many are borne; zero for leastBorne
	test        *experiment // nil if none goes on
}

// outcomes are answers and failures.
type outcomes struct{ n, bad float32 }

// evidence is a logarithm of odds, and what it rests on.
type evidence struct {
	outcomes
	sum float32
}

// experiment is the present one. Its evidence is that it fails at the present rate too.
type experiment struct {
	evidence
	rate  float64       // what is tried
	share float64       // of failures at the rate before
	first float64       // the rate of the event
	since clock.Instant // what was sent before was at another rate
	stage uint8

	believed outcomes // to be no limit's, if that is looked into
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
	doubtful         // whether failures that were found to be random still are is to be looked into
)

const (
	leastShare = 0.06 // bounds of the share of failures that a limit is reckoned to make
	mostShare  = 0.6
	priorBad   = 0.1  // failures of a stranger,
	priorAll   = 10   // in so many outcomes
	byChance   = .01  // what is less likely is not taken for chance
	noisyShare = .005 // of failures, above which chance is reckoned with
	stages     = 2    // times at most that an experiment goes on lower
	soonAgain  = 500  // answers within which a second outage is one too many
	remembered = 2000 // outcomes at most: what was found is not final
	leastBorne = 50   // failures by chance after which it is looked into whether it is chance,
	mostBorne  = 2000 // twice as many each time
	borneShare = .04  // of failures, which is worth looking into again
)

// share is that of failures that has nothing to do with the rate, if n outcomes more with b failures are counted.
func (h *health) share(n, b float32) float64 {
	return float64((h.known.bad + b + priorBad) / (h.known.n + n + priorAll))
}

// usual is the share of failures that has nothing to do with the rate.
func (h *health) usual() float64 { return h.share(0, 0) }

// chance is how likely so many failures in a row are by chance alone.
func (h *health) chance(k int) float64 {
	o := h.run.outcomes
	if e := h.test; e != nil {
		o.n, o.bad = o.n+e.n, o.bad+e.bad
	}
	row := min(float32(h.consecutive), o.bad)
	return math.Pow(h.share(o.n-row, o.bad-row), float64(k))
}

// noisy reports whether the host is known to fail at random.
func (h *health) noisy() bool { return h.known.bad >= 1 && h.usual() > noisyShare }

// likely is the share of answers to be expected now.
func (h *health) likely() float64 { return 1 - h.share(h.run.n, h.run.bad) }

// observe takes in an answer, or a failure that may be a limit's or not.
func (h *health) observe(x *Sample, bad bool) finding {
	if h.consecutive = min(h.consecutive, math.MaxUint16-1) + 1; !bad {
		h.consecutive = 0
	}
	if h.test != nil {
		f := h.try(x, bad)
		if bad && f == unclear && h.chance(int(h.consecutive)) < byChance*byChance {
			return failing
		}
		return f
	}
	h.count(bad)
	enough := x.Event
	if h.noisy() {
		enough = x.NoisyEvent
	} else if x.Mode == Probe {
		enough = x.ProbeEvent
	}
	switch {
	case !bad:
	case float64(h.run.sum) >= enough:
		return failing
	case h.noisy() && h.usual() > borneShare && x.Mode != Wait && x.Mode != Recover:
		if h.borne++; h.borne > max(h.patience, leastBorne) {
			return doubtful
		}
	}
	return unclear
}

func (h *health) count(bad bool) {
	r := &h.run
	if r.sum <= 0 {
		h.keep(r.n, r.bad)
		h.reset()
	}
	u, p := h.usual(), h.share(r.n, r.bad)
	refusing := min(max(float64((r.bad+1)/(r.n+2)), .03+1.3*u), .95)
	r.add(bad, refusing, p)
}

// add counts an outcome that is so likely to be a failure by what the evidence is for, or else.
func (e *evidence) add(bad bool, by, otherwise float64) {
	e.n++
	if !bad {
		by, otherwise = 1-by, 1-otherwise
	} else {
		e.bad++
	}
	e.sum += float32(math.Log(by / otherwise))
}

// resumed takes in the end of a pause that failures led to, after so many failed trials. If the host is found failing
// an experiment may tell.
func (h *health) resumed(tries int) finding {
	lasted := tries >= 2 && h.chance(tries) < byChance
	if h.test != nil && !lasted {
		return slower
	}
	if h.test = nil; lasted {
		h.reset()
		return limited
	}
	return failing
}

// begin starts an experiment at a rate after another failed.
func (h *health) begin(failed, rate float64) {
	h.test = &experiment{first: failed, rate: rate, share: bounded(h.run.bad / (h.run.n + 1))}
}

// doubt begins one at a rate on whether failures that were found to be random still are.
func (h *health) doubt(failed, rate, limit float64, since clock.Instant) {
	h.borne, h.patience = 0, min(2*max(h.patience, leastBorne), mostBorne)
	h.test = &experiment{first: failed, rate: rate, share: h.usual(), since: since, believed: h.known, stage: 1}
	h.test.sum, h.known = float32(limit), outcomes{}
	h.reset()
}

func bounded(share float32) float64 { return min(max(float64(share), leastShare), mostShare) }

// try counts an outcome of the experiment.
func (h *health) try(x *Sample, bad bool) finding {
	e, u := h.test, h.usual()
	if x.SentAt < e.since {
		return unclear // at the rate before
	}
	share := min(max(e.share, 2*u), .95)
	e.add(bad, share, u)
	sum, now := float64(e.sum), float64(e.bad/e.n)
	switch {
	case sum > -x.Limit*max(1, min(e.first/8, 8)) && (sum < x.Noise || e.n < 8 || e.bad < 3):
		return unclear
	case sum < x.Noise && (e.bad == 0 || !h.noisy() && now < share/3):
		h.end(outcomes{e.n - e.bad, 0})
		return limited
	case sum >= x.Noise && now > .5: // who fails so often at any rate is down, or it is a limit still
		h.test = nil
		return hopeless
	case sum >= x.Noise && (e.stage == 0 || now < .7*e.share && e.stage < stages):
		h.deepen(x.At.Add(x.Settle))
		return slower
	}
	h.end(outcomes{h.run.n + e.believed.n + e.n, h.run.bad + e.believed.bad + e.bad})
	return random
}

// deepen goes on at a slower rate: a limit admits no more of this than of a slower one, so none would fail
// at what was admitted.
func (h *health) deepen(since clock.Instant) {
	e := h.test
	share := e.bad / e.n
	h.run.n, h.run.bad = h.run.n+e.n, h.run.bad+e.bad
	e.evidence, e.stage, e.since = evidence{}, e.stage+1, since
	e.share = bounded(share)
	e.rate *= min(.5, .6*(1-float64(share)))
}

// end ends an experiment, after outcomes that no limit explains.
func (h *health) end(o outcomes) {
	h.test = nil
	h.keep(o.n, o.bad)
	h.reset()
}

// keep counts outcomes that no limit explains.
func (h *health) keep(n, bad float32) {
	k := &h.known
	if k.n, k.bad = k.n+n, k.bad+bad; k.n > remembered {
		k.n, k.bad = k.n/2, k.bad/2
	}
}

func (h *health) reset() { h.run = evidence{} }

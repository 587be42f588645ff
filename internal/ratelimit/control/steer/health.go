package steer

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// health tells failures that depend on the rate from those that do not.
//
// Failures are an event when a cumulative sum (Page, "Continuous inspection schemes", 1954) passes a bound. The sum
// grows with each failure and shrinks with each response, by how much likelier that outcome is of a host that refuses
// than of one with its usual share of failures; the present run of outcomes teaches that share too. After an event an
// experiment lowers the rate until failures no longer become fewer. A sequential test (Wald, 1945) says whether
// requests fail as often there: if they do, they fail at any rate.
type health struct {
	// sum is the evidence that the host refuses, as a logarithm of odds; at zero or below a new run begins.
	sum        float32
	runN, runB uint16  // outcomes of the present run, and the failures among them
	good, bad  float32 // responses and failures of late that no limit explains; they give the usual share
	tested     float32 // responses of experiments that found limits, since the last that found random failures
	// cleared is belief.answered plus one when failures were last taken for an outage that says nothing of the rate;
	// zero if they never were.
	cleared uint32
	// consecutive is the number of failures in a row.
	consecutive uint16
	refuses     bool        // a limit was learned from 429 or a Retry-After: another failure is hardly that limiter's
	borne       uint16      // failures taken for chance, of a host where they are frequent; see doubtful
	test        *experiment // the experiment that goes on; nil if none does
}

// experiment tries slower rates, stage by stage. Its rates are in requests per second.
type experiment struct {
	// rate is tried in this stage.
	rate float64
	// failed is the rate of the stage before; in the first stage, that of the event.
	failed float64
	// share is the share of failures at that rate, which a limit would make.
	share float64
	// first is the rate of the event.
	first float64
	// sum is the evidence that requests fail in this stage too, as a logarithm of odds.
	sum float64
	// n and b are outcomes and failures of all stages.
	n, b float32
	// n0 and b0 are n and b when this stage began.
	n0, b0 float32
	// since is when this stage began: requests from before were sent at another rate. Zero takes all.
	since clock.Instant
	// stage is how often the experiment went on at a slower rate; an experiment on doubt begins with one.
	stage uint8

	// good and bad were those of health before an experiment on doubt, which restores them if failures are still
	// random.
	good, bad float32
}

// finding is what health concludes from an outcome, or from the end of a pause.
type finding uint8

const (
	unclear  finding = iota // nothing yet
	failing                 // the host refuses or is down: a pause is to begin
	slower                  // a slower rate is to be tried
	limited                 // the failures depend on the rate: it is a limit
	hopeless                // at a slower rate too most requests fail: it is down, or the limit is lower still
	random                  // the failures do not depend on the rate
	passing                 // it was an outage, which says nothing of the rate
	doubtful                // many failures were taken for chance: whether they still are is to be tested
)

// Bounds of the tests. The odds are in Tuning.
const (
	// leastShare and mostShare bound the share of failures that a limit is assumed to make.
	leastShare = 0.06
	mostShare  = 0.6
	tells      = 300  // responses in experiments after which a host is known to fail only for its rate
	priorBad   = 0.1  // failures that are assumed of a new host,
	priorAll   = 10   // in so many outcomes
	byChance   = .01  // probability below which failures are not taken for chance
	noisyShare = .005 // usual share of failures from which a host fails at random
	stages     = 4    // the last stage of an experiment
	soonAgain  = 500  // responses within which a second outage is one too many
	remembered = 2000 // outcomes in good and bad at most; beyond, both are halved, so that old ones are forgotten
	borneShare = .04  // usual share of failures from which it is worth testing whether they are still random
	// This is tested after leastBorne failures that were taken for chance, again when they are 3, 7, 15 and 31 times as
	// many, and then after every mostBorne*leastBorne more.
	leastBorne = 51
	mostBorne  = 32
)

// share returns the share of failures that no limit explains, if n more outcomes with b failures are counted with those
// that are known.
func (h *health) share(n, b float64) float64 {
	return (float64(h.bad) + b + priorBad) / (float64(h.good+h.bad) + n + priorAll)
}

// usual returns the share of failures that no limit explains.
func (h *health) usual() float64 { return h.share(0, 0) }

// chance returns how likely k failures in a row are by chance alone. The failures of the present row do not count for
// the usual share.
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

// likely returns the share of requests that are to be expected to succeed now.
func (h *health) likely() float64 { return 1 - h.share(float64(h.runN), float64(h.runB)) }

// telling reports whether experiments showed that the host fails only for its rate.
func (h *health) telling() bool { return h.tested > tells }

// observe takes in a response, or a failure (bad) that may be a limiter's or not. It returns what an experiment finds,
// or failing if the sum passed its bound, or doubtful.
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
	if h.noisy() || h.refuses {
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

// doubt begins an experiment on whether failures that were found to be random still are.
func (h *health) doubt(x *Sample) {
	h.test = &experiment{
		first: x.Rate, failed: x.Rate, share: h.usual(), rate: x.Slower * x.Rate, since: x.At.Add(x.Settle),
		sum: x.Limit, stage: 1, good: h.good, bad: h.bad,
	}
	h.good, h.bad = 0, 0
	h.reset()
}

// count adds an outcome to the sum. A host that refuses is assumed to fail at the share of the present run, but well
// above the usual one.
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

// resumed judges the end of a pause that failures led to, after tries failed trials. down reports failures that no
// limiter answers with; answered counts admitted requests ever. It returns limited (more failed trials than by chance,
// or a host that fails only for its rate), passing (a failure that no limiter gives, or a host that fails at random or
// has failed from the first request on, not soon after another), slower if an experiment goes on, or failing, after
// which one may begin.
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
	case (down || h.noisy() || answered == 0) && !again:
		h.cleared = answered + 1 // no limiter does so, unless it does so again soon
		h.reset()
		return passing
	case h.telling():
		h.reset()
		return limited
	}
	return failing
}

// begin starts an experiment at rate, after requests failed at the rate failed.
func (h *health) begin(failed, rate float64) {
	share := min(max(float64(h.runB)/float64(h.runN+1), leastShare), mostShare)
	h.test = &experiment{first: failed, failed: failed, share: share, rate: rate}
}

// try counts an outcome of the experiment. When the evidence is enough it ends the stage: limited if hardly any request
// fails here, hopeless if more than half do, slower for another stage, or random.
func (h *health) try(x *Sample, bad bool) finding {
	e, u := h.test, h.usual()
	if x.SentAt < e.since {
		return unclear // sent at the rate before
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
	case e.sum >= x.Noise && b > .5*n: // a host that fails so often at any rate is down, or the limit is lower still
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

// deepen begins another stage, at a rate below what was admitted in this one. If there is a limit it admits as much at
// that rate as here, so nothing would fail at it.
func (h *health) deepen(since clock.Instant, share float64) {
	e := h.test
	e.stage, e.sum, e.failed, e.n0, e.b0, e.since = e.stage+1, 0, e.rate, e.n, e.b, since
	e.share = min(max(share, leastShare), mostShare)
	e.rate *= min(.5, .6*(1-share))
}

// end ends the experiment and keeps its outcomes that no limit explains: bad failures and good responses.
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

// reset begins a new run.
func (h *health) reset() { h.sum, h.runN, h.runB = 0, 0, 0 }

// outages tells an unexpected pause, which says nothing of the rate, from a limiter's pause, which comes again.
type outages struct {
	at   clock.Instant // end of the latest pause that was looked at; zero for none
	n    float64       // requests admitted before it, in its cycle
	took time.Duration // its length
}

// again reports whether a pause resembles the one before, and keeps it for the next. n is the number of requests that
// were admitted before it. It resembles it if it ended within ten minutes of it, and either began soon after its end or
// came after as many requests, to a quarter.
func (u *outages) again(began, now clock.Instant, n float64) bool {
	was := *u
	*u = outages{now, n, now.Sub(began)}
	return was.at != 0 && now.Sub(was.at) < max(10*time.Minute, 10*was.took) &&
		(began.Sub(was.at) < max(30*time.Second, was.took*6/5) || math.Abs(n/was.n-1) < .25)
}

package steer

import (
	"math"
	"math/bits"

	"github.com/treadlight/crawl/internal/clock"
)

// health tells failures that depend on the rate from those that do not, by comparing two samples of outcomes.
//
// Failures are an event when a cumulative sum (Page, "Continuous inspection schemes", 1954) passes a bound: it grows
// with each failure and shrinks with each response, by how much likelier that outcome is of a host that began to refuse
// than of one with its usual share of failures. After an event an experiment lowers the rate. If as many requests fail
// as in the event, they fail at any rate; if as few as usual, the rate was above a limit. The sum of the logarithms of
// odds decides (Wald, "Sequential tests of statistical hypotheses", 1945).
type health struct {
	usual sample // outcomes of late that no limit explains
	run   sample // outcomes since the evidence of a limit last vanished; in an experiment, those that led to it
	// sum is evidence as a logarithm of odds: that the host refuses; in an experiment, that it fails at any rate. At
	// zero or below a new run begins.
	sum float32
	// extra is the evidence that an event takes beyond Tuning.Event: 3 once a limit was learned from 429 or a
	// Retry-After, since another failure is hardly that limiter's; less after each experiment that found a limit.
	extra float32
	// cleared is belief.answered plus one when failures were last taken for an outage that says nothing of the rate;
	// zero if they never were.
	cleared uint32
	// consecutive is the number of failures in a row.
	consecutive uint16
	borne       uint16      // failures taken for chance, of a host where they are frequent; see doubtful
	test        *experiment // the experiment that goes on; nil if none does
}

// sample counts outcomes, and the failures among them.
type sample struct{ n, bad float32 }

// add counts an outcome.
func (a *sample) add(bad bool) {
	if a.n++; bad {
		a.bad++
	}
}

// plus returns the sum of two samples.
func (a sample) plus(b sample) sample { return sample{a.n + b.n, a.bad + b.bad} }

// share returns the share of failures that is to be expected after these outcomes: 1 % after none.
func (a sample) share() float64 { return float64((a.bad + priorBad) / (a.n + priorAll)) }

// experiment tries a slower rate.
type experiment struct {
	sample               // outcomes at that rate
	rate   float64       // the rate, in requests per second
	failed float64       // the rate at which too many failed before
	first  float64       // the rate of the event
	since  clock.Instant // when the rate began: requests from before do not count. Zero takes all.
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
	otherwise  = 3    // extra where the limiter is known to answer otherwise, or the host to fail at random
	noise      = 4    // evidence that a slower rate fails too, as a logarithm of odds: 55 to 1, which errs in 2 % of cases
	perLimit   = 2    // what an experiment that found a limit takes off extra, down to leastExtra:
	leastExtra = -5   // the host fails for its rate only, so that no experiment is needed
	priorBad   = 0.1  // failures that are assumed before any outcome,
	priorAll   = 10   // in so many outcomes
	byChance   = .01  // probability below which failures are not taken for chance
	noisyShare = .005 // usual share of failures from which a host fails at random
	soonAgain  = 500  // responses within which a second outage is one too many
	remembered = 2000 // outcomes in usual at most; beyond, they are halved, so that old ones are forgotten
	borneShare = .04  // usual share of failures from which it is worth testing whether they are still random
	// This is tested after leastBorne failures that were taken for chance, again when they are 3, 7, 15 and 31 times as
	// many, and then after every mostBorne*leastBorne more.
	leastBorne = 51
	mostBorne  = 32
)

// chance returns how likely k failures in a row are by chance alone. The failures of the present row do not count for
// the usual share.
func (h *health) chance(k int) float64 {
	s := h.usual.plus(h.run)
	if h.test != nil {
		s = s.plus(h.test.sample)
	}
	row := min(float32(h.consecutive), s.bad)
	return math.Pow(sample{s.n - row, s.bad - row}.share(), float64(k))
}

// noisy reports whether the host is known to fail at random.
func (h *health) noisy() bool { return h.usual.bad >= 1 && h.usual.share() > noisyShare }

// likely returns the share of requests that are to be expected to succeed now.
func (h *health) likely() float64 { return 1 - h.usual.plus(h.run).share() }

// observe takes in a response, or a failure (bad) that may be a limiter's or not. It returns what an experiment finds,
// or failing if the sum passed its bound, or doubtful.
func (h *health) observe(x *Sample, bad bool) finding {
	if h.consecutive = min(h.consecutive, math.MaxUint16-1) + 1; !bad {
		h.consecutive = 0
	}
	if h.test != nil {
		f := h.try(x, bad)
		if f == unclear && bad && h.chance(int(h.consecutive)) < byChance*byChance {
			return failing
		}
		return f
	}
	if h.count(bad); !bad {
		return unclear
	}
	enough := x.Event + float64(h.extra)
	if h.noisy() {
		enough = x.Event + otherwise
	} else if x.Mode == Probe && h.extra <= 0 {
		enough = x.ProbeEvent
	}
	switch {
	case float64(h.sum) >= enough:
		return failing
	case h.noisy() && h.usual.share() > borneShare && x.Mode != Wait && x.Mode != Recover:
		h.borne++
		if n := h.borne/leastBorne + 1; h.borne%leastBorne == 0 && (bits.OnesCount16(n) == 1 || n%mostBorne == 0) {
			return doubtful
		}
	}
	return unclear
}

// evidence adds to the sum how much likelier an outcome is at the first share of failures than at the second.
func (h *health) evidence(bad bool, refusing, usual float64) {
	if !bad {
		refusing, usual = 1-refusing, 1-usual
	}
	h.sum += float32(math.Log(refusing / usual))
}

// count adds an outcome to the run. A host that began to refuse is assumed to fail at the share of the run.
func (h *health) count(bad bool) {
	if h.sum <= 0 {
		h.keep(h.run)
		h.reset()
	}
	refusing := float64(h.run.bad+1) / float64(h.run.n+2)
	h.evidence(bad, refusing, h.usual.plus(h.run).share())
	h.run.add(bad)
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
	case h.extra == leastExtra:
		h.reset()
		return limited
	}
	return failing
}

// begin starts an experiment after requests failed at that rate as in the present run: at Slower times the rate, at
// most most.
func (h *health) begin(t *Tuning, failed, most float64, since clock.Instant) {
	h.sum = 0
	h.test = &experiment{rate: min(most, t.Slower*failed), failed: failed, first: failed, since: since}
}

// doubt begins an experiment on whether failures that were found to be random still are.
func (h *health) doubt(x *Sample) {
	h.run, h.usual = h.usual, sample{}
	h.begin(x.Tuning, x.Rate, x.Rate, x.At.Add(x.Settle))
}

// try counts an outcome of the experiment. When the evidence is enough it ends: limited if hardly any request fails
// at its rate, hopeless if more than half do, slower if fewer fail than before, or random.
func (h *health) try(x *Sample, bad bool) finding {
	e := h.test
	if x.SentAt < e.since {
		return unclear // sent at the rate before
	}
	h.evidence(bad, h.run.share(), h.usual.share())
	e.add(bad)
	switch share := e.bad / e.n; {
	case float64(h.sum) <= -x.Limit*min(max(1, e.first/8), 3): // at a fast host more evidence comes as soon
		h.extra = max(h.extra-perLimit, leastExtra)
		h.end(e.sample)
		return limited
	case float64(h.sum) < noise || e.n < 8 || e.bad < 3:
		return unclear
	case share > .5: // a host that fails so often at any rate is down, or the limit is lower still
		h.test = nil
		return hopeless
	case share < .85*h.run.bad/h.run.n: // at first, and while fewer fail than before: the limit may be lower still
		h.run, e.failed = e.sample, e.rate
		e.sample, e.since, h.sum = sample{}, x.At.Add(x.Settle), 0
		e.rate *= x.Slower * (1 - h.run.share())
		return slower
	}
	h.end(h.run.plus(e.sample))
	h.extra = max(h.extra, 0)
	return random
}

// end ends the experiment and keeps the outcomes that no limit explains.
func (h *health) end(unexplained sample) {
	h.test = nil
	h.keep(unexplained)
	h.reset()
}

// keep counts outcomes that no limit explains.
func (h *health) keep(s sample) {
	if h.usual = h.usual.plus(s); h.usual.n > remembered {
		h.usual.n, h.usual.bad = h.usual.n/2, h.usual.bad/2
	}
}

// reset begins a new run; while an experiment goes on, it begins that anew.
func (h *health) reset() {
	if h.sum = 0; h.test != nil {
		h.test.sample = sample{}
		return
	}
	h.run = sample{}
}

package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// ceiling is the rate that the host is believed to sustain, and what it was measured
// from.
//
// Between two refusals a bucket of any size admits exactly its sustained rate: it was
// empty at both. So what was admitted in a cycle, from refusal to refusal, over the
// cycle's length is the ceiling, whatever the burst allowance and however the rate
// went up and down in between.
type ceiling struct {
	belief
	proven  float64       // the last ceiling that was measured, or stood for a quiet minute
	prevAt  clock.Instant // the cycle's begin: when the last refused request was sent, or of the first cycle the search's
	cycle   int32         // admitted in this cycle
	resumed int32         // admitted since the last pause
}

// aftermath is what a pause leaves behind that a later one is judged by.
type aftermath struct {
	resumeAt   clock.Instant // end of the last pause
	quietTill  clock.Instant // no upward move before: the price of a pause
	resumeCeil float32       // the ceiling at resumeAt
	idle       float32       // seconds of this cycle, in which a limiter may have saved up nothing
	// Of the search, until a cycle measured the ceiling; zero then.
	bulge  float32 // its mean rate
	sought float32 // the rate that it ended at
}

// plus adds counts of answers. A host that was not refused for billions of them is at its
// rate, and a count that stops there says so too.
func plus(a, b int32) int32 { return int32(min(int64(a)+int64(b), math.MaxInt32-1)) }

// belief is what an experiment puts aside, to take it up again if it shows nothing.
type belief struct {
	ceil        float64 // requests per second; infinite while nothing was refused
	provisional bool    // guessed: the next cycle measures it
	climbs      bool    // guessed so roughly that a second search is worth its refusal
	search      bool    // not even guessed
	ours        bool    // the owner's bound, at which nothing was refused: no knowledge of the host
}

// believed is the present belief. The mode decides whether it is more than a guess.
func (s *steer) believed(m mode) belief {
	b := s.belief
	b.search = m == searching
	return b
}

const (
	// margin is how far cruise stays under the ceiling. Creep crosses it now and then;
	// a wider one gives away what it costs to learn less.
	margin = 0.03
	// minCycle is how many answers a cycle needs to be a measurement: one more or less
	// is then a tenth.
	minCycle = 10
	// steadyFor is how long the same rate must have gone well to be nearly right: even a
	// large burst allowance is used up by then.
	steadyFor = 20 * time.Second
	// steady is how much of that rate is taken, and steadier the most of any: so much of one
	// that differs by less than sameRate from what the ceiling was measured as before.
	steady   = 0.97
	steadier = 0.985
	sameRate = 0.02
	// noBurst is more than a host admits beyond its rate that allows for none: a request
	// that came early, and one that jitter brought.
	noBurst = 2
	// shortCut is what the first of several short cycles takes of the rate that was refused;
	// the next takes twice as much, and so on to mostShort times as much.
	shortCut  = 0.05
	mostShort = 4
)

// finding is what a pause ended in.
type finding uint8

const (
	nothing  finding = iota // the cycle goes on
	guessed                 // of the ceiling
	measured                // the ceiling; a probe has its verdict with it
)

// judge is the one place where a pause ends in knowledge.
func (s *steer) judge(now clock.Instant) finding {
	proven := s.proven
	found := s.weigh(now, now.Sub(s.at))
	if !s.provisional {
		s.proven = s.ceil
	}
	if found == measured {
		s.bulge, s.sought = 0, 0
		s.verdict(proven)
	}
	return found
}

// weigh asks each idea in turn what the pause means; the first that knows has it.
func (s *steer) weigh(now clock.Instant, pause time.Duration) finding {
	quota := s.isQuota(pause)
	s.ours = false
	if s.from == searching {
		return s.judgeSearch(pause, quota)
	}
	s.climbs, s.regains = false, false
	switch {
	case quota:
		return s.judgeQuota(now, pause)
	case s.blocked:
		return s.judgeBlock()
	case s.givesBack():
		s.wait = min(2*s.wait, s.cfg.Breaker.OpenFor)
		return nothing
	case s.grown:
		return s.judgeGrown()
	case s.cycle >= minCycle:
		return s.judgeCycle()
	}
	return s.judgeShort()
}

// judgeSearch makes the first guess. What a bucket admitted in the last seconds is too
// much by its burst allowance, and the second search that follows finds the rest.
func (s *steer) judgeSearch(pause time.Duration, quota bool) finding {
	if s.cycle == 0 {
		s.ceil, s.provisional, s.climbs = s.bounded(s.failRate/2), true, true
		return nothing // refused at once: of this rate as much is known as before
	}
	s.noteBulge()
	s.sought = float32(s.failRate)
	s.ceil = s.searched()
	s.takeSecond()
	s.provisional = !s.blocked
	s.climbs = s.provisional
	if quota {
		w := s.firstWindow(pause)
		s.provisional = s.order > 0 && w < doubtful*s.ceil
		s.climbs = s.provisional
		s.ceil = min(s.ceil, w)
	}
	s.ceil = s.bounded(s.ceil)
	return guessed
}

// takeSecond takes what the host's own second had admitted for the ceiling, if it may be that.
// A clock that stands still counts for minutes, and those of several machines that answer in
// turn a request at a time: neither is near the rate that was blocked.
func (s *steer) takeSecond() {
	if !s.blocked {
		return
	}
	n := s.tally.most(s.forbidIn)
	if s.inSecond = 0; float64(n) >= s.ceil/2 && float64(n) <= 1.5*s.failRate+1 {
		s.ceil, s.inSecond = float64(n), n
	}
}

// searched is the guess at the ceiling that a search ends in, but for what its pause says.
func (s *steer) searched() float64 {
	cut := searchCut
	if s.blocked {
		cut = blockCut
	}
	return cut * min(s.admittedIn(2*time.Second)/2, s.failRate)
}

// noteBulge keeps what the search was given. A window that slides gives it back a window
// later, as slowly as the search began: cycles are short then, and say nothing of the limit.
func (s *steer) noteBulge() {
	if span := s.sentAt.Sub(s.prevAt); s.cycle >= minCycle && !s.blocked && span > 0 {
		s.bulge = float32(s.admittedIn(span) / seconds(span))
	}
}

const (
	searchCut = 0.9
	// doubtful is the share of what went well a moment ago below which an order is too
	// long to be believed to be a window.
	doubtful = 0.25
	// blockCut is smaller than the search's: a block is never searched from above.
	blockCut = 0.95
	// blameless is how long a rate must have gone well not to be what a block is for, the
	// first time; then half as long again each time, up to mostSpared times. A limit that
	// counts over minutes blocks a rate that is too high as late each time.
	blameless  = time.Minute
	mostSpared = 16
)

// judgeBlock stays under the rate that was blocked: nothing else is known of it. A block
// at a rate that had gone well for a while, and had not risen, is not that rate's doing.
func (s *steer) judgeBlock() finding {
	if s.from == cruising && float32(s.ceil) <= s.resumeCeil && s.sentAt.Sub(s.resumeAt) > s.spare() {
		s.spared = min(s.spared+1, mostSpared)
		return measured
	}
	s.ceil, s.provisional = blockCut*s.failRate, false
	if s.from == probing {
		s.ceil = min(s.ceil, float64(s.probeCeil))
	}
	return measured
}

// spare is how long the rate must have gone well for the next block not to be its doing.
func (b *block) spare() time.Duration {
	return time.Duration(float64(blameless) * math.Pow(1.5, float64(b.spared)))
}

// judgeGrown is the judgement on a cycle in which the limit may have risen: its mean
// speaks of the past too, so the probe's own is taken, if it is news at all.
func (s *steer) judgeGrown() finding {
	below := 0.95 * s.failRate
	if s.provisional {
		s.ceil = max(s.proven, below)
		return guessed
	}
	if est := min(s.probedRate(), below); est > 1.1*s.proven {
		s.ceil, s.provisional = est, true
		return guessed
	}
	s.ceil = max(s.proven, min(s.crossed(), steadier*s.failRate))
	if extra := (s.probedRate() - s.proven) * seconds(s.sentAt.Sub(s.probeAt)); extra < noBurst {
		// There is no burst allowance to tell of, so a cycle that rose from below has wasted
		// some of the rate, and what was refused is nearer to it than its mean.
		s.ceil = max(s.proven, 0.8*s.failRate)
		s.provisional = s.ceil > s.proven
	}
	return measured
}

// judgeCycle takes the mean of a cycle that is long enough to be one, or what the search
// and the climb after it agree on: a bucket that was full for a while gave less than it had.
// A fall to less than half is believed step by step: it may have been an accident.
func (s *steer) judgeCycle() finding {
	est := max(s.cycleRate(), s.agreed(), s.crossed())
	if s.resumed >= minCycle && s.sentAt.Sub(s.resumeAt) > steadyFor {
		est = max(est, s.nearly()*s.failRate)
	}
	least := 0.5 * s.ceil
	s.ceil, s.provisional = min(max(est, least), steadier*s.failRate), est < least
	return measured
}

// nearly is how much of a steady rate that was refused is taken: more of it where it is no news.
func (s *steer) nearly() float64 {
	if math.Abs(steady*s.failRate/s.proven-1) < sameRate {
		return steadier
	}
	return steady
}

// judgeShort is the judgement on a cycle with too few answers to measure anything.
// One more than was admitted, over the time it took, is more than the host sustains, be
// it a bucket. What the search was given on the mean is then worth a second look. Where
// even that says nothing the rate was too high by an unknown amount: by more than the last
// cut, if there was one. A quota's cycles are short because its window is used up: there a
// longer pause helps.
func (s *steer) judgeShort() finding {
	most := float64(plus(s.cycle, s.next)+1) / s.cycleSpan()
	if most < 0.9*s.ceil && s.sentAt.Sub(s.prevAt) > 2*s.lag {
		s.ceil, s.provisional = most, true
		s.regains = float64(s.bulge) > 2*most
		s.climbs = s.regains
		return nothing
	}
	if s.lag > 0 {
		s.wait = min(2*s.wait, s.cfg.Breaker.OpenFor)
	} else {
		s.short = min(s.short+1, mostShort)
		s.ceil, s.provisional = min(s.ceil, (1-shortCut*float64(s.short))*s.failRate), true
	}
	return nothing
}

// cycleRate is what a bucket sustained since the last refusal.
func (s *steer) cycleRate() float64 { return float64(s.cycle) / s.cycleSpan() }

// cycleSpan is the cycle's length in seconds. Of its pauses only what a limiter may have
// saved up counts: nobody knows how much that is, so half, and no more than an ordinary
// allowance.
func (s *steer) cycleSpan() float64 {
	idle := float64(s.idle)
	saved := min(idle/2, ordinaryBurst/s.ceil)
	return max(seconds(s.sentAt.Sub(s.prevAt))-idle+saved, 0.001)
}

// beginCycle starts the cycle after a pause, or carries the last one on.
func (s *steer) beginCycle(now clock.Instant, carry bool) {
	s.noteFull(now)
	pause := now.Sub(s.sentAt)
	// One request's worth is saved up for sure: there is no bucket without room for one.
	pause = max(0, pause-s.sentAt.Sub(s.prevAt)/time.Duration(s.cycle+1))
	if !carry {
		s.prevAt, s.cycle, s.idle, s.cycled = s.sentAt, 0, 0, true
	}
	s.idle += float32(seconds(pause))
	s.cycle = plus(s.cycle, s.next)
	s.resumed, s.resumeAt, s.resumeCeil, s.grown = 0, now, float32(s.ceil), false
}

package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

var refusal = reply{status: 429}

// refuse has the host refuse a request sent now, and lets the trial after the pause
// through.
func (r *rig) refuse(a reply) {
	r.t.Helper()
	r.ask(a)
	require.Equal(r.t, held, r.mode)
	r.now = r.till
	r.ask(reply{})
	require.NotEqual(r.t, held, r.mode)
}

// What was admitted between two refusals, over the time between them, is the ceiling,
// however the rate went up and down in between.
func TestCycleIsMeasured(t *testing.T) {
	for _, tc := range []struct {
		name string
		gaps []time.Duration // between answers, over and over
	}{
		{"evenly", []time.Duration{100 * time.Millisecond}},
		{"a burst, then slowly", []time.Duration{10 * time.Millisecond, 190 * time.Millisecond}},
		{"slowly, then fast", []time.Duration{180 * time.Millisecond, 20 * time.Millisecond}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cruisingAt(t, 12)
			r.quietTill = forever // no probe in between
			r.refuse(refusal)
			first := r.prevAt
			for i := range 200 {
				q := r.send()
				r.hear(q, reply{})
				r.pass(tc.gaps[i%len(tc.gaps)])
			}
			last := r.now
			r.refuse(refusal)
			mean := 201 / seconds(last.Sub(first)) // the trial counts
			require.InEpsilon(t, mean, r.ceil, 0.05, "but for half of the pause")
			require.GreaterOrEqual(t, r.ceil, mean)
			require.False(t, r.provisional)
			require.Equal(t, r.ceil, r.proven)
			require.Equal(t, CauseMeasured, r.event.Cause)
		})
	}
}

// A measurement stays below the rate that was just refused, and does not fall to less
// than half of what was believed in one step.
func TestCycleIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name     string
		admitted int
		span     time.Duration
		want     float64
	}{
		{"above the refused rate", 1000, time.Minute, 0.985 * 10},
		{"far below", 30, time.Minute, 0.5 * 10},
		{"between", 480, time.Minute, 8},
	} {
		r := cruisingAt(t, 10)
		r.failRate, r.from = 10, cruising
		r.cycle, r.prevAt, r.sentAt = int32(tc.admitted), 0, clock.Instant(tc.span)
		require.Equal(t, measured, r.judgeCycle(), tc.name)
		require.InDelta(t, tc.want, r.ceil, 1e-9, tc.name)
		require.Equal(t, tc.name == "far below", r.provisional, "half of a fall is a guess")
	}
}

// Too few answers measure nothing, so the rate is cut: by more each time, as far as a fifth.
// Where a quota is known the pause grows instead.
func TestShortCyclesCutDeeper(t *testing.T) {
	r := cruisingAt(t, 10)
	r.refuse(refusal)
	r.short, r.prevAt, r.idle = 0, r.sentAt, 0
	for i, cut := range []float64{0.05, 0.1, 0.15, 0.2, 0.2} {
		r.cycle, r.failRate = 1, r.cruise()
		r.sentAt = r.prevAt.Add(time.Millisecond)
		require.Equal(t, nothing, r.judgeShort(), "the cycle goes on")
		require.InEpsilon(t, (1-cut)*r.failRate, r.ceil, 1e-9)
		require.True(t, r.provisional)
		require.Equal(t, uint8(min(i+1, mostShort)), r.short)
	}
	r.meetTrouble()
	r.lag, r.failRate = time.Minute, r.cruise()
	before, wait := r.ceil, r.wait
	r.judgeShort()
	require.InDelta(t, before, r.ceil, 0, "its window was used up")
	require.Equal(t, 2*wait, r.wait)
}

// What a ramp leaves unused a full bucket does not give later, so the mean is of the rest.
func TestRampCountsAsIdle(t *testing.T) {
	r := cruisingAt(t, 10)
	r.refuse(refusal)
	r.enter(r.now, ramping)
	r.rate, r.idle = r.cruise()/4, 0
	for range 8 {
		r.now = r.now.Add(r.step() / 4)
		r.tick(r.now)
	}
	require.Equal(t, cruising, r.mode)
	require.InEpsilon(t, 1.25*seconds(r.step()), float64(r.idle), 0.01, "three quarters of a step and half of one")
}

// A steady rate that is refused as before is the limit, and more of it is taken.
func TestSameRateRefusedTwiceIsTakenNearly(t *testing.T) {
	for _, tc := range []struct{ before, share float64 }{
		{20, steady}, {10.4, steady}, {10.1, steadier}, {9.9, steadier}, {5, steady},
	} {
		r := cruisingAt(t, 10)
		r.refuse(refusal)
		r.failRate, r.proven = 10, steady*tc.before
		require.InDelta(t, tc.share, r.nearly(), 0, "%v", tc.before)
	}
}

// One more than was admitted in a long time is more than the host sustains.
func TestFewAnswersInALongTimeLowerTheCeiling(t *testing.T) {
	r := cruisingAt(t, 10)
	r.refuse(refusal)
	begin := r.prevAt
	r.pass(time.Minute)
	r.ask(reply{})
	last := r.now
	r.grown = false // it was asked for little, but say it was not
	r.refuse(refusal)
	require.InEpsilon(t, 4/seconds(last.Sub(begin)), r.ceil, 0.05, "two answers and a trial, and one more")
	require.True(t, r.provisional)
}

// Of a cycle in which the limit may have risen only the probe's own mean is taken, if
// it is news; else the proven ceiling stays.
func TestGrownCycle(t *testing.T) {
	for _, tc := range []struct {
		name        string
		provisional bool
		probed      int
		want        float64
		find        finding
	}{
		{"a probe that found nothing", false, 103, 10, measured},
		{"a probe that found more", false, 125, 12.5, guessed},
		{"not more than what failed", false, 900, 0.95 * 15, guessed},
		{"a guess is tried just under what failed", true, 0, 0.95 * 15, guessed},
	} {
		r := cruisingAt(t, 10)
		r.failRate, r.provisional, r.probed = 15, tc.provisional, int32(tc.probed)
		r.probeAt, r.sentAt = 0, clock.Instant(10*time.Second)
		require.Equal(t, tc.find, r.judgeGrown(), tc.name)
		require.InDelta(t, tc.want, r.ceil, 1e-9, tc.name)
	}
}

// A block is never searched from above: the rate stays under the one that was blocked.
func TestBlockedRate(t *testing.T) {
	r := cruisingAt(t, 30)
	r.failRate, r.from = 20, cruising
	require.Equal(t, measured, r.judgeBlock())
	require.InDelta(t, blockCut*20, r.ceil, 1e-9)
	r.from, r.probeCeil = probing, 15
	r.judgeBlock()
	require.InDelta(t, 15, r.ceil, 1e-9)
}

// A block out of the blue is not the rate's doing; one after a rise, or soon after the last
// pause, is taken for it.
func TestBlockAtASteadyRate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rose  float64
		after time.Duration
		want  float64
	}{
		{"went well for long", 1, blameless + time.Second, 100},
		{"had risen", 1.05, blameless + time.Second, blockCut * (1 - margin) * 105},
		{"not for long", 1, blameless - time.Second, blockCut * (1 - margin) * 100},
	} {
		r := cruisingAt(t, 100)
		r.ceil *= tc.rose
		r.rate = r.cruise()
		r.pass(tc.after)
		for range forbidRun {
			r.hear(r.send(), reply{status: 403})
		}
		require.Equal(t, held, r.mode, tc.name)
		r.now = r.till
		r.ask(reply{})
		require.InDelta(t, tc.want, r.ceil, 1e-9, tc.name)
	}
}

// A block that comes again as soon is the rate's doing after all: a limit that counts over
// minutes would never be met from below else.
func TestBlockAtASteadyRateAgain(t *testing.T) {
	r := cruisingAt(t, 100)
	for _, tc := range []struct {
		after  time.Duration
		spared uint8
	}{{61 * time.Second, 1}, {61 * time.Second, 1}, {91 * time.Second, 2}, {91 * time.Second, 2}, {136 * time.Second, 3}} {
		r.pass(r.resumeAt.Add(tc.after).Sub(r.now))
		before, rate := r.ceil, r.cruise()
		spared := r.spared < tc.spared
		for range forbidRun {
			r.hear(r.send(), reply{status: 403})
		}
		require.Equal(t, held, r.mode)
		r.now = r.till
		r.ask(reply{})
		require.Equal(t, tc.spared, r.spared, "after %v", tc.after)
		if spared {
			require.InDelta(t, before, r.ceil, 1e-9)
		} else {
			require.InDelta(t, blockCut*rate, r.ceil, 1e-9)
		}
		for r.mode == ramping {
			r.pass(time.Second)
			r.Plan(r.now)
		}
	}
	r.spared = mostSpared
	require.InDelta(t, 11, r.spare().Hours(), 1, "more than that and a block is nobody's doing for days")
}

// The first guess is what was admitted in the last two seconds, and not more than the
// rate that was refused. Of a host that refuses its first request nothing is known.
func TestFirstGuess(t *testing.T) {
	r := newRig(t, stranger)
	r.meetAll()
	r.from, r.failRate, r.cycle = searching, 20, 30
	for i := range 30 {
		r.add(clock.Instant(time.Duration(i) * time.Second / 15))
	}
	r.sentAt = clock.Instant(2 * time.Second)
	require.Equal(t, guessed, r.judgeSearch(0, false))
	require.InDelta(t, searchCut*15, r.ceil, 1e-9)
	require.True(t, r.provisional && r.climbs)

	r = newRig(t, stranger)
	r.meetAll()
	r.from, r.failRate = searching, 1
	require.Equal(t, nothing, r.judgeSearch(0, false))
	require.InDelta(t, 0.5, r.ceil, 1e-9)
	require.True(t, r.climbs)
}

// Through the whole strategy: whatever the burst allowance of a bucket, its rate is found
// and hardly ever exceeded.
func TestBucketsRateIsFoundWhateverItsBurst(t *testing.T) {
	for _, rps := range []float64{2, 10, 80} {
		for _, burst := range []float64{1, 5, 20, 60} {
			t.Run(fmt.Sprintf("%v burst %v", rps, burst), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, stranger)
				host := tokens(rps, burst, refusal)
				r.watch(5*time.Minute, host)
				c := r.watch(15*time.Minute, host)
				require.Greater(t, c.admittedPer(15*time.Minute), 0.9*rps)
				require.InEpsilon(t, rps, c.ceil, 2*margin, "ceiling")
				require.Less(t, c.refusedShare(), 0.01)
			})
		}
	}
}

// The ceiling follows a limit that falls, and one that rises again.
func TestCeilingFollowsTheLimit(t *testing.T) {
	r := newRig(t, stranger)
	fast, slow := tokens(40, 10, refusal), tokens(10, 10, refusal)
	for _, tc := range []struct {
		host func(at clock.Instant) reply
		rps  float64
	}{{fast, 40}, {slow, 10}, {fast, 40}} {
		r.watch(2*time.Minute, tc.host)
		c := r.watch(3*time.Minute, tc.host)
		require.InEpsilon(t, tc.rps, c.ceil, 0.1)
		require.Greater(t, c.admittedPer(3*time.Minute), 0.9*tc.rps)
	}
}

// An order that follows idle minutes says nothing of what the host admits: it must not
// be read as a window in which nothing was.
func TestOrderAfterIdleTime(t *testing.T) {
	h := stranger
	h.Ceiling = 10
	r := newRig(t, h)
	r.drive(clock.Instant(2*time.Minute), willing)
	r.pass(3 * time.Minute)
	r.Plan(r.now)
	r.ask(reply{status: 503, order: time.Minute})
	r.drive(r.now.Add(10*time.Minute), willing)
	require.Greater(t, r.rate, h.Ceiling/2)
}

package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

// used makes the sender look diligent.
func (r *rig) used() {
	for i := range r.flight.sent {
		r.flight.sent[i] = math.MaxUint16
	}
	r.lastSent = r.now
}

// Each step's time of answers multiplies the rate by the same factor, and a step is
// never shorter than two round trips: what they do would not show.
func TestSearchGrowsByTheStep(t *testing.T) {
	for _, tc := range []struct {
		latency, step time.Duration
	}{
		{10 * time.Millisecond, time.Second},
		{500 * time.Millisecond, time.Second},
		{2 * time.Second, 4 * time.Second},
	} {
		r := newRig(t, stranger)
		r.used()
		r.srtt = float32(seconds(tc.latency))
		require.Equal(t, tc.step, r.step())
		const perStep = 50
		for range perStep {
			r.pass(tc.step / perStep)
			r.used()
			r.grow(r.now)
		}
		require.InEpsilon(t, stranger.Start*math.Exp(growth), r.rate, 1e-9, tc.latency)
		require.Equal(t, searching, r.mode)
	}
}

// After a long silence an answer counts for a second and not for all of it.
func TestSearchDoesNotLeapAfterSilence(t *testing.T) {
	r := newRig(t, stranger)
	r.pass(time.Hour)
	r.used()
	r.grow(r.now)
	require.InEpsilon(t, stranger.Start*math.Exp(growth), r.rate, 1e-9)
}

// A rate that nobody uses proves nothing.
func TestStarvedHostDoesNotGrow(t *testing.T) {
	r := newRig(t, stranger)
	for range 100 {
		r.ask(reply{})
		r.pass(10 * time.Second)
		r.Plan(r.now)
	}
	require.InDelta(t, stranger.Start, r.rate, 1e-9)

	r = cruisingAt(t, 20)
	for range 100 {
		r.ask(reply{})
		r.pass(10 * time.Second)
		r.Plan(r.now)
	}
	require.InDelta(t, 20, r.ceil, 1e-9)
	require.Equal(t, cruising, r.mode, "and nothing is probed")
}

// Without a refusal the search ends at the owner's ceiling, and the rate is that.
func TestSearchEndsAtTheCeiling(t *testing.T) {
	h := stranger
	h.Ceiling = 10
	r := newRig(t, h)
	r.drive(clock.Instant(4*time.Second), willing)
	require.Equal(t, searching, r.mode)
	grants := r.drive(clock.Instant(time.Minute), willing)
	require.Equal(t, cruising, r.mode, "there is nothing to probe for")
	require.InDelta(t, 10, r.Plan(r.now).Rate, 1e-9)
	require.Greater(t, len(grants), 400)
}

// The second search is slower, and waits for what forbids an upward move.
func TestClimb(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(r *rig)
		want float64
	}{
		{"a second", func(*rig) {}, 10 * min(math.Exp(climbing), climbPerAnswer)},
		{"without credit", func(r *rig) { r.credit = 0.5 }, 10},
		{"in quiet time", func(r *rig) { r.quietTill = forever }, 10},
		{"while failures are tested", func(r *rig) { r.testing = true }, 10},
		{"while the host says its quota", func(r *rig) { r.quota = &quota{reset: forever} }, 10},
		{"while nobody uses the rate", func(r *rig) { r.flight.sent = [busySpan]uint16{} }, 10},
		{"at the owner's ceiling", func(r *rig) { r.ceilMax = 9 }, 9 / (1 - margin)},
	} {
		r := cruisingAt(t, 10)
		r.pass(time.Second)
		r.used()
		tc.set(r)
		r.climb(r.now)
		require.InDelta(t, tc.want, r.ceil, 1e-9, tc.name)
	}
}

// The longer it has been quiet the faster the ceiling creeps, and after a quota's
// pause it creeps the slower the longer that was.
func TestCreep(t *testing.T) {
	creeps := func(quiet, lag time.Duration) float64 {
		r := cruisingAt(t, 10)
		r.at, r.lag = r.now.Add(-quiet), lag
		r.crawlUp(r.now, 1)
		return r.ceil/10 - 1
	}
	require.InEpsilon(t, creep, creeps(0, 0), 1e-6)
	require.InEpsilon(t, 3*creep, creeps(time.Minute, 0), 1e-6)
	require.InEpsilon(t, creep/2, creeps(0, time.Minute), 1e-6)
	require.InDelta(t, 0.02, creeps(time.Hour, 0), 1e-9, "and not faster")
}

// Near the rate that was refused creep is slower where each refusal costs what it ordered.
func TestCreepNearARefusalThatOrdered(t *testing.T) {
	for _, tc := range []struct {
		name       string
		order, lag time.Duration
		refusedAt  float64
		want       float64
	}{
		{"a second", time.Second, 0, 100, creep / 3},
		{"two seconds, which are a quota's too", 2 * time.Second, 2200 * time.Millisecond, 100, creep / 6},
		{"nothing", 0, 0, 100, creep},
		{"so little that it is not slower", 200 * time.Millisecond, 0, 100, creep},
		{"a window, whose pause buys peace", longOrder, longOrder, 100, creep},
		{"the rest of a window", time.Second, time.Minute, 100, creep / 2},
		{"a second, far below what was refused", time.Second, 0, 106, creep},
		{"a second, far above it", time.Second, 0, 95, creep},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cruisingAt(t, 100)
			r.at, r.order, r.lag, r.failRate = r.now, tc.order, tc.lag, tc.refusedAt
			r.crawlUp(r.now, 1)
			require.InEpsilon(t, tc.want, r.ceil/100-1, 1e-6)
		})
	}
}

// probing1 is a rig that has just begun a probe.
func probing1(t *testing.T, ceil float64) *rig {
	t.Helper()
	r := cruisingAt(t, ceil)
	r.probeDue, r.settled = r.now.Add(time.Second), true
	r.pass(time.Minute)
	r.used()
	r.stepAt = r.now // the minute's creep is another test's
	r.Plan(r.now)
	require.Equal(t, probing, r.mode)
	return r
}

// A probe begins a little above cruise and doubles its gain with each step while it is
// not refused, up to half as much again until its volume proves that no burst allowance
// was used up.
func TestProbeGrowsQuickly(t *testing.T) {
	r := probing1(t, 20)
	cruise := r.cruise()
	require.InDelta(t, cruise*(1+probeGain), r.rate, 1e-6)
	for gain := 2 * probeGain; gain < 0.5; gain *= 2 {
		r.pass(r.step())
		r.used()
		r.Plan(r.now)
		require.InDelta(t, cruise*(1+gain), r.rate, 1e-6)
	}
	for range 3 {
		r.pass(r.step())
		r.used()
		r.Plan(r.now)
		require.InDelta(t, cruise*1.5, r.rate, 1e-9, "not proven yet")
	}
	r.probed = int32(20*seconds(r.now.Sub(r.probeAt))) + probeVolume + 40
	for range 5 {
		r.pass(r.step())
		r.used()
		r.probed += 60
		r.Plan(r.now)
	}
	require.Equal(t, cruising, r.mode)
	require.Equal(t, CauseProbed, r.event.Cause)
	require.InDelta(t, 2*20, r.rate, 1e-9, "twice the ceiling stands")
	require.Equal(t, probeWaitMin, r.probeWait)
}

func TestProbeThatNobodyUsesEnds(t *testing.T) {
	r := probing1(t, 20)
	r.pass(time.Minute)
	r.Plan(r.now)
	require.Equal(t, cruising, r.mode)
	require.InDelta(t, 20, r.ceil, 1e-9)
}

// A probe that found nothing doubles the wait for the next, and one that found more
// makes it short again. There is one verdict per probe.
func TestProbesVerdict(t *testing.T) {
	r := cruisingAt(t, 20)
	want := r.probeWait
	require.Equal(t, probeWaitMin, want)
	for range 10 {
		r.open = true
		r.verdict(20)
		want = min(2*want, probeWaitMax)
		require.Equal(t, want, r.probeWait)
		r.verdict(20)
		require.Equal(t, want, r.probeWait, "a verdict without a probe")
	}
	require.Equal(t, probeWaitMax, r.probeWait)
	r.open, r.ceil = true, 23
	r.verdict(20)
	require.Equal(t, probeWaitMin, r.probeWait)
}

func TestProbesAreScheduled(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(r *rig)
		want time.Duration // forever for none
	}{
		{"as the last verdict says", func(r *rig) { r.probeWait = 60 }, time.Minute},
		{"not later than before", func(r *rig) { r.probeWait, r.probeDue = 60, r.now.Add(time.Second) }, time.Second},
		{"never where a refusal is a pause", func(r *rig) { r.lag = time.Second }, time.Duration(forever)},
		{"never after a costly pause", func(r *rig) { r.quietTill = r.now; r.at = r.now - 1 }, time.Duration(forever)},
		{"soon while recovering", func(r *rig) { r.peak = 100; r.probeWait = 60 }, recoverWait},
	} {
		r := cruisingAt(t, 20)
		r.at = r.now
		tc.set(r)
		r.scheduleProbe(r.now)
		want := r.now.Add(tc.want)
		if tc.want == time.Duration(forever) {
			want = forever
		}
		require.Equal(t, want, r.probeDue, tc.name)
	}
}

// The peak is forgotten by halves.
func TestPeak(t *testing.T) {
	r := cruisingAt(t, 100)
	r.ceil = 60
	require.True(t, r.recovering(r.now))
	r.pass(peakHalfLife)
	require.InDelta(t, 50, r.peakNow(r.now), 1e-9)
	require.False(t, r.recovering(r.now))
	r.notePeak(r.now)
	require.InDelta(t, 60, r.peakNow(r.now), 1e-9)
}

// Answers and time fill the budget, refusals empty it, and it has bounds on either side.
func TestCredit(t *testing.T) {
	r := cruisingAt(t, 20)
	r.credit = 0
	r.ask(reply{})
	require.InDelta(t, perAnswer+perSecond*seconds(usualLatency), r.credit, 1e-6)
	r.earn(r.now.Add(15 * time.Minute))
	require.InDelta(t, 1+perAnswer+perSecond*seconds(usualLatency), r.credit, 1e-6)
	r.earn(r.now.Add(100 * time.Hour))
	require.InDelta(t, creditMax, r.credit, 1e-6)
	r.pay(3)
	require.InDelta(t, creditMax-3, r.credit, 1e-6)
	r.pay(100)
	require.InDelta(t, creditMin, r.credit, 1e-6)

	r = cruisingAt(t, 20)
	r.credit, r.peak = 0, 1000
	r.earn(r.now.Add(time.Minute))
	require.InDelta(t, 60*perSecondRecover, r.credit, 1e-6)
	require.InDelta(t, perAnswerRecover, r.creditPerAnswer(), 1e-9)
}

// A pause of a quota buys thirty times what it cost without an upward move, and each
// further one doubles that, to a bound.
func TestPauseHasItsPrice(t *testing.T) {
	const pause = 10 * time.Second
	r := cruisingAt(t, 10)
	r.window.admitted = 600 // it is not the first, whose window is a guess
	times := 1.0
	for range 6 {
		// A minute at the full rate, and then the quota is used up.
		begin := r.now
		for r.now < begin.Add(time.Minute) {
			r.hear(r.send(), reply{})
			r.pass(100 * time.Millisecond)
		}
		r.ceil = 20 // twice what it gave: the host owes the whole pause
		r.refuse(reply{status: 429, order: pause})
		require.Positive(t, r.lag)
		lost := seconds(pause + usualLatency)
		require.InEpsilon(t, times*rest*lost, seconds(r.quietTill.Sub(r.now)), 0.1, "times %v", times)
		times = min(2*times, mostPeace/2)
	}
	require.InDelta(t, mostPeace/2, times, 0, "the bound was met")
}

// Nothing goes up before a pause is paid for, and afterwards something does.
func TestNoUpwardMoveInQuietTime(t *testing.T) {
	r := cruisingAt(t, 10)
	r.quietTill = r.now.Add(10 * time.Minute)
	r.drive(r.quietTill-1, willing)
	require.InDelta(t, 10, r.ceil, 1e-9)
	r.drive(r.quietTill.Add(2*time.Minute), willing)
	require.Greater(t, r.ceil, 10.5)
}

// However a host behaves, cruise never exceeds the ceiling and a probe its bounds.
func TestUpwardMovesAreBounded(t *testing.T) {
	rapid.Check(t, func(tt *rapid.T) {
		rps := rapid.Float64Range(1, 50).Draw(tt, "rate")
		burst := rapid.Float64Range(1, 30).Draw(tt, "burst")
		r := newRig(t, stranger)
		host := tokens(rps, burst, refusal)
		for range 40 {
			r.drive(r.now.Add(10*time.Second), host)
			top := r.ceil
			if r.mode == probing {
				top = max(2, float64(r.peak)/r.cruise()) * r.ceil
			}
			if r.mode != held && r.mode != searching && r.rate > top {
				tt.Fatalf("mode %d: rate %v, ceiling %v", r.mode, r.rate, r.ceil)
			}
		}
	})
}

package steer

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

func at(sec int64) clock.Instant { return clock.Instant(sec) * clock.Instant(time.Second) }

// Whatever is counted, in whatever order and with whatever gaps: the sum of all is exact, a span holds what its parts
// hold, and no count is negative or broken.
func historyLaw(t *rapid.T) {
	var h history
	all, newest := 0, int64(1)
	for range rapid.IntRange(0, 60).Draw(t, "runs") {
		newest += rapid.SampledFrom([]int64{0, 1, 1, 2, 7, 40, 500, 3000}).Draw(t, "gap")
		sec := max(1, newest-rapid.SampledFrom([]int64{0, 0, 0, 1, 5, 30, 100, 700}).Draw(t, "late"))
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			h.add(at(sec).Add(time.Duration(rapid.Int64Range(0, 999).Draw(t, "ms")) * time.Millisecond))
			all++
		}
	}
	if got := h.between(0, at(newest+1)); got != float64(all) {
		t.Fatalf("%v in all, want %d", got, all)
	}
	from := rapid.Int64Range(0, newest).Draw(t, "from")
	middle := rapid.Int64Range(from, newest+1).Draw(t, "middle")
	to := rapid.Int64Range(middle, newest+1).Draw(t, "to")
	a, b, sum := h.between(at(from), at(middle)), h.between(at(middle), at(to)), h.between(at(from), at(to))
	if a < 0 || b < 0 || a+b != sum || sum != math.Floor(sum) {
		t.Fatalf("from %d %v to %d %v to %d, in all %v", from, a, middle, b, to, sum)
	}
}

func TestHistoryLaw(t *testing.T) { rapid.Check(t, historyLaw) }

func FuzzHistoryLaw(f *testing.F) { f.Fuzz(rapid.MakeFuzz(historyLaw)) }

// A window of any length is measured to a hundredth, and a pause of the distant past keeps its ends.
func TestWindowsAreMeasured(t *testing.T) {
	const rps = 20
	var h history
	for i := range int64(1400 * rps) {
		if sent := clock.Instant(i) * clock.Instant(time.Second/rps); sent < at(500) || sent >= at(560) {
			h.add(sent)
		}
	}
	for _, span := range []time.Duration{time.Second, 7 * time.Second, 30 * time.Second, time.Minute, 95 * time.Second, 400 * time.Second} {
		require.InEpsilon(t, rps*span.Seconds(), h.between(at(1400).Add(-span), at(1400)), .07, span)
	}
	require.InEpsilon(t, 500*rps, h.between(0, at(500)), .01)
	require.LessOrEqual(t, h.between(at(502), at(558)), 1., "the pause")
	require.InEpsilon(t, 840*rps, h.between(at(560), at(1400)), .01)
}

// A request that was sent before others whose responses came earlier counts where it was sent.
func TestHistoryCountsLateResponses(t *testing.T) {
	var h history
	for sec := range int64(10) {
		h.add(at(10 + 10*sec))
	}
	h.add(at(55))
	require.InDelta(t, 11, h.between(0, at(200)), 0)
	require.InDelta(t, 5, h.between(at(9), at(50)), 0)
	require.InDelta(t, 5, h.between(at(60), at(200))+1, 0)
	require.InDelta(t, 2, h.between(at(50), at(60)), 0)
	require.Zero(t, h.between(at(60), at(60)))
	require.Zero(t, h.between(at(60), at(50)))
	require.InDelta(t, 11, h.between(-at(100), at(200)), 0, "nothing was sent before the clock's zero")
}

// Where the rate changes more often than there are points, the recent past stays exact.
func TestHistoryForgetsThePast(t *testing.T) {
	var h history
	want := 0
	for sec := range int64(2000) {
		for range sec % 7 {
			h.add(at(sec))
		}
		if sec >= 1997 {
			want += int(sec % 7)
		}
	}
	require.InDelta(t, want, h.between(at(1996), at(1999)), 0)
	require.InEpsilon(t, 3*600, h.between(at(1399), at(1999)), .02)
}

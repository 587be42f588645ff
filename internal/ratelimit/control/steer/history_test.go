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

// naive counts per second and forgets nothing.
type naive map[int64]int

// in returns what was counted from the first second up to the second, exclusive.
func (n naive) in(from, to int64) float64 {
	sum := 0
	for sec, count := range n {
		if sec >= from && sec < to {
			sum += count
		}
	}
	return float64(sum)
}

func floorTo(sec, w int64) int64 { return sec / w * w }

func ceilTo(sec, w int64) int64 { return (sec + w - 1) / w * w }

// Whatever is counted, in whatever order and with whatever gaps: a span is measured exactly but for the slots at its
// ends. These are a second wide near the present, and never wider than a thirtieth of what the rings reach.
func historyLaw(t *rapid.T) {
	var h history
	all, newest := naive{}, int64(0)
	for range rapid.IntRange(0, 60).Draw(t, "runs") {
		newest += rapid.SampledFrom([]int64{0, 1, 1, 2, 7, 40, 500, 3000}).Draw(t, "gap")
		sec := max(0, newest-rapid.SampledFrom([]int64{0, 0, 0, 1, 5, 30, 100, 700}).Draw(t, "late"))
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			h.add(at(sec).Add(time.Duration(rapid.Int64Range(0, 999).Draw(t, "ms")) * time.Millisecond))
			all[sec]++
		}
		newest = max(newest, sec)
	}
	newest = int64(h.newest)
	for ring := range h.slots {
		w := width(ring)
		reach := w * (slotsPerRing - 1) // what is surely still there
		back := rapid.Int64Range(0, min(reach, newest)).Draw(t, "back")
		from := newest - back
		if from/w <= newest/w-slotsPerRing {
			continue
		}
		to := from + rapid.Int64Range(0, back+1).Draw(t, "span")
		got := h.between(at(from), at(to))
		least, most := all.in(ceilTo(from, w), floorTo(to, w)), all.in(floorTo(from, w), ceilTo(to, w))
		if to <= from {
			least, most = 0, 0
		}
		if got < least || got > most {
			t.Fatalf("between %d and %d of %d = %v, want %v to %v", from, to, newest, got, least, most)
		}
		if w == 1 && got != all.in(from, to) {
			t.Fatalf("between %d and %d of %d = %v, want exactly %v", from, to, newest, got, all.in(from, to))
		}
	}
}

func TestHistoryLaw(t *testing.T) { rapid.Check(t, historyLaw) }

func FuzzHistoryLaw(f *testing.F) { f.Fuzz(rapid.MakeFuzz(historyLaw)) }

// The slot in which a span begins counts in proportion; the one in which it ends counts whole.
func TestPartsOfASlot(t *testing.T) {
	var h history
	for range 8 {
		h.add(at(10))
		h.add(at(11))
	}
	half := clock.Instant(time.Second / 2)
	require.InDelta(t, 4+8, h.between(at(10)+half, at(12)), 1e-9)
	require.InDelta(t, 8+8, h.between(at(10), at(11)+half), 1e-9)
	require.InDelta(t, 4, h.between(at(10)+half, at(11)), 1e-9)
	require.Zero(t, h.between(at(11), at(11)))
	require.Zero(t, h.between(at(11), at(10)))
	require.InDelta(t, 16, h.between(-at(100), at(12)), 1e-9, "nothing was sent before the epoch")
}

// What has left a ring counts in the coarser ones, and at last nowhere.
func TestHistoryForgets(t *testing.T) {
	var h history
	h.add(at(0))
	for _, tc := range []struct {
		now  int64
		want float64
	}{
		{0, 1},
		{slotsPerRing - 1, 1},
		{slotsPerRing, 1},
		{slotsPerRing * width(1), 1},
		{slotsPerRing * width(2), 1},
		{slotsPerRing*width(3) - 1, 1},
		{slotsPerRing * width(3), 0},
		{slotsPerRing * width(3) * 1000, 0},
	} {
		h.advance(tc.now)
		require.InDelta(t, tc.want, h.between(0, at(tc.now)+1), 1e-9, "at %d s", tc.now)
	}
	h.add(at(3)) // an answer that is hours late
	require.Zero(t, h.between(0, at(int64(h.newest))+1))
}

// A full slot stays full, and does not begin again from zero.
func TestHistorySaturates(t *testing.T) {
	var h history
	for range math.MaxUint16 + 10 {
		h.add(at(5))
	}
	require.InDelta(t, math.MaxUint16, h.between(at(5), at(6)), 1e-9)
}

// A window of any length that the rings reach is measured to a few hundredths.
func TestWindowsAreMeasured(t *testing.T) {
	const rps = 20
	var h history
	for i := range int64(700 * rps) {
		h.add(clock.Instant(i) * clock.Instant(time.Second/rps))
	}
	for _, span := range []time.Duration{time.Second, 7 * time.Second, 30 * time.Second, time.Minute, 95 * time.Second, 400 * time.Second} {
		got := h.between(at(700).Add(-span), at(700))
		require.InEpsilon(t, rps*span.Seconds(), got, 0.04, span)
	}
}

// A slot counts on beyond its byte, up to what two bytes hold, and is empty when it is used again.
func TestHistoryCountsInTwoBytes(t *testing.T) {
	var h history
	for n := 1; n <= 70_000; n++ {
		h.add(at(5))
		if n == 255 || n == 256 || n == 600 || n == 65_535 {
			require.InDelta(t, n, h.between(at(5), at(6)), 0)
		}
		require.Equal(t, n > math.MaxUint8, h.high != nil)
	}
	require.InDelta(t, math.MaxUint16, h.between(at(5), at(6)), 0, "it is full")
	h.add(at(5 + slotsPerRing))
	require.InDelta(t, 1, h.between(at(5+slotsPerRing), at(6+slotsPerRing)), 0)
}

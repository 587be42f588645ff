package steer

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

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

// A rate is used if more than two fifths of it were sent in the last seconds.
func TestBusy(t *testing.T) {
	for _, tc := range []struct {
		every time.Duration
		rate  float64
		want  bool
	}{
		{100 * time.Millisecond, 10, true},
		{100 * time.Millisecond, 20, true},
		{100 * time.Millisecond, 26, false},
		{time.Second, 10, false},
	} {
		var f usage
		now := clock.Instant(0)
		for ; now < at(20); now = now.Add(tc.every) {
			f.send(now)
		}
		require.Equal(t, tc.want, f.busy(now-1, tc.rate), tc.every)
		require.False(t, f.busy(now.Add(busySpan*time.Second), tc.rate), "long ago")
	}
	f := usage{last: at(7)}
	f.sent[7%busySpan] = math.MaxUint16
	f.send(at(7))
	require.Equal(t, uint16(math.MaxUint16), f.sent[7%busySpan])
}

// The seconds that count are the last ones, whatever the gaps.
func TestBusyLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f usage
		all, now := naive{}, clock.Instant(0)
		for range rapid.IntRange(1, 50).Draw(t, "grants") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "gap")))
			f.send(now)
			all[int64(now)/int64(time.Second)]++
		}
		sec := int64(now) / int64(time.Second)
		used := all.in(sec-busySpan+1, sec+1)
		rate := rapid.Float64Range(0.1, 50).Draw(t, "rate")
		if want := used > 0.4*rate*busySpan; f.busy(now, rate) != want {
			t.Fatalf("busy = %v, want %v: %v grants at %v/s", !want, want, used, rate)
		}
	})
}

// A grant that comes late because the machine is busy is made up for, soon and by a little. One that comes seconds late
// had nothing to send.
func TestMissedRequestsAreMadeUpFor(t *testing.T) {
	const rate = 20 // 50 ms apart
	for _, tc := range []struct {
		gap  time.Duration
		want float64
	}{
		{50 * time.Millisecond, 0},
		{50*time.Millisecond + catchUp(rate), 0},
		{151 * time.Millisecond, 2},
		{900 * time.Millisecond, mostMissed},
		{2 * time.Second, 0},
	} {
		f := usage{last: clock.Instant(time.Minute)}
		f.behind(f.last.Add(tc.gap), rate)
		require.InDelta(t, tc.want, f.late, 1e-5, tc.gap)
	}
	f := usage{late: 1}
	for range 5 {
		f.last = f.last.Add(40 * time.Millisecond)
		f.behind(f.last, rate)
	}
	require.InDelta(t, 0, f.late, 1e-5, "five requests at 25 for 20 per second")
}

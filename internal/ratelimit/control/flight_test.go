package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

// As many may be in flight as are on average, and four times a Poisson's spread more.
func TestLittlesBound(t *testing.T) {
	for _, tc := range []struct{ rate, mean float64 }{
		{1, 0.1}, {10, 0.15}, {100, 0.15}, {2000, 1}, {0.1, 0.001},
	} {
		n := tc.rate * tc.mean
		got := bound(tc.rate, tc.mean)
		require.GreaterOrEqual(t, float64(got), n+4*math.Sqrt(n)+4)
		require.LessOrEqual(t, float64(got), 1.25*n+4*math.Sqrt(n)+5)
	}
	require.Equal(t, 4, bound(100, 0))
}

// Before the usual latency is known the least one seen stands for it.
func TestBoundBeforeAnythingIsKnown(t *testing.T) {
	r := newRig(t, stranger)
	require.Equal(t, 4, r.Plan(0).InFlight)
	r.rate, r.leastLatency = 100, 0.2
	require.Equal(t, 4+4*20, r.Plan(0).InFlight)
}

// A host that answers ever more slowly gets no more connections.
func TestSlowHostGetsFewConnections(t *testing.T) {
	r := usual(t, 25, 100*time.Millisecond)
	most := r.Plan(r.now).InFlight
	require.Equal(t, bound(r.rate, r.queue.mean), most)
	grants := r.drive(r.now.Add(20*time.Second), func(clock.Instant) reply { return reply{latency: time.Minute} })
	require.Len(t, grants, most)
}

// busy asks whether two fifths of the rate were used in the last seconds.
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
		var f flight
		now := clock.Instant(0)
		for ; now < at(20); now = now.Add(tc.every) {
			f.send(now)
		}
		require.Equal(t, tc.want, f.busy(now-1, tc.rate), tc.every)
		require.False(t, f.busy(now.Add(busySpan*time.Second), tc.rate), "long ago")
	}
	f := flight{second: 7}
	f.sent[7%busySpan] = math.MaxUint16
	f.send(at(7))
	require.Equal(t, uint16(math.MaxUint16), f.sent[7%busySpan])
}

// The seconds that are looked at are the last ones, whatever the gaps.
func TestBusyLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f flight
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

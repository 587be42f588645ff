package testsite

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

func TestDayAtInstants(t *testing.T) {
	d := newDay(Day{Length: time.Minute, Table: []Hour{{At: 10 * time.Second, Speed: 0.5}, {At: 30 * time.Second, Speed: 2}, {At: 50 * time.Second, Speed: 1}}})
	for now, want := range map[time.Duration]time.Duration{
		0: 0, 10 * time.Second: 10 * time.Second, 20 * time.Second: 15 * time.Second, 30 * time.Second: 20 * time.Second,
		40 * time.Second: 40 * time.Second, time.Minute: 70 * time.Second, 80 * time.Second: 85 * time.Second,
	} {
		require.Equal(t, clock.Instant(want), d.of(clock.Instant(now)), "at %v", now)
		require.Equal(t, clock.Instant(now), d.when(clock.Instant(want)), "back from %v", want)
	}
	require.InDelta(t, 70.0/60, d.mean(), 1e-12)
	require.InDelta(t, 0.5, d.speed(clock.Instant(70*time.Second)), 0)
}

func TestCosineDay(t *testing.T) {
	d := newDay(Day{Low: 0.2})
	require.Equal(t, 24*time.Hour, d.length, "by default")
	require.InDelta(t, 0.6, d.mean(), 1e-6, "halfway between 1 and 0.2")
	require.InDelta(t, 1, d.speed(0), 0.001)
	require.InDelta(t, 0.2, d.speed(clock.Instant(12*time.Hour)), 0.001)
	require.InDelta(t, 1, d.speed(clock.Instant(48*time.Hour-1)), 0.001)
}

func TestNoDay(t *testing.T) {
	d := newDay(Day{})
	require.Nil(t, d)
	require.Equal(t, clock.Instant(7), d.of(7))
	require.Equal(t, clock.Instant(7), d.when(7))
	require.InDelta(t, 1, d.mean(), 0)
}

// TestDayThereAndBack: its clock never goes back, and when is the first instant at which it
// shows what was asked for, to the nanosecond.
func TestDayThereAndBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Day{Length: time.Duration(rapid.Int64Range(int64(time.Second), int64(1000*time.Hour)).Draw(rt, "length"))}
		if rapid.Bool().Draw(rt, "cosine") {
			cfg.Low = rapid.Float64Range(0.01, 1).Draw(rt, "low")
		} else {
			cfg.Table = []Hour{
				{At: cfg.Length / 3, Speed: rapid.Float64Range(0.01, 100.0).Draw(rt, "first")},
				{At: cfg.Length / 2, Speed: rapid.Float64Range(0.01, 100.0).Draw(rt, "second")},
			}
		}
		require.NoError(rt, checkFields(reflect.ValueOf(&cfg).Elem(), "day"))
		d := newDay(cfg)
		now := clock.Instant(rapid.Int64Range(0, int64(3*cfg.Length)).Draw(rt, "now"))
		later := now.Add(time.Duration(rapid.Int64Range(0, int64(cfg.Length)).Draw(rt, "later")))
		require.LessOrEqual(rt, d.of(now), d.of(later))
		at := d.of(later).Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(rt, "wait")))
		when := d.when(at)
		require.GreaterOrEqual(rt, d.of(when), at)
		// A nanosecond of the day's clock is up to a hundred of ours.
		if before := when - clock.Instant(2/0.01); before >= 0 {
			require.Less(rt, d.of(before), at)
		}
	})
}

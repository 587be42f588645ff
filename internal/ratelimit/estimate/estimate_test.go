package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

func TestEWMA(t *testing.T) {
	for _, tc := range []struct {
		seed   float64
		lambda float64
		add    []float64
		want   float64
	}{
		{100, 0.2, nil, 100},
		{100, 0.2, []float64{200}, 120},
		{100, 0.2, []float64{200, 200}, 136},
		{100, 1, []float64{7}, 7},
		{0, 0.5, []float64{8, 8, 8}, 7},
	} {
		e := estimate.EWMA(tc.seed)
		for _, x := range tc.add {
			e.Add(x, tc.lambda)
		}
		if math.Abs(float64(e)-tc.want) > 1e-9 {
			t.Errorf("EWMA of %v from %v with %v = %v, want %v", tc.add, tc.seed, tc.lambda, float64(e), tc.want)
		}
	}
}

const quantileError = 0.036

func TestQuantileOfOneIsWithinItsError(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	durations := []time.Duration{16 * time.Microsecond, 17 * time.Microsecond, time.Millisecond, 11 * time.Minute}
	for range 10_000 {
		durations = append(durations, time.Duration(math.Exp(rnd.Float64()*math.Log(44e6))*16e3)) // to 11 minutes and 44 seconds
	}
	for _, d := range durations {
		var q estimate.Quantile
		q.Add(d, estimate.Samples)
		if got := q.At(0.95); math.Abs(float64(got-d)) > quantileError*float64(d) {
			t.Fatalf("At of %v alone = %v, off by more than %v", d, got, quantileError)
		}
	}
	// What is out of its range is nothing, or the longest there is.
	for d, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 1: 0, 15 * time.Microsecond: 0, 15500 * time.Nanosecond: 16 * time.Microsecond,
		15 * time.Minute: 708_405 * time.Millisecond, math.MaxInt64: 708_405 * time.Millisecond,
	} {
		var q estimate.Quantile
		q.Add(d, estimate.Samples)
		if got := q.At(0.95); (got - want).Abs() > want/1000 {
			t.Errorf("At of %v alone = %v, want %v", d, got, want)
		}
	}
}

// Against all samples kept exactly: the last so many, in any order.
func TestQuantileAgainstSorting(t *testing.T) {
	for _, samples := range []int{1, 2, 5, 6, 7, 8, 63, estimate.Samples, 65, 128, estimate.MaxSamples} {
		rnd := rand.New(rand.NewPCG(2, 2))
		var q estimate.Quantile
		var all []time.Duration
		for range 1000 {
			d := time.Duration(rnd.ExpFloat64() * float64(50*time.Millisecond))
			q.Add(d, samples)
			all = append(all, d)
			last := slices.Sorted(slices.Values(all[max(0, len(all)-samples):]))
			for _, p := range []float64{0, 0.01, 0.5, 0.95, 1} {
				want := last[max(int(math.Ceil(p*float64(len(last)))), 1)-1]
				if got := q.At(p); math.Abs(float64(got-want)) > quantileError*float64(want)+float64(8*time.Microsecond) {
					t.Fatalf("At(%v) of %d, of which %d are kept = %v, want %v", p, len(all), samples, got, want)
				}
			}
			if q.Len() != len(last) {
				t.Fatalf("Len of %d = %d, want %d", len(all), q.Len(), len(last))
			}
		}
	}
}

func TestQuantileMean(t *testing.T) {
	var q estimate.Quantile
	require.EqualValues(t, 0, q.Mean())
	for _, d := range []time.Duration{100, 200, 600} {
		q.Add(d*time.Millisecond, estimate.Samples)
	}
	if got := q.Mean().Seconds(); math.Abs(got-0.3) > quantileError*0.3 {
		t.Errorf("Mean = %v s, want 0.3", got)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var q estimate.Quantile
	w := newWindow(t, 30*time.Second, 2*time.Second)
	for range 64 {
		q.Add(1, estimate.Samples)
	}
	w.Add(0, false)
	now := clock.Instant(0)
	n := testing.AllocsPerRun(1000, func() {
		now = now.Add(700 * time.Millisecond)
		q.Add(time.Duration(now), estimate.Samples)
		w.Add(now, true)
		w.Sum(now)
	})
	if n != 0 {
		t.Errorf("Add allocates %v times, want 0", n)
	}
}

func newWindow(t *testing.T, span, width time.Duration) estimate.Window {
	t.Helper()
	w, err := estimate.NewWindow(span, width)
	require.NoError(t, err)
	return w
}

func TestWindowForgetsAtBorders(t *testing.T) {
	// Three buckets of 2 s. The event at 1.999 s is in the bucket of 0 s to 2 s, which
	// leaves the view when the bucket of 6 s begins.
	for _, tc := range []struct {
		event, look time.Duration
		want        int
	}{
		{1999 * time.Millisecond, 1999 * time.Millisecond, 1},
		{1999 * time.Millisecond, 6*time.Second - 1, 1},
		{1999 * time.Millisecond, 6 * time.Second, 0},
		{2 * time.Second, 6 * time.Second, 1},
		{2 * time.Second, 8*time.Second - 1, 1},
		{2 * time.Second, 8 * time.Second, 0},
		{0, 100 * 365 * 24 * time.Hour, 0},
		{-time.Second, -time.Second, 1},
		{10 * time.Second, 3 * time.Second, 1}, // looking back sees the latest view
	} {
		w := newWindow(t, 6*time.Second, 2*time.Second)
		w.Add(clock.Instant(tc.event), false)
		require.EqualValues(t, tc.want, w.Sum(clock.Instant(tc.look)).Total, "%+v", tc)
	}
}

func TestWindowCountsErrors(t *testing.T) {
	w := newWindow(t, 30*time.Second, 2*time.Second)
	for i, failed := range []bool{false, true, true, true, true, true, true, false} {
		w.Add(clock.Instant(i)*clock.Instant(time.Second), failed)
	}
	got := w.Sum(clock.Instant(7 * time.Second))
	if want := (estimate.Counts{Total: 8, Errors: 6}); got != want {
		t.Errorf("Sum = %+v, want %+v", got, want)
	}
	if got.ErrorRate() != 0.75 {
		t.Errorf("ErrorRate = %v, want 0.75", got.ErrorRate())
	}
	require.EqualValues(t, 0, (estimate.Counts{}).ErrorRate())
}

// A bucket that is full stops counting, errors too, so its share stays in range.
func TestWindowFullBucketKeepsItsShare(t *testing.T) {
	w := newWindow(t, time.Second, time.Second)
	for i := range 200_000 {
		w.Add(0, i%2 == 1)
	}
	c := w.Sum(0)
	if c.Total != math.MaxUint16 || math.Abs(c.ErrorRate()-0.5) > 1e-4 {
		t.Errorf("full bucket: %+v, rate %v, want %d and 0.5", c, c.ErrorRate(), math.MaxUint16)
	}
}

func TestWindowResetAndTrim(t *testing.T) {
	w := newWindow(t, 6*time.Second, 2*time.Second)
	w.Add(0, true)
	w.Trim(0)
	require.EqualValues(t, 1, w.Sum(0).Total)
	w.Reset()
	w.Add(clock.Instant(time.Second), false)
	if got := w.Sum(clock.Instant(time.Second)); got != (estimate.Counts{Total: 1}) {
		t.Errorf("after Reset and a success: %+v, want that alone", got)
	}
	w.Trim(clock.Instant(time.Minute))
	w.Add(clock.Instant(time.Minute), true)
	if got := w.Sum(clock.Instant(time.Minute)); got != (estimate.Counts{Total: 1, Errors: 1}) {
		t.Errorf("after Trim and a refusal: %+v, want that alone", got)
	}
}

func TestNewWindowRejects(t *testing.T) {
	for _, tc := range []struct{ span, width time.Duration }{
		{0, time.Second},
		{time.Second, 0},
		{time.Second, -time.Second},
		{-time.Second, time.Second},
		{time.Second, 2 * time.Second},
		{30 * time.Second, 7 * time.Second},
		{1025 * time.Second, time.Second},
	} {
		if _, err := estimate.NewWindow(tc.span, tc.width); err == nil {
			t.Errorf("NewWindow(%v, %v) = nil, want an error", tc.span, tc.width)
		}
	}
}

// Against a list of all events: whatever the steps, the ring agrees with counting
// those in the last n buckets, through all its forms.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{0, 1, 40, 2, 250, 3, 255, 0}, uint8(3), uint8(20))
	f.Add([]byte{0, 0, 0, 128, 0, 64, 30, 129, 0, 192, 60, 0, 60, 64}, uint8(3), uint8(20))
	f.Add([]byte{0, 1, 1, 128, 60, 0, 60, 64, 0, 65, 1, 0}, uint8(4), uint8(20))
	f.Fuzz(func(t *testing.T, steps []byte, n, width uint8) {
		if n == 0 || width == 0 {
			return
		}
		w, err := estimate.NewWindow(time.Duration(n)*time.Duration(width), time.Duration(width))
		require.NoError(t, err)
		type event struct {
			bucket int64
			failed bool
		}
		var events []event
		now := clock.Instant(0)
		for i := 0; i+1 < len(steps); i += 2 {
			now += clock.Instant(steps[i])
			failed := steps[i+1]%2 == 1
			times := 1
			if steps[i+1]&128 != 0 {
				times = 200
			}
			if len(events)+times > math.MaxUint16 {
				return // a bucket may be full
			}
			for range times {
				w.Add(now, failed)
				events = append(events, event{int64(now) / int64(width), failed})
			}
			if steps[i+1]&64 != 0 {
				w.Trim(now)
			}
			var want estimate.Counts
			for _, e := range events {
				if e.bucket <= int64(now)/int64(width)-int64(n) {
					continue
				}
				want.Total++
				if e.failed {
					want.Errors++
				}
			}
			require.EqualValues(t, want, w.Sum(now))
		}
	})
}

package estimate

import (
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// What a window takes is what every host of a crawl takes: one that fails nothing has a
// quarter of what both rows in 16 bits would, and gives back what it needs no longer.
func TestWindowTakesWhatItNeeds(t *testing.T) {
	w, err := NewWindow(30*time.Second, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	add := func(now time.Duration, failed bool, times int) {
		for range times {
			w.Add(clock.Instant(now), failed)
		}
	}
	for _, tc := range []struct {
		name string
		do   func()
		want int
	}{
		{"255 successes", func() { add(0, false, 255) }, 15},
		{"one more", func() { add(0, false, 1) }, 60},
		{"an error", func() { add(0, true, 1) }, 60},
		{"all in view", func() { w.Trim(0) }, 60},
		{"an error and few others in view", func() { add(29*time.Second, true, 1); w.Trim(clock.Instant(31 * time.Second)) }, 60},
		{"few others in view", func() { add(45*time.Second, false, 9); w.Trim(clock.Instant(59 * time.Second)) }, 15},
		{"nothing in view", func() { w.Trim(clock.Instant(time.Hour)) }, 0},
		{"an error first", func() { add(time.Hour, true, 1) }, 60},
		{"then many", func() { add(time.Hour, true, 255) }, 60},
	} {
		if tc.do(); len(w.counts) != tc.want {
			t.Errorf("after %s: %d bytes, want %d", tc.name, len(w.counts), tc.want)
		}
	}
	if got := w.Sum(clock.Instant(time.Hour)); got != (Counts{Total: 256, Errors: 256}) {
		t.Errorf("Sum = %+v, want 256 errors", got)
	}
}

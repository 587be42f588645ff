package clock_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestSleep(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sleep  time.Duration
		cancel time.Duration // when the context ends; zero means never
		passed time.Duration
		err    error
	}{
		{"whole", 3 * time.Second, 0, 3 * time.Second, nil},
		{"zero", 0, 0, 0, nil},
		{"negative", -time.Second, 0, 0, nil},
		{"given up", 3 * time.Second, time.Second, time.Second, context.DeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.cancel > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.cancel)
					defer cancel()
				}
				clk := clock.System()
				begin := clk.Now()
				err := clock.Sleep(ctx, clk, tc.sleep)
				if !errors.Is(err, tc.err) {
					t.Errorf("Sleep(%v) = %v, want %v", tc.sleep, err, tc.err)
				}
				if got := clk.Since(begin); got != tc.passed {
					t.Errorf("Sleep(%v) took %v, want %v", tc.sleep, got, tc.passed)
				}
			})
		})
	}
}

func TestSleepEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []time.Duration{-1, 0, time.Hour} {
		if err := clock.Sleep(ctx, clock.System(), d); !errors.Is(err, context.Canceled) {
			t.Errorf("Sleep(%v) with an ended context = %v, want context.Canceled", d, err)
		}
	}
}

func TestInstant(t *testing.T) {
	i := clock.Instant(0).Add(2 * time.Second)
	if got := i.Sub(clock.Instant(time.Second)); got != time.Second {
		t.Errorf("2s - 1s = %v, want 1s", got)
	}
}

func TestInstantAddClamped(t *testing.T) {
	const last = clock.Instant(math.MaxInt64)
	for _, tc := range []struct {
		from clock.Instant
		d    time.Duration
		want clock.Instant
	}{
		{0, math.MaxInt64, last},
		{1, math.MaxInt64 - 1, last},
		{1, math.MaxInt64, last},
		{last, 1, last},
		{last, -1, last - 1},
		{math.MinInt64, math.MaxInt64, -1},
		{2, 3, 5},
	} {
		if got := tc.from.AddClamped(tc.d); got != tc.want {
			t.Errorf("%d.AddClamped(%d) = %d, want %d", tc.from, tc.d, got, tc.want)
		}
	}
}

func TestFakeFiresInOrder(t *testing.T) {
	f := clocktest.NewFake(start)
	late, early, never := f.NewTimer(2*time.Second), f.NewTimer(time.Second), f.NewTimer(time.Hour)
	f.Advance(3 * time.Second)
	for _, tc := range []struct {
		name  string
		timer clock.Timer
		at    time.Duration
	}{{"late", late, 2 * time.Second}, {"early", early, time.Second}} {
		select {
		case at := <-tc.timer.C():
			if got := at.Sub(start); got != tc.at {
				t.Errorf("%s fired at %v, want %v", tc.name, got, tc.at)
			}
		default:
			t.Errorf("%s did not fire by 3s", tc.name)
		}
	}
	select {
	case <-never.C():
		t.Error("the timer for 1h fired by 3s")
	default:
	}
	if got := f.Since(start); got != 3*time.Second {
		t.Errorf("Since(start) = %v, want 3s", got)
	}
}

func TestFakeStopAndReset(t *testing.T) {
	f := clocktest.NewFake(start)
	tm := f.NewTimer(time.Second)
	if !tm.Stop() {
		t.Error("Stop of a pending timer = false, want true")
	}
	if tm.Stop() {
		t.Error("second Stop = true, want false")
	}
	tm.Reset(time.Second)
	f.Advance(time.Second)
	if tm.Reset(time.Second) {
		t.Error("Reset of a fired timer = true, want false")
	}
	select {
	case at := <-tm.C():
		t.Errorf("received the stale %v after Reset, want nothing", at.Sub(start))
	default:
	}
	f.Advance(time.Second)
	if got := (<-tm.C()).Sub(start); got != 2*time.Second {
		t.Errorf("fired at %v, want 2s", got)
	}
}

func TestFakeWakesSleeper(t *testing.T) {
	f := clocktest.NewFake(start)
	done := make(chan error)
	go func() { done <- clock.Sleep(t.Context(), f, time.Minute) }()
	f.BlockUntil(1)
	f.Advance(time.Minute)
	if err := <-done; err != nil {
		t.Errorf("Sleep = %v, want nil", err)
	}
}

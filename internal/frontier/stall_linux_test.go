//go:build linux

package frontier

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
)

// threadTime is the processor time of the calling thread, to the nanosecond. What other
// processes do meanwhile, and how long the scheduler leaves the thread waiting, is not in it.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&ts)), 0)
	require.Zero(tb, errno)
	return time.Duration(ts.Nano())
}

// BenchmarkTurns is what the owner of a frontier with a hundred thousand hosts does without a
// pause, piece by piece: for that long nobody is given work, whatever the machine. It reports
// the processor time of a piece, the median and the longest, and beside them the longest by
// the clock: where that is longer, something else had the processor.
func BenchmarkTurns(b *testing.B) {
	const hosts = 100_000
	f, err := New(Config{Pacer: newPaced()})
	require.NoError(b, err)
	for h := range hosts {
		for i := range 1 + h*7919%3 {
			add(b, f, start, fmt.Sprintf("http://h%d.test/%d", h, i))
		}
	}
	now := start
	var walk *Walk
	lease := func() {
		now = now.Add(time.Millisecond)
		if l, _ := f.Next(now); l != nil {
			f.Release(now, l, time.Millisecond, attribution.Outcome{})
			f.End(now, l, RetryAt(now, attribution.Again(l.Tries, attribution.Nobody)))
		}
	}
	for _, piece := range []struct {
		name string
		do   func()
	}{
		{"snapshot", func() { f.Hosts(now, 50) }},
		{"walk", func() {
			if walk == nil {
				walk = f.Walk()
			}
			if len(walk.Next(now, 128)) < 128 {
				walk.Stop()
				walk = nil
			}
		}},
		{"lease", lease},
		{"blocked", func() { f.Blocked(now) }},
		{"revise", func() {
			f.Revise(now)
			lease() // which goes on with it
		}},
	} {
		b.Run(piece.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer func() {
				if walk != nil {
					walk.Stop()
					walk = nil
				}
			}()
			var took []time.Duration
			var longest time.Duration
			for b.Loop() {
				began, cpu := time.Now(), threadTime(b)
				piece.do()
				took = append(took, threadTime(b)-cpu)
				longest = max(longest, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "cpu-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "cpu-99%-µs")
			b.ReportMetric(float64(took[len(took)-1].Nanoseconds())/1e3, "cpu-longest-µs")
			b.ReportMetric(float64(longest.Microseconds()), "clock-longest-µs")
		})
	}
}

package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

func TestTally(t *testing.T) {
	for _, tc := range []struct {
		name    string
		seconds []uint8 // of the answers
		refused uint8   // of the first refusal
		want    uint16
	}{
		{"nothing is known", nil, 1, 0},
		{"no answer is dated", []uint8{0, 0, 0}, 0, 0},
		{"the refusal is not", []uint8{7, 7}, 0, 0},
		{"more than in the second before", []uint8{7, 7, 8, 8, 8}, 8, 3},
		{"as many", []uint8{7, 7, 8, 8}, 8, 2},
		{"fewer: it counts in another way", []uint8{7, 7, 7, 8, 8}, 8, 0},
		{"refused at once in a new second", []uint8{7, 7, 7}, 8, 0},
		{"answers without a date between", []uint8{7, 8, 0, 8}, 8, 2},
		{"the minute is over", []uint8{60, 1, 1}, 1, 2},
		{"one of the second before comes late", []uint8{7, 8, 8, 7, 8}, 8, 3},
		{"and makes it the larger", []uint8{7, 7, 8, 8, 7}, 8, 0},
		{"late over the minute", []uint8{60, 1, 60, 1}, 1, 2},
		{"the first of all is of the minute's last second", []uint8{59, 59}, 59, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c tally
			for _, s := range tc.seconds {
				c.add(s)
			}
			require.Equal(t, tc.want, c.most(tc.refused))
		})
	}
	c := tally{dated: 7, now: math.MaxUint16}
	c.add(7)
	require.EqualValues(t, math.MaxUint16, c.most(7))
}

// evasive is a host that locks out for a while, by each request anew, who asks for more than n
// times in a second of its clock. dated is the second that an answer has.
func evasive(n int, block, phase time.Duration, dated func(second int64) uint8) (host func(clock.Instant) reply, blocks *int) {
	var until clock.Instant
	current, used := int64(-1), 0
	blocks = new(int)
	return func(at clock.Instant) reply {
		second := int64(at.Add(phase)) / int64(time.Second)
		r := reply{second: dated(second), latency: time.Millisecond}
		if second != current {
			current, used = second, 0
		}
		if used++; used > n || at < until {
			if at >= until {
				*blocks++
			}
			until, r.status = at.Add(block), 403
		}
		return r
	}, blocks
}

// Who locks out by whole seconds is asked for nearly what it admits in one from the first
// block on, and for no more in a quarter of an hour. At a distant host pages come in another
// order than they were asked for, and after the 403 of requests that were sent later.
func TestBlockBySeconds(t *testing.T) {
	const n = 20
	for name, page := range map[string]time.Duration{"near": time.Millisecond, "far": 0} {
		for _, phase := range []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond} {
			evades, blocks := evasive(n, 10*time.Second, phase, func(second int64) uint8 { return uint8(second%60) + 1 })
			host := func(at clock.Instant) reply {
				r := evades(at)
				if r.status == 0 {
					r.latency = page // of its own each, if that is zero
				}
				return r
			}
			r := newRig(t, stranger)
			r.watch(time.Minute, host)
			require.Equal(t, 1, *blocks, "%s, phase %v", name, phase)
			c := r.watch(15*time.Minute, host)
			require.Equal(t, 1, *blocks, "%s, phase %v", name, phase)
			require.Greater(t, c.admittedPer(15*time.Minute), 0.95*n, "%s, phase %v", name, phase)
		}
	}
}

// A clock that stands still, or those of several machines that answer in turn, teach no more
// than answers without a date.
func TestBlockByAnOddClock(t *testing.T) {
	answers := 0
	course := func(dated func(int64) uint8) (blocks int, rate float64) {
		host, n := evasive(20, 10*time.Second, 0, dated)
		r := newRig(t, stranger)
		rate = r.watch(5*time.Minute, host).admittedPer(5 * time.Minute)
		return *n, rate
	}
	blocks, rate := course(func(int64) uint8 { return 0 })
	for name, dated := range map[string]func(int64) uint8{
		"it stands still":         func(int64) uint8 { return 7 },
		"two that answer in turn": func(int64) uint8 { answers++; return uint8(answers%2) + 1 },
		"two a second apart":      func(s int64) uint8 { answers++; return uint8((s+int64(answers%2))%60) + 1 },
	} {
		b, got := course(dated)
		require.Equal(t, blocks, b, name)
		require.InDelta(t, rate, got, 1e-9, name)
	}
}

package ratelimit

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// The journal's own arithmetic, over its turn.
func TestJournal(t *testing.T) {
	var none *journal
	require.Empty(t, none.last(keptEvents, nil))
	_, found := none.latest(control.CauseProbed)
	require.False(t, found)
	j := new(journal)
	for i := range uint16(20) {
		j.note(control.Event{Status: i, Cause: control.Cause(1 + i%3)})
		kept := min(int(i)+1, keptEvents)
		require.Equal(t, kept, int(j.unreported))
		require.Equal(t, (kept+1)/2*2, cap(j.events), "room for two at a time")
		for n := range keptEvents + 2 {
			got := j.last(n, nil)
			require.Len(t, got, min(n, kept))
			for k := range got {
				require.Equal(t, i, got[k].Status+uint16(len(got)-1-k))
			}
		}
		e, found := j.latest(control.Cause(1 + i%3))
		require.True(t, found)
		require.Equal(t, i, e.Status)
		_, found = j.latest(control.CauseRevived)
		require.False(t, found)
	}
}

// An event is kept to the millisecond and to five figures, and what is out of range is the
// most there is.
func TestEntry(t *testing.T) {
	const ms, day, year = time.Millisecond, 24 * time.Hour, 365 * 24 * time.Hour
	full := control.Event{
		At: clock.Instant(3*year + 7*ms), From: 123.45, To: 0.00001, Hold: 12*day + ms,
		Cause: control.CauseParted, State: breaker.HalfOpen, Status: 999,
	}
	for _, tc := range []struct {
		name     string
		in, want control.Event
	}{
		{"nothing", control.Event{}, control.Event{}},
		{"everything", full, full},
		{"a time between milliseconds", control.Event{At: clock.Instant(5*ms + 1)}, control.Event{At: clock.Instant(6 * ms)}},
		{"a time before the first", control.Event{At: -5}, control.Event{}},
		{"a time in a far future", control.Event{At: clock.Instant(200 * year)}, control.Event{At: clock.Instant(1<<40-1) * clock.Instant(ms)}},
		{"the end of time", control.Event{At: math.MaxInt64 - clock.Instant(ms)}, control.Event{At: clock.Instant(1<<40-1) * clock.Instant(ms)}},
		{"a number is not kept", control.Event{Number: 7}, control.Event{}},
		{"six figures", control.Event{From: 1.234567, To: 99999.6}, control.Event{From: 1.2346, To: 100000}},
		{"a float's tail", control.Event{From: 0.1 + 0.2, To: 19.4}, control.Event{From: 0.3, To: 19.4}},
		{"hardly any", control.Event{From: 1e-9, To: 2e-5}, control.Event{To: 2e-5}},
		{"too many", control.Event{From: 1e12, To: float32(math.Inf(1))}, control.Event{From: 9_999_900, To: 9_999_900}},
		{"no rate", control.Event{From: float32(math.NaN()), To: -1}, control.Event{}},
		{"a hold between milliseconds", control.Event{Hold: 1500 * time.Microsecond}, control.Event{Hold: 2 * ms}},
		{"a hold of weeks", control.Event{Hold: 20*day + 700*ms}, control.Event{Hold: 20*day + 700*ms}},
		{"a hold for ever", control.Event{Hold: math.MaxInt64}, control.Event{Hold: (1<<31 - 1) * ms}},
		{"a hold that is over", control.Event{Hold: -time.Second}, control.Event{}},
	} {
		e := entryOf(&tc.in)
		require.Equal(t, tc.want, e.event(), tc.name)
		again := e.event()
		require.Equal(t, e, entryOf(&again), "%s, kept twice", tc.name)
	}
	for c := range control.Cause(255) {
		if e := entryOf(&control.Event{Cause: c}); !strings.HasPrefix(c.String(), "cause(") {
			require.Equal(t, c, e.event().Cause, "there are more causes than entries have bits for")
		}
	}
}

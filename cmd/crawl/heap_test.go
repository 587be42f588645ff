package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeapRoom(t *testing.T) {
	const mib = 1 << 20
	for live, percent := range map[uint64]int{
		0:              800, // as for four, which are the least
		4 * mib:        800,
		10 * mib:       320,
		31 * mib:       103,
		32 * mib:       100,
		33 * mib:       100,
		math.MaxUint64: 100,
	} {
		require.Equal(t, percent, gcPercent(live), live)
	}
}

// The room is that of what the last collection has left, and the user's word stands.
func TestHeapRoomFollows(t *testing.T) {
	require.False(t, giveRoom(func(name string) (string, bool) { return "", name == "GOGC" }))
	require.True(t, giveRoom(func(string) (string, bool) { return "", false }))
	large := make([]byte, 2*heapRoom)
	collectUntil(t, func(percent int, _ uint64) bool { return percent == 100 })
	runtime.KeepAlive(large)
	collectUntil(t, func(percent int, live uint64) bool { return live < 2*heapRoom && percent == gcPercent(live) })
}

// collectUntil collects garbage until the percentage is right for what is in use. It is set
// when a collection is over, by a goroutine of the runtime.
func collectUntil(t *testing.T, right func(percent int, live uint64) bool) {
	t.Helper()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}}
	for metrics.Read(now); !right(int(now[0].Value.Uint64()), now[1].Value.Uint64()); metrics.Read(now) {
		runtime.GC()
	}
}

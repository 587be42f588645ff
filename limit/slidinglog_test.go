package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// longLog is full, with a grant in each nanosecond.
func longLog(t *testing.T, entries int64) *journal {
	t.Helper()
	j := &journal{set: &settings{max: entries, spec: Spec{Per: time.Hour}}}
	for i := range entries {
		require.True(t, j.take(clock.Instant(i), 1))
	}
	return j
}

// While somebody waits, each further question plays the line through: with a log of a
// million grants that must not copy them. The steps are counted as bytes allocated, and
// as entries of the copy that were forgotten or taken.
func TestLongLogIsNotCopied(t *testing.T) {
	const entries = 1 << 20
	j := longLog(t, entries)
	var c core
	c.init(&settings{timed: true, max: entries}, j)
	c.last = entries
	c.line.push(newWaiter(1))
	perCall := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			c.untilLocked(1)
		}
	}).AllocedBytesPerOp()
	require.Less(t, perCall, int64(1024), "bytes a call of a log of %d entries", entries)

	copied := j.clone().(*journal)
	f := forecast{alg: copied, from: c.last}
	for range 100 {
		f.serve(f.wait(1), 1)
	}
	require.Equal(t, time.Hour-entries+99, f.at)
	require.Equal(t, []int{entries - 100, 100}, []int{copied.n, len(copied.ahead)}, "entries left of the original, and taken")
	require.Equal(t, entries, j.n, "the original is as it was")
	require.EqualValues(t, entries, j.used)
}

// A heavy request looks for the entry that it waits for by halves.
func TestLongLogWaitsForManyEntries(t *testing.T) {
	const entries = 1 << 12
	j := longLog(t, entries)
	for n := int64(1); n <= entries; n++ {
		require.Equal(t, time.Hour-entries+time.Duration(n)-1, j.wait(entries, n), "for %d", n)
	}
}

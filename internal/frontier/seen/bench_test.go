//go:build unix

package seen

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func grown(b *testing.B, n int64) *Index {
	b.Helper()
	x, err := Open(b.TempDir(), 0, Config{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, x.Close()) })
	for id := int64(1); id <= n; id++ {
		if err := x.Add(fingerprint(id), id); err != nil {
			b.Fatal(err)
		}
		if id%10_000 == 0 {
			x.Committed(id)
		}
	}
	x.worker.Wait()
	return x
}

// cpu is the processor time of the process so far, in nanoseconds, which other processes on the
// machine change less than they do the time of the clock.
func cpu(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkLinks is what a crawl does: every other link is new, beginning with 10⁷ known URLs.
// Memtables are written on the way.
func BenchmarkLinks(b *testing.B) {
	const n = 10_000_000
	x := grown(b, n)
	b.ReportAllocs()
	id := int64(n)
	before := cpu(b)
	for i := int64(0); b.Loop(); i++ {
		fp := fingerprint(1 + i*7_368_787%id)
		if i%2 == 0 {
			fp = fingerprint(id + 1)
		}
		found, err := x.Has(fp)
		if err != nil {
			b.Fatal(err)
		}
		if found {
			continue
		}
		id++
		if err := x.Add(fp, id); err != nil {
			b.Fatal(err)
		}
		if id%10_000 == 0 {
			x.Committed(id)
		}
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

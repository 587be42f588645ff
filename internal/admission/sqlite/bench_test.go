package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/sqlite"
)

// BenchmarkTake is the cost of a decision: of one caller after the other, each in a
// transaction of its own; of many at a time, whose transactions are batches; of one key
// and of ten thousand, of which a batch writes as many pages as it has callers.
func BenchmarkTake(b *testing.B) {
	never := sliding("never", 1, 300*24*time.Hour)
	for _, bc := range []struct {
		name    string
		callers int
		keys    int
		plans   []admission.Plan
	}{
		{"1 caller, 1 key", 1, 1, []admission.Plan{sliding("s", 1<<40, time.Minute)}},
		{"1 caller, 10k keys", 1, 10000, []admission.Plan{sliding("s", 1<<40, time.Minute)}},
		{"1 caller, 10k keys, 3 plans", 1, 10000, []admission.Plan{
			sliding("s", 1<<40, time.Minute), bucket("b", 1<<40, 1), fixed("f", 1<<40, time.Hour),
		}},
		{"1 caller, denied", 1, 1, []admission.Plan{never}},
		{"100 callers, 1 key", 100, 1, []admission.Plan{sliding("s", 1<<40, time.Minute)}},
		{"100 callers, 1k keys", 100, 1000, []admission.Plan{sliding("s", 1<<40, time.Minute)}},
		{"100 callers, 10k keys", 100, 10000, []admission.Plan{sliding("s", 1<<40, time.Minute)}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := open(b, sqlite.Config{})
			keys := make([]string, bc.keys)
			for i := range keys {
				keys[i] = fmt.Sprintf("host-%d.example.com", i)
			}
			take(b, r, keys[0], 1, bc.plans...)
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range bc.callers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						take(b, r, keys[i*7919%int64(len(keys))], 1, bc.plans...)
					}
				})
			}
			wg.Wait()
		})
	}
}

package memory

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// BenchmarkSave is the price of a minute in a wide crawl: 100 000 hosts merged into a
// file that has them already.
func BenchmarkSave(b *testing.B) {
	for _, name := range []string{"hosts", "hosts.db"} {
		b.Run(name, func(b *testing.B) { benchmarkSave(b, name) })
	}
}

func benchmarkSave(b *testing.B, name string) {
	f, err := At(Config{Path: filepath.Join(b.TempDir(), name)})
	require.NoError(b, err)
	hosts := make([]ratelimit.HostMemory, 100_000)
	used := time.Now()
	for i := range hosts {
		hosts[i] = ratelimit.HostMemory{
			Domain: fmt.Sprintf("www.example-%d.test", i), LastUsed: used.Add(-time.Duration(i) * time.Millisecond).UTC(),
			Learned: ratelimit.Learned{Rate: float32(i%97+1) / 7, Pause: 1500 * time.Millisecond},
		}
	}
	for b.Loop() {
		require.NoError(b, f.Save(b.Context(), slices.Values(hosts)))
	}
}

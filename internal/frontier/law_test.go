package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
)

// BenchmarkDispatch is one lease and its end among many hosts, ready or waiting.
func BenchmarkDispatch(b *testing.B) {
	for _, hosts := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			p := newPaced()
			f, err := New(Config{Pacer: p})
			require.NoError(b, err)
			for h := range hosts {
				add(b, f, start, fmt.Sprintf("http://h%d.test/", h))
				p.interval[fmt.Sprintf("h%d.test", h)] = time.Duration(h) * time.Millisecond
			}
			now := start
			b.ReportAllocs()
			for b.Loop() {
				l, wake := f.Next(now)
				if l == nil {
					now = wake
					continue
				}
				p.take(l, now)
				retry(f, now, l, now, attribution.Nobody)
			}
		})
	}
}

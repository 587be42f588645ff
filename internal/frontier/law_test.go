package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier/attribution"
)

func TestSeenSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seenSet
		model := map[uint64]bool{}
		for _, fp := range rapid.SliceOf(rapid.Uint64Range(0, 300)).Draw(t, "fingerprints") {
			fp *= 1 << 40 // equal low bits: every one collides in the table
			s.expect(fp)  // which changes nothing
			require.Equal(t, model[fp], s.has(fp))
			require.Equal(t, !model[fp], s.add(fp))
			model[fp] = true
			require.Equal(t, len(model), s.len())
		}
	})
}

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
				f.Release(now, l, time.Millisecond, attribution.Outcome{})
				f.End(now, l, RetryAt(now, attribution.Again(l.Tries, attribution.Nobody)))
			}
		})
	}
}

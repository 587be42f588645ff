package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// The law of the frontier: every URL added is leased until it is done, exactly once
// more than it was given back, and queued + leased is zero then and only then.
func TestEveryURLOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPaced()
		f, err := NewMemory(Config{Pacer: p, Slots: 4, PerHost: 2, StrikeAfter: 2})
		require.NoError(t, err)
		now := start
		added, done := map[string]bool{}, map[string]int{}
		var out []*Lease
		take := func() *Lease {
			i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
			l := out[i]
			out = append(out[:i], out[i+1:]...)
			return l
		}
		step := func(what int) {
			switch {
			case what == 0:
				u := fmt.Sprintf("http://h%d.test/%d", rapid.IntRange(0, 3).Draw(t, "host"), rapid.IntRange(0, 9).Draw(t, "page"))
				p.interval[link(t, u).URL.Host()] = time.Duration(rapid.IntRange(0, 3).Draw(t, "interval")) * time.Second
				if got, want := add(t, f, now, u), added[u]; (got == Seen) != want {
					t.Fatalf("Add(%s) = %v, known %v", u, got, want)
				}
				added[u] = true
			case what == 1 && len(out) < 4:
				if l, _ := f.Next(now); l != nil {
					p.take(l, now)
					out = append(out, l)
				}
			case what == 2 && len(out) > 0:
				l := take()
				f.Freed(now, l, time.Millisecond)
				class := rapid.SampledFrom([]outcome.Class{outcome.OK, outcome.ServerError, outcome.Decode}).Draw(t, "class")
				f.Outcome(l, class, class == outcome.OK)
				f.Done(now, l)
				done[l.URL.String()]++
			case what == 3 && len(out) > 0:
				l := take()
				later := now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "backoff")) * time.Second)
				f.Freed(now, l, time.Duration(rapid.IntRange(0, 3000).Draw(t, "took"))*time.Millisecond)
				switch fate := rapid.IntRange(0, 3).Draw(t, "fate"); {
				case fate == 0:
					f.Retry(now, l, later)
				case l.Suspect && f.Blame(l) == BlameOpen && len(out) > 0:
					out = append(out, l) // until others have been asked
				case l.Suspect && f.Blame(l) == BlameURL:
					f.Refused(now, l, later)
				case fate < 3:
					f.NotNow(now, l, later)
				default:
					f.Return(now, l, rapid.Bool().Draw(t, "asked"))
				}
			case what == 4:
				now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			}
		}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			step(rapid.IntRange(0, 4).Draw(t, "what"))
		}
		for i := 0; !f.Empty(); i++ {
			if i > 1000 {
				t.Fatalf("the frontier does not drain: %+v, waits %+v", f.Counts(), f.Hosts(now, 9))
			}
			for len(out) > 0 {
				step(2)
			}
			l, wake := f.Next(now)
			if l != nil {
				p.take(l, now)
				out = append(out, l)
			} else if wake.After(now) {
				now = wake
			}
		}
		require.Len(t, done, len(added))
		for u, n := range done {
			require.Equal(t, 1, n, u)
		}
	})
}

func TestSeenSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seenSet
		model := map[uint64]bool{}
		for _, fp := range rapid.SliceOf(rapid.Uint64Range(0, 300)).Draw(t, "fingerprints") {
			fp *= 1 << 40 // equal low bits: every one collides in the table
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
			f, err := NewMemory(Config{Pacer: p})
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
				f.Freed(now, l, time.Millisecond)
				f.Return(now, l, true)
			}
		})
	}
}

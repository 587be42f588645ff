package frontier

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// listener is a pacer that is told how many URLs wait.
type listener struct {
	*paced
	told map[string][]int
}

func (l *listener) SetDemand(domain string, urls int) { l.told[domain] = append(l.told[domain], urls) }

// Who paces is told with each lease how many URLs of the host are left, if it listens.
func TestDemandIsTold(t *testing.T) {
	p := &listener{newPaced(), map[string][]int{}}
	f := open(t, Config{Pacer: p, PerHost: 4})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://a.test/3", "http://b.test/")
	for range 4 {
		l, _ := f.Next(start)
		require.NotNil(t, l)
		l.Started()
	}
	require.Equal(t, map[string][]int{"a.test": {2, 1, 0}, "b.test": {0}}, p.told)

	// Of many it is told once: not how many.
	for i := range manyQueued + 2 {
		add(t, f, start, fmt.Sprintf("http://many.test/%d", i))
	}
	for range 4 {
		l, _ := f.Next(start)
		require.NotNil(t, l)
		l.Started()
		f.Release(start, l, 1, attribution.Outcome{Class: outcome.OK})
		f.End(start, l, Done(nil))
	}
	require.Equal(t, []int{manyQueued + 1, manyQueued - 1, manyQueued - 2}, p.told["many.test"])
}

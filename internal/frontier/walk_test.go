package frontier

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A walk of a few steps sees every host once, whatever comes meanwhile.
func TestWalk(t *testing.T) {
	f := open(t, Config{Pacer: newPaced()})
	for i := range 100 {
		add(t, f, start, fmt.Sprintf("http://h%d.test/", i))
	}
	w := f.Walk()
	defer w.Stop()
	seen := make(map[string]int)
	for i := 0; ; i++ {
		some := w.Next(start, 7)
		for _, h := range some {
			seen[h.Host]++
			require.Equal(t, 1, h.Queued)
		}
		if len(some) < 7 {
			break
		}
		add(t, f, start, fmt.Sprintf("http://new%d.test/", i))
	}
	for i := range 100 {
		require.Equal(t, 1, seen[fmt.Sprintf("h%d.test", i)])
	}
	for host, n := range seen {
		require.Equal(t, 1, n, host)
	}
	require.Empty(t, w.Next(start, 7), "it is over")
}

// A walk that is given up leaves nothing behind, which TestMain looks for, and may end twice.
func TestWalkIsGivenUp(t *testing.T) {
	f := open(t, Config{Pacer: newPaced()})
	add(t, f, start, "http://a.test/")
	w := f.Walk()
	w.Stop()
	w.Stop()
	require.Empty(t, w.Next(start, 1))
}

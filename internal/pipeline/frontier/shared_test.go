package frontier

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A host that goes to another process takes no robots.txt with it: who waits for that is
// told, whether the request was still to be made or comes back unused.
func TestRobotsOfAHostThatGoesAway(t *testing.T) {
	for _, leased := range []bool{false, true} {
		var forsaken []string
		f := open(t, Config{Forsaken: func(origin string, _ time.Time) { forsaken = append(forsaken, origin) }})
		add(t, f, start, "http://b.test/1")
		it := link(t, "http://b.test/robots.txt")
		it.Origin = "http://a.test"
		require.True(t, f.AddRobots(start, it))
		h := f.hosts["b.test"]
		if leased {
			l := next(t, f, start)
			require.Equal(t, Robots, l.Kind)
			f.leave(h, start)
			require.Empty(t, forsaken, "it may be answered yet")
			f.Freed(start, l, 0)
			f.Return(start, l, false)
		} else {
			f.leave(h, start)
		}
		require.Equal(t, []string{"http://a.test"}, forsaken)
	}
}

package frontier

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A host rests for longer each time there is no place for it, until a request is made.
func TestKeepPausesTheHost(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	at := start
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600, 3200, 3200, 3200} {
		a, b := next(t, f, at), next(t, f, at)
		for _, l := range []*Lease{a, b} { // refused together: one rest
			unused(f, at, l, true)
		}
		require.EqualValues(t, 3, f.Counts().Queued)
		at = at.Add(pause * time.Millisecond)
		wantNone(t, f, at.Add(-1), at)
		require.Equal(t, retrying, f.Hosts(at.Add(-1), 1)[0].Reason)
		require.False(t, f.Blocked(at.Add(-1)).Whole, "it is not the host that refuses")
	}
	l := next(t, f, at)
	require.Zero(t, l.Attempt)
	require.Zero(t, l.Returns)
	end(f, at, l)
	l = next(t, f, at)
	unused(f, at, l, true)
	wantNone(t, f, at, at.Add(100*time.Millisecond))
	for at = at.Add(100 * time.Millisecond); !f.Empty(); {
		end(f, at, next(t, f, at))
	}
}

// One host's rest is not another's.
func TestKeepLeavesOtherHosts(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1", "http://b.test/1")
	l := next(t, f, start)
	unused(f, start, l, true)
	other := next(t, f, start)
	require.NotEqual(t, l.Host(), other.Host())
	end(f, start, other)
	wantNone(t, f, start, start.Add(keepFirst))
}

package frontier

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
)

// A host rests for longer each time there is no place for it, until a request is made.
func TestKeepPausesTheHost(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	at := start
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600, 3200, 3200, 3200} {
		a, b := next(t, f, at), next(t, f, at)
		for _, l := range []*Lease{a, b} { // refused together: one rest
			f.Release(at, l, 0, attribution.Outcome{})
			f.End(at, l, WaitHost(true))
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
	f.Release(at, l, 0, attribution.Outcome{})
	f.End(at, l, WaitHost(true))
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
	f.Release(start, l, 0, attribution.Outcome{})
	f.End(start, l, WaitHost(true))
	other := next(t, f, start)
	require.NotEqual(t, l.Host(), other.Host())
	end(f, start, other)
	wantNone(t, f, start, start.Add(keepFirst))
}

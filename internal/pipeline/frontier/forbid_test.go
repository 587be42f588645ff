package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// forbade ends a lease with a 403 that may mean later.
func forbade(f *Frontier, l *Lease, pause time.Duration) {
	f.Freed(start, l, time.Millisecond)
	f.Outcome(l, outcome.ClientError, false)
	f.Forbade(l)
	f.Forbidden(start, l, start.Add(pause))
}

// page leases the next URL and checks which it is.
func page(t *testing.T, f *Frontier, path string) *Lease {
	t.Helper()
	l := next(t, f, start)
	require.Equal(t, path, l.URL.Path())
	return l
}

// forbidden is a frontier of pages after two that have met a 403 when one page had been served.
func forbidden(t *testing.T, pages int) *Frontier {
	t.Helper()
	f := open(t, Config{StrikeAfter: 3})
	add(t, f, start, "http://a.test/", "http://a.test/x", "http://a.test/y")
	for i := range pages {
		add(t, f, start, fmt.Sprintf("http://a.test/%d", i))
	}
	l := page(t, f, "/")
	require.Equal(t, ForbidsAll, l.Forbids, "nothing was served")
	end(f, start, l)
	for _, path := range []string{"/x", "/y"} {
		l := page(t, f, path)
		require.Equal(t, ForbidsUnknown, l.Forbids)
		forbade(f, l, 0)
	}
	return f
}

// What met a 403 is asked for again in a calm. Served then, the host's 403 meant later.
func TestForbiddenForNow(t *testing.T) {
	f := forbidden(t, 10)
	for i := range 3 {
		end(f, start, page(t, f, fmt.Sprintf("/%d", i)))
	}
	l := page(t, f, "/x")
	require.EqualValues(t, 1, l.Forbidden)
	require.Equal(t, ForbidsUnknown, l.Forbids)
	end(f, start, l)
	require.Equal(t, ForbidsForNow, next(t, f, start).Forbids)
}

// A few that meet another one in a calm mean never, and one of them served later again
// shows that it is not so.
func TestForbiddenForGood(t *testing.T) {
	f := forbidden(t, 40)
	again := 0
	for again < neverAfter {
		l := next(t, f, start)
		if l.Forbidden == 0 {
			end(f, start, l)
			continue
		}
		again++
		require.Equal(t, ForbidsUnknown, l.Forbids)
		forbade(f, l, 0)
	}
	l := next(t, f, start)
	require.Equal(t, ForbidsUnknown, l.Forbids, "right after a 403 it may be another's rate")
	end(f, start, l)
	for l = next(t, f, start); l.Forbidden == 0; l = next(t, f, start) {
		require.Equal(t, ForbidsPages, l.Forbids)
		end(f, start, l)
	}
	end(f, start, l)
	require.Equal(t, ForbidsForNow, next(t, f, start).Forbids)
}

// Where there is never a calm one goes now and then all the same, and is no proof.
func TestForbiddenWithoutCalm(t *testing.T) {
	f := forbidden(t, 40)
	scouts, last := 0, 0
	for i := range 20 {
		l := next(t, f, start)
		if l.Forbidden > 0 {
			require.GreaterOrEqual(t, i-last, 3)
			scouts, last = scouts+1, i
		}
		if l.Forbidden > 0 || i%2 == 0 {
			forbade(f, l, 0)
		} else {
			end(f, start, l)
		}
		require.Zero(t, l.host.bad.again)
	}
	require.Greater(t, scouts, 2)
}

// Who has served a hundred in a row does not count seconds: nothing is gained by waiting for
// one to be over. Each pause is cut short by a hundred of its own.
func TestForbiddenIsAskedForAmongOthers(t *testing.T) {
	f := open(t, Config{StrikeAfter: 3})
	add(t, f, start, "http://a.test/", "http://a.test/x")
	for i := range 2*hurryAfter + 1 {
		add(t, f, start, fmt.Sprintf("http://a.test/%d", i))
	}
	end(f, start, page(t, f, "/"))
	for i := range 2 {
		forbade(f, page(t, f, "/x"), time.Hour)
		for j := range hurryAfter {
			end(f, start, page(t, f, fmt.Sprintf("/%d", i*hurryAfter+j)))
		}
	}
	forbade(f, page(t, f, "/x"), time.Hour)
	end(f, start, page(t, f, fmt.Sprintf("/%d", 2*hurryAfter)))
	l, wake := f.Next(start)
	require.Nil(t, l)
	require.Equal(t, start.Add(time.Hour), wake)
}

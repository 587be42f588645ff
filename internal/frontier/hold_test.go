package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// jointly lets all hosts together be asked at one instant, and counts who asks.
type jointly struct {
	free time.Time
	why  ratelimit.Limit
	n    int
}

func (j *jointly) ReadyAt(string, int, int) (time.Time, ratelimit.Limit) {
	j.n++
	return j.free, j.why
}

// While all hosts wait together only the first asks, each keeps its place, and a slot that
// is freed has it ask again.
func TestHostsThatWaitTogetherAskOnce(t *testing.T) {
	for _, why := range []ratelimit.Limit{ratelimit.LimitGlobal, ratelimit.LimitGlobalConcurrency, ratelimit.LimitGlobalBytes} {
		p := &jointly{why: why}
		f := open(t, Config{Pacer: p})
		for i := range 20 {
			add(t, f, start, fmt.Sprintf("http://h%d.test/", i))
		}
		first := next(t, f, start)
		require.Equal(t, "h0.test", first.Host())
		p.free, p.n = at(time.Second), 0
		wantNone(t, f, start, at(time.Second))
		wantNone(t, f, at(500*time.Millisecond), at(time.Second))
		require.Equal(t, 1, p.n)
		for _, h := range f.Hosts(at(500*time.Millisecond), 20) {
			if h.Queued > 0 {
				require.Equal(t, why.String(), h.Reason, h.Host)
				require.Equal(t, at(time.Second), h.Until, h.Host)
				require.False(t, h.Blocked, "nobody refuses")
			}
		}
		require.False(t, f.Blocked(at(500*time.Millisecond)).Whole)
		p.free = at(600 * time.Millisecond)
		f.Release(at(600*time.Millisecond), first, time.Second, attribution.Outcome{})
		for i := 1; i < 20; i++ {
			require.Equal(t, fmt.Sprintf("h%d.test", i), next(t, f, at(600*time.Millisecond)).Host(), "first come, first served")
		}
	}
}

// When the pacer has changed its mind, hosts that were to wait for a day are asked for at
// once, in their order; a retry keeps its time.
func TestRevise(t *testing.T) {
	p := &jointly{why: ratelimit.LimitRule}
	f := open(t, Config{Pacer: p})
	add(t, f, start, "http://r.test/")
	r := next(t, f, start)
	retry(f, start, r, at(time.Hour), attribution.Either)
	add(t, f, start, "http://a.test/", "http://b.test/")
	p.free = at(24 * time.Hour)
	wantNone(t, f, start, at(time.Hour))
	p.free = start
	wantNone(t, f, start, at(time.Hour))
	f.Revise(at(time.Second))
	require.Equal(t, "a.test", next(t, f, at(time.Second)).Host())
	require.Equal(t, "b.test", next(t, f, at(time.Second)).Host())
	wantNone(t, f, at(time.Second), at(time.Hour))
	require.Equal(t, "r.test", next(t, f, at(time.Hour)).Host())

	p.free, p.why = at(24*time.Hour), ratelimit.LimitGlobal
	add(t, f, start, "http://c.test/")
	wantNone(t, f, at(time.Hour), at(24*time.Hour))
	p.free = start
	f.Revise(at(time.Hour))
	require.Equal(t, "c.test", next(t, f, at(time.Hour)).Host())
}

// However many hosts there are, each look at them after Revise is short, and asks for the next at
// once; none is left out, and until then nobody says that all of them refuse.
func TestReviseInPieces(t *testing.T) {
	p := &jointly{why: ratelimit.LimitRetryAfter}
	f := open(t, Config{Pacer: p, Slots: 10_000})
	const hosts = 5*revised + 7
	for i := range hosts {
		add(t, f, start, fmt.Sprintf("http://h%d.test/", i))
	}
	p.free = at(24 * time.Hour)
	wantNone(t, f, start, at(24*time.Hour))
	require.True(t, f.Blocked(start).Whole)
	f.Revise(start) // and the pacer says the same
	for n := range 5 {
		require.False(t, f.Blocked(start).Whole)
		l, wake := f.Next(start)
		require.Nil(t, l)
		require.Equal(t, n < 4, wake.Equal(start), n)
	}
	require.True(t, f.Blocked(start).Whole)

	f.Revise(start)
	p.free = start
	asked := map[string]bool{}
	for range hosts {
		l := next(t, f, start)
		asked[l.Host()] = true
		f.Release(start, l, time.Millisecond, attribution.Outcome{})
		f.End(start, l, Done(nil))
		add(t, f, start, fmt.Sprintf("http://new%d.test/", len(asked)))
		asked[next(t, f, start).Host()] = true
		if len(asked) >= hosts {
			break
		}
	}
	for l, wake := f.Next(start); l != nil || wake.Equal(start); l, wake = f.Next(start) {
		if l != nil {
			asked[l.Host()] = true
		}
	}
	for i := range hosts {
		require.True(t, asked[fmt.Sprintf("h%d.test", i)], i)
	}
}

// A limit of one host holds no other up.
func TestAHostsOwnLimitHoldsNobodyElse(t *testing.T) {
	for _, why := range []ratelimit.Limit{ratelimit.LimitCap, ratelimit.LimitQuota, ratelimit.LimitShared, ratelimit.LimitLearned} {
		p := newPaced()
		p.why = why
		p.free["a.test"] = at(time.Hour)
		f := open(t, Config{Pacer: p})
		add(t, f, start, "http://a.test/", "http://b.test/")
		require.Equal(t, "b.test", next(t, f, start).Host())
		wantNone(t, f, start, at(time.Hour))
		require.Equal(t, why == ratelimit.LimitQuota, f.Hosts(start, 1)[0].Blocked, why)
	}
}

// A host that waits for its turn at the shared slots keeps the turn while all wait.
func TestHoldKeepsTheTurnOfTheCalled(t *testing.T) {
	p := &jointly{why: ratelimit.LimitGlobal}
	f := open(t, Config{Pacer: p, Slots: 2})
	add(t, f, start, "http://a.test/", "http://b.test/", "http://c.test/")
	a := next(t, f, start)
	wantNone(t, f, start, time.Time{}) // b and c are parked: new hosts have half of the slots
	p.free = at(time.Minute)
	unused(f, at(time.Second), a, false)
	wantNone(t, f, at(time.Second), at(time.Minute))
	require.Equal(t, "b.test", next(t, f, at(time.Minute)).Host(), "called first")
}

func TestInFlightBoundsSlots(t *testing.T) {
	asked := 0
	f := open(t, Config{PerHost: 3, InFlight: func(host string) int {
		asked++
		return map[string]int{"a.test": 1, "b.test": 9}[host]
	}})
	for _, h := range []string{"a", "b", "c"} {
		for i := range 5 {
			add(t, f, start, fmt.Sprintf("http://%s.test/%d", h, i))
		}
	}
	got := map[string]int{}
	for l, _ := f.Next(start); l != nil; l, _ = f.Next(start) {
		got[l.Host()]++
	}
	require.Equal(t, map[string]int{"a.test": 1, "b.test": 3, "c.test": 3}, got)
	require.Equal(t, 3, asked, "once for each host")
	for _, h := range f.Hosts(start, 3) {
		require.Equal(t, map[string]string{"a.test": "max_in_flight", "b.test": "per_host_max", "c.test": "per_host_max"}[h.Host], h.Reason)
	}
}

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
		require.Equal(t, "no place in a queue", f.Hosts(at.Add(-1), 1)[0].Reason)
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

package frontier

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
)

// An excluded host is asked for nothing, whatever it has, keeps its URLs, says why, and goes on
// where it was.
func TestExclude(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://a.test/1", "http://a.test/2", "http://b.test/1")
	l := next(t, f, start)
	require.Equal(t, "a.test", l.Host())
	require.NoError(t, f.Exclude(start, "A.test:80"))
	require.NoError(t, f.Exclude(start, "a.test"), "twice is once")
	f.Release(start, l, time.Second, attribution.Outcome{})
	f.End(start, l, RetryAt(start, attribution.Again(l.Tries, attribution.Either))) // what is out comes back and waits

	b := next(t, f, start)
	require.Equal(t, "b.test", b.Host())
	l, wake := f.Next(start.Add(time.Hour))
	require.Nil(t, l)
	require.Zero(t, wake, "only Include can change it")
	state, ok := f.Host(start, "a.test")
	require.True(t, ok)
	require.Equal(t, HostState{Host: "a.test", Queued: 2, Pages: 1, ServiceMS: 1000, Reason: "blocked by the operator", Excluded: true, Failures: 1, Trouble: state.Trouble}, state)
	require.EqualValues(t, 2, f.Counts().Queued)

	require.Equal(t, Queued, add(t, f, start, "http://a.test/3"), "it may be found and queued")
	f.Wake(start, "a.test")
	f.Revise(start)
	l, _ = f.Next(start.Add(time.Hour))
	require.Nil(t, l)
	require.True(t, f.Include(start, "a.test"))
	require.False(t, f.Include(start, "a.test"))
	for range 3 {
		require.Equal(t, "a.test", next(t, f, start.Add(time.Hour)).Host())
	}
}

// One that is not known yet is excluded when it comes, and can be seen to be.
func TestExcludeUnknownHost(t *testing.T) {
	f := open(t, Config{})
	require.NoError(t, f.Exclude(start, "a.test"))
	state, ok := f.Host(start, "a.test")
	require.True(t, ok)
	require.Equal(t, HostState{Host: "a.test", Reason: "blocked by the operator", Excluded: true}, state)
	add(t, f, start, "http://a.test/", "http://b.test/")
	require.Equal(t, "b.test", next(t, f, start).Host())
	l, _ := f.Next(start)
	require.Nil(t, l)
	for i := range maxExcluded - 1 {
		require.NoError(t, f.Exclude(start, fmt.Sprintf("%d.test", i)))
	}
	require.ErrorIs(t, f.Exclude(start, "b.test"), ErrTooManyExcluded)
	require.NoError(t, f.Exclude(start, "a.test"), "it is one of them")
}

// A host whose turn for a shared slot it was does not keep others from it.
func TestExcludeWaitingHost(t *testing.T) {
	f := open(t, Config{Slots: 2})
	add(t, f, start, "http://a.test/", "http://b.test/", "http://c.test/")
	a := next(t, f, start) // the one slot that new hosts share
	l, _ := f.Next(start)
	require.Nil(t, l)
	require.NoError(t, f.Exclude(start, "b.test"))
	f.Release(start, a, time.Millisecond, attribution.Outcome{})
	f.End(start, a, Done(nil))
	require.Equal(t, "c.test", next(t, f, start).Host())
	l, _ = f.Next(start)
	require.Nil(t, l)
	require.True(t, f.Include(start, "b.test"))
}

// All that is left being excluded is told from hosts that refuse by themselves.
func TestBlockedByExclusion(t *testing.T) {
	p := newPaced()
	f := open(t, Config{Pacer: p})
	require.NoError(t, f.Exclude(start, "a.test"))
	require.False(t, f.Blocked(start).Whole, "nothing is left")
	add(t, f, start, "http://a.test/", "http://b.test/")
	require.False(t, f.Blocked(start).Whole, "b.test is free")
	l := next(t, f, start)
	p.free["b.test"] = at(time.Hour)
	retry(f, start, l, at(time.Hour), attribution.OfHost)
	b := f.Blocked(start)
	require.True(t, b.Whole)
	require.False(t, b.Excluded)
	require.Equal(t, at(time.Hour), b.Until)
	l = next(t, f, at(time.Hour))
	f.Release(at(time.Hour), l, time.Second, attribution.Outcome{})
	f.End(at(time.Hour), l, Done(nil))
	b = f.Blocked(at(time.Hour))
	require.True(t, b.Whole)
	require.True(t, b.Excluded)
}

// Whatever happens, the roll has of each host what it has to do, and the top of it is that
// of all hosts.
func TestRoll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	f := open(t, Config{MaxHosts: 20})
	now := start
	var out []*Lease
	for i := range 5000 {
		now = now.Add(time.Millisecond)
		switch n := rnd.IntN(10); {
		case n < 4:
			add(t, f, now, fmt.Sprintf("http://h%d.test/%d", rnd.IntN(40), i))
		case n < 6:
			if l, _ := f.Next(now); l != nil {
				l.Started()
				out = append(out, l)
			}
		case n == 6:
			_ = f.Exclude(now, fmt.Sprintf("h%d.test", rnd.IntN(40)))
		case n == 7:
			f.Include(now, fmt.Sprintf("h%d.test", rnd.IntN(40)))
		case len(out) > 0:
			l := out[0]
			out = out[1:]
			f.Release(now, l, time.Millisecond, attribution.Outcome{})
			if rnd.IntN(3) == 0 {
				f.End(now, l, RetryAt(now, attribution.Again(l.Tries, attribution.Either)))
			} else {
				f.End(now, l, Done(nil))
			}
		}
		require.Len(t, f.roll, len(f.hosts))
		for _, h := range f.hosts {
			require.Same(t, h, f.roll[h.place])
			require.Equal(t, workOf(h), f.work[h.place], h.name)
		}
	}
	all := f.Hosts(now, 100)
	require.Len(t, all, len(f.hosts))
	top := f.Hosts(now, 5)
	require.Len(t, top, 5)
	for i := range top {
		require.Equal(t, all[i].Queued, top[i].Queued)
		require.Equal(t, all[i].TakenSeconds, top[i].TakenSeconds)
	}
	require.Empty(t, f.Hosts(now, 0))
	require.Empty(t, f.Hosts(now, -1))
}

// When nothing is queued any more, the host that took the longest comes first, however few
// pages it had, and however long others wait for nothing.
func TestHostsByTimeTaken(t *testing.T) {
	f := open(t, Config{})
	add(t, f, start, "http://early.test/", "http://slow.test/", "http://quick.test/0")
	early, slow := next(t, f, start), next(t, f, start)
	end(f, at(time.Second), early)
	for i := range 5 {
		end(f, at(time.Duration(i+3)*time.Second), next(t, f, at(time.Duration(i+2)*time.Second)))
		add(t, f, at(time.Duration(i+3)*time.Second), fmt.Sprintf("http://quick.test/%d", i+1))
	}
	end(f, at(6*time.Second), slow)
	list := func(limit int) (s []string) {
		for _, h := range f.Hosts(at(time.Hour), limit) {
			s = append(s, fmt.Sprintf("%s %g", h.Host, h.TakenSeconds))
		}
		return s
	}
	require.Equal(t, []string{"quick.test 5", "slow.test 6", "early.test 1"}, list(9), "one has work")
	end(f, at(time.Minute), next(t, f, at(59*time.Second)))
	require.Equal(t, []string{"quick.test 58", "slow.test 6", "early.test 1"}, list(9))
	require.Equal(t, []string{"quick.test 58"}, list(1))
	add(t, f, at(time.Hour), "http://late.test/")
	late := next(t, f, at(time.Hour))
	require.Equal(t, "late.test 0", list(9)[3], "it has just begun")
	end(f, at(2*time.Hour), late)
	require.Equal(t, "late.test 3600", list(9)[0])
}

// BenchmarkHosts is what a snapshot asks of the frontier, and so how long nothing else
// happens there.
func BenchmarkHosts(b *testing.B) {
	for _, hosts := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			f, err := New(Config{Pacer: newPaced()})
			require.NoError(b, err)
			for h := range hosts {
				for i := range 1 + h*7919%3 {
					add(b, f, start, fmt.Sprintf("http://h%d.test/%d", h, i))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				f.Hosts(start, 50)
			}
		})
	}
}

// Who walks past the hosts a few at a time sees every host once, whatever comes meanwhile.
func TestAll(t *testing.T) {
	f := open(t, Config{Pacer: newPaced()})
	for i := range 100 {
		add(t, f, start, fmt.Sprintf("http://h%d.test/", i))
	}
	seen := make(map[string]int)
	for h := range f.All(func() time.Time { return start }) {
		seen[h.Host]++
		require.Equal(t, 1, h.Queued)
		if n := len(seen); n%7 == 0 && n < 200 {
			add(t, f, start, fmt.Sprintf("http://new%d.test/", n))
		}
	}
	for i := range 100 {
		require.Equal(t, 1, seen[fmt.Sprintf("h%d.test", i)])
	}
	for host, n := range seen {
		require.Equal(t, 1, n, host)
	}
}

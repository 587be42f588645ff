package frontier

import (
	"container/heap"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
)

// A host that goes to another process takes no robots.txt with it: who waits for that is
// told, whether the request was still to be made or comes back unused.
func TestRobotsOfAHostThatGoesAway(t *testing.T) {
	for _, leased := range []bool{false, true} {
		var robotsGivenUp []string
		f := open(t, Config{RobotsGivenUp: func(origin string, _ time.Time) { robotsGivenUp = append(robotsGivenUp, origin) }})
		add(t, f, start, "http://b.test/1")
		it := link(t, "http://b.test/robots.txt")
		it.Origin = "http://a.test"
		require.True(t, f.AddRobots(start, it))
		h := f.hosts["b.test"]
		if leased {
			l := next(t, f, start)
			require.Equal(t, Robots, l.Kind)
			f.leave(h, start)
			require.Empty(t, robotsGivenUp, "it may be answered yet")
			unused(f, start, l, false)
		} else {
			f.leave(h, start)
		}
		require.Equal(t, []string{"http://a.test"}, robotsGivenUp)
	}
}

// A process that keeps up with its hosts gives some to one that has far fewer and nothing to do,
// rarely, and only such as have much left. One that has about as many gets none.
func TestYieldEvens(t *testing.T) {
	many := func(hosts, urls int) (*Frontier, []string) {
		f := open(t, Config{Slots: 64})
		var names []string
		for h := range hosts {
			name := fmt.Sprintf("h%d.test", h)
			names = append(names, name)
			for i := range urls {
				add(t, f, start, fmt.Sprintf("http://%s/%d", name, i))
			}
		}
		return f, names
	}
	given := func(f *Frontier, at time.Duration, names []string, poorest int) int {
		before := len(f.leaving)
		f.yield(start.Add(at), names, poorest)
		return len(f.leaving) - before
	}
	f, names := many(12, evenLeast)
	require.Zero(t, given(f, 0, names, 4), "it has a third")
	require.Equal(t, 4, given(f, 0, names, 3), "half of what there is more")
	require.Zero(t, given(f, evenEvery-1, names, 0), "they may not have told yet that they got some")
	require.Equal(t, 4, given(f, evenEvery, names, 0))
	require.Equal(t, 2, given(f, 2*evenEvery, names, 0))
	require.Zero(t, given(f, 3*evenEvery, names, 0), "of two none goes")

	f, names = many(12, evenLeast)
	for _, name := range names[:10] {
		h := f.hosts[name]
		h.history.Retried(&attribution.Evidence{}, &attribution.Decision{Whose: attribution.OfHost}, start)
		if h.index < 0 {
			continue
		}
		h.at = start.Add(time.Hour)
		heap.Fix(&f.due, int(h.index))
	}
	require.Equal(t, 2, given(f, 0, names, 0), "one that refuses is of no use to others")

	f, names = many(12, evenLeast)
	f.since = start
	for _, h := range f.hosts { // each has had no URL once, and asks without end since
		h.idle, h.latest = true, 1<<20
		f.roster.idle = append(f.roster.idle, h)
	}
	f.partIdle(start, lingerFor)
	require.Equal(t, 6, given(f, 0, names, 0), "those that have work again are not idle")

	f, names = many(12, evenLeast-1)
	require.Zero(t, given(f, 0, names, 0), "they are done soon")
	f, names = many(12, evenLeast)
	f.waiting[classNew] = 6
	require.Equal(t, 3+6, given(f, 0, names, 0), "beside half of those that wait for a slot")
}

// Hosts for whose requests there is no place here are for others, who may have one.
func TestYieldWhatFindsNoPlace(t *testing.T) {
	f := open(t, Config{Slots: 64})
	var names []string
	for h := range 8 {
		names = append(names, fmt.Sprintf("h%d.test", h))
		add(t, f, start, "http://"+names[h]+"/1")
	}
	for range names {
		l := next(t, f, start)
		unused(f, start, l, true)
	}
	f.yield(start, names, 7)
	require.Len(t, f.leaving, 4)
	require.Equal(t, 4, f.waitsForPlace(start))
	require.Zero(t, f.waitsForPlace(start.Add(keepFirst)))
}

// asking is a shared store that is asked for hosts and for their URLs.
type asking struct {
	Storage
	rooms  []int
	loaded []string
}

func (s *asking) Activate(n int)                   { s.rooms = append(s.rooms, n) }
func (s *asking) Load(host string, _ Place, _ int) { s.loaded = append(s.loaded, host) }

// An answer of the store that comes late, as a part of it was away, brings hosts whose tenure is to be extended
// first: they are not forgotten. Of those that were lost or granted anew meanwhile the lease tells which is meant.
func TestHostsThatComeLate(t *testing.T) {
	s := &asking{}
	f := open(t, Config{Store: s, Left: Left{Shared: true}})
	grant := func(lease int64, until time.Time) (tenure *Tenure, end func()) {
		ctx, end := context.WithCancel(t.Context())
		tenure = NewTenure(ctx, until)
		require.NoError(t, f.Take(start, Answer{Hosts: []HostLeft{{Name: "a.test", Queued: 1, Lease: lease, Tenure: tenure}}}))
		return tenure, end
	}
	lost := func(lease int64) {
		require.NoError(t, f.Take(start, Answer{Update: func() Update { return Update{Lost: []HostLeft{{Name: "a.test", Lease: lease}}} }}))
	}
	loads := func(now time.Time) int {
		s.loaded = nil
		l, _ := f.Next(now)
		require.Nil(t, l)
		return len(s.loaded)
	}
	first, end := grant(1, start)
	require.Zero(t, loads(start), "it may not be asked")
	first.Extend(start.Add(time.Minute))
	require.Equal(t, 1, loads(start.Add(time.Second)))
	end()
	_, end = grant(2, start.Add(time.Minute)) // before it is told that the first was lost
	require.Equal(t, 1, loads(start.Add(2*time.Second)))
	lost(1)
	require.EqualValues(t, 1, f.Counts().Queued, "the second was not")
	end()
	lost(2)
	require.Zero(t, f.Counts().Queued)

	ctx, end := context.WithCancel(t.Context())
	end()
	late := HostLeft{Name: "a.test", Queued: 1, Lease: 3, Tenure: NewTenure(ctx, start.Add(time.Minute))}
	require.NoError(t, f.Take(start, Answer{Hosts: []HostLeft{late}}))
	require.Zero(t, f.Counts().Queued, "that it was lost has been told already")
}

// A process that can send nothing does not have others give it hosts again and again: after a while it
// asks for one, and for as many as it can have once a request was made.
func TestHostsAreNotAskedForWithoutPlace(t *testing.T) {
	f := open(t, Config{Slots: 64})
	add(t, f, start, "http://a.test/1", "http://a.test/2")
	s := &asking{}
	f.store, f.shared = s, true
	asked := func(after time.Duration) []int {
		s.rooms, f.activating = nil, false
		f.sweep(start.Add(after), time.Time{})
		return s.rooms
	}
	require.Equal(t, []int{64}, asked(0))
	l := next(t, f, start)
	unused(f, start, l, true)
	require.Empty(t, asked(time.Second))
	require.Empty(t, asked(jammedFor-1))
	require.Equal(t, []int{1}, asked(jammedFor))
	l = next(t, f, start.Add(time.Minute))
	f.Release(start.Add(time.Minute), l, time.Millisecond, attribution.Outcome{})
	require.Equal(t, []int{64}, asked(time.Minute))
}

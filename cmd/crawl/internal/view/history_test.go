package view

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func at(elapsed float64, pages, queued int64) *pipeline.Snapshot {
	return &pipeline.Snapshot{
		Time: noon.Add(time.Duration(elapsed * float64(time.Second))), ElapsedSeconds: elapsed,
		Pages: pages, Bytes: 1000 * pages, Frontier: frontier.Counts{Queued: queued},
	}
}

// The rate is that of the last five seconds, not of half a second: at a page per second every other half second has
// none.
func TestPace(t *testing.T) {
	var p history
	pages, bytes := p.pace()
	require.Zero(t, pages+bytes, "before the first snapshot there is no rate")
	p.note(&pipeline.Snapshot{})
	pages, bytes = p.pace()
	require.Zero(t, pages+bytes, "nor at the very start")
	p = history{}
	for i := 1; i <= 40; i++ {
		p.note(at(float64(i)/2, int64(i/2), 0))
	}
	pages, bytes = p.pace()
	require.InDelta(t, 1, pages, 0.001)
	require.InDelta(t, 1000, bytes, 1)
	require.Equal(t, []float64{1, 1, 1}, p.throughput(3))
	require.Len(t, p.throughput(100), 19)
	require.Empty(t, new(history).throughput(3))
}

// The history is bounded in time and number, whatever clocks and hosts do.
func TestPastIsBounded(t *testing.T) {
	var p history
	for i := range 2000 {
		s := at(float64(i)/2, 0, 0)
		for h := range 50 {
			s.Limiter.Top = append(s.Limiter.Top, ratelimit.DomainSnapshot{Domain: fmt.Sprintf("h%d.test", i*50+h), FillRate: 1})
		}
		p.note(s)
		require.LessOrEqual(t, len(p.trails), maxTrails)
	}
	require.LessOrEqual(t, p.moments[len(p.moments)-1].at.Sub(p.moments[0].at), historyTime)
	for range 1000 {
		p.note(at(1000, 0, 0)) // the clock stands still
	}
	require.Len(t, p.moments, maxMoments)
}

// A host has one rate per second, the last ones, and is forgotten when no snapshot lists it any more.
func TestTrails(t *testing.T) {
	var p history
	for i := range 100 {
		s := at(float64(i)/2, 0, 0)
		s.Hosts = []frontier.HostState{{Host: "a.test", Pages: i}}
		s.Limiter.Top = []ratelimit.DomainSnapshot{{Domain: "a.test", FillRate: float64(i)}}
		p.note(s)
	}
	require.Len(t, p.trails["a.test"].rates, trailRoom)
	require.InDelta(t, 98, p.trails["a.test"].rates[trailRoom-1], 0)
	require.Equal(t, 10, p.busy("a.test"))
	require.Equal(t, -1, p.busy("b.test"))
	p.note(at(49.5+trailRoom+1, 0, 0))
	require.Empty(t, p.trails)
}

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, "    "},
		{[]float64{1}, "   █"},
		{[]float64{9, 0, 1, 2, 4}, "▁▃▅█"},
		{[]float64{5, 5, 5, 5}, "████"},
		{[]float64{0, 0}, "  ▁▁"},
		{[]float64{math.NaN(), 1, -1}, " ▁█▁"},
	} {
		require.Equal(t, c.want, sparkline(c.values, 4), "%v", c.values)
	}
}

// An end is predicted only for a queue that keeps becoming shorter; see remaining.
func TestRemaining(t *testing.T) {
	drain := func(n int, queued func(i int) int64) (*history, *pipeline.Snapshot) {
		p := new(history)
		var s *pipeline.Snapshot
		for i := range n {
			s = at(float64(i), 0, queued(i))
			p.note(s)
		}
		return p, s
	}
	even := func(i int) int64 { return int64(1000 - 10*i) }
	for name, c := range map[string]struct {
		n      int
		queued func(i int) int64
		change func(s *pipeline.Snapshot)
		paused bool
		want   time.Duration // negative means unknown
	}{
		"drains evenly":            {n: 41, queued: even, want: 60 * time.Second},
		"too short to tell":        {n: 20, queued: even, want: -1},
		"grows":                    {n: 41, queued: func(i int) int64 { return int64(100 + i) }, want: -1},
		"grew, and drains of late": {n: 41, queued: func(i int) int64 { return 1000 - int64(math.Abs(float64(10*i-150))) }, want: -1},
		"drained, and grows":       {n: 41, queued: func(i int) int64 { return 100 + int64(math.Abs(float64(10*i-250))) }, want: -1},
		"stands":                   {n: 41, queued: func(int) int64 { return 1000 }, want: -1},
		"hardly moves":             {n: 41, queued: func(i int) int64 { return int64(100000 - i) }, want: -1},
		"is empty":                 {n: 41, queued: func(i int) int64 { return int64(400 - 10*i) }, want: -1},
		"is paused":                {n: 41, queued: even, paused: true, want: -1},
		"is over":                  {n: 41, queued: even, change: func(s *pipeline.Snapshot) { s.State = pipeline.EndDone }, want: -1},
		"one host takes longer": {n: 41, queued: even, change: func(s *pipeline.Snapshot) {
			s.Hosts = []frontier.HostState{{Host: "a.test", Queued: 500}, {Host: "b.test", Queued: 10}}
			s.Limiter.Top = []ratelimit.DomainSnapshot{{Domain: "a.test", FillRate: 2}, {Domain: "b.test", FillRate: 2}}
		}, want: 250 * time.Second},
		"one host refuses": {n: 41, queued: even, change: func(s *pipeline.Snapshot) {
			s.Hosts = []frontier.HostState{{Host: "a.test", Queued: 500, Blocked: true}}
		}, want: -1},
		"a host that refused is done": {n: 41, queued: even, change: func(s *pipeline.Snapshot) {
			s.Hosts = []frontier.HostState{{Host: "a.test", Blocked: true}}
		}, want: 60 * time.Second},
		"one host takes a year": {n: 41, queued: even, change: func(s *pipeline.Snapshot) {
			s.Hosts = []frontier.HostState{{Host: "a.test", Queued: 500}}
			s.Limiter.Top = []ratelimit.DomainSnapshot{{Domain: "a.test", FillRate: 0.00001}}
		}, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := drain(c.n, c.queued)
			if c.change != nil {
				c.change(s)
			}
			left, known := p.remaining(s, c.paused)
			require.Equal(t, c.want >= 0, known)
			if known {
				require.InDelta(t, c.want.Seconds(), left.Seconds(), 0.5)
			}
		})
	}
}

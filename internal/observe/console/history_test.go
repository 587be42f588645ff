package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// TestSeries is about as many values as there are: the recent ones are the last, and the whole
// has the first and the last, is in order, bounded and evenly spread.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		var s series[int]
		for i := range n {
			s.add(i)
		}
		recent := s.list(false)
		require.Len(t, recent, min(n, recentRoom))
		for i, v := range recent {
			require.Equal(t, n-len(recent)+i, v)
		}
		whole := s.list(true)
		require.LessOrEqual(t, len(whole), wholeRoom+1)
		require.GreaterOrEqual(t, len(whole), min(n, wholeRoom/2))
		require.Equal(t, 0, whole[0])
		require.Equal(t, n-1, whole[len(whole)-1])
		for i := 1; i+1 < len(whole); i++ {
			require.Equal(t, s.stride, whole[i]-whole[i-1])
		}
	})
	var none series[int]
	require.Empty(t, none.list(true))
}

func beatsOf(names ...string) map[string]hostSample {
	m := make(map[string]hostSample)
	for _, n := range names {
		m[n] = hostSample{rate: 1}
	}
	return m
}

// TestTracksAreBounded has more hosts come than have room.
func TestTracksAreBounded(t *testing.T) {
	h := newHistory()
	h.watch("watched", noon)
	for i := range 10 * maxTracks {
		at := second(float64(i) / 100)
		h.event(&ratelimit.Event{Domain: fmt.Sprint("event", i), Time: at})
		h.add(crawlSample{at: at}, beatsOf("busy", fmt.Sprint("new", i)))
		require.LessOrEqual(t, len(h.tracks), maxTracks)
	}
	require.Contains(t, h.tracks, "watched")
	require.Contains(t, h.tracks, "busy")
	busy, _ := h.of("busy", false)
	require.Len(t, busy, recentRoom, "it never lost its history")
	samples, events := h.of("nobody", true)
	require.Empty(t, samples)
	require.Empty(t, events)
}

func TestWatchesAreBounded(t *testing.T) {
	h := newHistory()
	for i := range 3 * maxWatched {
		h.watch(fmt.Sprint(i), noon)
	}
	require.Len(t, h.watchedLocked(noon), maxWatched)
	require.Empty(t, h.watchedLocked(noon.Add(watchTime)), "nobody has looked for long")
}

func TestHistoryOfEvents(t *testing.T) {
	h := newHistory()
	for i := range trackEvents + 5 {
		h.event(&ratelimit.Event{Domain: "a.test", Time: second(float64(i))})
	}
	h.event(&ratelimit.Event{Domain: "192.0.2.1", Hosts: []string{"a.test", "b.test"}, Time: second(1000)})
	_, events := h.of("a.test", false)
	require.Len(t, events, trackEvents)
	require.Equal(t, second(6), events[0].Time)
	require.Equal(t, second(1000), events[trackEvents-1].Time, "what happens to a group happens to its hosts")
	_, events = h.of("b.test", false)
	require.Len(t, events, 1)
	_, events = h.of("192.0.2.1", false)
	require.Empty(t, events)

	all := withEarlier([]ratelimit.Event{{Time: second(5)}}, []ratelimit.Event{{Time: second(1)}, {Time: second(5)}, {Time: second(6)}})
	require.Equal(t, []time.Time{second(1), second(5)}, []time.Time{all[0].Time, all[1].Time})
	require.Len(t, all, 2)
}

// TestSample looks at a crawl for some seconds, and at one host of it for itself.
func TestSample(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	g.shown.Limiter.Top = []ratelimit.DomainSnapshot{{Domain: "top.test", FillRate: 3}}
	require.Equal(t, 200, g.ask("GET", "/hosts/a.test", "").Code)
	for i := range 5 {
		g.shown.Requests = int64(10 * i)
		g.sample()
		g.clk.Advance(sampleEvery)
	}
	ms := g.history.ofCrawl(false)
	require.Len(t, ms, 5)
	require.Equal(t, int64(40), ms[4].requests)
	samples, _ := g.history.of("a.test", false)
	require.Len(t, samples, 5)
	require.InDelta(t, 2, samples[0].rate, 0)
	samples, _ = g.history.of("top.test", false)
	require.Len(t, samples, 5)
	require.Equal(t, -1, samples[0].asked, "the frontier did not show it")

	g.clk.Advance(watchTime)
	g.sample()
	samples, _ = g.history.of("a.test", false)
	require.Len(t, samples, 5, "nobody looks at it any more")
}

func TestPerSecond(t *testing.T) {
	asked := func(s *hostSample) int64 { return int64(s.asked) }
	d := drawing[hostSample]{at: func(s *hostSample) time.Time { return s.at }}
	require.Empty(t, d.rate("", "", asked).Points)
	for i, n := range []int{0, 10, -1, 20, 40, 30} {
		d.samples = append(d.samples, hostSample{at: second(2 * float64(i)), asked: n})
	}
	var got []string
	for _, p := range d.rate("", "", asked).Points {
		got = append(got, fmt.Sprint(p.Value))
	}
	require.Equal(t, []string{"5", "NaN", "NaN", "10", "NaN"}, got, "it was not known, and does not fall: the host began again")
}

// TestRateIsDrawn is a search, a cut, a hold and what comes after it.
func TestRateIsDrawn(t *testing.T) {
	samples := []hostSample{
		{at: second(0), rate: 4},
		{at: second(1), rate: 8},
		{at: second(2), rate: 8, limit: 17},
		{at: second(3), rate: 5, limit: 8},
		{at: second(4), rate: 6, limit: 6, state: breaker.Open},
	}
	events := []ratelimit.Event{
		{Time: second(1.5), FromRPS: 8, HoldMS: 1000, Text: "refused"},
		{Time: second(1.5), FromRPS: 8, HoldMS: 9000, Text: "longer"},
		{Time: second(2.5), ToRPS: 5},
		{Time: second(3.5), State: breaker.Open, FromRPS: 5, HoldMS: 5000},
		{Time: second(4.5), State: breaker.HalfOpen},
	}
	pauses := pausesOf(events, second(5))
	require.Equal(t, []dashboard.Band{{From: second(1.5), To: second(2.5), Kind: dashboard.Open, Text: "no requests: refused"}}, pauses)
	var got []string
	for _, p := range ratePoints(samples, events, pauses) {
		got = append(got, fmt.Sprintf("%.1f:%v", p.At.Sub(noon).Seconds(), p.Value))
	}
	require.Equal(t, []string{"0.0:4", "1.0:8", "1.5:8", "1.5:0", "1.5:8", "1.5:0", "2.0:0", "2.5:0", "2.5:5", "3.0:5", "3.5:5", "3.5:0", "4.0:0"}, got)

	got = got[:0]
	for _, p := range limitPoints(samples, ratePoints(samples, events, pauses)) {
		got = append(got, fmt.Sprint(p.Value))
	}
	require.Equal(t, []string{"NaN", "NaN", "NaN", "8", "6"}, got, "none is known, or it is far above all rates")

	bands := bandsOf(samples, events, second(5))
	require.Equal(t, []dashboard.Band{
		{From: second(3.5), To: second(4.5), Kind: dashboard.Open, Text: "no requests"},
		{From: second(4.5), To: second(5), Kind: dashboard.Half, Text: "probes only"},
	}, bands)
	require.Len(t, pausesOf(events[:2], second(3)), 2, "the second goes on behind the first")
	require.Empty(t, bandsOf(nil, nil, noon))
}

func TestWindow(t *testing.T) {
	from, to := window(time.Time{}, noon, "")
	require.Equal(t, []time.Time{noon, second(30)}, []time.Time{from, to}, "nothing yet")
	from, to = window(noon, second(100), "recent")
	require.Equal(t, []time.Time{noon, second(100)}, []time.Time{from, to})
	from, _ = window(noon, second(1000), "recent")
	require.Equal(t, second(700), from)
	from, to = window(noon, second(1000), spanAll)
	require.Equal(t, []time.Time{noon, second(1000)}, []time.Time{from, to})
}

func TestKinds(t *testing.T) {
	require.Equal(t, dashboard.Cut, dashboard.KindOf(&ratelimit.Event{FromRPS: 3, ToRPS: 1}))
	require.Equal(t, dashboard.Rise, dashboard.KindOf(&ratelimit.Event{FromRPS: 1, ToRPS: 3}))
	require.Equal(t, dashboard.Note, dashboard.KindOf(&ratelimit.Event{}))
	require.Equal(t, "the learned rate", reasonWords("learned"))
	require.Equal(t, "robots.txt cannot be had yet", reasonWords("robots.txt cannot be had yet: network: x"))
}

package control

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// told gives a quota what an answer says.
func (q *quota) told(now clock.Instant, remaining int64, reset time.Duration, inFlight int) {
	q.observe(now, &Observation{SentAt: now, Quota: header.Quota{Limit: 100, Remaining: remaining, Reset: reset}, InFlight: inFlight})
}

func TestQuotaIsSpreadEvenly(t *testing.T) {
	for _, tc := range []struct {
		name      string
		remaining int64
		reset     time.Duration
		inFlight  int
		rate      float64
		notBefore time.Duration
	}{
		{"the last goes before the reset", 9, 10 * time.Second, 1, 1, 0},
		{"what is in flight may not be counted", 19, 10 * time.Second, 11, 1, 0},
		{"far more than the plan asks for", 1e6, 10 * time.Second, 1, 50, 0},
		{"nothing left", 0, 10 * time.Second, 1, 50, 10 * time.Second},
		{"nothing left but for what is in flight", 3, 10 * time.Second, 5, 50, 10 * time.Second},
	} {
		var q quota
		q.told(0, tc.remaining, tc.reset, tc.inFlight)
		require.True(t, q.active(0), tc.name)
		p := Plan{Rate: 50, Review: forever}
		q.apply(0, &p)
		require.InDelta(t, tc.rate, p.Rate, 1e-9, tc.name)
		require.Equal(t, clock.Instant(tc.notBefore), p.NotBefore, tc.name)
		if tc.notBefore == 0 {
			require.LessOrEqual(t, p.Review, clock.Instant(time.Second), "what is left changes")
		}
		p = Plan{Rate: 50, Review: forever}
		q.apply(clock.Instant(tc.reset), &p)
		require.Equal(t, Plan{Rate: 50, Review: forever}, p, "%s: over", tc.name)
	}
}

// TestAverageOfAToldWindow: a host that tells its window is asked at the limit's average, answer
// after answer, as long as what is left lasts at that; otherwise by what is left, and no faster
// than that or the average.
func TestAverageOfAToldWindow(t *testing.T) {
	for _, tc := range []struct {
		name      string
		limit     int64
		window    time.Duration
		remaining int64
		reset     time.Duration
		rate      float64
		notBefore time.Duration // after the last answer
	}{
		{"flows within a second", 2, time.Second, 2, time.Second, (1 - margin) * 2, 0},
		{"flows", 100, time.Minute, 30, 18 * time.Second, (1 - margin) * 100 / 60, 0},
		{"rounded to whole seconds", 100, 10 * time.Second, 37, 3 * time.Second, (1 - margin) * 10, 0},
		{"the last one", 5, 10 * time.Second, 1, 2 * time.Second, (1 - margin) / 2, 0},
		{"none until the next", 5, 10 * time.Second, 0, 2 * time.Second, (1 - margin) / 2, 2*time.Second - 500*time.Millisecond},
		{"more is left", 100, time.Minute, 17, 8 * time.Second, 17.0 / 8, 0},
		{"less is left", 100, time.Minute, 5, 20 * time.Second, 6 / 19.5, 0},
	} {
		var q quota
		say := func(now clock.Instant) {
			q.observe(now, &Observation{SentAt: now, InFlight: 1, Quota: header.Quota{
				Limit: tc.limit, Window: tc.window, Remaining: tc.remaining, Reset: tc.reset,
			}})
		}
		const later = clock.Instant(500 * time.Millisecond)
		say(0)
		say(later)
		require.True(t, q.active(later), tc.name)
		p := Plan{Rate: 1000, Review: forever}
		q.apply(later, &p)
		require.InDelta(t, tc.rate, p.Rate, 1e-9, tc.name)
		want := clock.Instant(0)
		if tc.notBefore > 0 {
			want = later.Add(tc.notBefore)
		}
		require.Equal(t, want, p.NotBefore, tc.name)
	}
}

// An answer that says nothing, or of a quota that is over, changes nothing.
func TestNoQuota(t *testing.T) {
	var q quota
	q.told(0, 5, 0, 1)
	q.observe(0, &Observation{})
	require.Equal(t, quota{}, q)
}

// Whole seconds are rounded up each time: the first word on a window's end is kept, and
// a new window is recognised by having more left.
func TestResetIsKept(t *testing.T) {
	var q quota
	q.told(0, 50, 10*time.Second, 1)
	q.told(clock.Instant(500*time.Millisecond), 49, 10*time.Second, 1)
	require.Equal(t, clock.Instant(10*time.Second), q.reset)
	q.told(clock.Instant(9900*time.Millisecond), 100, 10*time.Second, 1)
	require.Equal(t, clock.Instant(19900*time.Millisecond), q.reset)
}

// counter is a fixed window that says what it counts. The best is what of several quotas
// a header parser would return: the one with the fewest left per second.
type counter struct {
	max  int64
	span time.Duration
	used int64
	at   clock.Instant
}

func (c *counter) count(at clock.Instant) (q header.Quota, over bool) {
	if k := at / clock.Instant(c.span); k != c.at {
		c.at, c.used = k, 0
	}
	c.used++
	rest := c.span - time.Duration(at)%c.span
	return header.Quota{
		Limit: c.max, Remaining: max(0, c.max-c.used), Reset: (rest + time.Second - 1).Truncate(time.Second), Window: c.span,
	}, c.used > c.max
}

func quotas(cs ...*counter) func(at clock.Instant) reply {
	return func(at clock.Instant) reply {
		var a reply
		pace := 0.0
		for i, c := range cs {
			q, over := c.count(at)
			if p := float64(q.Remaining) / max(seconds(q.Reset), 1); i == 0 || p < pace || p == pace && q.Reset > a.quota.Reset {
				a.quota, pace = q, p
			}
			if over {
				a.status = 429
			}
		}
		return a
	}
}

// A host that says its quota, or several, is never asked for more than it has left, and
// most of what it has is used. The very first window may be used up before it is known.
func TestSaidQuotasAreKept(t *testing.T) {
	for _, tc := range []struct {
		name string
		cs   []*counter
		per  float64 // requests per second that the tightest allows
	}{
		{"a minute's", []*counter{{max: 300, span: time.Minute}}, 5},
		{"ten seconds'", []*counter{{max: 20, span: 10 * time.Second}}, 2},
		{"few in a minute", []*counter{{max: 6, span: time.Minute}}, 0.1},
		{"a minute's and an hour's, this the tighter", []*counter{{max: 60, span: time.Minute}, {max: 1200, span: time.Hour}}, 1.0 / 3},
		{"taking turns", []*counter{{max: 102, span: 11 * time.Second}, {max: 474, span: 55 * time.Second}}, 474.0 / 55},
		{"a minute's and an hour's, that the tighter", []*counter{{max: 60, span: time.Minute}, {max: 7200, span: time.Hour}}, 1},
		{"nearly alike", []*counter{{max: 60, span: time.Minute}, {max: 590, span: 10 * time.Minute}}, 59.0 / 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := stranger
			h.Floor = 0.01
			r := newRig(t, h)
			host := quotas(tc.cs...)
			r.watch(2*time.Minute, host)
			c := r.watch(58*time.Minute, host)
			require.LessOrEqual(t, c.refused, 1)
			require.Greater(t, c.admittedPer(58*time.Minute), 0.85*tc.per)
		})
	}
}

// A window that slides tells of an end that moves on before it is reached. It gives back
// all the time what spreading the rest would wait for, so it is paced by its length.
func TestSlidingQuota(t *testing.T) {
	var q quota
	const limit, window = 100, 10 * time.Second
	now, pace := clock.Instant(0), (1-margin)*limit/seconds(window)
	for moved := range slides + 1 {
		require.Zero(t, q.pace, "moved %d times", moved)
		q.told(now, 50, window, 1)
		now = now.Add(rounding + time.Second)
	}
	require.InDelta(t, pace, q.pace, 1e-9)
	since := q.since
	for _, tc := range []struct {
		after     time.Duration // since the pace is known
		remaining int64
		told      bool // the window's length
		rate      float64
	}{
		{0, 50, false, pace},
		{window, 50, false, pace * mostMore}, // shorter than it was told to be
		{window, 50, true, pace},
		{window, 2, false, pace},
		{window, 1, false, pace / 2},
		{window, 0, false, pace / 4},
	} {
		q.exact = tc.told
		now = since.Add(tc.after)
		q.said, q.left, q.reset = tc.remaining, float64(tc.remaining), now.Add(window)
		p := Plan{Rate: 50}
		q.apply(now, &p)
		require.InDelta(t, tc.rate, p.Rate, 1e-9, "%+v", tc)
		require.Zero(t, p.NotBefore)
		require.True(t, q.binds(now, 50))
		require.False(t, q.binds(now, tc.rate/2))
	}
	now = q.reset
	q.told(now, limit-1, window, 1)
	require.Zero(t, q.pace, "whole at the reset: it does not slide")
}

// One that tells when its oldest request leaves the window is not whole at that reset, time
// and again; the longest reset it told was that of the window.
func TestQuotaResetOfOneRequest(t *testing.T) {
	var q quota
	const limit, window = 100, 10 * time.Second
	now := clock.Instant(0)
	q.told(now, limit-1, window, 1)
	now = q.reset
	for range slides {
		require.Zero(t, q.pace)
		q.told(now, 5, time.Second, 1)
		now = q.reset
	}
	require.InDelta(t, (1-margin)*limit/seconds(window), q.pace, 1e-9)
	q.told(now, limit-2, window, 1)
	require.Zero(t, q.pace)
}

// A window of a second that slides is told by whole seconds, so that its end is never seen to
// move on, and there may be no moment at which nothing is in flight. What tells are requests
// that are sent after a reset, or that find more left than before: the quota is not whole.
func TestShortQuotaSlides(t *testing.T) {
	const latency, window = 200 * time.Millisecond, time.Second
	for name, remaining := range map[string]func(i int64) int64{
		"it stays about full":       func(i int64) int64 { return 30 - i%3 },
		"it is given back in leaps": func(i int64) int64 { return 10 + i%7*10 },
	} {
		var q quota
		now := clock.Instant(0)
		for i := range int64(40) {
			q.observe(now, &Observation{
				SentAt: now.Add(-latency), InFlight: 4,
				Quota: header.Quota{Limit: 100, Remaining: remaining(i), Reset: window},
			})
			now = now.Add(100 * time.Millisecond)
		}
		require.InDelta(t, (1-margin)*100, q.pace, 1e-9, name)
	}
}

// One that begins anew each second is whole then, to who sends that much later, though answers
// arrive in another order, of requests that were on their way at the reset too.
func TestShortQuotaEnds(t *testing.T) {
	for _, overtaken := range []time.Duration{0, 30 * time.Millisecond, 250 * time.Millisecond} {
		var q quota
		var c counter
		c.max, c.span = 20, time.Second
		type answer struct {
			at, sent clock.Instant
			quota    header.Quota
		}
		var answers []answer
		for i := range 180 {
			sent := clock.Instant(i) * clock.Instant(55*time.Millisecond)
			said, _ := c.count(sent)
			at := sent.Add(200 * time.Millisecond)
			if i%5 == 0 {
				at = at.Add(overtaken)
			}
			answers = append(answers, answer{at, sent, said})
		}
		slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(a.at, b.at) })
		for _, a := range answers {
			q.observe(a.at, &Observation{SentAt: a.sent, InFlight: 5, Quota: a.quota})
			require.Zero(t, q.pace, "at %v, overtaken by %v", a.at, overtaken)
		}
	}
}

// A window too short to be told in milliseconds is asked at its pace all the same.
func TestQuotaOfAnInstant(t *testing.T) {
	q := quota{pace: 10, left: 50, limit: 100, reset: forever}
	require.InDelta(t, shortMore*10, q.sliding(1), 1e-9, "of a window of less than a millisecond")
}

// Whatever an answer says, no more goes out before the reset than it said were left.
func TestQuotaLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q quota
		remaining := rapid.Int64Range(0, 200).Draw(t, "remaining")
		reset := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "reset"))
		out := rapid.IntRange(1, 20).Draw(t, "in flight")
		q.told(0, remaining, reset, out)
		now, sent := clock.Instant(0), int64(0)
		for range 1000 {
			p := Plan{Rate: 1e4, Review: forever}
			q.apply(now, &p)
			if now = max(now.Add(duration(1/p.Rate)), p.NotBefore); now >= clock.Instant(reset) {
				break
			}
			q.send()
			sent++
		}
		if sent+int64(out)-1 > max(remaining, int64(out)-1) {
			t.Fatalf("%d sent beside %d in flight, want no more than %d", sent, out-1, remaining)
		}
	})
}

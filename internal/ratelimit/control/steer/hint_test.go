package steer

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// told gives the hint a quota of 100 as a response tells it.
func (q *hint) told(now clock.Instant, remaining int64, reset time.Duration, inFlight int) {
	q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{SentAt: now, Quota: header.Quota{Limit: 100, Remaining: remaining, Reset: reset}, InFlight: inFlight}, At: now})
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
		{"the last but one goes before the reset", 10, 10 * time.Second, 1, 1, 0},
		{"what is in flight may not be counted", 20, 10 * time.Second, 11, 1, 0},
		{"far more than the plan asks for", 1e6, 10 * time.Second, 1, 50, 0},
		{"nothing left", 0, 10 * time.Second, 1, 50, 11 * time.Second},
		{"nothing left but for what is in flight", 3, 10 * time.Second, 5, 50, 11 * time.Second},
	} {
		var q hint
		q.told(0, tc.remaining, tc.reset, tc.inFlight)
		require.True(t, q.active(0), tc.name)
		e := q.estimate(0)
		require.InDelta(t, tc.rate, lower(50, e.Rate), 1e-9, tc.name)
		require.Equal(t, clock.Instant(tc.notBefore), e.NotBefore, tc.name)
		later := Estimate{Rate: 10, NotBefore: clock.Instant(11 * time.Second), Confidence: 1, Cause: control.CauseQuota}
		if tc.remaining > 50 {
			later.Rate, later.NotBefore = 0, 0
		}
		require.Equal(t, later, q.estimate(q.reset), "%s: the average, once a second has passed", tc.name)
		require.Zero(t, q.estimate(q.reset.Add(tc.reset+rounding)), "%s: a window later", tc.name)
	}
}

// A response that tells no quota, or one that is over, changes nothing. But of a quota that was told before it tells what
// is left: a bucket that is full does not bind.
func TestNoQuota(t *testing.T) {
	var q hint
	q.told(0, 5, 0, 1)
	q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{}})
	require.Equal(t, hint{}, q)
	q.told(0, 50, 10*time.Second, 1)
	q.told(0, 1, 0, 1)
	require.InDelta(t, 10, q.estimate(q.reset).Rate, 1e-9)
	q.told(0, 99, 0, 1)
	require.Zero(t, q.estimate(q.reset).Rate)
}

// Resets are rounded up to whole seconds: the first one that is told of a window is kept. A new window shows in that
// more is left.
func TestResetIsKept(t *testing.T) {
	var q hint
	q.told(0, 50, 10*time.Second, 1)
	q.told(clock.Instant(500*time.Millisecond), 49, 10*time.Second, 1)
	require.Equal(t, clock.Instant(10*time.Second), q.reset)
	q.told(clock.Instant(9900*time.Millisecond), 100, 10*time.Second, 1)
	require.Equal(t, clock.Instant(19900*time.Millisecond), q.reset)
}

// A window that slides tells a reset that moves on before it comes. It gives requests back all the time, which
// spreading the rest would wait for, so it is paced by its length.
func TestSlidingQuota(t *testing.T) {
	var q hint
	const limit, window = 100, 10 * time.Second
	now, pace := clock.Instant(0), (1-DefaultTuning.ToldMargin)*limit/window.Seconds()
	for moved := range slides + 1 {
		require.Zero(t, q.pace, "moved %d times", moved)
		q.told(now, 50, window, 1)
		now = now.Add(rounding + time.Second)
	}
	require.InDelta(t, pace, q.pace, 1e-9)
	for _, tc := range []struct {
		left int64
		rate float64
	}{
		{50, pace}, {2, pace}, {1, pace / 2}, {0, pace / 4},
	} {
		q.said, q.left, q.reset = tc.left, float64(tc.left), now.Add(window)
		e := q.estimate(now)
		require.InDelta(t, tc.rate, e.Rate, 1e-9, "%+v", tc)
		require.Zero(t, e.NotBefore)
		require.True(t, q.binds(now, 50))
		require.False(t, q.binds(now, tc.rate/2))
	}
	q.more = 2
	q.left = 50
	require.InDelta(t, 2*pace, q.estimate(now).Rate, 1e-9)
	now = q.reset
	q.told(now, limit-1, window, 1)
	require.NotZero(t, q.pace, "whole, but nothing was asked for")
	q.answers, q.said = limit/2, limit/2
	q.told(q.reset, limit-1, window, 1)
	require.Zero(t, q.pace, "whole at the reset: it does not slide")
}

// A quota whose reset is when its oldest request leaves the window is not whole then: it slides, after two resets with
// little left, else after three. The longest reset that was told is the window.
func TestQuotaResetOfOneRequest(t *testing.T) {
	const limit, window = 100, 10 * time.Second
	for left, misses := range map[int64]int{5: slides - 1, 60: slides} {
		var q hint
		q.told(0, limit-1, window, 1)
		now := q.reset
		for range misses {
			require.Zero(t, q.pace)
			q.told(now, left, time.Second, 1)
			q.left = 0
			require.Zero(t, q.estimate(now).NotBefore, "it may slide, so it is not waited for")
			require.Positive(t, q.estimate(now).Rate)
			now = q.reset
		}
		require.InDelta(t, (1-DefaultTuning.ToldMargin)*limit/window.Seconds(), q.pace, 1e-9)
	}
}

// A counter that slides in whole seconds has its reset earlier than the client reckons, and has little left then.
func TestQuotaTurnsEarly(t *testing.T) {
	var q hint
	q.told(0, 99, time.Minute, 1)
	for minute := range clock.Instant(2) {
		from := minute * clock.Instant(time.Minute)
		q.told(from+clock.Instant(59500*time.Millisecond), 1, time.Second, 1)
		q.told(from+clock.Instant(59990*time.Millisecond), 1, time.Minute, 1)
	}
	require.InDelta(t, (1-DefaultTuning.ToldMargin)*100/60, q.pace, 1e-9)
	for _, tc := range []struct{ least, more float64 }{{0, .9}, {1, .9 * .9967}, {2, .9 * .9967}, {100, .9 * .9967 * 1.15}} {
		q.said, q.moreAt, q.least = int64(tc.least), 0, 100
		q.adapt(clock.Instant(2 * time.Minute))
		require.InDelta(t, tc.more, q.more, 1e-3, "%v left", tc.least)
	}
}

// A sliding window of a second is told in whole seconds, so that its end never seems to move on, and there may be no
// moment without requests in flight. Requests that are sent after a reset, or find more left than before, show that the
// quota is not whole.
func TestShortQuotaSlides(t *testing.T) {
	const latency, window = 200 * time.Millisecond, time.Second
	for name, remaining := range map[string]func(i int64) int64{
		"it stays about full":       func(i int64) int64 { return 30 - i%3 },
		"it is given back in leaps": func(i int64) int64 { return 10 + i%7*10 },
	} {
		var q hint
		now := clock.Instant(0)
		for i := range int64(40) {
			q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{
				SentAt: now.Add(-latency), InFlight: 4,
				Quota: header.Quota{Limit: 100, Remaining: remaining(i), Reset: window},
			}, At: now})
			now = now.Add(100 * time.Millisecond)
		}
		require.InDelta(t, (1-DefaultTuning.ToldMargin)*100, q.pace, 1e-9, name)
	}
}

// counter is a fixed window that tells what it counts. Of several quotas, best is the one that a header parser would
// return: that with the fewest left per second.
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

// A quota that begins anew each second, or each ten, is whole for a client that sends that much later, though responses
// come in another order, some of them to requests that were in flight at the reset.
func TestShortQuotaEnds(t *testing.T) {
	for _, span := range []time.Duration{time.Second, 10 * time.Second} {
		for _, overtaken := range []time.Duration{0, 30 * time.Millisecond, 250 * time.Millisecond} {
			var q hint
			c := counter{max: int64(20 * span.Seconds()), span: span}
			type answer struct {
				at, sent clock.Instant
				quota    header.Quota
			}
			var answers []answer
			for i := range 180 * int(span.Seconds()) {
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
				q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{SentAt: a.sent, InFlight: 5, Quota: a.quota}, At: a.at})
				require.Zero(t, q.pace, "%v: at %v, overtaken by %v", span, a.at, overtaken)
			}
		}
	}
}

// Whatever a response tells, no more requests are sent before the reset than it said were left.
func TestQuotaLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q hint
		remaining := rapid.Int64Range(0, 200).Draw(t, "remaining")
		reset := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "reset"))
		out := rapid.IntRange(1, 20).Draw(t, "in flight")
		q.told(0, remaining, reset, out)
		now, sent := clock.Instant(0), int64(0)
		for range 1000 {
			e := q.estimate(now)
			if now = max(now.Add(seconds(1/lower(1e4, e.Rate))), e.NotBefore); now >= clock.Instant(reset) {
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

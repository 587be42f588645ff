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
		{"nothing left", 0, 10 * time.Second, 1, 10, 11 * time.Second},
		{"nothing left but for what is in flight", 3, 10 * time.Second, 5, 10, 11 * time.Second},
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
	q.told(clock.Instant(29900*time.Millisecond), 4, time.Second, 1)
	q.told(clock.Instant(30100*time.Millisecond), 99, time.Second, 1)
	require.Equal(t, clock.Instant(31100*time.Millisecond), q.reset, "a second window within the rounding")
}

// A quota that comes back all the time is used as fast as it comes back, and somewhat faster the more is left. When
// little is left the next request waits, but not beyond the reset.
func TestQuotaThatComesBack(t *testing.T) {
	var q hint
	const limit, window = 100, 10 * time.Second
	now, pace := clock.Instant(0), (1-toldMargin)*limit/window.Seconds()
	for q.renewal != always {
		require.Less(t, now, clock.Instant(window/2))
		q.told(now, 50, window, 1)
		q.send()
		now = now.Add(100 * time.Millisecond)
	}
	require.InDelta(t, pace, q.refill, 1e-9)
	for _, tc := range []struct {
		left      float64
		lasts     time.Duration
		rate      float64
		notBefore time.Duration
	}{
		{50, window, pace + 4.8, 0},
		{2, window, pace, 0},
		{1.5, window, pace, 0},
		{1, 5 * time.Second, pace, 500*time.Millisecond + seconds(1/pace)},
		{0, time.Minute, pace, time.Second + seconds(2/pace)},
		{0, 100 * time.Millisecond, pace, 100 * time.Millisecond},
	} {
		q.left, q.askedAt, q.reset = tc.left, now, now.Add(tc.lasts)
		e := q.estimate(now)
		require.InDelta(t, tc.rate, e.Rate, 1e-9, "%+v", tc)
		require.InDelta(t, tc.notBefore.Seconds(), max(e.NotBefore.Sub(now), 0).Seconds(), 1e-6, "%+v", tc)
		require.True(t, q.binds(now, 50))
		require.Equal(t, tc.notBefore > 0, q.binds(now, tc.rate/2))
	}
	q.left, q.refill = 50, 10
	q.told(now.Add(time.Second), 40, window, 1)
	require.InDelta(t, 10-20/11., q.refill, 1e-9, "ten less than nothing came back in a second")
}

// Whether a quota is whole at its reset is not known at first: the first request then waits for a second. It is known
// once the quota was whole after much had been taken, but not after a silence as long as the window, when any quota is.
func TestQuotaIsWholeAtItsReset(t *testing.T) {
	for _, silence := range []time.Duration{time.Second, 9500 * time.Millisecond} {
		var q hint
		now := clock.Instant(0)
		q.told(now, 99, 10*time.Second, 1)
		now = q.reset.Add(-silence)
		q.told(now, 3, silence, 1)
		require.Equal(t, q.reset.Add(time.Second), q.estimate(q.reset).NotBefore)
		q.told(q.reset, 99, 10*time.Second, 1)
		q.left = 0
		first := q.reset
		if silence > 9*time.Second {
			first = first.Add(time.Second)
		}
		require.Equal(t, first, q.estimate(q.reset).NotBefore, "after %v", silence)
		require.Zero(t, q.refill)
	}
}

// A bucket of a few, which is full again in less than the second that is told, is found to give back more than is told.
func TestQuotaOfSmallBucket(t *testing.T) {
	var s sender
	s.run(gcra(20, 4), 0, time.Minute, 400)
	require.Equal(t, always, s.hint.renewal)
	require.InDelta(t, 20, s.hint.refill, 1)
	require.InDelta(t, 4, s.hint.mean(), 1e-9)
}

// A sliding window of a second is told in whole seconds, so that its end never seems to move on, and there may be no
// moment without requests in flight. What is told to be left shows that it comes back.
func TestShortQuotaSlides(t *testing.T) {
	const latency, window = 200 * time.Millisecond, time.Second
	for name, remaining := range map[string]func(i int64) int64{
		"it stays about full":       func(i int64) int64 { return 30 - i%3 },
		"it is given back in leaps": func(i int64) int64 { return 10 + i%7*10 },
	} {
		var q hint
		now := clock.Instant(0)
		for i := range int64(100) {
			q.send()
			q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{
				SentAt: now.Add(-latency), InFlight: 4,
				Quota: header.Quota{Limit: 100, Remaining: remaining(i), Reset: window},
			}, At: now})
			now = now.Add(20 * time.Millisecond)
		}
		require.Equal(t, always, q.renewal, name)
		require.InDelta(t, 50, q.refill, 20, name)
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
			sent := 0
			for i, a := range answers {
				for ; sent <= int(a.at/clock.Instant(55*time.Millisecond)); sent++ {
					q.send()
				}
				q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{SentAt: a.sent, InFlight: sent - i, Quota: a.quota}, At: a.at})
				require.NotEqual(t, always, q.renewal, "%v: at %v, overtaken by %v", span, a.at, overtaken)
			}
		}
	}
}

// A window of a second or two that begins with a request, whose length is not told and whose end is rounded up to a
// second, is used.
func TestShortQuotaIsUsed(t *testing.T) {
	for _, span := range []time.Duration{time.Second, 2 * time.Second} {
		var q hint
		limit, used, admitted, end := int64(25*span.Seconds()), int64(0), 0, clock.Instant(0)
		for now := clock.Instant(0); now < clock.Instant(time.Minute); {
			q.send()
			if now >= end {
				end, used = now.Add(span), 0
			}
			if used++; used <= limit {
				admitted++
			}
			said := header.Quota{Limit: limit, Remaining: max(limit-used, 0), Reset: (end.Sub(now) + time.Second - 1).Truncate(time.Second)}
			q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{SentAt: now, InFlight: 1, Quota: said}, At: now})
			e := q.estimate(now)
			now = max(now.Add(seconds(1/lower(100, e.Rate))), e.NotBefore)
		}
		require.Greater(t, admitted, 60*25*9/10, "%v", span)
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

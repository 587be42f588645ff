package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

func bare(time.Duration) time.Duration { return 0 }

func exactly(rest time.Duration) time.Duration { return rest }

// wholeSeconds is what most servers write: the rest, rounded up.
func wholeSeconds(rest time.Duration) time.Duration {
	return (rest + time.Second - 1).Truncate(time.Second)
}

// What one window admits is found whatever its refusals say, and the host is then
// asked for nearly that much.
func TestQuotaIsFound(t *testing.T) {
	for _, tc := range []struct {
		name  string
		n     int
		span  time.Duration
		order func(time.Duration) time.Duration
	}{
		{"bare, ten seconds", 100, 10 * time.Second, bare},
		{"bare, a minute", 600, time.Minute, bare},
		{"rest, ten seconds", 100, 10 * time.Second, exactly},
		{"rest, a minute", 600, time.Minute, exactly},
		{"whole seconds, a minute", 300, time.Minute, wholeSeconds},
		{"whole seconds, half a minute", 45, 30 * time.Second, wholeSeconds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rps := float64(tc.n) / seconds(tc.span)
			r := newRig(t, stranger)
			r.meetAll()
			host := windows(tc.n, tc.span, tc.order)
			r.watch(10*time.Minute, host)
			require.Positive(t, r.lag, "no pause was taken for a quota's")
			c := r.watch(30*time.Minute, host)
			require.InEpsilon(t, rps, c.ceil, 0.12)
			require.Greater(t, c.admittedPer(30*time.Minute), 0.85*rps)
			require.Less(t, c.refusedShare(), 0.01)
		})
	}
}

// A limiter that counts on while it refuses, and orders its whole window each time.
func TestQuotaOfConstantOrders(t *testing.T) {
	const n, span = 200, 10 * time.Second
	var log []clock.Instant
	host := func(at clock.Instant) reply {
		for len(log) > 0 && log[0] <= at.Add(-span) {
			log = log[1:]
		}
		log = append(log, at)
		if len(log) > n {
			return reply{status: 429, order: span}
		}
		return reply{}
	}
	r := newRig(t, stranger)
	r.watch(5*time.Minute, host)
	c := r.watch(15*time.Minute, host)
	require.InEpsilon(t, n/seconds(span), c.admittedPer(15*time.Minute), 0.12)
	require.LessOrEqual(t, c.ceil, 1.03*n/seconds(span))
}

// A bucket whose configuration orders half a minute each time is no quota: when the same
// order comes though far more was admitted in as long, it is told as such.
func TestSameOrderIsNoWindowIfMoreIsAdmitted(t *testing.T) {
	r := newRig(t, stranger)
	host := tokens(10, 20, reply{status: 429, order: 30 * time.Second})
	r.watch(15*time.Minute, host)
	require.Greater(t, r.watch(15*time.Minute, host).admittedPer(15*time.Minute), 0.8*10)

	for _, tc := range []struct {
		name       string
		admitted   float64 // in the first window
		now        int     // in the last span of the same length
		windowless bool
	}{
		{"as many", 100, 100, false},
		{"a little more", 100, 150, false},
		{"too many", 100, int(tooMany*100) + 10, true},
	} {
		r := cruisingAt(t, 20)
		r.resumeAt = r.now.Add(-time.Minute)
		for i := range tc.now {
			r.history.add(r.now.Add(-time.Duration(i) * 10 * time.Second / time.Duration(tc.now)))
		}
		r.sentAt, r.failRate, r.order, r.sameOrder = r.now, 20, 10*time.Second, true
		r.window.admitted, r.lag = float32(tc.admitted), 10*time.Second
		r.pass(10 * time.Second)
		require.Equal(t, measured, r.judgeQuota(r.now, 10*time.Second), tc.name)
		require.Equal(t, tc.windowless, r.windowless, tc.name)
		require.LessOrEqual(t, r.ceil, 20.0, tc.name)
		require.Positive(t, r.ceil, tc.name)
		if !tc.windowless {
			require.InDelta(t, toldTwice*tc.admitted/10, r.ceil, 0.01, tc.name)
		}
	}
}

// In the spans in which a sender had little to send a host admitted all it was asked for:
// such a span is no window.
func TestStarvedSpanIsNoWindow(t *testing.T) {
	r := cruisingAt(t, 10)
	r.resumed = minCycle
	r.pass(time.Minute)
	r.refuse(reply{status: 429, order: 10 * time.Second})
	require.InDelta(t, 9.7, r.ceil, 0.3, "what was believed, just under what failed")
	require.True(t, r.provisional)
}

func TestOrdersAreCompared(t *testing.T) {
	for _, tc := range []struct {
		last, now time.Duration
		same      bool
		lastAfter time.Duration
	}{
		{0, time.Minute, false, time.Minute},
		{time.Minute, time.Minute, true, time.Minute},
		{time.Minute, 58 * time.Second, true, 58 * time.Second},
		{time.Minute, 50 * time.Second, false, 50 * time.Second},
		{time.Minute, longOrder - 1, true, time.Minute}, // too short to say anything: all stays
		{time.Minute, 0, true, time.Minute},
	} {
		w := window{lastOrder: tc.last, sameOrder: tc.now < longOrder}
		w.noteOrder(tc.now)
		require.Equal(t, tc.same, w.sameOrder, "%v, then %v", tc.last, tc.now)
		require.Equal(t, tc.lastAfter, w.lastOrder, "%v, then %v", tc.last, tc.now)
	}
}

func TestRoundOrders(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, time.Hour} {
		require.True(t, isRound(d), d)
		require.True(t, isRound(d+30*time.Millisecond), "%v and the way back", d)
	}
	for _, d := range []time.Duration{0, 2870 * time.Millisecond, 7 * time.Second, 47 * time.Second, 61 * time.Second, 59 * time.Second} {
		require.False(t, isRound(d), d)
	}
}

// An order that was worked out is the rest of a window that began with the first request;
// one that somebody wrote into a configuration is the window.
func TestFirstWindow(t *testing.T) {
	for _, tc := range []struct {
		order time.Duration
		span  time.Duration
	}{
		{47 * time.Second, time.Minute},
		{30 * time.Second, 30 * time.Second},
	} {
		r := newRig(t, stranger)
		r.meetAll()
		for i := range 120 {
			r.history.add(clock.Instant(time.Duration(i) * 100 * time.Millisecond))
		}
		r.sentAt, r.order = clock.Instant(13*time.Second), tc.order
		require.InDelta(t, 120/seconds(tc.span), r.firstWindow(tc.order), 1e-9)
		require.Equal(t, tc.order, r.lag)
	}
}

// The mean of a bare quota is that of one window: it began with the first request after
// the last pause and ended between the last trial that failed and the one that did not.
func TestBareWindowRate(t *testing.T) {
	r := cruisingAt(t, 10)
	r.order, r.resumed = 0, 100
	r.resumeAt, r.refusedTill = r.now, r.now.Add(10*time.Second)
	r.pass(11 * time.Second)
	rate, _ := r.windowRate(r.now, time.Second, false)
	require.InDelta(t, 100/math.Sqrt(10*11), rate, 1e-9)
}

// A long order is a window's also if another limit has refused just before, where in as long
// enough was admitted; but only the first, since the pause after it is in as long as the next.
func TestFirstLongOrderAfterAnotherLimit(t *testing.T) {
	const second = clock.Instant(time.Second)
	for _, tc := range []struct {
		order    time.Duration
		resumed  int32
		admitted float32
		want     bool
	}{
		{order: 4200 * time.Millisecond, want: true},
		{order: 4200 * time.Millisecond, admitted: 300},
		{order: 4200 * time.Millisecond, admitted: 300, resumed: minCycle, want: true},
		{order: 2900 * time.Millisecond},
		{order: 2900 * time.Millisecond, resumed: minCycle, want: true},
	} {
		r := cruisingAt(t, 12)
		r.meetWindow()
		for i := range 120 { // twelve a second for ten seconds
			r.history.add(clock.Instant(i) * second / 12)
		}
		r.sentAt, r.at, r.failRate = 10*second, 10*second, 12
		r.order, r.refusedTill, r.resumed, r.window.admitted = tc.order, r.at.Add(tc.order), tc.resumed, tc.admitted
		require.Equal(t, tc.want, r.isQuota(tc.order), "%+v", tc)
	}
}

// What is left of a window is told by an order that is worked out: after the search it is as
// long as the best mean says, and until it is whole refusals teach nothing.
func TestWindowGivesBack(t *testing.T) {
	const second = clock.Instant(time.Second)
	for _, tc := range []struct {
		order time.Duration
		rate  float64
		whole clock.Instant // zero for no window that gives back
	}{
		{order: 4200 * time.Millisecond, rate: 300.0 / 30, whole: 55 * second},
		{order: 5 * time.Second, rate: 12.5},
	} {
		r := cruisingAt(t, 12.5)
		r.meetTrouble()
		r.meetWindow()
		for i := range 300 { // 25 seconds, and then the rest of thirty
			r.history.add(clock.Instant(i+1) * second / 12)
		}
		r.at, r.sentAt, r.from, r.failRate = 25*second, 25*second, cruising, 12.5
		r.order, r.resumed, r.refusedTill = tc.order, 50, r.at.Add(tc.order)
		require.Equal(t, measured, r.weigh(30*second, 5*time.Second))
		require.InDelta(t, tc.rate, r.ceil, 0.6, tc.order)
		require.InDelta(t, seconds(time.Duration(tc.whole)), float64(r.wholeAt), 1.1, tc.order)
		if tc.whole == 0 {
			continue
		}
		before := r.ceil
		r.at, r.sentAt, r.order, r.cycle, r.wait = tc.whole-2*second, tc.whole-2*second, 0, 50, time.Second
		require.False(t, r.isQuota(4*time.Second))
		require.Equal(t, nothing, r.weigh(tc.whole, 4*time.Second))
		require.Equal(t, before, r.ceil)
		require.Equal(t, 2*time.Second, r.wait, "asked again the later")
		r.at, r.sentAt, r.prevAt = tc.whole+2*second, tc.whole+2*second, tc.whole-8*second
		require.Equal(t, measured, r.weigh(tc.whole+3*second, time.Second))
		require.NotEqual(t, before, r.ceil)
	}
}

// A pause as long as the history looks back leaves nothing admitted in any span that ends now.
func TestOrderBeyondTheLongestWindow(t *testing.T) {
	const second = clock.Instant(time.Second)
	for _, first := range []bool{true, false} {
		r := cruisingAt(t, 12)
		for i := range 300 {
			r.history.add(1000*second + clock.Instant(i)*second/12)
		}
		const order = 743 * time.Second
		r.at, r.sentAt, r.failRate, r.resumed = 1025*second, 1025*second, 12, 300
		r.order, r.refusedTill = order, r.at.Add(order)
		if !first {
			r.admitted, r.lastOrder = 100, 700*time.Second
		}
		require.Equal(t, measured, r.judgeQuota(r.refusedTill, order))
		require.InEpsilon(t, 300/seconds(order), r.ceil, 0.05)
	}
}

// opened is a host whose window begins with the first request after the last one's end. It
// refuses the rest of it without a word.
func opened(n int, span time.Duration) func(at clock.Instant) reply {
	begin, used := never, 0
	return func(at clock.Instant) reply {
		if at >= begin.Add(span) {
			begin, used = at, 0
		}
		if used++; used <= n {
			return reply{}
		}
		return reply{status: 503}
	}
}

// A window that admits as much as the one before is the same window: its length is known from
// both, and its end is waited for instead of asked after.
func TestWindowMetAgain(t *testing.T) {
	const n, span = 199, 11 * time.Second
	rps := n / seconds(span)
	r := newRig(t, stranger)
	r.meetTrouble()
	host := opened(n, span)
	require.Greater(t, r.watch(time.Minute, host).admittedPer(time.Minute), 0.9*rps)
	c := r.watch(3*time.Minute, host)
	require.Greater(t, c.admittedPer(3*time.Minute), 0.93*rps)
	require.Less(t, c.refusedShare(), 0.005)
	require.InEpsilon(t, rps, c.ceil, 0.04)
}

// What is known of a window that nobody names, after pauses that ended in it.
func TestWindowSpan(t *testing.T) {
	for _, tc := range []struct {
		name              string
		first, then       int32         // admitted
		asked, over       time.Duration // after the second's begin: the last trial that failed, and the other
		least, most, full float64
	}{
		{"as much again", 100, 100, 9 * time.Second, 16 * time.Second, 10, 12, 100},
		{"one more", 100, 101, 11 * time.Second, 16 * time.Second, 11, 12, 101},
		{"as much, and sooner", 100, 100, 8 * time.Second, 11 * time.Second, 10, 11, 100},
		{"as much, in more than it was", 100, 100, 13 * time.Second, 16 * time.Second, 13, 16, 100},
		{"another count", 100, 60, 4 * time.Second, 6 * time.Second, 4, 6, 60},
		{"too few to tell", 100, minCycle - 1, 4 * time.Second, 6 * time.Second, 10, 12, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cruisingAt(t, 20)
			r.tries = 1
			r.resumed, r.refusedTill = tc.first, r.now.Add(10*time.Second)
			r.pass(12 * time.Second)
			r.beginCycle(r.now, false)
			r.resumed, r.refusedTill = tc.then, r.now.Add(tc.asked)
			r.pass(tc.over)
			r.noteFull(r.now)
			require.InDelta(t, tc.least, r.beyond, 1e-3)
			require.InDelta(t, tc.most, r.within, 1e-3)
			require.EqualValues(t, tc.full, r.full)
		})
	}
}

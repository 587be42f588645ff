package simulate

import (
	"math"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// visit is a request at an instant and what it must come to.
type visit struct {
	at     time.Duration
	status int
	after  time.Duration // Retry-After
	next   time.Duration // what Next says just after it
}

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func at(d time.Duration) clock.Instant { return clock.Instant(d) }

const ms = time.Millisecond

func TestServersAtExactInstants(t *testing.T) {
	const ok, many, no, s = http.StatusOK, tooMany, http.StatusForbidden, time.Second
	for name, c := range map[string]struct {
		server Server
		visits []visit
	}{
		"leaky: a burst of two above one per second": {
			&leaky{rate: always(1), burst: 2, status: unavailable},
			[]visit{
				{0, ok, 0, 0},                          // excess 0
				{0, ok, 0, 1 * s},                      // excess 1: Next leaves half of the burst
				{0, ok, 0, 2 * s},                      // excess 2
				{0, unavailable, 0, 2 * s},             // would be 3
				{999 * ms, unavailable, 0, 2 * s},      // 2.001: the refusal has changed nothing
				{1 * s, ok, 0, 3 * s},                  // 2
				{2500 * ms, ok, 0, 4 * s},              // 1.5
				{2500 * ms, unavailable, 0, 4 * s},     // 2.5
				{60 * s, ok, 0, 60 * s},                // no excess is left and none is saved up
				{60*s + 400*ms, ok, 0, 60*s + 1000*ms}, // 0.6
			},
		},
		"leaky: no burst": {
			&leaky{rate: always(10), status: many},
			[]visit{{0, ok, 0, 100 * ms}, {99 * ms, many, 0, 100 * ms}, {100 * ms, ok, 0, 200 * ms}},
		},
		"leaky: the rate drops and comes back": {
			&leaky{rate: steps{{0, 10}, {1 * s, 1}, {9 * s, 10}}, status: many},
			[]visit{{0, ok, 0, 100 * ms}, {100 * ms, ok, 0, 200 * ms}, {1 * s, many, 0, 1100 * ms}, {1100 * ms, ok, 0, 2100 * ms}, {9 * s, ok, 0, 9100 * ms}},
		},
		"bucket: exact Retry-After is rounded up": {
			&leaky{rate: always(0.4), status: many, hint: hint{form: exact}},
			[]visit{{0, ok, 0, 2500 * ms}, {0, many, 3 * s, 2500 * ms}, {2 * s, many, 1 * s, 2500 * ms}, {2500 * ms, ok, 0, 5 * s}},
		},
		"bucket: constant Retry-After": {
			&leaky{rate: always(1), status: many, hint: hint{constant, 30 * s}},
			[]visit{{0, ok, 0, 1 * s}, {1 * ms, many, 30 * s, 1 * s}, {1 * s, ok, 0, 2 * s}},
		},
		"fixed on the clock, the first window cut short": {
			&fixed{max: 2, window: 10 * s, phase: 3 * s, status: many, hint: hint{form: exact}},
			[]visit{
				{0, ok, 0, 0},
				{5 * s, ok, 0, 7 * s},
				{6500 * ms, many, 1 * s, 7 * s},
				{7 * s, ok, 0, 7 * s},
				{8 * s, ok, 0, 17 * s},
				{8 * s, many, 9 * s, 17 * s},
				{17 * s, ok, 0, 17 * s},
			},
		},
		"fixed from the first request, Retry-After as a date": {
			&fixed{max: 1, window: 10 * s, opening: byRequest, status: unavailable, hint: hint{form: wholeDate}},
			[]visit{
				{300 * ms, ok, 0, 10300 * ms},
				{400 * ms, unavailable, 10600 * ms, 10300 * ms},
				{10299 * ms, unavailable, 701 * ms, 10300 * ms},
				{10300 * ms, ok, 0, 20300 * ms},
				{50 * s, ok, 0, 60 * s},
			},
		},
		"fixed by whole seconds": {
			&fixed{max: 1, window: 2 * s, opening: byWholeSecond, status: unavailable},
			[]visit{{900 * ms, ok, 0, 2 * s}, {1999 * ms, unavailable, 0, 2 * s}, {2700 * ms, ok, 0, 4 * s}, {4 * s, ok, 0, 6 * s}},
		},
		"sliding log: a refusal is not logged": {
			newSliding(2, 10*s, many, hint{form: exact}),
			[]visit{
				{1 * s, ok, 0, 1 * s},
				{4 * s, ok, 0, 11 * s},
				{5 * s, many, 6 * s, 11 * s},
				{10500 * ms, many, 1 * s, 11 * s},
				{11 * s, ok, 0, 14 * s},
				{13 * s, many, 1 * s, 14 * s},
				{14 * s, ok, 0, 21 * s},
			},
		},
		"sliding counter: refused ones count": {
			&approximate{max: 4, window: 10 * s, status: many, hint: hint{constant, 10 * s}},
			[]visit{
				{0, ok, 0, 0},
				{0, ok, 0, 0},
				{0, ok, 0, 10 * s}, // Next is careful
				{0, ok, 0, 10 * s},
				{10 * s, many, 10 * s, 15200 * ms},  // 4 + 1
				{15 * s, ok, 0, 17700 * ms},         // 2 + 2
				{17500 * ms, ok, 0, 20 * s},         // 1 + 3
				{20 * s, ok, 0, 23600 * ms},         // 1 + 3
				{20 * s, many, 10 * s, 26933333334}, // 2 + 3
				{45 * s, ok, 0, 45 * s},             // two periods back is forgotten
				{45 * s, ok, 0, 45 * s},
				{45 * s, ok, 0, 50 * s},
				{45 * s, ok, 0, 50 * s},
				{45 * s, many, 10 * s, 50 * s},
			},
		},
		"evasive: the block is renewed": {
			&evasive{max: 2, block: 10 * s},
			[]visit{
				{100 * ms, ok, 0, 100 * ms},
				{900 * ms, ok, 0, 1 * s},
				{1 * s, ok, 0, 1 * s},
				{1999 * ms, ok, 0, 2 * s},
				{1999 * ms, no, 0, 11999 * ms},
				{11 * s, no, 0, 21 * s},
				{20999 * ms, no, 0, 30999 * ms},
				{30999 * ms, ok, 0, 30999 * ms},
			},
		},
		"jail: more than two refusals in a minute": {
			&jail{Server: &leaky{rate: always(0.5), status: many}, max: 2, term: 100 * s},
			[]visit{
				{0, ok, 0, 2 * s},
				{1 * s, many, 0, 2 * s},
				{1 * s, many, 0, 2 * s},
				{61 * s, ok, 0, 63 * s},
				{61 * s, many, 0, 63 * s}, // the first two are out of sight
				{62 * s, many, 0, 63 * s},
				{62 * s, many, 0, 162 * s},
				{161999 * ms, no, 0, 162 * s},
				{162 * s, ok, 0, 164 * s},
			},
		},
		"outage": {
			&outage{Server: &leaky{rate: always(1), status: many}, when: spans{{5 * s, 6 * s}, {8 * s, 9 * s}}, says: Answer{Status: http.StatusInternalServerError}},
			[]visit{{4900 * ms, ok, 0, 5900 * ms}, {5 * s, http.StatusInternalServerError, 0, 6 * s}, {6 * s, ok, 0, 7 * s}, {8999 * ms, http.StatusInternalServerError, 0, 9 * s}, {9 * s, ok, 0, 10 * s}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, v := range c.visits {
				a := c.server.Serve(at(v.at))
				require.Equal(t, v.status, a.Status, "visit %d at %v", i, v.at)
				require.Equal(t, v.after, a.RetryAfter, "Retry-After of visit %d at %v", i, v.at)
				require.Equal(t, v.status == many || v.status == unavailable || v.status == no, a.Refused, "visit %d at %v", i, v.at)
				require.Equal(t, max(v.next, v.at), time.Duration(c.server.Next(at(v.at))), "Next after visit %d at %v", i, v.at)
			}
		})
	}
}

// A queue of two workers: the third request waits for the first of them to be free.
func TestQueueServesInOrder(t *testing.T) {
	q := newQueue(2, time.Second, always(1), source())
	twin := source()
	work := func() time.Duration { return time.Duration(float64(time.Second) * twin.ExpFloat64()) }
	a, b, c := work(), work(), work()
	require.Equal(t, a, q.Serve(0).Delay)
	require.Equal(t, b, q.Serve(0).Delay)
	require.Equal(t, min(a, b)+c-10*ms, q.Serve(at(10*ms)).Delay)
}

func TestQueueShedsWhatNobodyWaitsFor(t *testing.T) {
	q := newQueue(1, time.Second, always(1), source())
	var last Answer
	for range 100 {
		if last = q.Serve(0); last.Status != http.StatusOK {
			break
		}
		require.Less(t, last.Delay, patience+20*time.Second) // the wait, and a piece of work
	}
	require.Equal(t, unavailable, last.Status)
	require.False(t, last.Refused)
	require.Equal(t, http.StatusOK, q.Serve(at(time.Hour)).Status)
}

func TestQueuePacesItsOracle(t *testing.T) {
	q := newQueue(4, 100*ms, steps{{0, 1}, {time.Minute, 4}}, source())
	require.InDelta(t, 40, q.capacity(0), 1e-9)
	require.InDelta(t, 10, q.capacity(time.Minute), 1e-9)
	var now clock.Instant
	for range 361 { // 36/s, nine tenths of 40
		now = q.Next(now)
		q.Serve(now)
	}
	require.InDelta(t, 10, time.Duration(now).Seconds(), 1e-6)
}

func TestQuotaHeadersCountDown(t *testing.T) {
	w := &fixed{max: 2, window: time.Minute, status: tooMany, quota: true}
	require.Equal(t, header.Quota{Limit: 2, Remaining: 1, Reset: time.Minute, Window: time.Minute}, w.Serve(0).Quota)
	require.Equal(t, header.Quota{Limit: 2, Remaining: 0, Reset: 59 * time.Second, Window: time.Minute}, w.Serve(at(1500*ms)).Quota)
	a := w.Serve(at(59500 * ms))
	require.True(t, a.Refused)
	require.Equal(t, header.Quota{Limit: 2, Remaining: 0, Reset: time.Second, Window: time.Minute}, a.Quota)
	require.Equal(t, int64(1), w.Serve(at(time.Minute)).Quota.Remaining)
}

func TestLeakyDelays(t *testing.T) {
	s := &leaky{rate: always(10), burst: 2, delay: true, status: tooMany}
	for i, want := range []time.Duration{0, 100 * ms, 200 * ms} {
		require.Equal(t, want, s.Serve(0).Delay, "request %d", i)
	}
	require.True(t, s.Serve(0).Refused)
	require.Equal(t, 150*ms, s.Serve(at(150*ms)).Delay)
}

func TestFlakyFailsItsShareInTurns(t *testing.T) {
	s := &flaky{Server: &pages{median: ms, rnd: source()}, share: 0.25, status: []int{http.StatusInternalServerError, unavailable}, rnd: source()}
	count := map[int]int{}
	const n = 40_000
	for range n {
		a := s.Serve(0)
		count[a.Status]++
		require.False(t, a.Refused)
	}
	require.InDelta(t, n/4, count[http.StatusInternalServerError]+count[unavailable], 400)
	require.InDelta(t, count[http.StatusInternalServerError], count[unavailable], 1)
}

// The limiter inside counts what failed: it was work.
func TestFlakyIsBehindTheLimiter(t *testing.T) {
	s := &flaky{Server: &leaky{rate: always(1), status: tooMany}, share: 1, status: []int{http.StatusInternalServerError}, rnd: source()}
	require.Equal(t, http.StatusInternalServerError, s.Serve(0).Status)
	require.Equal(t, tooMany, s.Serve(0).Status)
}

func TestPagesAreLognormal(t *testing.T) {
	s := &pages{median: 100 * ms, sigma: 1.2, factor: steps{{0, 1}, {time.Minute, 4}}, rnd: source()}
	mean := func(now time.Duration) time.Duration {
		var sum time.Duration
		const n = 100_000
		for range n {
			sum += s.Serve(at(now)).Delay
		}
		return sum / n
	}
	want := 100 * math.Exp(1.2*1.2/2) * float64(ms) // of the median: the mean of a lognormal
	require.InEpsilon(t, want, mean(0), 0.05)
	require.InEpsilon(t, 4*want, mean(time.Minute), 0.05)
	limited := &pages{Server: &leaky{rate: always(1), status: tooMany}, median: time.Second, rnd: source()}
	require.Equal(t, time.Second, limited.Serve(0).Delay)
	require.Zero(t, limited.Serve(0).Delay, "a refusal costs the host nothing")
}

// However and whenever it is asked, Next changes nothing: a server that is asked
// answers as one that is not.
func TestNextChangesNothing(t *testing.T) {
	for _, sc := range append(Scenarios(), Random(1), Random(2), Random(3), Random(4)) {
		asked, twin := sc.New(source()), sc.New(source())
		rnd := rand.New(rand.NewPCG(3, 4))
		var now clock.Instant
		for range 500 {
			now = now.Add(time.Duration(rnd.ExpFloat64() * float64(100*ms)))
			require.GreaterOrEqual(t, asked.Next(now), now, sc.Name)
			asked.Next(now.Add(time.Duration(rnd.Float64() * float64(time.Minute))))
			require.Equal(t, twin.Serve(now), asked.Serve(now), "%s at %v", sc.Name, time.Duration(now))
		}
	}
}

// Whoever comes exactly when Next says is admitted. A limiter that says otherwise
// would make the bound too low or full of refusals.
func TestNextIsAdmitted(t *testing.T) {
	for _, sc := range Scenarios() {
		server := sc.New(source())
		var now clock.Instant
		for range 2000 {
			for free := server.Next(now); free > now; free = server.Next(now) {
				now = free
			}
			a := server.Serve(now)
			require.False(t, a.Refused || a.Ban, "%s at %v", sc.Name, time.Duration(now))
			now++
		}
	}
}

func TestOutageOfConnections(t *testing.T) {
	s := &outage{Server: &pages{rnd: source()}, when: spans{{0, time.Second}}, says: Answer{Err: syscall.ECONNREFUSED}}
	require.ErrorIs(t, s.Serve(0).Err, syscall.ECONNREFUSED)
	require.NoError(t, s.Serve(at(time.Second)).Err)
}

// vsthrottle gives whole tokens for the time since the last it gave: who asks a little too
// soon lives on what was saved up, and who waits for one has it each time.
func TestWholeTokens(t *testing.T) {
	for _, tc := range []struct {
		gap  time.Duration
		want int
	}{{50 * time.Millisecond, 1000}, {49 * time.Millisecond, 20}, {60 * time.Millisecond, 1000}} {
		s, admitted := &whole{max: 20, period: time.Second, status: tooMany}, 0
		for i := range 1000 {
			if !s.Serve(clock.Instant(i) * clock.Instant(tc.gap)).Refused {
				admitted++
			}
		}
		if tc.want < 1000 {
			require.Less(t, admitted, 600, "asking every %v", tc.gap)
			continue
		}
		require.Equal(t, tc.want, admitted, "asking every %v", tc.gap)
	}
}

// A moving window tells what is left and when its oldest request leaves it.
func TestMovingWindowTellsItsQuota(t *testing.T) {
	s := newSliding(2, 10*time.Second, tooMany, hint{form: exact})
	s.quota = true
	for _, tc := range []struct {
		at        time.Duration
		remaining int64
		reset     time.Duration
		refused   bool
	}{
		{0, 1, 11 * time.Second, false},
		{4 * time.Second, 0, 7 * time.Second, false},
		{5 * time.Second, 0, 6 * time.Second, true},
		{11 * time.Second, 0, 4 * time.Second, false},
		{30 * time.Second, 1, 11 * time.Second, false},
	} {
		a := s.Serve(clock.Instant(tc.at))
		require.Equal(t, tc.refused, a.Refused, tc.at)
		require.Equal(t, header.Quota{Limit: 2, Remaining: tc.remaining, Reset: tc.reset}, a.Quota, tc.at)
	}
}

package simulate

import (
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func at(d time.Duration) clock.Instant { return clock.Instant(d) }

const ms = time.Millisecond

// The times and statuses of requests, and the results of Next, are those of testdata/instants.yaml.
func TestServersAtExactInstants(t *testing.T) {
	var cases []struct {
		spec `yaml:",inline"`

		Visits string
	}
	text, err := os.ReadFile("testdata/instants.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &cases))
	require.Len(t, cases, 13)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			c.Near = true // pages take no time
			server := c.server(source())
			if f, ok := server.(*fixed); ok && f.Opening == onTheClock {
				f.phase = 3 * time.Second
			}
			for line := range strings.Lines(c.Visits) {
				f := strings.Fields(strings.ReplaceAll(line, " - ", " 0s "))
				var d [4]time.Duration // of at, status, Retry-After and Next
				for i := range f[:4] {
					if i != 1 {
						d[i], err = time.ParseDuration(f[i])
						require.NoError(t, err, line)
					}
				}
				a := server.Serve(at(d[0]))
				require.Equal(t, f[1], strconv.Itoa(a.Status), line)
				require.Equal(t, d[2], a.RetryAfter, "Retry-After of %s", line)
				require.Equal(t, slices.Contains([]int{tooMany, unavailable, http.StatusForbidden}, a.Status), a.Refused, line)
				require.Equal(t, max(d[3], d[0]), time.Duration(server.Next(at(d[0]))), "Next after %s", line)
			}
		})
	}
}

// A queue of two workers: the third request waits for the first of them to be free.
func TestQueueServesInOrder(t *testing.T) {
	q := (&limit{Kind: "queue", N: 2, Per: time.Second}).server(source())
	twin := source()
	work := func() time.Duration { return time.Duration(float64(time.Second) * twin.ExpFloat64()) }
	a, b, c := work(), work(), work()
	require.Equal(t, a, q.Serve(0).Delay)
	require.Equal(t, b, q.Serve(0).Delay)
	require.Equal(t, min(a, b)+c-10*ms, q.Serve(at(10*ms)).Delay)
}

func TestQueueShedsWhatNobodyWaitsFor(t *testing.T) {
	q := (&limit{Kind: "queue", N: 1, Per: time.Second}).server(source())
	var last Answer
	for range 100 {
		if last = q.Serve(0); last.Status != http.StatusOK {
			break
		}
		require.Less(t, last.Delay, patience+20*time.Second) // the wait and the service
	}
	require.Equal(t, unavailable, last.Status)
	require.False(t, last.Refused)
	require.Equal(t, http.StatusOK, q.Serve(at(time.Hour)).Status)
}

func TestQueuePacesItsOracle(t *testing.T) {
	l := &limit{Kind: "queue", N: 4, Per: 100 * ms, Slower: steps{{0, 1}, {time.Minute, 4}}}
	q := l.server(source())
	require.InDelta(t, 40, l.rps(0), 1e-9)
	require.InDelta(t, 10, l.rps(time.Minute), 1e-9)
	var now clock.Instant
	for range 361 { // 36/s, nine tenths of 40
		now = q.Next(now)
		q.Serve(now)
	}
	require.InDelta(t, 10, time.Duration(now).Seconds(), 1e-6)
}

func TestQuotaHeadersCountDown(t *testing.T) {
	w := &fixed{limit: &limit{N: 2, Per: time.Minute, Quota: true}}
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

// The limiter inside counts requests that fail, since they were work.
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

// Calls of Next, however many and whenever, do not change the later answers of a server.
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

// A request at the instant that Next returns is admitted. Otherwise the bound of a limiter would be too low or full of
// refusals.
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

// vsthrottle gives whole tokens for the time since the last one. A client that comes a little too soon uses up saved
// tokens; one that waits for a token gets it each time.
func TestWholeTokens(t *testing.T) {
	for _, tc := range []struct {
		gap  time.Duration
		want int
	}{{50 * time.Millisecond, 1000}, {49 * time.Millisecond, 20}, {60 * time.Millisecond, 1000}} {
		s, admitted := &whole{limit: &limit{N: 20, Per: time.Second}}, 0
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

// A refusal begins a block, which later requests do not prolong, though they take tokens.
func TestWholeTokensBlock(t *testing.T) {
	s := (&limit{Kind: "whole", N: 2, Per: time.Second, Block: 10 * time.Second}).server(source())
	for _, tc := range []struct {
		at      time.Duration
		refused bool
	}{{0, false}, {0, false}, {0, true}, {9 * time.Second, true}, {9 * time.Second, true}, {10 * time.Second, false}, {10 * time.Second, false}, {10 * time.Second, true}, {19 * time.Second, true}} {
		require.Equal(t, tc.refused, s.Serve(clock.Instant(tc.at)).Refused, tc.at)
	}
	require.Equal(t, clock.Instant(20*time.Second), s.Next(clock.Instant(12*time.Second)))
}

// A limiter that counts in whole seconds admits its limit in one second more than it says. The end that it gives is
// that of its own window, and requests of that window still count afterwards.
func TestClockedCounter(t *testing.T) {
	for rate, refused := range map[int]bool{12: false, 15: true} {
		s, n := (&limit{Kind: "clocked", N: 90, Per: 6 * time.Second, Hint: hint{form: exact}, Quota: true}).server(source()), 0
		for i := range 60 * rate {
			a := s.Serve(clock.Instant(i) * clock.Instant(time.Second) / clock.Instant(rate))
			if a.Refused {
				n++
				require.Zero(t, a.Quota)
				require.Positive(t, a.RetryAfter)
			}
			if i == 6*rate && !refused {
				require.Equal(t, header.Quota{Limit: 90, Remaining: 90 - 6*12 - 1, Reset: 6 * time.Second}, a.Quota)
			}
		}
		require.Equal(t, refused, n > 0, "%d a second: %d refused", rate, n)
	}
}

// A moving window gives what is left, and when its oldest request leaves it.
func TestMovingWindowTellsItsQuota(t *testing.T) {
	s := (&limit{Kind: "log", N: 2, Per: 10 * time.Second, Hint: hint{form: exact}, Quota: true}).server(source())
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

package simulate

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aimd is the strategy in the tests of the harness. Any strategy would do.
const aimd = "aimd"

type scripted struct {
	script   []Answer
	arrivals *[]time.Duration
}

func (s *scripted) Serve(now clock.Instant) Answer {
	*s.arrivals = append(*s.arrivals, time.Duration(now))
	a := s.script[0]
	if len(s.script) > 1 {
		s.script = s.script[1:]
	}
	return a
}

func (s *scripted) Next(now clock.Instant) clock.Instant { return now }

func script(t *testing.T, sc Scenario, cfg ratelimit.Config, answers ...Answer) (Result, []time.Duration) {
	t.Helper()
	var arrivals []time.Duration
	sc.Duration = 2 * time.Minute
	if sc.Capacity == nil {
		sc.Capacity = flat(1)
	}
	sc.New = func(*rand.Rand) Server { return &scripted{answers, &arrivals} }
	r, err := Run(sc, cfg, 1)
	require.NoError(t, err)
	return r, arrivals
}

// steady returns a configuration under which admitted requests do not change the rate.
func steady(rps float64) ratelimit.Config {
	c := Config(aimd)
	c.InitialRPS, c.MinRPS, c.MaxRPS = rps, rps, rps
	return c
}

func secs(n ...float64) []time.Duration {
	var d []time.Duration
	for _, s := range n {
		d = append(d, time.Duration(s*1e9))
	}
	return d
}

func TestRequestsGoOutAtThePlannedRate(t *testing.T) {
	r, arrivals := script(t, Scenario{Link: Link{RTT: 200 * ms}}, steady(2), Answer{Status: http.StatusOK, Delay: 50 * ms})
	require.Equal(t, secs(0.1, 0.6, 1.1, 1.6, 2.1), arrivals[:5], "half of the RTT after the grants")
	require.Len(t, arrivals, 240)
	require.Equal(t, Span{Sent: 120, Admitted: 120, Capacity: 60}, r.First)
	require.Equal(t, Span{Sent: 120, Admitted: 120, Capacity: 60}, r.Steady)
	require.InEpsilon(t, 250*ms, r.P95, 0.02)
	require.Equal(t, 1, r.MaxTries)
	require.Zero(t, r.RetriesPerFailure)
}

func TestRetryAfterIsObeyedFromItsArrival(t *testing.T) {
	_, arrivals := script(t, Scenario{Link: Link{RTT: 200 * ms}}, steady(1),
		Answer{Status: tooMany, Refused: true, RetryAfter: 10 * time.Second}, admitted())
	require.Equal(t, secs(0.1, 10.3, 11.3), arrivals[:3], "the order comes at 0.2 s")
}

func TestRefusedURLsGoBackUntilAdmitted(t *testing.T) {
	refusal := Answer{Status: tooMany, Refused: true, RetryAfter: time.Second}
	r, _ := script(t, Scenario{Link: Link{RTT: ms}, MaxInFlight: 1}, steady(1), append(slices.Repeat([]Answer{refusal}, 9), admitted())...)
	require.Equal(t, 10, r.MaxTries)
	require.Zero(t, r.RetriesPerFailure, "a refusal is no failure")
	require.Zero(t, r.GivenUp)
	require.Equal(t, 9, r.First.Refused)
}

func TestFailedURLsAreTriedFourTimes(t *testing.T) {
	c := steady(0.5)                                           // so that a URL is due again before the next permit
	c.ConsecutiveFailThreshold, c.MinSamplesToTrip = 100, 1000 // the breaker stays closed
	bad := Answer{Status: http.StatusBadGateway}
	r, arrivals := script(t, Scenario{Link: Link{RTT: ms}, MaxInFlight: 1}, c, bad, bad, bad, bad, admitted())
	require.Equal(t, 1, r.GivenUp)
	require.Equal(t, 4, r.MaxTries)
	require.InDelta(t, 3, r.RetriesPerFailure, 0)
	require.Equal(t, 4, r.First.Failed)
	require.Greater(t, len(arrivals), 50, "the next URLs are admitted")
	r, _ = script(t, Scenario{Link: Link{RTT: ms}, MaxInFlight: 1}, c, Answer{Status: http.StatusInternalServerError}, admitted())
	require.Equal(t, 1, r.MaxTries, "another try seldom cures a 500")
	require.Equal(t, 1, r.GivenUp)
}

func TestSlowAnswersTimeOut(t *testing.T) {
	r, _ := script(t, Scenario{Link: Link{RTT: 200 * ms}, Timeout: 3 * time.Second}, steady(1), Answer{Status: http.StatusOK, Delay: time.Hour}, admitted())
	require.Equal(t, 1, r.First.Failed)
	require.InDelta(t, 1, r.RetriesPerFailure, 0)
	var at time.Duration
	_, err := Simulation{
		Scenario: Scenario{
			Duration: 2 * time.Minute, Timeout: 3 * time.Second, Link: Link{RTT: 200 * ms}, Capacity: flat(1),
			New: func(*rand.Rand) Server {
				return &scripted{[]Answer{{Delay: time.Hour}, admitted()}, new([]time.Duration)}
			},
		}, Config: steady(1), onAnswer: func(now time.Duration, fb *ratelimit.Feedback) {
			if fb.Err != nil {
				require.ErrorIs(t, fb.Err, context.DeadlineExceeded)
				require.Equal(t, 3*time.Second, fb.Latency)
				at = now
			}
		},
	}.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, at)
	r, _ = script(t, Scenario{Link: Link{RTT: 200 * ms}, Timeout: 3 * time.Second}, steady(1), Answer{Status: http.StatusOK, Delay: 2800 * ms}, admitted())
	require.Zero(t, r.First.Failed, "at the last moment is in time")
}

// The engine receives everything that the server said, and when the request was sent.
func TestFeedbackIsWhole(t *testing.T) {
	quota := header.Quota{Limit: 10, Remaining: 3, Reset: time.Second, Window: time.Minute}
	var got []ratelimit.Feedback
	_, err := Simulation{
		Scenario: Scenario{
			Duration: 2 * time.Minute, Link: Link{RTT: 200 * ms}, MaxInFlight: 1, Capacity: flat(1),
			New: func(*rand.Rand) Server {
				return &scripted{[]Answer{
					{Status: unavailable, RetryAfter: 3 * time.Second, Quota: quota, Delay: 50 * ms}, admitted(),
				}, new([]time.Duration)}
			},
		}, Config: steady(1), onAnswer: func(_ time.Duration, fb *ratelimit.Feedback) { got = append(got, *fb) },
	}.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, ratelimit.Feedback{
		StatusCode: unavailable, Latency: 250 * ms, RetryAfter: 3 * time.Second, SentAt: epoch(), Quota: quota, Second: 1,
	}, got[0])
	require.Equal(t, ratelimit.Feedback{
		StatusCode: http.StatusOK, Latency: 200 * ms, SentAt: epoch().Add(3250 * ms), Second: 4, Retry: true,
	}, got[1], "the same URL, as soon as the order allows")
}

// A URL that failed is not due again at once; others go first.
func TestRetriesWait(t *testing.T) {
	var retries []bool
	_, err := Simulation{
		Scenario: Scenario{
			Duration: 2 * time.Minute, Link: Link{RTT: ms}, Capacity: flat(4),
			New: func(*rand.Rand) Server {
				return &scripted{[]Answer{{Status: http.StatusBadGateway}, admitted()}, new([]time.Duration)}
			},
		}, Config: steady(4), onAnswer: func(_ time.Duration, fb *ratelimit.Feedback) { retries = append(retries, fb.Retry) },
	}.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{false, false, false, false, false, true, false}, retries[:7], "4 a second, due after 1.001 s")
}

func TestInFlightIsBounded(t *testing.T) {
	_, arrivals := script(t, Scenario{Link: Link{RTT: ms}, MaxInFlight: 2}, steady(100), Answer{Status: http.StatusOK, Delay: time.Second})
	require.Less(t, len(arrivals), 2*120+2)
	require.Greater(t, len(arrivals), 2*119)
}

func TestOffersHoldRequestsBack(t *testing.T) {
	for name, c := range map[string]struct {
		offer Offer
		want  []time.Duration
	}{
		"all":     {Offer{}, secs(0, 0.1, 0.2, 0.3)},
		"trickle": {Offer{Rate: 2, Until: time.Second}, secs(0, 0.5, 1, 1.1)},
		"pulses":  {Offer{On: 150 * ms, Off: 9850 * ms}, secs(0, 0.1, 10, 10.1)},
	} {
		_, arrivals := script(t, Scenario{Offer: c.offer, Link: Link{RTT: 1}}, steady(10), admitted())
		require.Equal(t, c.want, arrivals[:4], name)
	}
}

func TestSameSeedSameResult(t *testing.T) {
	scs := append(Scenarios(), Random(1), Random(2), Random(3))
	if racetest.Sample(t) {
		var err error
		scs, err = Select(Scenarios(), raced()...)
		require.NoError(t, err)
	}
	for _, strategy := range []string{aimd, Oracle} {
		for _, sc := range scs {
			sc.Duration = MinDuration
			first, err := Run(sc, Config(strategy), 7)
			require.NoError(t, err)
			second, err := Run(sc, Config(strategy), 7)
			require.NoError(t, err)
			require.Equal(t, first, second)
		}
	}
}

func TestOtherSeedOtherResult(t *testing.T) {
	found, err := Select(Scenarios(), "S9b") // its failures are random
	require.NoError(t, err)
	sc := found[0]
	sc.Duration = 5 * time.Minute
	a, err := Run(sc, Config(aimd), 1)
	require.NoError(t, err)
	b, err := Run(sc, Config(aimd), 2)
	require.NoError(t, err)
	a.Seed, b.Seed = 0, 0
	require.NotEqual(t, a, b)
}

// An observer does not change a run, and sees all of it.
func TestWatchingChangesNothing(t *testing.T) {
	sc := Scenarios()[0]
	sc.Duration = 2 * time.Minute
	want, err := Run(sc, Config(aimd), 1)
	require.NoError(t, err)
	var seconds []Second
	var answers int
	var last time.Duration
	got, err := Simulation{
		Scenario: sc, Config: Config(aimd), Seed: 1,
		OnSecond: func(s Second) { seconds = append(seconds, s) },
		onAnswer: func(at time.Duration, _ *ratelimit.Feedback) {
			require.GreaterOrEqual(t, at, last)
			last = at
			answers++
		},
	}.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, seconds, 120)
	var all Span
	for i, s := range seconds {
		require.Equal(t, time.Duration(i)*time.Second, s.At)
		all.add(s.Span)
	}
	require.Equal(t, got.First.Sent+got.Steady.Sent, all.Sent)
	require.InDelta(t, answers, all.Sent, 10)
	require.Positive(t, seconds[119].Plan.FillRate)
	require.NotEmpty(t, seconds[119].Plan.Reason)
}

// The harness itself costs next to nothing: only the engine and growing queues allocate memory, not requests.
func TestRunAllocatesNothingPerRequest(t *testing.T) {
	sc := Scenarios()[2] // 100 requests per second
	run := func(d time.Duration) func() {
		return func() {
			sc.Duration = d
			_, err := Run(sc, Config(aimd), 1)
			require.NoError(t, err)
		}
	}
	short, long := testing.AllocsPerRun(1, run(MinDuration)), testing.AllocsPerRun(1, run(2*MinDuration))
	require.Less(t, long-short, 200.0, "for some 6000 requests more")
}

func TestRunRejects(t *testing.T) {
	cfg := Config(aimd)
	cfg.AIMDDecrease = 2
	_, err := compare(Scenarios()[1:2], []Named{{"aimd", cfg}}, 1)
	require.ErrorContains(t, err, "simulate S1b under aimd: ")
	require.ErrorContains(t, err, "AIMDDecrease")
}

// Where the engine would wait for a response, a run must not wait, since nothing else could deliver the response.
func TestImpatienceEndsAWait(t *testing.T) {
	c := newImpatient(&virtual{now: 5})
	require.NoError(t, c.Err())
	deadline, ok := c.Deadline()
	require.True(t, ok)
	require.Equal(t, epoch().Add(5), deadline)
	select {
	case <-c.Done():
	default:
		require.Fail(t, "waiting for its end takes time")
	}
	require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
	require.Nil(t, c.Value(host))
}

// The engine denies a request that is not due, at once and with its reason.
func TestEngineDeniesWhatIsNotDue(t *testing.T) {
	v := &virtual{}
	s := Simulation{Scenario: Scenarios()[0], Config: Config(aimd)}
	clients, err := s.clients(v)
	require.NoError(t, err)
	c := clients(0)
	p, ok := c.acquire(0)
	require.True(t, ok)
	p.Release()
	require.Equal(t, at(time.Second), c.ready(0))
	_, ok = c.acquire(0)
	require.False(t, ok)
	v.now = at(time.Second)
	require.Equal(t, v.now, c.ready(v.now))
}

// The cost of a simulated request, with the engine's work: 100 per second for 15 minutes.
func BenchmarkRun(b *testing.B) {
	sc := Scenarios()[2]
	b.ReportAllocs()
	var sent int
	for b.Loop() {
		r, err := Run(sc, Config(aimd), 1)
		require.NoError(b, err)
		sent += r.First.Sent + r.Steady.Sent
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/request")
}

// While a client is stalled it neither sends nor sees answers; the server goes on.
func TestStalls(t *testing.T) {
	s := stalls{Stalls: Stalls{Gap: 300 * time.Millisecond, Longest: 200 * time.Millisecond}, rnd: (&Scenario{}).random(1, "stalls")}
	const span = 10 * time.Minute
	var stalled time.Duration
	for at := clock.Instant(0); at < clock.Instant(span); {
		over := s.over(at)
		if over < at || over.Sub(at) > 200*time.Millisecond || s.over(at) != over {
			require.Fail(t, "a stall that is over in the past, too long, or another one when asked again", "at %d: over at %d", at, over)
		}
		stalled += over.Sub(at)
		at = over.Add(time.Millisecond)
	}
	require.InDelta(t, 110.0/410, stalled.Seconds()/span.Seconds(), 0.02, "110 ms after each 300 ms")
}

// fickle forecasts that a permit is due, and then denies it a number of times.
type fickle struct {
	client
	denials int
	asked   []clock.Instant
}

func (c *fickle) ready(now clock.Instant) clock.Instant { return now }

func (c *fickle) acquire(now clock.Instant) (ratelimit.Permit, bool) {
	c.asked = append(c.asked, now)
	return unbound{}, len(c.asked) > c.denials
}

func (c *fickle) learn(clock.Instant, *ratelimit.Feedback) {}

// A run goes on if forecast and engine disagree. At the same instant the engine would give the same answer, and the run
// would never end.
func TestDeniedForecastsAreAskedAgain(t *testing.T) {
	sc := Scenario{Duration: 2 * time.Minute, MaxInFlight: 1, Timeout: time.Second, Capacity: flat(1), Link: Link{RTT: time.Second}}
	c := &fickle{denials: 3}
	d := &driver{
		Simulation: Simulation{Scenario: sc}, end: at(time.Second), sites: []*site{{client: c, server: &pages{rnd: source()}}},
		way: way{Link: sc.Link, rnd: source()}, meter: newMeter(&sc, 1),
	}
	require.NoError(t, d.run(t.Context()))
	require.Equal(t, []clock.Instant{0, at(ms), at(2 * ms), at(3 * ms)}, c.asked)
}

// The oracle obeys the ceiling and Retry-After.
func TestOracleObeys(t *testing.T) {
	c := &oracle{model: &pages{rnd: source()}, gap: 100 * ms}
	var sent []clock.Instant
	send := func(now clock.Instant) {
		_, ok := c.acquire(now)
		require.True(t, ok)
		sent = append(sent, now)
	}
	send(0)
	_, ok := c.acquire(at(100*ms - 1))
	require.False(t, ok)
	send(c.ready(at(ms)))
	c.learn(at(200*ms), &ratelimit.Feedback{StatusCode: tooMany, RetryAfter: 5 * time.Second})
	c.learn(at(300*ms), &ratelimit.Feedback{StatusCode: tooMany, RetryAfter: time.Second})
	send(c.ready(at(300 * ms)))
	require.Equal(t, []clock.Instant{0, at(100 * ms), at(5200 * ms)}, sent, "the later end holds")
	send(c.ready(at(10 * time.Second))) // unused requests are lost
	require.Equal(t, at(10*time.Second+90*ms), c.ready(at(10*time.Second)))
}

// The MaxRPS of a scenario lowers that of the configuration, and with it the other rates.
func TestScenarioLowersTheCeiling(t *testing.T) {
	cfg := Config(aimd)
	cfg.InitialRPS, cfg.MinRPS, cfg.MaxRPS = 50, 20, 100
	r, arrivals := script(t, Scenario{MaxRPS: 4, Capacity: flat(10)}, cfg, admitted())
	require.InDelta(t, 240, r.First.Capacity, 1e-9, "what the client may not use is no capacity")
	require.InDelta(t, 4*120, len(arrivals), 1)
}

// At exact instants, because a pause that begins with its second is easily missed.
func TestOffersAtExactInstants(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		offer Offer
		now   time.Duration
		taken int
		want  time.Duration
	}{
		"all at once":            {Offer{}, 3 * s, 99, 3 * s},
		"the next of a trickle":  {Offer{Rate: 2, Until: 9 * s}, 1 * s, 3, 1500 * ms},
		"one that waits":         {Offer{Rate: 2, Until: 9 * s}, 4 * s, 3, 4 * s},
		"the end of the trickle": {Offer{Rate: 2, Until: 9 * s}, 1 * s, 99, 9 * s},
		"after it":               {Offer{Rate: 2, Until: 9 * s}, 9 * s, 99, 9 * s},
		"in a pulse":             {Offer{On: 3 * s, Off: 7 * s}, 3*s - 1, 0, 3*s - 1},
		"in a pause":             {Offer{On: 3 * s, Off: 7 * s}, 3 * s, 0, 10 * s},
		"at the pause's end":     {Offer{On: 3 * s, Off: 7 * s}, 10 * s, 0, 10 * s},
		"a trickle in pulses":    {Offer{Rate: 0.2, Until: 60 * s, On: 3 * s, Off: 7 * s}, 1 * s, 1, 10 * s},
	} {
		require.Equal(t, c.want, time.Duration(c.offer.next(at(c.now), c.taken)), name)
	}
}

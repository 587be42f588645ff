package testsite

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// TestReportOfASequence sends one host requests for everything that is counted.
func TestReportOfASequence(t *testing.T) {
	r := newRig(t, one(Host{
		Name: "limited", Pages: 5, Private: 2, Size: Size{Min: 100, Max: 100},
		Limit:   Limit{Rate: 2, Burst: 1},
		Refusal: Refusal{RetryAfter: retrySeconds, Wait: 2 * time.Second},
		Robots:  Robots{Disallow: []string{"/private/"}, CrawlDelay: time.Second},
	}))
	for _, s := range []struct {
		at     time.Duration
		path   string
		status string
	}{
		{0, "/p/1", "200"},                         // before robots.txt
		{500 * ms, "/robots.txt", "200"},           //
		{1000 * ms, "/", "200"},                    //
		{1900 * ms, "/p/1", "200"},                 // duplicate, and 0.9s: closer than 1s less 50ms
		{2850 * ms, "/private/0", "200"},           // violation; 0.95s is within the slack
		{3900 * ms, "/p/99", "404"},                //
		{3900 * ms, "/p/2", "200"},                 // gap 0, so closer than the delay
		{3900 * ms, "/p/3", "429"},                 // refused until 5.9s, again too close
		{3950*ms - 1, "/p/3", "429"},               // in flight: until 5.95s-1ns
		{3950 * ms, "/p/3", "429"},                 // inside: until 5.95s, and the grace does not move
		{5900 * ms, "/p/3", "200"},                 // inside the later one
		{6 * time.Second, "/p/4", "200"},           // outside
		{6 * time.Second, "/p/3", "429"},           // a new wait
		{6*time.Second + 10*ms, "/p/3", "429"},     // in flight again
		{20 * time.Second, "/private/../p", "404"}, // no second spelling
	} {
		r.to(s.at)
		require.Equal(t, s.status, r.status(s.path), "%s at %v", s.path, s.at)
	}
	got := r.report()
	require.Positive(t, got.Bytes)
	got.Bytes = 0
	require.Equal(t, HostReport{
		Name: "limited", URL: "http://127.0.1.1",
		Requests: 15, Statuses: map[int]int64{200: 8, 404: 2, 429: 5}, RefusedPer1000: 1000 * 5.0 / 15,
		// From 0 to 20s, two a second and two at once.
		Usage:    Usage{Limits: "leaky-bucket 2/s", Admitted: 10, Possible: 42, UsedShare: 10.0 / 42, Slice: 10 * time.Second},
		Refusals: 5, InFlight: 2, InsideRetryAfter: 2,
		MinGap: 0, Rate: 14.0 / 20, Peak: 5, Allowed: 2, MaxOpen: 1,
		URLs: 5, Distinct: 6, Duplicates: 1,
		Robots: 1, BeforeRobots: 1, RobotsViolations: 2, DelayViolations: 8,
	}, got)
}

func TestPeakMeter(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   []time.Duration
		want uint32
	}{
		{"one", []time.Duration{0}, 1},
		{"within a second", []time.Duration{0, 500 * ms, 989 * ms}, 3},
		{"a second apart", []time.Duration{0, time.Second, 2 * time.Second}, 1},
		{"burst, pause, smaller burst", []time.Duration{0, 0, 0, time.Hour, time.Hour}, 3},
		{"slides", []time.Duration{600 * ms, 700 * ms, 1100 * ms, 1300 * ms, 1650 * ms}, 4},
	} {
		var m peakMeter
		for _, at := range tc.at {
			m.add(clock.Instant(at))
		}
		require.Equal(t, tc.want, m.peak, tc.name)
	}
}

func TestRobotsViolations(t *testing.T) {
	r := newRig(t, one(Host{Private: 1, Robots: Robots{Disallow: []string{"/private/"}, Status: 500, Times: 1}}))
	r.get("/")
	require.Equal(t, int64(0), r.report().RobotsViolations)
	require.Equal(t, int64(1), r.report().BeforeRobots)
	r.get("/robots.txt") // 500: everything is disallowed
	r.get("/")
	require.Equal(t, int64(1), r.report().RobotsViolations)
	r.get("/robots.txt") // 200
	r.get("/")
	r.get("/private/0")
	r.get("/private/77?x=y") // disallowed, whether or not it exists
	got := r.report()
	require.Equal(t, int64(3), got.RobotsViolations)
	require.Equal(t, int64(1), got.BeforeRobots)
	require.Equal(t, 100, got.URLs, "private pages are not expected of anyone")
}

func TestRobots429IsNoAnswer(t *testing.T) {
	r := newRig(t, one(Host{Robots: Robots{Status: 429}}))
	r.get("/robots.txt")
	r.get("/")
	got := r.report()
	require.Equal(t, int64(1), got.BeforeRobots)
	require.Zero(t, got.RobotsViolations)
}

func TestReportAsJSON(t *testing.T) {
	r := newRig(t, Config{Seed: 7, Hosts: []Host{
		{Name: "plain", Pages: 3},
		{Name: "busy", Pages: 2, Limit: Limit{Rate: 1}, Refusal: Refusal{Status: 503}, Flaky: Flaky{Probability: 1, Kinds: []string{"503"}}},
	}})
	r.get("/")
	r.to(1500 * ms)
	r.get("/p/1")
	r.do("GET", "/", 1) // fails
	r.do("GET", "/", 1) // is refused
	report := r.site.Report()
	require.Equal(t, int64(4), report.Total.Requests)
	require.Equal(t, map[int]int64{200: 2, 503: 2}, report.Total.Statuses)
	require.Equal(t, int64(1), report.Hosts[1].Unavailable, "of two 503 one is a refusal")

	data, err := json.Marshal(report)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, report, back)
}

func TestReportIsACopy(t *testing.T) {
	r := newRig(t, one(Host{}))
	r.get("/")
	before := r.report()
	r.get("/")
	require.Equal(t, map[int]int64{200: 1}, before.Statuses)
}

func TestHeadAndOtherMethods(t *testing.T) {
	r := newRig(t, one(Host{Pages: 2}))
	head := r.do("HEAD", "/p/1", 0)
	require.Equal(t, 200, head.Code)
	require.Zero(t, head.Body.Len())
	get := r.get("/p/1")
	require.Equal(t, get.Header().Get("Content-Length"), head.Header().Get("Content-Length"))
	post := r.do("POST", "/p/1", 0)
	require.Equal(t, 405, post.Code)
	require.Equal(t, "GET, HEAD", post.Header().Get("Allow"))
	got := r.report()
	require.Equal(t, int64(1), got.Distinct)
	require.Zero(t, got.Duplicates, "HEAD serves nothing")
	require.Equal(t, int64(get.Body.Len()+post.Body.Len()), got.Bytes)
}

type arrivals struct {
	from time.Duration
	n    int
}

func TestReachedAndConverged(t *testing.T) {
	const never = -1
	for _, tc := range []struct {
		name               string
		slices             []arrivals
		reached, converged time.Duration
	}{
		{"at once", []arrivals{{0, 100}, {10 * time.Second, 100}, {20 * time.Second, 1}}, 0, 0},
		{"after a search", []arrivals{{0, 20}, {10 * time.Second, 60}, {20 * time.Second, 95}, {30 * time.Second, 95}, {40 * time.Second, 1}}, 20 * time.Second, 20 * time.Second},
		{"and lost again", []arrivals{{0, 20}, {10 * time.Second, 95}, {20 * time.Second, 60}, {30 * time.Second, 90}, {40 * time.Second, 1}}, 10 * time.Second, 30 * time.Second},
		{"and never found again", []arrivals{{0, 95}, {10 * time.Second, 80}, {20 * time.Second, 1}}, 0, never},
		{"a slice short of it", []arrivals{{0, 89}, {10 * time.Second, 1}}, never, never},
		{"nobody came for a slice", []arrivals{{0, 95}, {10 * time.Second, 95}, {35 * time.Second, 1}}, 0, never},
		{"the last slice is not over", []arrivals{{0, 95}, {10 * time.Second, 20}}, 0, 0},
		{"too little to tell", []arrivals{{0, 50}}, never, never},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := newUsage(10, time.Second)
			for _, a := range tc.slices {
				for i := range a.n {
					now := clock.Instant(time.Minute + a.from + time.Duration(i)*10*time.Second/time.Duration(a.n))
					u.arrive(now, now, true)
				}
			}
			for want, got := range map[time.Duration]*time.Duration{tc.reached: u.since(u.reached), tc.converged: u.since(u.converged)} {
				if want == never {
					require.Nil(t, got)
					continue
				}
				require.NotNil(t, got)
				require.Equal(t, want, *got)
			}
		})
	}
}

func TestSliceIsLongEnough(t *testing.T) {
	for _, tc := range []struct {
		rate   float64
		window time.Duration
		want   time.Duration
	}{
		{10, time.Second, 10 * time.Second},
		{1, 0, 20 * time.Second}, // of 20 requests
		{10, time.Minute, time.Minute},
		{0, 0, 10 * time.Second},
	} {
		require.Equal(t, tc.want, newUsage(tc.rate, tc.window).slice, "%+v", tc)
	}
}

func TestBoundsOfLimits(t *testing.T) {
	minute := clock.Instant(time.Minute)
	steady := Latency{Typical: 200 * ms, Body: 50 * ms}
	for _, tc := range []struct {
		host       Host
		text       string
		rate, most float64 // from one minute to two
	}{
		{Host{Limit: Limit{Rate: 5, Burst: 9}}, "leaky-bucket 5/s", 5, 310},
		{Host{Limit: Limit{Requests: 60, Window: time.Minute}}, "fixed-window 60 per 1m0s", 1, 120},
		{Host{Limit: Limit{Rate: 0.5, Requests: 60, Window: time.Minute}}, "leaky-bucket 0.5/s, fixed-window 60 per 1m0s", 0.5, 31},
		{Host{Limit: Limit{Concurrent: 3}}, "concurrency 3", 0, 0},
		{Host{Limit: Limit{Concurrent: 3}, Latency: steady}, "concurrency 3", 12, 723},
		{Host{Load: Load{Workers: 2}, Latency: steady}, "workers 2", 8, 482},
		{Host{Load: Load{Rate: 20}}, "queue 20/s", 20, 1201},
		{Host{Limits: []Limiter{{Kind: kindToken, Rate: 2.5}, {Kind: kindSlots, Concurrent: 1}}, Latency: steady}, "token-bucket 2.5/s, concurrency 1", 2.5, 152},
		{Host{Limits: []Limiter{{Kind: kindSliding, Requests: 30, Window: 10 * time.Second}}}, "sliding-window 30 per 10s", 3, 210},
		{Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 4}}, Day: Day{Length: 2 * time.Minute, Table: []Hour{{At: time.Minute, Speed: 0.5}}}}, "leaky-bucket 4/s", 3, 121},
	} {
		g := gateOf(t, tc.host)
		require.Equal(t, tc.text, g.bounds.String())
		require.InDelta(t, tc.rate, g.bounds.long(g.day), 1e-12, tc.text)
		if tc.most > 0 {
			require.InDelta(t, tc.most, g.bounds.most(g.day, minute, 2*minute), 1e-6, tc.text)
		}
	}
	lognormal := Latency{Typical: time.Second, Dist: distLognormal, Spread: 0.5}
	require.InDelta(t, 1.1331, lognormal.mean().Seconds(), 1e-4, "exp(0.5²/2)")
}

// TestUsageReadsBack: a program that reads the report can distinguish never from at once.
func TestUsageReadsBack(t *testing.T) {
	r := newRig(t, one(Host{Limits: []Limiter{{Kind: kindToken, Rate: 1}}}))
	for i := range 22 {
		r.to(time.Duration(i) * time.Second)
		r.get("/")
	}
	data, err := json.Marshal(r.report())
	require.NoError(t, err)
	require.Contains(t, string(data), `"limits":"token-bucket 1/s","admitted":22,"possible":22,"used_share":1,"slice_ns":20000000000,"reached_ns":0,"converged_ns":0`)
	other := newRig(t, one(Host{Limits: []Limiter{{Kind: kindToken, Rate: 1}}}))
	data, err = json.Marshal(other.report())
	require.NoError(t, err)
	require.Contains(t, string(data), `"reached_ns":null,"converged_ns":null`)
}

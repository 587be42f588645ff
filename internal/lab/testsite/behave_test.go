package testsite

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScript(t *testing.T) {
	r := newRig(t, one(Host{
		Script:  []Step{{Status: 200, Times: 2}, {Status: 429}, {Status: 503, Times: 3}, {Status: 200}, {Status: 500, Times: -1}},
		Refusal: Refusal{RetryAfter: retrySeconds},
	}))
	var got []string
	for range 10 {
		require.Equal(t, "404", r.status("/robots.txt"), "robots.txt takes no part in the script")
		got = append(got, r.status("/"))
	}
	require.Equal(t, strings.Fields("200 200 429 503 503 503 200 500 500 500"), got)
	require.Equal(t, int64(4), r.report().Refusals, "429 and 503 are refusals, 500 is not")
}

func TestScriptedRefusalCarriesRetryAfter(t *testing.T) {
	r := newRig(t, one(Host{Script: []Step{{Status: 429}, {Status: 500}}, Refusal: Refusal{RetryAfter: retrySeconds}}))
	require.Equal(t, "1", r.get("/").Header().Get("Retry-After"), "a script does not know when it ends: 1s")
	require.Empty(t, r.get("/").Header().Get("Retry-After"), "a 500 is no refusal")
}

func TestRetryAfterForms(t *testing.T) {
	for _, tc := range []struct {
		name    string
		refusal Refusal
		header  string
		until   time.Duration // from the refusal, at 1s
	}{
		{"none", Refusal{}, "", 0},
		{"seconds, what is left", Refusal{RetryAfter: retrySeconds}, "4", 4 * time.Second}, // 3.999s
		{"seconds, fixed", Refusal{RetryAfter: retrySeconds, Wait: 1500 * ms}, "2", 2 * time.Second},
		// The clock began at 05.3, so it is 06.301 now; three seconds on is 09.301.
		{"date, rounded up", Refusal{RetryAfter: retryDate, Wait: 3 * time.Second}, "Fri, 02 Jan 2026 03:04:10 GMT", 3699 * ms},
		{"date, exact", Refusal{RetryAfter: retryDate, Wait: 2699 * ms}, "Fri, 02 Jan 2026 03:04:09 GMT", 2699 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, one(Host{Limit: Limit{Requests: 1, Window: 5 * time.Second}, Refusal: tc.refusal}))
			r.to(1001 * ms)
			require.Equal(t, "200", r.status("/"))
			rec := r.get("/")
			require.Equal(t, http.StatusTooManyRequests, rec.Code)
			require.Equal(t, tc.header, rec.Header().Get("Retry-After"))
			if tc.until == 0 {
				r.to(1100 * ms)
				r.get("/")
				require.Zero(t, r.report().InsideRetryAfter)
				return
			}
			r.to(1001*ms + tc.until - 1)
			r.get("/x")
			require.Equal(t, int64(1), r.report().InsideRetryAfter, "a nanosecond early")
			// The request just now was refused as well and asked for more.
			again := newRig(t, one(Host{Limit: Limit{Requests: 1, Window: 5 * time.Second}, Refusal: tc.refusal}))
			again.to(1001 * ms)
			again.get("/")
			again.get("/")
			again.to(1001*ms + tc.until)
			again.get("/")
			require.Zero(t, again.report().InsideRetryAfter, "on time")
		})
	}
}

func TestRefusalStatusAndPaths(t *testing.T) {
	r := newRig(t, one(Host{Limit: Limit{Rate: 1}, Refusal: Refusal{Status: 503}}))
	require.Equal(t, "404", r.status("/robots.txt"))
	require.Equal(t, "503", r.status("/"), "robots.txt is charged like a page")
	require.Equal(t, "503", r.status("/robots.txt"), "and refused like one")
}

func TestOutages(t *testing.T) {
	r := newRig(t, one(Host{
		Refusal: Refusal{RetryAfter: retrySeconds},
		Outages: []Outage{
			{After: time.Second, For: 1500 * ms},
			{After: 3 * time.Second, For: time.Second, Mode: modeStatus, Status: 502},
			{After: 4 * time.Second, For: time.Second, Mode: modeReset},
			{After: 6 * time.Second, For: time.Second, Mode: modeClose},
		},
	}))
	for _, tc := range []struct {
		at   time.Duration
		want string
	}{
		{0, "200"},
		{time.Second - 1, "200"},
		{time.Second, "503"},
		{2500*ms - 1, "503"},
		{2500 * ms, "200"},
		{3 * time.Second, "502"},
		{4 * time.Second, "reset"},
		{5*time.Second - 1, "reset"},
		{5 * time.Second, "200"},
		{6500 * ms, "reset"},
		{7 * time.Second, "200"},
	} {
		r.to(tc.at)
		require.Equal(t, tc.want, r.status("/"), "at %v", tc.at)
		if tc.at == time.Second {
			rec := r.get("/robots.txt")
			require.Equal(t, 503, rec.Code, "an outage is of the whole host")
			require.Equal(t, "2", rec.Header().Get("Retry-After"), "until it is over, 1.5s, rounded up")
		}
	}
	got := r.report()
	require.Equal(t, int64(3), got.Resets)
	require.Equal(t, map[int]int64{200: 5, 502: 1, 503: 3}, got.Statuses)
	require.Equal(t, int64(3), got.Refusals)
}

func TestOutageDoesNotUseUpTheScript(t *testing.T) {
	r := newRig(t, one(Host{Script: []Step{{Status: 429}}, Outages: []Outage{{For: time.Second}}}))
	require.Equal(t, "503", r.status("/"))
	r.to(time.Second)
	require.Equal(t, "429", r.status("/"))
	require.Equal(t, "200", r.status("/"))
}

func TestFlaky(t *testing.T) {
	cfg := one(Host{Flaky: Flaky{Probability: 0.25}})
	play := func(cfg Config, path string) string {
		r := newRig(t, cfg)
		var got []string
		for range 400 {
			got = append(got, r.status(path))
		}
		return strings.Join(got, " ")
	}
	first := play(cfg, "/")
	require.Equal(t, first, play(cfg, "/"), "the same seed")
	require.Equal(t, strings.ReplaceAll(first, "200", "404"), play(cfg, "/x/1"), "it goes by request number, not by path")
	cfg.Seed++
	require.NotEqual(t, first, play(cfg, "/"), "another seed")

	failed := 400 - strings.Count(first, "200")
	require.InDelta(t, 100, failed, 35, "four standard deviations of 400 draws at 0.25")
	for _, kind := range []string{"500", "503", "reset"} {
		require.InDelta(t, failed/3, strings.Count(first, kind), 25, kind)
	}
	robots := play(cfg, "/robots.txt")
	require.Equal(t, 400, strings.Count(robots, "404"), "robots.txt does not fail at random")
}

func TestFlakyEverything(t *testing.T) {
	r := newRig(t, one(Host{Flaky: Flaky{Probability: 1, Kinds: []string{"502"}}, Limit: Limit{Concurrent: 1}}))
	for range 3 { // a failure that kept its slot would turn the second into a 429
		require.Equal(t, "502", r.status("/"))
	}
}

func TestLatencyDraws(t *testing.T) {
	for _, tc := range []struct {
		name      string
		latency   Latency
		low, high time.Duration
		mean      time.Duration // of 2000 draws, within 10 %
	}{
		{"none", Latency{}, 0, 0, 0},
		{"fixed", Latency{Typical: 20 * ms, Spread: 0.5}, 20 * ms, 20 * ms, 20 * ms},
		{"uniform", Latency{Typical: 20 * ms, Dist: distUniform, Spread: 0.5}, 10 * ms, 30 * ms, 20 * ms},
		{"uniform from zero", Latency{Typical: 20 * ms, Dist: distUniform, Spread: 1}, 0, 40 * ms, 20 * ms},
		{"lognormal", Latency{Typical: 20 * ms, Dist: distLognormal, Spread: 0.5}, ms, 200 * ms, 22663 * time.Microsecond}, // e^(s²/2) = 1.133
		{"lognormal, cut", Latency{Typical: 20 * ms, Dist: distLognormal, Spread: 2}, 0, 400 * ms, 78 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var sum time.Duration
			for n := range 2000 {
				got := tc.latency.sample(newDraw(9, streamLatency, n))
				require.Equal(t, got, tc.latency.sample(newDraw(9, streamLatency, n)))
				require.GreaterOrEqual(t, got, tc.low)
				require.LessOrEqual(t, got, tc.high)
				sum += got
			}
			require.InDelta(t, tc.mean.Seconds(), (sum / 2000).Seconds(), tc.mean.Seconds()/10)
		})
	}
}

func TestRobotsFile(t *testing.T) {
	for _, tc := range []struct {
		name   string
		robots Robots
		status int
		text   string
	}{
		{"none", Robots{}, 404, "404 Not Found\n"},
		{"allow", Robots{Allow: true}, 200, "User-agent: *\nAllow: /\n"},
		{"delay", Robots{CrawlDelay: 1500 * ms}, 200, "User-agent: *\nCrawl-delay: 1.5\nAllow: /\n"},
		{"disallow", Robots{Disallow: []string{"/private/", "/r/"}, CrawlDelay: time.Second}, 200, "User-agent: *\nCrawl-delay: 1\nDisallow: /private/\nDisallow: /r/\n"},
		{"text", Robots{Text: "User-agent: x\n", Disallow: []string{"/"}}, 200, "User-agent: x\n"},
		{"status", Robots{Allow: true, Status: 500}, 500, "500 Internal Server Error\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, one(Host{Robots: tc.robots}))
			for range 2 {
				rec := r.get("/robots.txt")
				require.Equal(t, tc.status, rec.Code)
				require.Equal(t, tc.text, rec.Body.String())
			}
		})
	}
}

func TestRobotsStatusForATime(t *testing.T) {
	r := newRig(t, one(Host{Robots: Robots{Allow: true, Status: 503, Times: 2}, Refusal: Refusal{RetryAfter: retrySeconds, Wait: 5 * time.Second}}))
	rec := r.get("/robots.txt")
	require.Equal(t, 503, rec.Code)
	require.Equal(t, "5", rec.Header().Get("Retry-After"))
	require.Equal(t, "503", r.status("/robots.txt"))
	require.Equal(t, "200", r.status("/robots.txt"))
}

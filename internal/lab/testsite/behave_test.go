package testsite

import (
	"net/http"
	"net/http/httptest"
	"strconv"
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
	r = newRig(t, one(Host{Script: []Step{{Status: 429}, {Status: 500}}, Refusal: Refusal{RetryAfter: retrySeconds}}))
	require.Equal(t, "1", r.get("/").Header().Get("Retry-After"), "a script does not know when it ends: 1s")
	require.Empty(t, r.get("/").Header().Get("Retry-After"), "a 500 is no refusal")
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

// TestEveryRetryAfter: the rig's clock begins at 03:04:05.3 on a Friday, and the next request is due four seconds
// later.
func TestEveryRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		form, want string
		wait       time.Duration
		inside     int64 // of one request 3s after the refusal
	}{
		{form: ""},
		{form: retryNone},
		{form: retrySeconds, want: "4", inside: 1},
		{form: retrySeconds, wait: 2500 * ms, want: "3"},
		{form: retryDate, want: "Fri, 02 Jan 2026 03:04:10 GMT", inside: 1},
		{form: retryDate, wait: 2700 * ms, want: "Fri, 02 Jan 2026 03:04:08 GMT"}, // to the nanosecond
		{form: retryRFC850, want: "Friday, 02-Jan-26 03:04:10 GMT", inside: 1},
		{form: retryAsctime, want: "Fri Jan  2 03:04:10 2026", inside: 1},
		{form: retryAsctime, wait: time.Second, want: "Fri Jan  2 03:04:07 2026"},
		{form: retryPast, want: "Fri, 02 Jan 2026 02:04:05 GMT"},
		{form: retryPast, wait: 5 * time.Second, want: "Fri, 02 Jan 2026 03:04:00 GMT"},
		{form: retryAbsurd, want: "99999999999"},
		{form: retryGarbage, want: "soon"},
	} {
		t.Run(tc.form+tc.wait.String(), func(t *testing.T) {
			r := newRig(t, one(Host{
				Limits:  []Limiter{{Kind: kindLeaky, Rate: 0.25}},
				Refusal: Refusal{Status: 403, RetryAfter: tc.form, Wait: tc.wait, Body: "slow down"},
			}))
			require.Equal(t, "200", r.status("/"))
			refused := r.get("/")
			require.Equal(t, 403, refused.Code)
			require.Equal(t, "slow down", refused.Body.String())
			require.Equal(t, tc.want, refused.Header().Get("Retry-After"))
			if tc.want != "" && tc.inside == 1 && tc.form != retrySeconds {
				_, err := http.ParseTime(tc.want)
				require.NoError(t, err, "a form of HTTP")
			}
			r.to(3 * time.Second)
			r.get("/")
			got := r.report()
			require.Equal(t, int64(2), got.Refusals, "whatever the status")
			require.Equal(t, tc.inside, got.InsideRetryAfter)
			require.Zero(t, got.Unavailable)
		})
	}
}

func TestRefusalsWith5xxAreNoFailures(t *testing.T) {
	r := newRig(t, one(Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 1}}, Refusal: Refusal{Status: 509}}))
	r.get("/")
	require.Equal(t, "509", r.status("/"))
	got := r.report()
	require.Equal(t, int64(1), got.Unavailable)
	require.Equal(t, got.Statuses[509], got.Unavailable, "none of them is a failure")
	require.InDelta(t, 500, got.RefusedPer1000, 0)
}

// quotaHeaders returns the quota headers of one response, in the order of their names below.
func quotaHeaders(h http.Header) []string {
	var got []string
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"} {
		got = append(got, h.Get(name))
	}
	return got
}

func TestQuotaHeaders(t *testing.T) {
	legacy := func(limit, remaining, reset int) []string {
		return []string{strconv.Itoa(limit), strconv.Itoa(remaining), strconv.Itoa(reset), "", ""}
	}
	ietf := func(policy, limit string) []string { return []string{"", "", "", policy, limit} }
	for _, tc := range []struct {
		name, headers string
		limit         Limiter
		want          [][]string // for requests at the same instant
	}{
		// The window ends 4.7s later.
		{"window", headersLegacy, Limiter{Kind: kindFixed, Requests: 2, Window: 10 * time.Second}, [][]string{
			legacy(2, 1, 2), legacy(2, 0, 5), legacy(2, 0, 5),
		}},
		{"window", headersIETF, Limiter{Kind: kindFixed, Requests: 2, Window: 10 * time.Second}, [][]string{
			ietf(`"default";q=2;w=10`, `"default";r=1;t=2`), ietf(`"default";q=2;w=10`, `"default";r=0;t=5`),
		}},
		{"silent", headersNone, Limiter{Kind: kindLog, Requests: 1, Window: 10 * time.Second}, [][]string{
			ietf("", ""), ietf("", ""),
		}},
	} {
		t.Run(tc.name+" "+tc.headers, func(t *testing.T) {
			r := newRig(t, one(Host{Limits: []Limiter{tc.limit}, Refusal: Refusal{Headers: tc.headers}}))
			for i, want := range tc.want {
				require.Equal(t, want, quotaHeaders(r.get("/").Header()), "request %d", i)
			}
		})
	}
}

// Of several limits the headers give the one with the least left, and a day stretches its reset.
func TestQuotaHeadersOfSeveral(t *testing.T) {
	r := newRig(t, one(Host{
		Limits: []Limiter{{Kind: kindFixed, Requests: 5, Window: 10 * time.Second}, {Kind: kindLog, Requests: 2, Window: time.Minute}, {Kind: kindSlots, Concurrent: 9}},
		Day:    Day{Length: time.Hour, Table: []Hour{{Speed: 0.5}}}, Refusal: Refusal{Headers: headersLegacy},
	}))
	require.Equal(t, []string{"2", "1", "60", "", ""}, quotaHeaders(r.get("/").Header()))
}

// writes records the length of each write.
type writes struct {
	http.ResponseWriter
	sizes []int
}

func (w *writes) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.ResponseWriter.Write(p)
}

// A body larger than the buffers of net/http leaves while its handler still runs. A crawl whose last page it is may
// then end before the handler has counted it.
func TestLastByteLeavesAlone(t *testing.T) {
	r := newRig(t, one(Host{Pages: 3, Size: Size{Min: 20_000, Max: 30_000}}))
	for _, path := range []string{"/", "/p/1", "/p/2", "/nothing"} {
		w := &writes{ResponseWriter: httptest.NewRecorder()}
		r.site.Handler(0).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Len(t, w.sizes, 2, path)
		require.Equal(t, 1, w.sizes[1], path)
	}
	require.Equal(t, int64(3), r.report().Distinct)
}

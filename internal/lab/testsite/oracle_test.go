package testsite

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seen is one line of the log that a host does not keep.
type seen struct {
	at     time.Duration
	path   string
	status int // 0: reset
	retry  time.Duration
}

// arbitraryHost draws a host with small numbers, so that everything happens often.
func arbitraryHost(t *rapid.T) Host {
	h := Host{
		Pages: 6, Fanout: 2, Private: 2, Media: 2, Size: Size{Max: 10},
		Limit: Limit{
			Rate:  rapid.SampledFrom([]float64{0, 2, 5}).Draw(t, "rate"),
			Burst: 0,
		},
		Refusal: Refusal{
			Status:     rapid.SampledFrom([]int{429, 503}).Draw(t, "refusal"),
			RetryAfter: rapid.SampledFrom([]string{retryNone, retrySeconds, retrySeconds}).Draw(t, "retry after"),
		},
		Flaky:  Flaky{Probability: rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "flaky")},
		Robots: Robots{Disallow: []string{"/private/"}, CrawlDelay: time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")) * 300 * ms},
	}
	if h.Limit.Rate > 0 {
		h.Limit.Burst = rapid.IntRange(0, 2).Draw(t, "burst")
	}
	if rapid.Bool().Draw(t, "window") {
		h.Limit.Requests, h.Limit.Window = 4, 2*time.Second
	}
	if rapid.Bool().Draw(t, "script") {
		h.Script = []Step{{Status: 200, Times: 3}, {Status: 503, Times: 2}, {Status: 404}}
	}
	if rapid.Bool().Draw(t, "outage") {
		mode := rapid.SampledFrom([]string{modeRefuse, modeReset}).Draw(t, "mode")
		h.Outages = []Outage{{After: 3 * time.Second, For: time.Second, Mode: mode}}
	}
	return h
}

// play sends a drawn schedule to a host, and writes the log that the host would keep if it had the memory.
func play(rt *rapid.T, r *rig) []seen {
	paths := rapid.SampledFrom([]string{"/", "/p/1", "/p/2", "/m/0.txt", "/private/1", "/nowhere", "/robots.txt"})
	gaps := rapid.SampledFrom([]time.Duration{0, 0, 10 * ms, 49 * ms, 50 * ms, 270 * ms, 300 * ms, 600 * ms, time.Second, 3 * time.Second})
	var log []seen
	at := time.Duration(0)
	for range rapid.IntRange(1, 40).Draw(rt, "requests") {
		at += gaps.Draw(rt, "gap")
		path := paths.Draw(rt, "path")
		r.to(at)
		entry := seen{at: at, path: path}
		if rec := r.get(path); rec != nil {
			entry.status = rec.Code
			if s := rec.Header().Get("Retry-After"); s != "" {
				n, err := strconv.Atoi(s)
				require.NoError(rt, err)
				entry.retry = time.Duration(n) * time.Second
			}
		}
		log = append(log, entry)
	}
	return log
}

// fromLog computes the figures again in a slow way: for each request it looks at all others.
func fromLog(log []seen, h Host) HostReport {
	out := HostReport{Statuses: map[int]int64{}, Requests: int64(len(log)), MinGap: math.MaxInt64, MaxOpen: 1}
	served := map[string]int64{}
	var answered, lastPage *seen
	for i := range log {
		e := &log[i]
		if e.status == 0 {
			out.Resets++
		} else {
			out.Statuses[e.status]++
		}
		if e.status == http.StatusOK && e.path != "/robots.txt" {
			served[e.path]++
		}
		if i > 0 {
			out.MinGap = min(out.MinGap, e.at-log[i-1].at)
		}
		switch waiting, began := waitAt(log[:i], e.at); {
		case waiting && e.at < began+defaultGrace:
			out.InFlight++
		case waiting:
			out.InsideRetryAfter++
		}
		if e.path == "/robots.txt" {
			out.Robots++
			if e.status == http.StatusOK && answered == nil {
				answered = e
			}
			continue
		}
		if e.path == "/private/1" {
			out.RobotsViolations++
		}
		if answered == nil {
			out.BeforeRobots++
			continue
		}
		if lastPage != nil && e.at-lastPage.at < h.Robots.CrawlDelay-min(50*ms, h.Robots.CrawlDelay/10) {
			out.DelayViolations++
		}
		lastPage = e
	}
	for _, n := range served {
		out.Distinct++
		out.Duplicates += n - 1
	}
	if len(log) < 2 {
		out.MinGap = 0
	}
	return out
}

// waitAt reports whether a Retry-After of the log runs at an instant, and when the unbroken wait to which it belongs
// began.
func waitAt(log []seen, at time.Duration) (waiting bool, began time.Duration) {
	until := time.Duration(-1)
	for _, e := range log {
		if e.retry == 0 {
			continue
		}
		if e.at >= until {
			began = e.at
		}
		until = max(until, e.at+e.retry)
	}
	return at < until, began
}

// TestReportAgreesWithALog: for any host and any schedule, the bounded record agrees with a complete log.
func TestReportAgreesWithALog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := arbitraryHost(rt)
		r := newRig(t, one(h))
		log := play(rt, r)
		got := r.report()
		want := fromLog(log, h)

		require.InDelta(rt, peakOf(log), got.Peak, float64(peakSlack(log)), "peak")
		if span := log[len(log)-1].at; len(log) > 1 && span > log[0].at {
			require.InDelta(rt, float64(len(log)-1)/(span-log[0].at).Seconds(), got.Rate, 1e-9)
		}
		if h.Flaky.Probability == 0 && len(h.Script) == 0 {
			require.Equal(rt, got.Statuses[429]+got.Statuses[503], got.Refusals)
		}
		want.Unavailable, want.RefusedPer1000, want.Usage = got.Unavailable, got.RefusedPer1000, got.Usage
		want.Name, want.URL, want.URLs, want.Allowed = got.Name, got.URL, 8, got.Allowed
		want.Peak, want.Rate, want.Bytes, want.Refusals = got.Peak, got.Rate, got.Bytes, got.Refusals
		require.Equal(rt, want, got)
	})
}

// peakOf returns the most arrivals in any second that begins with one.
func peakOf(log []seen) int {
	peak := 0
	for i := range log {
		n := 0
		for _, e := range log[i:] {
			if e.at < log[i].at+time.Second {
				n++
			}
		}
		peak = max(peak, n)
	}
	return peak
}

// peakSlack returns by how many arrivals the meter may fall short: those in the hundredth of a second by which its
// window may be too short.
func peakSlack(log []seen) int {
	most := 0
	for i := range log {
		n := 0
		for _, e := range log[i:] {
			if e.at < log[i].at+10*ms {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestSameScheduleSameAnswers: the answers of a host depend only on its seed and on the times and URLs of requests.
func TestSameScheduleSameAnswers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := one(arbitraryHost(rt))
		cfg.Seed = rapid.Uint64().Draw(rt, "seed")
		first := newRig(t, cfg)
		log := play(rt, first)
		second := newRig(t, cfg)
		for i, e := range log {
			second.to(e.at)
			status := 0
			if rec := second.get(e.path); rec != nil {
				status = rec.Code
			}
			require.Equal(rt, e.status, status, "request %d", i)
		}
		require.Equal(rt, first.site.Report(), second.site.Report())
	})
}

func TestDrawIsSplitMix64(t *testing.T) {
	// The first outputs for this seed are the published reference values of the algorithm.
	d := draw(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		require.Equal(t, want, d.next(), "output %d", i)
	}
}

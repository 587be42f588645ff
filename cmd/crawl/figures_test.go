package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
)

// troubledSite has pages, errors, pages that are refused once, and one that fails for ever.
func troubledSite() http.Handler {
	var busy, bad atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/":
			w.Header().Set("Content-Type", "text/html")
			for _, p := range []string{"a", "b", "c", "d", "busy", "401", "404", "moved", "private/x"} {
				fmt.Fprintf(w, `<a href="/%s">%s</a>`, p, p)
			}
		case path == "/robots.txt":
			_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private/\n")
		case path == "/busy" && busy.Add(1) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case path == "/moved":
			http.Redirect(w, r, "/a", http.StatusMovedPermanently)
		case path == "/401" || path == "/404" || path == "/sitemap.xml":
			status, err := strconv.Atoi(path[1:])
			if err != nil {
				status = http.StatusNotFound
			}
			w.WriteHeader(status)
		case path == "/sick" && bad.Add(1) > 0:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, path)
		}
	})
}

// ill is a site that fails for some requests in a row, so that its circuit opens, and is well again.
func ill() http.Handler {
	var asked atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml":
			asked.Add(-1)
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			for i := range 10 {
				fmt.Fprintf(w, `<a href="/%d">%d</a>`, i, i)
			}
		case n > 2 && n < 10:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, r.URL.Path)
		}
	})
}

// Whoever tells of a crawl has the same figures: the summary at its end, the snapshot of
// --stats and of the console, /metrics, the dashboard, 'crawl stats' and 'crawl report'.
func TestFiguresAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(troubledSite())
	defer site.Close()
	shut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600") // keeps the crawl from its end while it is asked
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer shut.Close()
	sick := httptest.NewServer(ill())
	defer sick.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := "http://" + dead.Addr().String() + "/"
	require.NoError(t, dead.Close())

	dir := t.TempDir()
	out, stats := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "stats.json")
	proc := &process{changed: make(chan struct{})}
	said := &lockedBuffer{p: proc}
	cmd := exec.Command("crawl", "--contact", "a@b.test", "--rate", "5", "--max-rate", "5", "--set", "max_blocked=1h", "--retries", "1",
		"--listen", "127.0.0.1:0", "--progress", "none", "--stats", stats, "-o", out, site.URL, shut.URL+"/", nobody, site.URL+"/sick", sick.URL)
	cmd.Stderr, cmd.Env = said, append(os.Environ(), "CRAWL_RATELIMIT_OPEN_STATE_DURATION=1s")
	require.NoError(t, cmd.Start())
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	var console string
	snapshot := func() (s crawl.Snapshot) {
		require.NoError(t, json.Unmarshal([]byte(get(t, console+"api/snapshot")), &s))
		return s
	}
	settled := func() bool {
		found := steering.FindStringSubmatch(said.String())
		if found == nil {
			return false
		}
		console = found[1]
		s := snapshot()
		return s.Records >= 23 && s.Limiter.InFlight == 0 && s.Frontier.Queued == 1
	}
	require.Eventually(t, settled, time.Minute, 50*time.Millisecond, "%s", said)
	live, metrics, page := snapshot(), get(t, console+"metrics"), get(t, console)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	err = cmd.Wait()
	ended = true
	require.ErrorContains(t, err, "exit status 11", said.String())

	last, err := os.ReadFile(stats)
	require.NoError(t, err)
	lines := bytes.Split(bytes.TrimSpace(last), []byte("\n"))
	var final crawl.Snapshot
	require.NoError(t, json.Unmarshal(lines[len(lines)-1], &final))
	reported, err := exec.Command("crawl", "report", "--json", out).Output()
	require.NoError(t, err)
	var sum struct {
		Records, Pages, Failed, Bytes int64
		Refused                       struct{ Total int64 } `json:"robots_refused"`
	}
	require.NoError(t, json.Unmarshal(reported, &sum))

	require.GreaterOrEqual(t, final.Pages, int64(6), "/ a b c d busy, and what the ill host has when it is well")
	require.GreaterOrEqual(t, final.Errors, int64(4), "401 404 sick nobody")
	require.EqualValues(t, 1, final.Refused)
	require.NotZero(t, final.Retries)
	require.NotZero(t, final.Limiter.Throttled, "at 5/s")
	require.NotZero(t, final.Limiter.Denied, "the circuit of the ill host was open")
	require.NotZero(t, final.Failed)
	for name, values := range map[string][]int64{
		"pages":     {live.Pages, final.Pages, sum.Pages, metric(t, metrics, "treadlight_pages_total"), figure(t, page, "Pages")},
		"errors":    {live.Errors, final.Errors, sum.Failed, metric(t, metrics, "treadlight_record_errors_total"), figure(t, page, "Errors")},
		"records":   {live.Records, final.Records, sum.Records, metric(t, metrics, "treadlight_records_total"), figure(t, page, "Records")},
		"refused":   {live.Refused, final.Refused, sum.Refused.Total, metric(t, metrics, "treadlight_robots_refused_urls_total"), figure(t, page, "Refused by robots.txt")},
		"bytes":     {live.Bytes, final.Bytes, sum.Bytes, metric(t, metrics, "treadlight_body_bytes_total")},
		"requests":  {live.Requests, final.Requests, figure(t, page, "Requests")},
		"retries":   {live.Retries, final.Retries, metric(t, metrics, "treadlight_retries_total")},
		"throttled": {int64(live.Limiter.Throttled), int64(final.Limiter.Throttled), metric(t, metrics, "treadlight_limiter_throttled_permits_total"), figure(t, page, "Waited for pace")},
		"denied":    {int64(live.Limiter.Denied), int64(final.Limiter.Denied), metric(t, metrics, "treadlight_limiter_denied_permits_total")},
	} {
		for _, v := range values {
			require.Equal(t, values[0], v, "%s: %v", name, values)
		}
	}
	require.Contains(t, page, fmt.Sprintf("%d failed requests", final.Failed))
	figures := cli.Plural(final.Pages, "page") + " .*, " + cli.Size(final.Bytes) + ", " + cli.Plural(final.Errors, "error")
	require.Regexp(t, `\): `+figures+", "+view.Retries(final.Retries)+` left in`, strings.Join(strings.Fields(said.String()), " "))
	told, err := exec.Command("crawl", "stats", stats).Output()
	require.NoError(t, err)
	require.Regexp(t, `^interrupted \(asked to stop\): `+figures+", "+view.Retries(final.Retries)+` left in`, strings.Join(strings.Fields(string(told)), " "))
	text, err := exec.Command("crawl", "report", out).Output()
	require.NoError(t, err)
	require.Regexp(t, ": "+figures, strings.Join(strings.Fields(string(text)), " "))
	require.NotContains(t, said.String(), "0001-01-01")
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	return string(body)
}

// metric is the value of a series without labels.
func metric(t *testing.T, metrics, name string) int64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(metrics)
	require.NotNil(t, found, name)
	v, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return int64(v)
}

// figure is the value of a figure of the dashboard.
func figure(t *testing.T, page, name string) int64 {
	t.Helper()
	found := regexp.MustCompile(`<dt>` + regexp.QuoteMeta(name) + `</dt><dd>([\d,]+)`).FindStringSubmatch(page)
	require.NotNil(t, found, "%s in %s", name, page)
	v, err := strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
	require.NoError(t, err)
	return v
}

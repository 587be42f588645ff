//go:build unix

package main

import (
	"bytes"
	"context"
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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/pipeline"
)

type pane struct {
	t      *testing.T
	socket string
}

// openPane opens a pane of that size. Without tmux the test is skipped, or fails in CI.
func openPane(t *testing.T, columns, rows int, env ...string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("tmux: %v: `make servers` installs it", err)
		}
		t.Skipf("NOT RUN: THE LIVE VIEW IS NOT TESTED ON A TERMINAL: tmux: %v: `make servers` installs it", err)
	}
	dir, err := os.MkdirTemp("", "tmux") // the name of a socket may not be as long as that of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := &pane{t, filepath.Join(dir, "s")}
	cmd := []string{"-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows)}
	for _, kv := range append([]string{"HOME=" + dir, "ENV=", "PS1==> ", "LC_ALL=C.UTF-8", "GORACE=" + race}, env...) {
		cmd = append(cmd, "-e", kv)
	}
	p.tmux(append(cmd, "sh", "-i")...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", p.socket, "kill-server").Run() }) // it may have ended
	p.until(`^=>$`)
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", p.socket}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(p.t, err, "tmux %q: %s", args, errs.String())
	return string(out)
}

// press sends keys by their names in tmux, and types other text.
func (p *pane) press(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

// screen returns what a person sees, and history also what has scrolled away, with long lines unwrapped.
func (p *pane) screen() string { p.t.Helper(); return p.tmux("capture-pane", "-p") }

func (p *pane) history() string { p.t.Helper(); return p.tmux("capture-pane", "-p", "-J", "-S", "-") }

// until waits until the screen shows matches of all patterns at once.
func (p *pane) until(patterns ...string) string {
	p.t.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		screen, missing := p.screen(), ""
		for _, re := range patterns {
			if !regexp.MustCompile("(?m)" + re).MatchString(screen) {
				missing = re
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(end) {
			require.Failf(p.t, "the screen has not come to it", "%q is missing in\n%s", missing, screen)
		}
	}
}

// elapsed returns how long a paused crawl has taken, as the head of its view says.
func (p *pane) elapsed() time.Duration {
	p.t.Helper()
	text := regexp.MustCompile(`paused  (\S+s)`).FindStringSubmatch(p.until(`paused  \S+s$`))[1]
	d, err := time.ParseDuration(text)
	require.NoError(p.t, err)
	return d
}

func manyPages(hosts int) testsite.Config { return testsite.Uniform(hosts, 5000, 0) }

// serveSite serves made-up hosts. Slow responses may still be under way when the test ends.
func serveSite(t *testing.T, cfg testsite.Config) *testsite.Site {
	t.Helper()
	site, err := testsite.New(cfg)
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- site.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; cfg.Hosts[0].Latency.Typical < time.Second { // else the error says that clients were cut off
			require.NoError(t, err)
		}
	})
	return site
}

// The live view on a real terminal: it shows the crawl, obeys its keys, fits any size of the screen, goes when it
// should, and leaves everything as it was.
func TestLiveViewOnATerminal(t *testing.T) {
	t.Parallel()
	site := serveSite(t, manyPages(3))
	p := openPane(t, 100, 30)
	out := filepath.Join(t.TempDir(), "out")
	p.press("crawl -o "+out+"/ --contact me@example.com --rate 10 "+strings.Join(site.URLs(), " "), "Enter")
	screen := p.until(`^Treadlight  crawl http://127\S+ and 2 more +running  \S+s$`, `^pages +[\d,]+  \d+\.\d/s .*[▁▂▃▄▅▆▇█]`,
		`^queue +[\d,]+ queued`, `^host +state +URLs`, `^127\.\S+ +active `, `at most 10/s`, `^q stop  p pause`)
	require.NotContains(t, screen, "=>", "the screen is the view's alone")

	// While the crawl is paused, the site gets no request until two seconds have passed on the clock.
	p.press("p")
	p.until(`paused  \S+s$`, ` 0 in flight`, `an order was carried out  order=pause who=keyboard$`, `p resume`)
	for began := p.elapsed(); p.elapsed() == began; { // these figures may be older than the key
		time.Sleep(20 * time.Millisecond)
	}
	p.until(` 0 in flight`)
	asked := site.Report().Total.Requests
	for began := p.elapsed(); p.elapsed() < began+2*time.Second; {
		time.Sleep(20 * time.Millisecond)
	}
	require.Equal(t, asked, site.Report().Total.Requests)

	// A small screen has a small view, and the help fits too.
	p.tmux("resize-window", "-x", "40", "-y", "10")
	screen = p.until(`^crawl http://127\S+… +paused  \S+s$`, `^pages +\d+`, `^host +rate/s`, `^q stop  p resume  tab next`)
	require.Equal(t, 10, strings.Count(screen, "\n"))
	for line := range strings.Lines(screen) {
		require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), 40)
	}
	p.press("?")
	p.until(`^p, space +pause the crawl`, `^\? back`)
	p.press("Escape")
	p.until(`^pages `)
	p.tmux("resize-window", "-x", "100", "-y", "30")

	p.press("p")
	p.until(`running  \S+s$`, `order=resume`)
	p.press("Tab")
	// On a busy machine responses may become slow, which also counts as trouble.
	p.until(`^hosts +\d.*\n\s*^hosts in trouble$`)
	p.press("Tab")
	p.until(`^messages$`, `order=resume`)
	p.press("Tab", "s")
	p.until(`^busiest hosts, by queue$`)

	// While the process is suspended, the shell has the screen, with the earlier messages on it.
	p.press("C-z")
	p.until(`Stopped`, `an order was carried out  order=pause`, `^=>$`)
	p.press("clear", "Enter")
	p.press("fg", "Enter")
	p.until(`running  \S+s$`, `^busiest hosts`)
	require.Greater(t, site.Report().Total.Requests, asked)

	p.press("q")
	p.until(`^interrupted \(asked to stop\)`, `^ +resume.* crawl resume `, `^=>$`)
	p.press("echo code=$?", "Enter")
	p.until(`^code=11$`)
	p.press("clear", "Enter")
	p.press("stty -a", "Enter")
	p.until(`[^-]icanon`, `[^-]isig`, `[^-]echo\b`)
}

// Interrupted twice, the crawl ends at once and the terminal is intact. There is no view where the output is to be read
// as it comes, or where the terminal is dumb.
func TestNoLiveView(t *testing.T) {
	t.Parallel()
	site := serveSite(t, manyPages(1))
	p := openPane(t, 80, 24, "CRAWL_STATS_INTERVAL=100ms")
	crawl := "crawl --contact me@example.com --rate 10 --max-pages 12 "
	for name, c := range map[string]struct{ command, want string }{
		"records on the screen": {crawl + site.URLs()[0], `"url":"http`},
		"a pipe":                {crawl + site.URLs()[0] + " | cat", `"url":"http`},
		"a dumb terminal":       {"TERM=dumb " + crawl + "-o /dev/null " + site.URLs()[0], `progress  state=running`},
		"plain":                 {crawl + "--progress plain -o /dev/null " + site.URLs()[0], `progress  state=running`},
		"one line":              {crawl + "--progress tty -o /dev/null " + site.URLs()[0], `limit \(max_pages`},
		"for machines":          {crawl + "--set log.format=json -o /dev/null " + site.URLs()[0], `"msg":"the crawl ended"`},
		"every step":            {crawl + "-v -o /dev/null " + site.URLs()[0], `debug: `},
	} {
		p.press("clear", "Enter")
		p.until(`\A=>$`)
		p.press(c.command+"; echo ended", "Enter")
		p.until(`^ended$`)
		require.Regexp(t, c.want, p.history(), name)
		require.NotContains(t, p.history(), "busiest hosts", name)
		p.tmux("clear-history")
	}
}

// The second q gives up what is in flight, as a second Ctrl-C does.
func TestLiveViewGivesUp(t *testing.T) {
	t.Parallel()
	site := serveSite(t, testsite.Uniform(1, 100, 10*time.Minute)) // each request waits
	p := openPane(t, 80, 24)
	p.press("crawl --contact me@example.com -o /dev/null --set grace=10m --timeout 1h "+site.URLs()[0], "Enter")
	p.until(` 1 in flight`)
	p.press("q")
	p.until(`stopping  \S+s$`, `^q give up what is under way`)
	given := regexp.MustCompile(`giving up what is under way|interrupted twice`)
	for end := time.Now().Add(deadline); !given.MatchString(p.screen()); {
		require.True(t, time.Now().Before(end), p.screen())
		time.Sleep(time.Second) // one that comes too soon after another is a key that is held down
		p.press("q")
		// A third one would end the process at once, without a report.
		for wait := time.Now().Add(20 * time.Second); time.Now().Before(wait) && !given.MatchString(p.screen()); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	p.until(`interrupted twice`)
	p.press("clear", "Enter")
	p.press("stty -a", "Enter")
	p.until(`[^-]icanon`, `[^-]echo\b`)
}

// Closing the terminal ends the crawl in order, so that it can be resumed.
func TestTerminalIsClosed(t *testing.T) {
	t.Parallel()
	site := serveSite(t, manyPages(1))
	p := openPane(t, 80, 24)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(script, []byte("trap : HUP\ncrawl --contact me@example.com --rate 10 -o "+out+"/ "+site.URLs()[0]+"\necho $? >"+dir+"/code.tmp\nmv "+dir+"/code.tmp "+dir+"/code\n"), 0o644))
	p.press("sh "+script, "Enter")
	p.until(`^pages +[1-9]`)
	p.tmux("kill-server")
	var code []byte
	for end := time.Now().Add(deadline); code == nil; time.Sleep(20 * time.Millisecond) {
		code, _ = os.ReadFile(filepath.Join(dir, "code"))
		require.True(t, time.Now().Before(end), "the crawl has not ended")
	}
	require.Equal(t, "11\n", string(code), "it was asked to stop, and that nobody reads the report is no trouble")
	said, err := exec.CommandContext(t.Context(), "crawl", "resume", out, "--max-pages", "1").CombinedOutput()
	require.Contains(t, string(said), "limit (max_pages 1 reached)", err)
}

// troubledSite has pages, errors, pages that are refused once, and one that always fails.
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

// ill returns a site that fails for some requests in a row, so that its circuit opens, and then recovers.
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

// troubled returns the URLs of sites that answer, refuse, fail for a while, or do not exist.
func troubled(t *testing.T) []string {
	t.Helper()
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	site := serve(troubledSite())
	shut := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600") // keeps the crawl from ending while the test looks at it
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	return []string{site, shut + "/", "http://" + dead.Addr().String() + "/", site + "/sick", serve(ill())}
}

// All reports on a crawl have the same figures: the summary at its end, the snapshots of --stats and of the console,
// /metrics, the dashboard, 'crawl stats' and 'crawl report'.
func TestFiguresAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, stats := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "stats.json")
	cmd := exec.Command("crawl", append(troubled(t), "--contact", "a@b.test", "--rate", "5", "--max-rate", "5", "--set", "max_blocked=1h", "--retries", "1",
		"--listen", "127.0.0.1:0", "--progress", "none", "--stats", stats, "-o", out)...)
	cmd.Env = append(os.Environ(), "CRAWL_RATELIMIT_OPEN_STATE_DURATION=1s")
	proc, err := launch(cmd)
	require.NoError(t, err)
	defer proc.kill()
	said := &proc.err
	require.True(t, proc.until(steering), "%s", said)
	console := steering.FindStringSubmatch(said.String())[1]
	snapshot := func() (s pipeline.Snapshot) {
		require.NoError(t, json.Unmarshal([]byte(get(t, console+"api/snapshot")), &s))
		return s
	}
	settled := func() bool {
		s := snapshot()
		return s.Records >= 23 && s.Limiter.InFlight == 0 && s.Frontier.Queued == 1
	}
	require.Eventually(t, settled, time.Minute, 50*time.Millisecond, "%s", said)
	live, metrics, page := snapshot(), get(t, console+"metrics"), get(t, console)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	<-proc.done
	require.Equal(t, cli.CodeInterrupted, cmd.ProcessState.ExitCode(), said.String())

	last := readFile(t, stats)
	final, err := view.LastSnapshot(bytes.NewReader(last))
	require.NoError(t, err)
	says := func(args ...string) string {
		text, err := exec.Command("crawl", args...).Output()
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	var sum struct {
		Records, Pages, Failed, Bytes int64
		Refused                       struct{ Total int64 } `json:"robots_refused"`
	}
	require.NoError(t, json.Unmarshal([]byte(says("report", "--json", out)), &sum))

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
		"records":   {live.Records, final.Records, sum.Records, metric(t, metrics, "treadlight_records_total")},
		"refused":   {live.Refused, final.Refused, sum.Refused.Total, metric(t, metrics, "treadlight_robots_refused_urls_total")},
		"bytes":     {live.Bytes, final.Bytes, sum.Bytes, metric(t, metrics, "treadlight_body_bytes_total")},
		"requests":  {live.Requests, final.Requests, figure(t, page, "Requests")},
		"retries":   {live.Retries, final.Retries, metric(t, metrics, "treadlight_retries_total")},
		"throttled": {int64(live.Limiter.Throttled), int64(final.Limiter.Throttled), metric(t, metrics, "treadlight_limiter_throttled_permits_total")},
		"denied":    {int64(live.Limiter.Denied), int64(final.Limiter.Denied), metric(t, metrics, "treadlight_limiter_denied_permits_total")},
	} {
		require.Len(t, slices.Compact(slices.Clone(values)), 1, "%s: %v", name, values)
	}
	require.Contains(t, page, fmt.Sprintf("%d failed, %s", final.Failed, cli.Plural(final.Retries, "retry")))
	figures := cli.Plural(final.Pages, "page") + " .*, " + cli.Size(final.Bytes) + ", " + cli.Plural(final.Errors, "error")
	require.Regexp(t, `\): `+figures+", "+view.Retries(final.Retries)+` left in`, strings.Join(strings.Fields(said.String()), " "))
	require.Regexp(t, `^interrupted \(asked to stop\): `+figures+", "+view.Retries(final.Retries)+` left in`, says("stats", stats))
	require.Regexp(t, ": "+figures, says("report", out))
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

func metric(t *testing.T, metrics, name string) int64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(metrics)
	require.NotNil(t, found, name)
	v, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return int64(v)
}

func figure(t *testing.T, page, name string) int64 {
	t.Helper()
	found := regexp.MustCompile(`<dt>` + regexp.QuoteMeta(name) + `</dt><dd>([\d,]+)`).FindStringSubmatch(page)
	require.NotNil(t, found, "%s in %s", name, page)
	v, err := strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
	require.NoError(t, err)
	return v
}

package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/config"
	_ "github.com/treadlight/crawl/maintext"
	_ "github.com/treadlight/crawl/sqlite"
)

// answer is the response of a site at a path.
type answer struct {
	status int // zero means 200
	text   string
	header map[string]string
}

// site is a site whose pages can be changed.
type site struct {
	*httptest.Server

	mu    sync.Mutex
	pages map[string]answer
	asked []string // paths and statuses of requests, in their order
}

func newSite(t *testing.T, pages map[string]answer) *site {
	s := &site{pages: pages}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) set(path string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = a
}

// setAll gives the site n pages, /0 and so on, and links to them to its home page.
func (s *site) setAll(n int, page func(i int) answer) {
	var links []string
	for i := range n {
		links = append(links, fmt.Sprintf("/%d", i))
		s.set(links[i], page(i))
	}
	s.set("/", text("Home", links...))
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.pages[r.URL.Path]
	if !ok {
		a.status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	if tag := a.header["ETag"]; tag != "" && r.Header.Get("If-None-Match") == tag {
		a.status = http.StatusNotModified
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	s.asked = append(s.asked, fmt.Sprintf("%s %d", r.URL.Path, a.status))
	w.WriteHeader(a.status)
	if a.status != http.StatusNotModified {
		_, _ = io.WriteString(w, strings.ReplaceAll(a.text, "SITE", s.URL))
	}
}

// requests returns the requests since the last call.
func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	slices.Sort(asked)
	return slices.DeleteFunc(asked, func(one string) bool {
		return strings.HasPrefix(one, "/robots.txt") || strings.HasPrefix(one, "/sitemap.xml")
	})
}

var begin = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// tried is a watch under test.
type tried struct {
	*Watch
	t    *testing.T
	file string
	all  bool // rounds visit everything
	clk  *clocktest.Fake
}

// watched opens a watch that uses clk.
func watched(t *testing.T, dir string, clk *clocktest.Fake, all bool, budget int, seeds ...string) *tried {
	t.Helper()
	loaded := must(config.Load(config.Sources{Flags: []config.FlagValue{{Name: "strategy", Value: "off"}, {Name: "set", Value: "ratelimit.retry_max_attempts=1"}}}))
	o := Options{Dir: dir, Seeds: seeds, Budget: budget, Settings: loaded.Config, Log: slog.New(slog.DiscardHandler), Flags: "{}"}
	w, err := Open(o)
	require.NoError(t, err)
	w.clock = clk
	w.retry = time.Millisecond
	file := filepath.Join(dir, "changes.jsonl")
	require.NoError(t, w.Lines(file))
	return &tried{Watch: w, t: t, file: file, all: all, clk: clk}
}

// watching opens a watch in a directory and at a time of its own, which ends with the test.
func watching(t *testing.T, all bool, budget int, seeds ...string) *tried {
	t.Helper()
	w := watched(t, t.TempDir(), clocktest.NewFake(begin), all, budget, seeds...)
	t.Cleanup(w.end)
	return w
}

// plainly runs the crawl of a round.
func plainly(ctx context.Context, _ *crawl.Crawler, run func(context.Context) error) error {
	return run(ctx)
}

// round runs a round after some time. It returns what the round has reported, in short form and sorted.
func (w *tried) round(after time.Duration) (Counts, []string) {
	w.t.Helper()
	w.clk.Advance(after)
	counts, interrupted, err := w.Round(w.t.Context(), w.all, plainly)
	require.NoError(w.t, err)
	require.False(w.t, interrupted)
	before := len(w.told())
	require.NoError(w.t, w.sent())
	var short []string
	for _, c := range w.told()[before:] {
		text := c.Change + " " + c.URL[strings.LastIndexByte(c.URL, '/'):]
		for line := range strings.Lines(c.Diff) {
			if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
				text += " " + strings.TrimSpace(line)
			}
		}
		short = append(short, text)
	}
	slices.Sort(short)
	return counts, short
}

// sent sends what the outputs have not received, as at the end of a watch.
func (w *tried) sent() error {
	refused, err := w.Send(w.t.Context(), 3)
	if refused != nil {
		err = errors.Join(err, refused)
	}
	return err
}

// queue queues a change for all outputs.
func (w *tried) queue(c *Change) {
	w.store.addChange(c)
	require.NoError(w.t, w.store.failed())
}

// told returns the changes in the file.
func (w *tried) told() (list []Change) {
	f, err := os.Open(w.file)
	require.NoError(w.t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxTail)
	for lines.Scan() {
		var c Change
		require.NoError(w.t, json.Unmarshal(lines.Bytes(), &c))
		list = append(list, c)
	}
	return list
}

func (w *tried) end() {
	require.NoError(w.t, w.Close())
}

func text(words string, links ...string) answer {
	page := "<html><title>T</title><main><p>" + words + "</p>"
	for _, link := range links {
		page += fmt.Sprintf("<p><a href=%q>%s</a></p>", link, link)
	}
	return answer{text: page + "</main></html>"}
}

// The first round reports nothing. Later rounds report pages that are new, changed or gone, once, and pages that come
// back.
func TestChanges(t *testing.T) {
	s := newSite(t, map[string]answer{
		"/": text("Home of all", "/a", "/b", "/c", "/d"), "/a": text("One line of a"), "/b": text("Made at 08:00:13, one line of b"),
		"/c": {text: "<p>text of c</p>", header: map[string]string{"ETag": `"1"`}}, "/d": {status: 302, header: map[string]string{"Location": "/a"}},
	})
	clk := clocktest.NewFake(begin)
	dir := t.TempDir()
	w := watched(t, dir, clk, true, 0, s.URL)
	counts, told := w.round(0)
	require.Equal(t, Counts{Visits: 5, First: 5, Requests: 8, URLs: 5}, counts)
	require.Empty(t, told)
	require.Equal(t, []string{"/ 200", "/a 200", "/b 200", "/c 200", "/d 302"}, s.requests())

	counts, told = w.round(time.Hour)
	require.Empty(t, told)
	require.Equal(t, 5, counts.Unchanged)
	require.Equal(t, []string{"/ 200", "/a 200", "/b 200", "/c 304", "/d 302"}, s.requests())

	s.set("/", text("Home of all", "/a", "/b", "/c", "/d", "/e"))
	s.set("/a", text("Another line of a"))
	s.set("/b", text("Made at 10:00:59, one line of b"))
	s.set("/d", answer{status: 404})
	s.set("/e", text("New is e"))
	counts, told = w.round(time.Hour)
	require.Equal(t, []string{"added /e", "changed / +/e", "changed /a -One line of a +Another line of a", "gone /d"}, told)
	require.Equal(t, Counts{Visits: 6, Added: 1, Changed: 2, Gone: 1, Unchanged: 2, Requests: 8, URLs: 5}, counts)
	s.requests()

	_, told = w.round(time.Hour)
	require.Empty(t, told)
	require.Contains(t, s.requests(), "/d 404", "a round of everything asks for what is gone too")

	s.set("/d", text("It is back"))
	w.all = false
	w.round(time.Hour)
	require.NotContains(t, strings.Join(s.requests(), " "), "/d", "what is gone is never due")
	w.end()
	w = watched(t, dir, clk, false, 0)
	_, told = w.round(8 * 24 * time.Hour)
	require.Equal(t, []string{"added /d"}, told, "something still leads to it")
	s.set("/d", answer{status: 410})
	w.all = true
	_, told = w.round(time.Hour)
	require.Equal(t, []string{"gone /d"}, told)
	s.set("/d", text("It is back again"))
	_, told = w.round(time.Hour)
	require.Equal(t, []string{"added /d"}, told)
	ids := map[string]bool{}
	for _, c := range w.told() {
		require.False(t, ids[c.ID])
		ids[c.ID] = true
		require.False(t, c.Time.IsZero())
	}
	info := must(os.Stat(filepath.Join(dir, databaseFile)))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	w.end()
}

// A failed visit is repeated later, and is no change, whatever fails.
func TestFailures(t *testing.T) {
	s := newSite(t, map[string]answer{
		"/": text("Home", "/a", "/secret"), "/a": text("Text of a"), "/secret": text("Text"),
		"/robots.txt": {text: "User-agent: *\nDisallow: /secret", header: map[string]string{"Content-Type": "text/plain"}},
	})
	w := watching(t, true, 0, s.URL)
	w.round(0)
	require.Equal(t, []string{"/ 200", "/a 200"}, s.requests(), "robots.txt is obeyed")
	s.set("/a", answer{status: 500})
	counts, told := w.round(time.Hour)
	require.Empty(t, told)
	require.Equal(t, 1, counts.Failed)
	require.Equal(t, s.URL+"/a: status 500", counts.Failure)
	s.set("/a", answer{status: 403, text: "Forbidden"})
	s.requests()
	_, told = w.round(30 * time.Minute)
	require.Empty(t, told)
	require.NotContains(t, s.requests(), "/a 403", "it is left alone for an hour")
	_, told = w.round(time.Hour)
	require.Empty(t, told)
	require.Contains(t, s.requests(), "/a 403")
	s.set("/a", text("Text of a"))
	counts, told = w.round(3 * time.Hour)
	require.Empty(t, told)
	require.Equal(t, 2, counts.Unchanged)
}

// Sitemaps and feeds bring pages, and visits of pages that they say have changed; Cache-Control prevents visits.
func TestEvidence(t *testing.T) {
	entry := func(path string, at time.Time) string {
		return "<url><loc>SITE" + path + "</loc><lastmod>" + at.Format(time.RFC3339) + "</lastmod></url>"
	}
	sitemap := func(entries ...string) answer {
		return answer{text: "<?xml version='1.0'?><urlset>" + strings.Join(entries, "") + "</urlset>", header: map[string]string{"Content-Type": "application/xml"}}
	}
	feed := func(items string) answer {
		return answer{text: "<rss><channel>" + items + "</channel></rss>", header: map[string]string{"Content-Type": "application/rss+xml"}}
	}
	held, a := text("Held"), text("Text of a")
	held.header = map[string]string{"Cache-Control": "public, max-age=14400"}
	a.header = map[string]string{"Expires": "Thu, 01 Jan 2099 00:00:00 GMT"}
	s := newSite(t, map[string]answer{
		"/robots.txt": {text: "Sitemap: /map.xml", header: map[string]string{"Content-Type": "text/plain"}},
		"/map.xml":    sitemap(entry("/a", begin.Add(-1000*time.Hour)), entry("/b", begin.Add(-1000*time.Hour)), entry("/held", begin.Add(-time.Hour))),
		"/":           {text: "<title>T</title><link rel=alternate type='application/rss+xml' href=/feed><main><p>Home</main>"},
		"/feed":       feed("<item><link>SITE/n1</link></item>"),
		"/a":          a, "/b": text("Text of b"), "/held": held, "/n1": text("News one"), "/n2": text("News two"),
	})
	w := watching(t, false, 0, s.URL)
	counts, _ := w.round(0)
	require.Equal(t, 5, counts.URLs)
	require.Equal(t, []string{"/ 200", "/a 200", "/b 200", "/feed 200", "/held 200", "/map.xml 200", "/n1 200"}, s.requests())
	s.set("/a", text("Other text of a"))
	s.set("/n2", text("News two"))
	s.set("/feed", feed("<item><link>SITE/n2</link></item><item><link>SITE/n1</link></item>"))
	s.set("/map.xml", sitemap(entry("/a", begin.Add(time.Hour)), entry("/b", begin.Add(-1000*time.Hour)), entry("/held", begin.Add(-time.Hour))))
	var told []string
	for hour := 1; hour < 24 && len(told) < 2; hour++ {
		_, now := w.round(time.Hour)
		told = append(told, now...)
		if hour < 4 {
			require.NotContains(t, s.requests(), "/held 200")
		}
	}
	slices.Sort(told)
	require.Equal(t, []string{"added /n2", "changed /a -Text of a +Other text of a"}, told)
	require.Positive(t, w.hosts[strings.TrimPrefix(s.URL, "http://")].Trust.True)
}

// No host gets more requests in 24 hours than its budget, including robots.txt and redirects, and everything is visited
// in the end.
func TestBudget(t *testing.T) {
	pages := map[string]answer{"/moved": {status: 301, header: map[string]string{"Location": "/p0"}}}
	var links []string
	for i := range 15 {
		pages[fmt.Sprintf("/p%d", i)] = text(fmt.Sprintf("Page %d", i), fmt.Sprintf("/p%d", (i+1)%15))
		links = append(links, fmt.Sprintf("/p%d", i))
	}
	pages["/"] = text("Home", append(links, "/moved")...)
	s := newSite(t, pages)
	clk := clocktest.NewFake(begin)
	dir := t.TempDir()
	w := watched(t, dir, clk, false, 8, s.URL)
	var at []time.Time
	seen := map[string]bool{}
	for range 24 * 6 {
		_, told := w.round(time.Hour)
		require.Empty(t, told)
		s.mu.Lock()
		for _, path := range s.asked {
			at = append(at, clk.Now())
			seen[path] = true
		}
		s.asked = nil
		s.mu.Unlock()
		in := 0
		for _, one := range at {
			if clk.Now().Sub(one) < 24*time.Hour {
				in++
			}
		}
		require.LessOrEqual(t, in, 8)
		if len(at) == 40 { // the next process knows what was spent
			w.end()
			w = watched(t, dir, clk, false, 8)
		}
	}
	w.end()
	for _, link := range links {
		require.True(t, seen[link+" 200"], link)
	}
}

// A file has each change once, even if it was moved away. A webhook gets each change in order, at least once and with
// the same id, even if it was down while other outputs received changes.
func TestOutputs(t *testing.T) {
	var mu sync.Mutex
	var got []Change
	down := 3
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var c Change
		_ = json.NewDecoder(r.Body).Decode(&c)
		if down--; down >= 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if c.ID == r.Header.Get("Webhook-Id") {
			got = append(got, c)
		}
	}))
	defer hook.Close()
	s := newSite(t, map[string]answer{"/": text("Home 0")})
	clk := clocktest.NewFake(begin)
	dir := t.TempDir()
	w := watched(t, dir, clk, true, 0, s.URL)
	w.round(0)
	require.NoError(t, w.Webhook(hook.URL, nil))
	s.set("/", text("Home 1"))
	w.clk.Advance(time.Hour)
	_, _, err := w.Round(t.Context(), w.all, plainly)
	require.NoError(t, err)
	require.ErrorContains(t, w.sent(), "it answers 502")
	require.Len(t, w.told(), 1)
	w.end()

	w = watched(t, dir, clk, true, 0)
	require.NoError(t, w.Webhook(hook.URL, nil))
	s.set("/", text("Home 2"))
	_, told := w.round(time.Hour)
	require.Equal(t, []string{"changed / -Home 1 +Home 2"}, told)
	require.Len(t, w.told(), 2)
	w.end()
	require.NoError(t, os.Rename(w.file, w.file+".1"))
	w = watched(t, dir, clk, true, 0)
	require.NoError(t, w.Webhook(hook.URL, nil))
	s.set("/", text("Home 3"))
	_, told = w.round(time.Hour)
	require.Equal(t, []string{"changed / -Home 2 +Home 3"}, told)
	require.Len(t, got, 3)
	require.Len(t, slices.CompactFunc(got, func(a, b Change) bool { return a.ID == b.ID }), 3)
	w.end()
}

// Changes that a webhook has not received wait for it, however many they are and whatever other outputs have. They are
// removed once all outputs have them.
func TestWebhookCatchesUp(t *testing.T) {
	const changes = 350
	var down atomic.Bool
	var got []string
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got = append(got, r.Header.Get("Webhook-Id")) // requests come one after another
	}))
	defer hook.Close()
	dir, clk := t.TempDir(), clocktest.NewFake(begin)
	down.Store(true)
	for run := range 2 {
		w := watched(t, dir, clk, true, 0, "http://127.0.0.1:1/")
		require.NoError(t, w.Webhook(hook.URL, nil))
		for i := 0; run == 0 && i < changes; i++ {
			w.queue(&Change{ID: fmt.Sprint(i)})
		}
		require.Equal(t, run == 1, w.sent() == nil)
		require.Len(t, w.told(), changes)
		kept := must(w.store.db.QueryInt("SELECT count(*) FROM changes"))
		require.EqualValues(t, []int{changes, inFeed}[run], kept)
		w.end()
		down.Store(false)
	}
	for i := range changes {
		require.Equal(t, fmt.Sprint(i), got[i])
	}
}

// A file that cannot be written is an error, and the changes that it lacks are kept.
func TestFullDisk(t *testing.T) {
	w := watching(t, true, 0, "http://127.0.0.1:1/")
	require.NoError(t, w.Lines("/dev/full"))
	w.queue(&Change{ID: "x"})
	require.ErrorContains(t, w.sent(), "free some room there")
	require.EqualValues(t, 1, w.Waiting())
	require.Len(t, w.told(), 1, "another file has it")
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

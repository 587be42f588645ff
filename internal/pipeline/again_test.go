package pipeline

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/gate"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/record"
)

type shelf struct {
	mu    sync.Mutex // guards what follows
	pages map[string]http.HandlerFunc
	asked []string // path, If-None-Match and If-Modified-Since
}

func (s *shelf) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	page := s.pages[r.URL.Path]
	if r.URL.Path != "/robots.txt" {
		s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.URL.Path, r.Header.Get("If-None-Match"), r.Header.Get("If-Modified-Since"))))
	}
	s.mu.Unlock()
	if page == nil {
		http.NotFound(rw, r)
		return
	}
	page(rw, r)
}

func page(tag, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		html(rw, body)
	}
}

func plainPage(body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { html(rw, body) }
}

type again struct {
	t     *testing.T
	site  *shelf
	state *journal
	round int
	shape func(*Config)
	last  *Pipeline
}

func newAgain(t *testing.T, pages map[string]http.HandlerFunc) *again {
	return &again{t: t, site: &shelf{pages: pages}, state: newJournal(1), shape: func(*Config) {}}
}

func (a *again) next() map[string]*record.Record {
	a.t.Helper()
	if a.round++; a.round > 1 {
		left := a.state.Again()
		next := newJournal(1)
		next.Naive, next.left = a.state.Naive, left
		a.state = next
	}
	a.site.asked = nil
	net := fetchtest.Serve(a.t, map[string]http.Handler{"h.test": a.site})
	w := newWorldOn(a.t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
	w.State, w.Round = a.state.state(), a.round
	a.shape(&w.Config)
	var err error
	a.last, err = w.crawl(a.t, "http://h.test/")
	require.NoError(a.t, err)
	requireEnd(a.t, a.last, EndDone)
	w.client.Close()
	synctest.Wait()
	records := map[string]*record.Record{}
	for u, rec := range w.out.byURL(a.t) {
		records[strings.TrimPrefix(u, "http://h.test")] = rec
	}
	return records
}

func changes(records map[string]*record.Record) map[string]string {
	m := map[string]string{}
	for path, rec := range records {
		m[path] = strings.TrimSpace(fmt.Sprintf("%d %s", rec.Status, rec.Change))
	}
	return m
}

// A second round fetches what has changed and no more, finds what is new, and says what is
// gone; a third one is held against the second.
func TestAgainFindsWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := `<a href=/same><a href=/other><a href=/mute><a href=/muted><a href=/gone><a href=/moves><a href=/dead><a href=/down>`
		pages := map[string]http.HandlerFunc{
			"/": page(`"1"`, home), "/same": page(`W/"s"`, "same"), "/other": page(`"o1"`, "one"), "/mute": plainPage("mute"),
			"/muted": plainPage("before"), "/gone": page(`"g"`, "here"), "/moves": func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("ETag", `"moves"`)
				http.Redirect(rw, r, "/same", http.StatusMovedPermanently)
			},
			"/down": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) },
		}
		a := newAgain(t, pages)
		first := a.next()
		require.Len(t, first, 9)
		for path, rec := range first {
			require.Empty(t, rec.Change, path)
		}
		require.Empty(t, a.last.Snapshot().Changes)
		require.Zero(t, a.last.Snapshot().Round)

		pages["/other"], pages["/muted"], pages["/gone"] = page(`"o2"`, "two<a href=/added>"), plainPage("after"), nil
		pages["/moves"] = func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/mute", http.StatusMovedPermanently)
		}
		pages["/added"], pages["/down"] = page(`"a"`, "added"), plainPage("up")
		second := a.next()
		require.Equal(t, map[string]string{
			"/": "304 unchanged", "/same": "304 unchanged", "/other": "200 changed", "/mute": "200 unchanged", "/muted": "200 changed",
			"/gone": "404 gone", "/moves": "301 changed", "/dead": "404 unchanged", "/down": "200 new", "/added": "200 new",
		}, changes(second))
		require.Equal(t, first["/same"].Digest, second["/same"].Digest)
		require.Zero(t, second["/same"].WireBytes)
		require.WithinDuration(t, first["/same"].FetchedAt, second["/same"].SameAs, 0, "the answer that has the page")
		require.Zero(t, second["/mute"].SameAs)
		require.Nil(t, second["/same"].Error)
		require.Equal(t, first["/mute"].Digest, second["/mute"].Digest)
		slices.Sort(a.site.asked)
		require.Equal(t, []string{
			`/ "1"`, "/added", "/dead", "/down", `/gone "g"`, "/moves", "/mute", "/muted", `/other "o1"`, `/same W/"s"`,
		}, a.site.asked)
		s := a.last.Snapshot()
		require.Equal(t, map[string]int64{"new": 2, "changed": 3, "unchanged": 4, "gone": 1}, s.Changes)
		require.Equal(t, 2, s.Round)

		pages["/gone"] = page(`"g"`, "here")
		third := a.next()
		delete(pages, "/gone")
		require.Equal(t, map[string]string{
			"/": "304 unchanged", "/same": "304 unchanged", "/other": "304 unchanged", "/mute": "200 unchanged", "/muted": "200 unchanged",
			"/gone": "200 new", "/moves": "301 unchanged", "/dead": "404 unchanged", "/down": "200 unchanged", "/added": "304 unchanged",
		}, changes(third))
		require.Contains(t, a.site.asked, "/gone", "of what is gone no version is known")
		require.Zero(t, third["/same"].SameAs, "the answer before was a 304, too")
		require.WithinDuration(t, second["/other"].FetchedAt, third["/other"].SameAs, 0)
	})
}

func versioned(tag, date string, conditional int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		if tag != "" {
			rw.Header()["Etag"] = []string{tag}
		}
		if date != "" {
			rw.Header().Set("Last-Modified", date)
		}
		if conditional != http.StatusOK && r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "" {
			rw.WriteHeader(conditional)
			return
		}
		fmt.Fprint(rw, "body")
	}
}

// What servers do with conditions that they should not.
func TestAgainWithOddServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		const ok, unchanged = http.StatusOK, http.StatusNotModified
		long := `"` + strings.Repeat("x", 8<<10) + `"`
		pages := map[string]http.HandlerFunc{
			"/":         versioned("", "", ok),
			"/ignores":  versioned(`"i"`, "", ok),
			"/412":      versioned(`"4"`, "", http.StatusPreconditionFailed),
			"/500":      versioned(`"5"`, "", http.StatusNotImplemented),
			"/dated":    versioned("", when.Format(http.TimeFormat), unchanged),
			"/rfc850":   versioned("", "Friday, 02-Jan-26 03:04:05 GMT", unchanged),
			"/odd":      versioned("", "2026-01-02 03:04:05", unchanged),
			"/long":     versioned(long, "", unchanged),
			"/star":     versioned("*", "", unchanged),
			"/bare":     versioned("abc", "", unchanged),
			"/unasked":  func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotModified) },
			"/renamed":  versioned(`"r1"`, "", unchanged),
			"/redirect": versioned(`"re"`, "", ok),
		}
		paths := slices.Sorted(maps.Keys(pages))
		var b strings.Builder
		for _, p := range paths {
			fmt.Fprintf(&b, "<a href=%s>", p)
		}
		pages["/"] = plainPage(b.String())
		a := newAgain(t, pages)
		first := a.next()
		require.Equal(t, classUnasked, first["/unasked"].Error.Class)

		// The next version has another name, though it is not another.
		pages["/renamed"] = versioned(`"r2"`, "", unchanged)
		// What leads elsewhere now leads to a page that has not been asked for by this name.
		pages["/redirect"] = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/target", http.StatusFound) }
		pages["/target"] = page(`"re"`, "target")
		second := a.next()
		require.Equal(t, map[string]string{
			"/": "200 unchanged", "/ignores": "200 unchanged", "/412": "200 unchanged", "/500": "501", "/dated": "304 unchanged", "/rfc850": "304 unchanged",
			"/odd": "200 unchanged", "/long": "200 unchanged", "/star": "200 unchanged", "/bare": "200 unchanged", "/unasked": "304",
			"/renamed": "304 unchanged", "/redirect": "302 changed", "/target": "200 new",
		}, changes(second))
		date := " " + when.Format(http.TimeFormat)
		for path, want := range map[string][]string{
			"/412": {`/412 "4"`, "/412"}, "/dated": {"/dated " + date}, "/rfc850": {"/rfc850 " + date}, "/odd": {"/odd"}, "/long": {"/long"},
			"/star": {"/star"}, "/bare": {"/bare"}, "/redirect": {`/redirect "re"`}, "/target": {"/target"}, "/renamed": {`/renamed "r1"`},
		} {
			var got []string
			for _, line := range a.site.asked {
				if line == path || strings.HasPrefix(line, path+" ") {
					got = append(got, line)
				}
			}
			require.Equal(t, want, got, path)
		}
		for _, u := range a.state.URLs {
			if u.URL.Path() == "/renamed" {
				require.Equal(t, `"r2"`, u.Visit.ETag)
				require.NotZero(t, u.Visit.Digest)
			}
		}
	})
}

// A page that was cut off is fetched whole again, as the bound may be another; and the rules
// of robots.txt that have become stricter since hold.
func TestAgainWithTruncatedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgain(t, map[string]http.HandlerFunc{
			"/": page(`"1"`, `<a href=/private><a href=/long>`), "/private": page(`"p"`, "private"), "/long": page(`"l"`, strings.Repeat("long ", 1000)),
			"/robots.txt": plainPage(""),
		})
		a.next()
		for _, u := range a.state.URLs { // as a visit of a body that went on is stored
			if u.URL.Path() == "/long" {
				u.Visit.ETag = ""
			}
		}
		a.site.pages["/robots.txt"] = func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "User-agent: *\nDisallow: /private\n") }
		second := a.next()
		require.Equal(t, map[string]string{"/": "304 unchanged", "/private": "0", "/long": "200 unchanged"}, changes(second))
		require.Equal(t, gate.ClassRobots, second["/private"].Error.Class)
	})
}

// Who wants every page whole gets it, and hears of changes nevertheless; without digests in the records too.
func TestAgainUnconditional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgain(t, map[string]http.HandlerFunc{"/": page(`"1"`, "home"), "/robots.txt": plainPage("")})
		a.shape = func(c *Config) { c.Unconditional, c.OmitDigest = a.round == 2, true }
		for _, want := range []string{"200", "200 unchanged", "304 unchanged"} {
			records := a.next()
			require.Equal(t, map[string]string{"/": want}, changes(records))
			require.Empty(t, records["/"].Digest)
		}
	})
}

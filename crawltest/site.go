// Package crawltest is for the tests of programs that crawl: a site in memory, time that does not pass, and the suites that
// fetchers, sinks and extractors of one's own must pass.
//
// A [Site] has pages by their paths. As [crawl.Options.Fetcher] it has a crawl run without a network, and as an http.Handler
// it serves the same over one. In [FakeClock] a crawl of fifty pages at one a second takes a few milliseconds, and Retry-After
// and back-off as little, while each wait is as long as it should be:
//
//	func TestCrawler(t *testing.T) {
//		crawltest.FakeClock(t, func(t *testing.T) {
//			site := crawltest.NewSite(map[string]crawltest.Page{
//				"/":     {Body: `<a href="/cups">Cups</a>`},
//				"/cups": {Body: `<h1>Cups</h1>`},
//			})
//			c, err := crawl.New(crawl.Options{Fetcher: site, Router: routes()})
//			if err != nil {
//				t.Fatal(err)
//			}
//			if err := c.Run(t.Context(), "http://shop.example/"); err != nil {
//				t.Fatal(err)
//			}
//			if n := site.Count("/cups"); n != 1 {
//				t.Errorf("/cups was asked for %d times, want once", n)
//			}
//		})
//	}
//
// [TestFetcher], [TestSink] and [TestExtractor] hold an implementation to what its interface promises.
package crawltest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock"
)

// FakeClock runs a test in a bubble of [testing/synctest], in which time stands still while anything runs, and goes on to the
// next timer when everything waits. Crawls, clients and limiters of this module, with a state on disk too, follow it as they
// are. What waits for a socket, a process or a mutex keeps it from going on: a crawl in a bubble needs a [Site], or another
// Fetcher without a network, and all that it starts must have ended when test returns.
func FakeClock(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// Page is what a [Site] answers. The zero Page is an empty text.
type Page struct {
	// Status is the HTTP status. Zero: 200, or 302 with a Location.
	Status int
	// Header is that of the response. Its Content-Type, if it has none, is text/html if Body begins with "<", else text/plain.
	Header http.Header
	// Location is where it redirects to, as it is sent. Empty: it is no redirect.
	Location string
	// Body is what is sent.
	Body string
	// Latency is how long it takes until the response begins.
	Latency time.Duration
	// Err, if set, is how the request fails in place of a response; over a network the connection is closed.
	Err error
	// Handler, if set, answers instead of all else but Latency: for logins, limits and what changes.
	Handler http.HandlerFunc
}

// Request is what a [Site] was asked.
type Request struct {
	// Time is when it came.
	Time time.Time
	// Method and URL are as they were sent; URL is absolute.
	Method, URL string
	// Header is the Site's own copy.
	Header http.Header
	// Body is what was sent with it, at most 1 MiB.
	Body string
}

// Site is one or more web sites in memory. It answers 404 to what is none of its pages, robots.txt included, and remembers
// each request. It is a [crawl.Fetcher] and an http.Handler, safe for concurrent use.
type Site struct {
	mu       sync.Mutex // guards what follows
	pages    map[string]Page
	requests []Request
}

var (
	_ crawl.Fetcher = (*Site)(nil)
	_ http.Handler  = (*Site)(nil)
)

// NewSite makes a site of pages by path and query ("/search?q=x"), which are those of any host, or by URL
// ("https://other.example/"), which go first.
func NewSite(pages map[string]Page) *Site { return &Site{pages: maps.Clone(pages)} }

// Numbered is a site of n pages, "/" and "/2" to "/n", of which each links to the next and has a number for its title.
func Numbered(n int) *Site {
	pages := make(map[string]Page, n)
	for i := 1; i <= n; i++ {
		pages[numbered(i)] = Page{Body: fmt.Sprintf("<title>%d</title><a href=%s>next</a>", i, numbered(i%n+1))}
	}
	return NewSite(pages)
}

func numbered(i int) string {
	if i == 1 {
		return "/"
	}
	return "/" + strconv.Itoa(i)
}

// Set adds a page, or replaces it; see [NewSite].
func (s *Site) Set(path string, page Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages == nil {
		s.pages = make(map[string]Page)
	}
	s.pages[path] = page
}

// Remove has the site answer 404 to a path.
func (s *Site) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, path)
}

// Pages are its pages as they are now, by path or URL.
func (s *Site) Pages() map[string]Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pages)
}

// Requests are all that it was asked so far, in the order in which they came.
func (s *Site) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Count is how often it was asked for a path and query, of any host, or for a URL.
func (s *Site) Count(path string) (n int) {
	for _, r := range s.Requests() {
		if r.URL == path || pathOf(r.URL) == path {
			n++
		}
	}
	return n
}

// pathOf is the path and query of an absolute URL.
func pathOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// maxBody bounds what is remembered of a request.
const maxBody = 1 << 20

// take remembers a request, and finds its page.
func (s *Site) take(r *http.Request, url string) Page {
	seen := Request{Time: clock.System().Now(), Method: r.Method, URL: url, Header: r.Header.Clone()}
	if r.Body != nil {
		body, _ := io.ReadAll(io.LimitReader(r.Body, maxBody)) // as much as comes
		seen.Body, r.Body = string(body), io.NopCloser(strings.NewReader(string(body)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, seen)
	page, found := s.pages[url]
	if !found {
		page, found = s.pages[pathOf(url)]
	}
	if !found {
		page = Page{Status: http.StatusNotFound, Body: "not found"}
	}
	return page
}

// Fetch implements [crawl.Fetcher].
func (s *Site) Fetch(ctx context.Context, r *http.Request) (*http.Response, error) {
	page := s.take(r, r.URL.String())
	if err := clock.Sleep(ctx, clock.System(), page.Latency); err != nil {
		return nil, err
	}
	if page.Err != nil {
		return nil, page.Err
	}
	w := httptest.NewRecorder()
	page.answer(w, r)
	res := w.Result()
	if r.Method != http.MethodHead && res.ContentLength > int64(w.Body.Len()) { // as over a network
		res.Body = io.NopCloser(io.MultiReader(w.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return res, nil
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	page := s.take(r, scheme+r.Host+r.RequestURI)
	if clock.Sleep(r.Context(), clock.System(), page.Latency) != nil {
		return // nobody waits for it
	}
	if page.Err != nil {
		panic(http.ErrAbortHandler)
	}
	page.answer(w, r)
}

func (p *Page) answer(w http.ResponseWriter, r *http.Request) {
	if p.Handler != nil {
		p.Handler(w, r)
		return
	}
	h := w.Header()
	maps.Copy(h, p.Header.Clone())
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		if strings.HasPrefix(p.Body, "<") {
			h.Set("Content-Type", "text/html; charset=utf-8")
		}
	}
	status := p.Status
	if p.Location != "" {
		h.Set("Location", p.Location)
		if status == 0 {
			status = http.StatusFound
		}
	}
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, p.Body) // who has gone reads no more
	}
}

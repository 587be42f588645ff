// Package crawltest helps to test programs that crawl: it has a site in memory, time that does not pass, and suites
// that a program's own fetchers, sinks and extractors must pass.
//
// A [Site] has pages by their paths. As [crawl.Options.Fetcher] it lets a crawl run without a network, and as an
// http.Handler it serves the same pages over one. Within [FakeClock], a crawl of fifty pages at one a second takes a
// few milliseconds, and so do Retry-After and back-off, while each wait has its full length by the clock:
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
// [TestFetcher], [TestSink] and [TestExtractor] check that an implementation does what its interface promises.
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

// FakeClock runs a test in a bubble of [testing/synctest], in which time stands still while any goroutine runs, and
// jumps to the next timer when all of them wait. Crawls, clients and limiters of this module use that time without any
// setting, also with a state on disk. A goroutine that waits for a socket, a process or a mutex keeps time from moving
// on. So a crawl in a bubble needs a [Site], or another Fetcher without a network, and everything that it starts must
// have ended when test returns.
func FakeClock(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// Page says what a [Site] answers. The zero Page is an empty text.
type Page struct {
	// Status is the HTTP status. Zero means 200, or 302 if Location is set.
	Status int
	// Header is the header of the response. If it has no Content-Type, that is application/xml if Body begins like XML,
	// a sitemap or RSS, text/html if it begins with another "<", and text/plain otherwise.
	Header http.Header
	// Location is the value of the Location header of a redirect, sent as it is. Empty means that the page is no
	// redirect.
	Location string
	// Body is the body of the response.
	Body string
	// Latency is the time until the response begins.
	Latency time.Duration
	// Err, if set, is returned instead of a response; over a network the connection is closed.
	Err error
	// Handler, if set, writes the response instead of Status, Header, Location and Body. Use it for logins, limits and
	// pages that change.
	Handler http.HandlerFunc
}

// Request is a request that a [Site] has received.
type Request struct {
	// Time is when the request was received.
	Time time.Time
	// Method and URL are those of the request; URL is absolute.
	Method, URL string
	// Header is a copy of the request's header.
	Header http.Header
	// Body is the body of the request, at most 1 MiB of it.
	Body string
}

// Site is one or more web sites in memory. It answers 404 for everything that is not one of its pages, including
// robots.txt, and records each request. It is a [crawl.Fetcher] and an http.Handler, and safe for concurrent use.
type Site struct {
	mu       sync.Mutex // guards what follows
	pages    map[string]Page
	requests []Request
}

var (
	_ crawl.Fetcher = (*Site)(nil)
	_ http.Handler  = (*Site)(nil)
)

// NewSite returns a site with pages by path and query ("/search?q=x"), which then exist on every host, or by URL
// ("https://other.example/"). A page by URL takes precedence.
func NewSite(pages map[string]Page) *Site { return &Site{pages: maps.Clone(pages)} }

// Numbered returns a site of n pages, "/" and "/2" to "/n". Each links to the next, the last to the first, and has its
// number as title.
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

// Set adds or replaces a page; path is as in [NewSite].
func (s *Site) Set(path string, page Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages == nil {
		s.pages = make(map[string]Page)
	}
	s.pages[path] = page
}

// Remove removes a page, so that the site answers 404 for it.
func (s *Site) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, path)
}

// Pages returns a copy of the present pages by path or URL, as they were given: a zero Status or a missing Content-Type
// means the default that [Page] names.
func (s *Site) Pages() map[string]Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pages)
}

// Requests returns all requests so far, in the order in which they were received.
func (s *Site) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Count returns how many requests were received for a path and query, on any host, or for a URL.
func (s *Site) Count(path string) (n int) {
	for _, r := range s.Requests() {
		if r.URL == path || pathOf(r.URL) == path {
			n++
		}
	}
	return n
}

// pathOf returns the path and query of an absolute URL.
func pathOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// maxBody bounds what is recorded of a request's body, in bytes.
const maxBody = 1 << 20

// take records a request, and finds its page.
func (s *Site) take(r *http.Request, url string) Page {
	seen := Request{Time: clock.System().Now(), Method: r.Method, URL: url, Header: r.Header.Clone()}
	if r.Body != nil {
		body, _ := io.ReadAll(io.LimitReader(r.Body, maxBody)) // if reading fails, as much as was read
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
	if r.Method != http.MethodHead && res.ContentLength > int64(w.Body.Len()) { // a body shorter than its Content-Length ends with an error, as over a network
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
	u := scheme + r.Host + r.RequestURI
	if r.URL.IsAbs() { // as a proxy gets it
		u = r.URL.String()
	}
	page := s.take(r, u)
	if clock.Sleep(r.Context(), clock.System(), page.Latency) != nil {
		return // the client is gone
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
		switch {
		case strings.HasPrefix(p.Body, "<?xml"), strings.HasPrefix(p.Body, "<urlset"), strings.HasPrefix(p.Body, "<rss"):
			h.Set("Content-Type", "application/xml")
		case strings.HasPrefix(p.Body, "<"):
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
		_, _ = io.WriteString(w, p.Body) // an error means that the client is gone
	}
}

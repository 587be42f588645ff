package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

// toldOf are URLs of a site by what becomes of them.
var toldOf = []struct{ what, path string }{
	{"a page", "/plain"},
	{"an error page, such as 404", "/gone"},
	{"a redirect", "/moved"},
	{"a sitemap or feed", "/map.xml"},
	{"a robots.txt", "/robots.txt"},
	{"a page whose first response is 503, and asked for again", "/busy"},
	{"a host that does not answer, at the last try", "/dead"},
	{"a body of a type that Fetch.AcceptTypes leaves out", "/image"},
	{"a body that a handler of Bodies takes", "/film"},
	{"a page with which OnPage or a route fails", "/odd"},
	{"a request that OnRequest refuses", "/unsigned"},
	{"a URL that robots.txt refuses", "/private"},
	{"a link out of scope", "http://other.example/"},
	{"what Follow asks for and was seen", "/gone "},
	{"a link of a page that was seen", "/links-only"},
}

// told counts who is told of what.
type told struct {
	mu sync.Mutex
	n  map[string]map[string]int
}

func (c *told) of(url, who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimPrefix(url, "http://site.example")
	if c.n[path] == nil {
		c.n[path] = map[string]int{}
	}
	c.n[path][who]++
}

func (c *told) Write(r *record.Record) error { c.of(r.URL, "Sinks"); return nil }
func (*told) Flush() error                   { return nil }
func (*told) Close() error                   { return nil }

// toldSite has a URL of each kind.
func toldSite() *crawltest.Site {
	tries := 0
	return crawltest.NewSite(map[string]crawltest.Page{
		"/robots.txt": {Body: "User-agent: *\nDisallow: /private\nSitemap: http://site.example/map.xml"},
		"/map.xml":    {Body: `<?xml version="1.0"?><urlset><url><loc>http://site.example/</loc></url></urlset>`},
		"/":           {Body: `<a href=/moved>1</a><a href=/busy>2</a><a href=/dead>3</a><a href=/image>4</a><a href=/film>5</a><a href=/odd>6</a><a href=/unsigned>7</a><a href=/private>8</a><a href=http://other.example/>9</a><a href=/gone>10</a><a href=/plain>11</a>`},
		"/moved":      {Location: "/"}, "/gone": {Status: http.StatusNotFound}, "/dead": {Err: syscall.ECONNRESET},
		"/image": {Header: http.Header{"Content-Type": {"image/png"}}, Body: "x"}, "/film": {Header: http.Header{"Content-Type": {"video/mp4"}}, Body: "x"},
		"/odd": {}, "/plain": {}, "/unsigned": {}, "/private": {},
		"/busy": {Handler: func(w http.ResponseWriter, _ *http.Request) {
			if tries++; tries == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}},
	})
}

// docs/reference/go.md has who is told of what, as it is.
func TestDocsTellWhoIsTold(t *testing.T) {
	c := &told{n: map[string]map[string]int{}}
	crawltest.FakeClock(t, func(t *testing.T) {
		site := toldSite()
		router := crawl.NewRouter()
		router.Handle("/{path...}", func(_ context.Context, p *crawl.Page) error {
			c.of(p.URL.String(), "Router")
			if p.URL.Path == "/" {
				p.Follow("/moved")
				p.Follow("/moved")
			}
			if p.URL.Path == "/odd" {
				return errors.New("odd")
			}
			return nil
		})
		crawler, err := crawl.New(crawl.Options{
			Fetcher: site, Router: router, Fetch: crawl.FetchOptions{AcceptTypes: []string{"text/*", "application/*"}},
			OnRequest: func(r *http.Request) error {
				if c.of(r.URL.String(), "OnRequest"); r.URL.Path == "/unsigned" {
					return errors.New("no key")
				}
				return nil
			},
			OnResponse: func(r *http.Response) error { c.of(r.Request.URL.String(), "OnResponse"); return nil },
			OnError:    func(f crawl.Failure) { c.of(f.URL, "OnError") },
			OnSkip: func(s crawl.Skipped) {
				if s.Reason == "seen" {
					s.URL = "http://site.example/gone "
				}
				c.of(s.URL, "OnSkip")
			},
			OnPage: func(_ context.Context, p *crawl.Page) error { c.of(p.URL.String(), "OnPage, a loop"); return nil },
			Bodies: map[string]crawl.BodyHandler{"video/*": {Handle: func(_ context.Context, _ *crawl.Page, body io.Reader) error {
				_, err := io.Copy(io.Discard, body)
				return err
			}}},
			Sinks: []record.Sink{c},
		})
		require.NoError(t, err)
		require.NoError(t, crawler.Run(t.Context(), "http://site.example"))
	})
	var b strings.Builder
	columns := []string{"OnRequest", "OnResponse", "OnError", "OnPage, a loop", "Router", "Sinks", "OnSkip"}
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, row := range toldOf {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, column := range columns {
			switch c.n[row.path][column] {
			case 0:
				b.WriteString(" |")
			case 1:
				b.WriteString(" ● |")
			default:
				b.WriteString(" each try |")
			}
		}
		b.WriteString("\n")
	}
	docpage.Check(t, "docs/reference/go.md", "told", b.String())
}

// docs/reference/go.md has every class of error, and what the comment of PageError gives as examples are such.
func TestDocsNameErrorClasses(t *testing.T) {
	page := readFile(t, "reference/go.md")
	_, table, _ := strings.Cut(string(page), "## Classes of errors")
	for c := outcome.ServerError; c <= outcome.Canceled; c++ {
		require.Contains(t, table, "`"+c.String()+"`")
	}
	source := readFile(t, "../page.go")
	_, comment, _ := strings.Cut(string(source), "// Class is a name to count by")
	comment, _, _ = strings.Cut(comment, "Class string")
	for _, example := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(comment, -1) {
		require.Contains(t, table, "`"+example[1]+"`")
	}
}

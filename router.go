package crawl

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/route"
)

// ErrStop ends the crawl in order, as [Crawler.Stop] does, if a handler returns it or an error that wraps it. Its page
// is done.
var ErrStop = pipeline.ErrStop

// HandlerFunc handles a page. Several run at the same time. The context ends with the crawl. The page and its Body are
// valid until the handler returns.
//
// An error belongs to the page: its record has the error, with the class "handler", what the handler followed is
// dropped, and the crawl goes on. The same happens for a panic, whose stack is logged. [ErrStop] ends the crawl.
type HandlerFunc func(ctx context.Context, page *Page) error

// Router gives each page to the handler of the most specific pattern that matches its URL. A pattern is
// [HOST]/PATH[?QUERY]:
//
//	/                          the root of a host, and nothing below it
//	/catalogue/page-{n}        a wildcard is one or more characters of a segment; see [Page.Param]
//	/docs/{path...}            everything below /docs/, and /docs/ itself, not /docs; only at the end
//	shop.example/{name}.html   on one host; *.example is any host below it
//	/search?q={words}&lang=de  a parameter that must be there, and one that must have that value
//
//	label:details              what was followed with that label, whatever its URL
//
// A label counts before all patterns of URLs. A pattern matches whole URLs of any scheme and port; parameters that it
// does not name are ignored. Text is compared unescaped, segment by segment. A pattern is more specific than another if
// the other matches every URL that it matches; one with a host is more specific than one without.
//
// Only pages that are [Page.OK] go to handlers, and pages that no pattern matches go to none. Add all routes before the
// crawl, on one goroutine. The zero Router is empty.
type Router struct {
	table  route.Table[registration]
	labels map[string]registration
}

// registration is a handler and the place in the program that registered it.
type registration struct {
	handler HandlerFunc
	at      string
}

// NewRouter returns an empty router.
func NewRouter() *Router { return &Router{} }

// Handle adds a route. It panics if the pattern is invalid, or if it conflicts with another one: both match the same
// URL and neither is more specific. The message names both places in the program and gives examples.
func (r *Router) Handle(pattern string, handler HandlerFunc) {
	to := registration{handler: handler}
	if _, file, line, ok := runtime.Caller(1); ok {
		to.at = fmt.Sprintf("%s:%d", file[strings.LastIndexByte(file, '/')+1:], line)
	}
	if handler == nil {
		panic(fmt.Sprintf("crawl: the handler of pattern %q (%s) is nil", pattern, to.at))
	}
	if label, ok := strings.CutPrefix(pattern, "label:"); ok {
		if old, taken := r.labels[label]; taken {
			panic(fmt.Sprintf("crawl: pattern %q is there twice (%s and %s)", pattern, to.at, old.at))
		}
		if r.labels == nil {
			r.labels = make(map[string]registration)
		}
		r.labels[label] = to
		return
	}
	p, err := route.Parse(pattern)
	if err != nil {
		panic(fmt.Sprintf("crawl: %v (%s)", err, to.at))
	}
	if old, err := r.table.Add(p, to); err != nil {
		panic(fmt.Sprintf("crawl: %v (%s and %s)", err, to.at, old.at))
	}
}

// find returns the handler of a page and the route that names it, or nil if the page has none. A nil Router has no handlers.
func (r *Router) find(page *pipeline.Page) (HandlerFunc, *route.Pattern) {
	if r == nil || !isPage(page.Kind, page.Status) || page.Error != nil {
		return nil, nil
	}
	if to, found := r.labels[page.Label]; found {
		return to.handler, nil
	}
	pattern, to := r.table.Find(page.At())
	return to.handler, pattern
}

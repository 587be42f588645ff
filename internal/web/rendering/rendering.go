// Package rendering is what a crawl and the browsers that render its pages know of each other. Package render has the
// browsers.
package rendering

import (
	"context"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/backend"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scripts"
	"github.com/treadlight/crawl/record"
)

// Renderer renders pages in browsers. Its methods are safe for concurrent use.
type Renderer interface {
	// Start checks that there is a browser that can be started.
	Start(ctx context.Context) error
	// Wants returns why a page is to be rendered. Empty means that it is not.
	Wants(u canonical.URL, page []byte) string
	// Render waits for a free browser and renders the page. An error concerns this page alone, and there may be a
	// result besides it.
	Render(ctx context.Context, page *Page) (*Result, error)
	// Close ends all browsers. Pages that are being rendered fail.
	Close()
}

// Renderers has the one implementation: package render registers itself.
var Renderers = backend.New[func(Config) (Renderer, error)]("pages rendered by a browser (render.mode)", "browser")

// Config says how pages are rendered.
type Config struct {
	Always      bool           // renders every page, not only those that show signs of needing it
	Browser     string         // path of the program, or the URL of a running one; empty means where it is usually installed
	Browsers    int            // the maximum number of browsers
	Steps       []scripts.Step // what to do on each page
	Press       bool           // presses buttons that scripts listen to
	Screenshots string         // directory for screenshots and prints; empty means none
	Agent       string         // the User-Agent
	Timeout     time.Duration  // for one page, not counting waits for hosts
	MaxHTML     int64          // bounds a rendered page, in bytes
	Cookies     cookies.Keeper // nil means that no cookies are kept
	Learned     string         // what an earlier run gave to Learn; parts that cannot be read are ignored
	Learn       func(string)   // stores what was learned about pages; nil means that it is not stored
	Log         *slog.Logger   // required
}

// Page is a page to be rendered.
type Page struct {
	URL  canonical.URL
	Why  string
	Resp *fetch.Response // the response for the page, which is not requested again
	Ask  Ask
}

// Result is the result of rendering a page.
type Result struct {
	HTML  []byte   // in UTF-8; empty means as it was fetched
	Links []string // targets to which its scripts would have navigated
	// Truncated says that HTML is cut at Config.MaxHTML.
	Truncated bool
	Note      record.Rendered
	// Err is the error that Render returned with the Result, and Took how long it took. The crawl sets them.
	Err  error
	Took time.Duration
}

// Ask makes a request of a page, as far as scope and robots.txt allow, at the rate of the host.
type Ask func(ctx context.Context, s *Subrequest) (*fetch.Response, error)

// Subrequest is a request that a page makes while it is rendered.
type Subrequest struct {
	URL  canonical.URL
	Code bool // for a script or a style, which may come from any host
	fetch.Request
}

// A RefusedError says why a request of a page is not made.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "not asked for: " + e.Reason }

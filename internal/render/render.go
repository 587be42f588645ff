// Package render renders pages with Chromium as people see them: it runs the scripts of a page and reads the tree that
// they build. It registers itself in [rendering.Renderers].
//
// # What a browser may request
//
// Nothing by itself. The Fetch domain is enabled in the browser's own session, where the requests of all pages, frames
// and workers are shown before they are sent. Each is answered here (requests.go): the page itself with what the crawl
// has fetched, the rest by [rendering.Page.Ask], which uses the crawl's own client with the scope, robots.txt, the
// permit of the host, and the check of addresses. What DevTools does not show, such as WebSocket, WebRTC, preconnect and
// the requests that Chromium makes for itself, goes to the only proxy of the browser, which forwards nothing (hole.go).
// The browser cannot look up names either.
//
// # One page, one browser
//
// A browser renders one page at a time, in a context of its own that is disposed of afterwards, so every request it
// makes belongs to that page (page.go). There are few browsers. Each is a process group in Chromium's sandbox, and never
// runs as root. It is ended after some pages, when it uses too much memory, or when it does not answer (browser.go).
// Then the page that it was rendering is read as it was fetched, with an error in its record. A browser ends when the
// pipe to this process closes, however this process ends.
//
// # Which pages
//
// Package web/scripts has the signs of pages that are empty without scripts. The results of rendering are remembered by
// a pattern of the path (learn.go): where it gained nothing four times, signs do not count any more; where it always
// gained something, pages without a sign are rendered, too.
package render

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/scripts"
)

func init() {
	rendering.Renderers.Register(func(cfg rendering.Config) (rendering.Renderer, error) { return New(cfg) })
}

// Renderer renders pages. It is safe for concurrent use.
type Renderer struct {
	cfg     rendering.Config
	program string // of the browsers; empty means a remote browser
	learned *learned
	cache   *cache

	pool   chan *browser // an entry for each browser; nil for one that is not running
	closed context.Context
	close  context.CancelFunc
	ending sync.Once
}

// maxBrowsers bounds the setting: each browser takes some hundred megabytes.
const maxBrowsers = 64

// New returns a Renderer, and starts no browser. The error tells the user what to install.
func New(cfg rendering.Config) (*Renderer, error) {
	r := &Renderer{cfg: cfg, learned: newLearned(cfg.Learned, cfg.Learn), cache: newCache()}
	n := min(max(cfg.Browsers, 1), maxBrowsers)
	if remote(cfg.Browser) {
		n = 1 // DevTools shows the requests of all pages to every connection
	} else {
		var err error
		if r.program, err = Find(cfg.Browser); err != nil {
			return nil, err
		}
	}
	r.pool = make(chan *browser, n)
	for range n {
		r.pool <- nil
	}
	r.closed, r.close = context.WithCancel(context.Background())
	return r, nil
}

// Start starts the first browser, so that a browser that cannot run is an error of the crawl and not of each page.
func (r *Renderer) Start(ctx context.Context) error {
	slow := time.AfterFunc(slowStart, func() { //nolint:forbidigo // it only tells a person why nothing happens
		r.cfg.Log.Info("the browser is starting; the crawl begins when it is ready")
	})
	defer slow.Stop()
	b, err := r.take(ctx)
	if err == nil {
		r.pool <- b
	}
	return err
}

// Wants returns "always", the name of a sign, or "learned". Empty means that the page is not to be rendered.
func (r *Renderer) Wants(u canonical.URL, page []byte) string {
	if r.cfg.Always {
		return "always"
	}
	return r.learned.judge(u, scripts.Look(page, r.cfg.Press).Sign)
}

// Render renders a page as soon as a browser is free. It is safe for concurrent use.
func (r *Renderer) Render(ctx context.Context, page *rendering.Page) (*rendering.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.closed, cancel)()
	b, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	v, err := b.render(ctx, page)
	r.give(b, err != nil)
	if v == nil {
		return nil, err
	}
	out := v.out
	if err == nil {
		err = r.save(page.URL, v)
	}
	if err == nil && page.Why != string(scripts.Controls) { // those are rendered for the targets of buttons
		before, after := scripts.Look(page.Resp.Body, r.cfg.Press), scripts.Look(out.HTML, r.cfg.Press)
		r.learned.note(page.URL, after.Links > before.Links || after.Text > before.Text+before.Text/4+50 || len(out.Links) > 0)
	}
	return out, err
}

// save writes the screenshot and the print of a page.
func (r *Renderer) save(u canonical.URL, v *view) error {
	name := sha256.Sum256([]byte(u.String()))
	write := func(ext string, to *string) error {
		if len(v.pictures[ext]) == 0 {
			return nil
		}
		*to = filepath.Join(r.cfg.Screenshots, hex.EncodeToString(name[:10])+ext)
		return atomicfile.Replace(*to, 0o644, func(w io.Writer) error { _, err := w.Write(v.pictures[ext]); return err })
	}
	return errors.Join(write(".png", &v.out.Note.Screenshot), write(".pdf", &v.out.Note.PDF))
}

var errClosed = errors.New("the crawl ends")

// take waits for a free browser, and starts one if necessary.
func (r *Renderer) take(ctx context.Context) (*browser, error) {
	var b *browser
	select {
	case b = <-r.pool:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.closed.Err() != nil {
		r.pool <- b
		return nil, errClosed
	}
	for range len(r.pool) { // prefer a running browser to one that must be started
		if b != nil && b.alive() {
			break
		}
		select {
		case other := <-r.pool:
			r.pool <- b
			b = other
		default:
		}
	}
	if b != nil && b.alive() {
		return b, nil
	}
	b.end()
	b, err := start(ctx, r)
	if err != nil {
		r.pool <- nil
		return nil, cmp.Or(ctx.Err(), err)
	}
	return b, nil
}

// give returns a browser to the pool. It is ended first if it failed or has rendered its number of pages.
func (r *Renderer) give(b *browser, failed bool) {
	if failed || !b.alive() || b.pages >= pagesPerBrowser {
		b.end()
		b = nil
	}
	r.pool <- b
}

// Close ends all browsers and waits until they have ended.
func (r *Renderer) Close() {
	r.ending.Do(func() {
		r.close()
		for range cap(r.pool) {
			b := <-r.pool
			b.end()
		}
		for range cap(r.pool) {
			r.pool <- nil
		}
	})
}

// remote reports whether a setting is the URL of a browser that runs already.
func remote(browser string) bool {
	return strings.HasPrefix(browser, "ws://") || strings.HasPrefix(browser, "wss://") || strings.HasPrefix(browser, "http://") || strings.HasPrefix(browser, "https://")
}

// mediaType returns the Content-Type of a response, for DevTools.
func mediaType(resp *fetch.Response) string {
	return cmp.Or(resp.Header.Get("Content-Type"), resp.ContentType)
}

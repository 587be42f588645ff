// Package render has Chromium make of a page what people see: it runs the page's scripts and reads the tree that they
// build. It registers itself in [pipeline.Renderers].
//
// # What a browser may ask for
//
// Nothing by itself. Fetch is enabled on the browser's own session, where the requests of all pages, frames and workers
// are shown before they are sent, and each is answered from here (requests.go): the page itself with what the crawl has
// fetched, the rest by [pipeline.Rendering.Ask], which is the crawl's own client with the scope, robots.txt, the permit of
// the host, and the check of addresses. What DevTools does not show, as WebSocket, WebRTC, preconnect and what Chromium
// asks for on its own account, goes to the one proxy that the browser has, and that passes nothing on (hole.go). It
// cannot look up a name either.
//
// # One page, one browser
//
// A browser renders one page at a time, in a context of its own that is disposed of afterwards, so whatever it asks for
// is that page's (page.go). There are few browsers; each is a process group under the sandbox of Chromium, never as root,
// ends after some pages, when it has taken too much memory, or when it does not answer (browser.go). That costs the page
// that it had, which is then read as it was fetched, with an error in its record. A browser ends with the pipe to this
// process, however that ends.
//
// # Which pages
//
// Package web/scripts has the signs by which a page is taken for empty. What came of rendering is remembered by the
// pattern of paths (learn.go): where it brought nothing four times, signs do not count any more; where it was always
// needed, a page is rendered without a sign too.
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

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scripts"
)

func init() {
	pipeline.Renderers.Register(func(cfg pipeline.RenderConfig) (pipeline.Renderer, error) { return New(cfg) })
}

// Renderer renders pages. It is safe for concurrent use.
type Renderer struct {
	cfg     pipeline.RenderConfig
	program string // of the browsers; empty: there is a remote one
	learned *learned
	cache   *cache

	pool   chan *browser // as many as there may be; nil for one that does not run
	closed context.Context
	close  context.CancelFunc
	ending sync.Once
}

// maxBrowsers bounds the setting: each takes some hundred megabytes.
const maxBrowsers = 64

// New makes a Renderer, and starts no browser. The error says what to install.
func New(cfg pipeline.RenderConfig) (*Renderer, error) {
	r := &Renderer{cfg: cfg, learned: newLearned(cfg.Learned, cfg.Learn), cache: newCache()}
	n := min(max(cfg.Browsers, 1), maxBrowsers)
	if remote(cfg.Browser) {
		n = 1 // what it asks for is shown to whoever is connected
	} else {
		var err error
		if r.program, err = find(cfg.Browser); err != nil {
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

// Start starts the first browser, so that one which cannot run is an error of the crawl and not of each page.
func (r *Renderer) Start(ctx context.Context) error {
	b, err := r.take(ctx)
	if err == nil {
		r.pool <- b
	}
	return err
}

// Wants is "always", a sign, or "learned"; empty: the page is to be read as it is.
func (r *Renderer) Wants(u canonical.URL, page []byte) string {
	if r.cfg.Always {
		return "always"
	}
	return r.learned.judge(u, scripts.Look(page, r.cfg.Press).Sign)
}

// Render renders a page as soon as a browser is free.
func (r *Renderer) Render(ctx context.Context, page *pipeline.Rendering) (*pipeline.Rendered, error) {
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
	if err == nil && page.Why != string(scripts.Controls) { // of presses something else is wanted than text and links
		before, after := scripts.Look(page.Resp.Body, r.cfg.Press), scripts.Look(out.HTML, r.cfg.Press)
		r.learned.note(page.URL, after.Links > before.Links || after.Text > before.Text+before.Text/4+50 || len(out.Links) > 0)
	}
	return out, err
}

// save writes the picture and the print of a page.
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

// take waits for a browser that is free, and starts one if it has to.
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
	for range len(r.pool) { // one that runs is better than one to start
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

// give takes back a browser, which ends if it failed or has done its part.
func (r *Renderer) give(b *browser, failed bool) {
	if failed || !b.alive() || b.pages >= pagesPerBrowser {
		b.end()
		b = nil
	}
	r.pool <- b
}

// Close ends all browsers, and waits for their ends.
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

// remote reports whether a setting names a browser that runs already.
func remote(browser string) bool {
	return strings.HasPrefix(browser, "ws://") || strings.HasPrefix(browser, "wss://") || strings.HasPrefix(browser, "http://") || strings.HasPrefix(browser, "https://")
}

// mediaType is that of a response, for DevTools.
func mediaType(resp *fetch.Response) string {
	return cmp.Or(resp.Header.Get("Content-Type"), resp.ContentType)
}

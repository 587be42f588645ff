package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/maintext"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Page is a page as a handler or a loop gets it. One goroutine may use it at a time. Its record is the one that is
// written and must not be changed.
type Page struct {
	*record.Record
	// Header is the header of the response; nil if there was none.
	Header http.Header
	// Body is the decoded body. It belongs to the pipeline and is valid only until the handler returns or the loop is
	// done with the page; then it becomes nil. See [Page.Clone].
	Body []byte
	// Text is the text of the page. Empty means that no text was extracted.
	Text string
	// Label and RequestMeta are those of the [request.Request]. The map must not be changed.
	Label       string
	RequestMeta map[string]string

	base  canonical.URL    // the URL against which references are resolved
	doc   *dom.Document    // cached by Document
	text  maintext.Article // cached by Article
	visit *visit
}

// visit is what a handler has done with a page so far. Copies of a page share it.
type visit struct {
	page Page // the first of the copies, kept here to save an allocation
	p    *Pipeline
	from *frontier.Lease

	mu    sync.Mutex // guards what follows
	over  bool
	left  int32 // links left of maxFollowed
	room  int32 // bytes left of maxItems
	out   outward
	items []record.Item
}

func newPage(p *Pipeline, f *fetched, rec *record.Record) *Page {
	v := &visit{p: p, from: f.lease, left: maxFollowed, room: maxItems}
	v.page = Page{Record: rec, Label: f.asked.Label, RequestMeta: f.asked.Meta, base: f.lease.URL, visit: v}
	return &v.page
}

const maxFollowed = 10_000

// maxItems bounds the items of a page, in bytes of their JSON.
const maxItems = 1 << 20

const classHandler = "handler"

// ErrStop is an error that a handler may return or wrap to end the crawl as [Pipeline.Stop] does. The page counts as
// handled.
var ErrStop = errors.New("the handler ends the crawl")

// The errors of [Page.Follow], besides those for invalid references and requests, and of [Page.Emit].
var (
	ErrPageOver   = errors.New("the handler of the page has returned")
	ErrTooManyOut = fmt.Errorf("a handler follows at most %d links of a page", maxFollowed)

	// ErrDropped is the error of a loop that has not seen a page, or not finished it. With a state the next run requests
	// the page again.
	ErrDropped = errors.New("the loop was left before the page")

	// ErrNoSink is the error of [Page.Emit] if no sink takes the item.
	ErrNoSink = errors.New("no sink takes it")

	errItems = fmt.Errorf("the items of a page have more than %d bytes", maxItems)
)

// Base returns the URL against which references on the page are resolved.
func (p *Page) Base() canonical.URL { return p.base }

// Document returns the tree of an HTML page; for other pages the tree is empty. The first call builds it. Its size is
// bounded by extract.max_elements.
func (p *Page) Document() *dom.Document {
	if p.doc == nil {
		p.doc = p.visit.p.cfg.Tree.Document(p.ContentType, p.Charset, p.Body)
	}
	return p.doc
}

// Article returns the main text of the page. The first call reads it. The error is that the program has no reader of
// main text.
func (p *Page) Article() (maintext.Article, error) {
	if p.text == nil {
		read, err := maintext.Readers.Get()
		if err != nil {
			return nil, err
		}
		p.text = read(p.Document(), p.base.Parsed())
	}
	return p.text, nil
}

// At returns the URL of the page.
func (p *Page) At() canonical.URL { return p.visit.from.URL }

// Follow sends a reference on to the frontier if it is a URL in scope. It returns the canonical URL and the decision of
// the scope. It may be called concurrently.
func (p *Page) Follow(ref string, q request.Request) (canonical.URL, scope.Decision, error) {
	v := p.visit
	v.mu.Lock()
	defer v.mu.Unlock()
	u, err := p.base.Resolve(ref)
	var stored string
	if err == nil {
		stored, err = q.Encode()
	}
	switch {
	case err != nil:
	case v.over:
		err = ErrPageOver
	case v.left == 0:
		err = ErrTooManyOut
	}
	if err != nil {
		return u, scope.Decision{}, err
	}
	v.left--
	cfg := &v.p.cfg
	u = cfg.Rules.Apply(u)
	it := frontier.Item{URL: u, Request: stored, Found: frontier.Found{Referrer: p.URL, FoundOn: v.from.ID, Depth: v.from.Depth + 1}}
	d := cfg.Scope.Check(u, int(it.Depth), 0, false)
	if q.Outside {
		d = cfg.Scope.Recheck(u, true)
	}
	v.out.admit(v.p, it, it.Fingerprint(cfg.Key), d)
	if d.In {
		link := &v.out.links[len(v.out.links)-1]
		link.item.Rank, link.asked = scope.Promote(cfg.Rank.Of(u, it.Depth), q.Points), true
	}
	return u, d, nil
}

// Emit adds an item that is written with the record of the page, unless the handler fails. It may be called
// concurrently.
func (p *Page) Emit(value any) error {
	v := p.visit
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.over:
		return ErrPageOver
	case int(v.room) < len(text):
		return errItems
	case !slices.ContainsFunc(v.p.cfg.Sinks, func(s record.Sink) bool { to, ok := s.(record.ItemSink); return ok && to.Takes(value) }):
		return ErrNoSink
	}
	v.room -= int32(len(text)) //nolint:gosec // it is at most room
	v.items = append(v.items, record.Item{Value: value, JSON: text})
	return nil
}

// Clone returns a copy with a Body that stays valid when the page is over. Links and items added to the copy count for
// the page.
func (p *Page) Clone() *Page {
	c := *p
	c.Body = bytes.Clone(p.Body)
	return &c
}

// handle passes the page of r to the handler, and then to the loop. An error means that the page is not finished.
func (w *processor) handle(ctx context.Context, r *result, f *fetched) error {
	var before Page
	for _, to := range []Handler{w.p.cfg.Handle, w.p.loop} {
		if to == nil {
			continue
		}
		page := w.newPage(r, f)
		page.doc, page.text = before.doc, before.text
		if err := w.passTo(ctx, to, page, r); err != nil {
			return err
		}
		before = *page
	}
	return nil
}

func (w *processor) newPage(r *result, f *fetched) *Page {
	page := newPage(w.p, f, r.rec)
	page.Text = cmp.Or(r.rec.Text, w.reader.Found.Text)
	if f.resp != nil {
		page.Header, page.Body = f.resp.Header, f.resp.Body
		page.base = w.reader.Base(page.base)
	}
	return page
}

func (w *processor) passTo(ctx context.Context, to Handler, page *Page, r *result) error {
	defer page.end()
	err := to(ctx, page)
	page.end()
	switch {
	case errors.Is(err, ErrStop):
		w.p.Stop()
		fallthrough
	case err == nil:
		page.visit.into(r)
		return nil
	case ctx.Err() != nil, errors.Is(err, ErrDropped):
		return err
	}
	w.p.cfg.Log.Warn("the handler of a page failed", "url", page.URL, "err", err)
	if r.rec.Error == nil {
		r.rec.Error = &record.Error{Class: classHandler, Message: err.Error()}
	}
	return nil
}

func (p *Page) end() {
	p.visit.end()
	p.Body = nil
}

func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
}

// into adds what the handler did to the result. Its links go first, because the first link to a URL decides how the URL
// is requested.
func (v *visit) into(r *result) {
	if len(v.out.links) > 0 {
		r.links = append(v.out.links, r.links...)
	}
	if len(v.out.skips) > 0 {
		r.skips = append(v.out.skips, r.skips...)
	}
	r.rec.Items = append(r.rec.Items, v.items...)
}

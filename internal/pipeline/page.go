package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/maintext"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Page is what a handler or a loop gets. It is for one goroutine at a time. Its record is that which is written: it is
// not to be changed.
type Page struct {
	*record.Record
	// Header is the answer's header; nil when there was no answer.
	Header http.Header
	// Body is the decoded body. It belongs to the pipeline and is valid only until the page is over, when it becomes nil:
	// until the handler returns, or the loop is done with the page; see [Page.Clone].
	Body []byte
	// Text is the text of the page, if somebody has read it.
	Text string
	// Label and RequestMeta are those of the [Request]. The map is not to be changed.
	Label       string
	RequestMeta map[string]string

	base  canonical.URL    // what references resolve against
	doc   *dom.Document    // of Document
	text  maintext.Article // of Article
	visit *visit
}

// visit is what can be done to the crawl while a page is handled. Copies of a page share it.
type visit struct {
	page Page // the first of them, here to be in one piece of memory with the rest
	turn turn // of a loop
	p    *Pipeline
	from *frontier.Lease

	mu    sync.Mutex // guards what follows
	over  bool
	left  int32 // of maxFollowed
	room  int32 // of maxItems
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

// ErrStop is what a handler may return, or wrap, to end the crawl as [Pipeline.Stop] does. The page is done.
var ErrStop = errors.New("the handler ends the crawl")

// The errors of [Page.Follow], beside those of a reference that is no URL, and of [Page.Emit].
var (
	ErrPageOver   = errors.New("the handler of the page has returned")
	ErrTooManyOut = fmt.Errorf("a handler follows at most %d links of a page", maxFollowed)

	// ErrNoSink is the error of [Page.Emit] that no sink takes the item.
	ErrNoSink = errors.New("no sink takes it")

	errItems = fmt.Errorf("the items of a page have more than %d bytes", maxItems)
)

// FollowReason is the name of an error of [Page.Follow].
func FollowReason(err error) string {
	switch {
	case errors.Is(err, ErrPageOver):
		return "over"
	case errors.Is(err, ErrTooManyOut):
		return reasonPageLinks
	default:
		return "invalid"
	}
}

// Base is what references on the page resolve against.
func (p *Page) Base() canonical.URL { return p.base }

// Document is the tree of an HTML page, built at the first call; that of anything else is empty. Its size is bounded as
// extract.max_elements says.
func (p *Page) Document() *dom.Document {
	if p.doc == nil {
		var body []byte
		if p.ContentType == "" || p.ContentType == "text/html" || p.ContentType == "application/xhtml+xml" {
			body = extract.UTF8(p.Body, p.Charset)
		}
		elements := cmp.Or(p.visit.p.cfg.Tree.MaxElements, dom.MaxElements)
		budget := effort.New(context.Background(), effort.Steps(len(body), stepsPerElement*int64(elements)), nil, time.Time{})
		p.doc = dom.ParseWithin(body, elements, budget)
	}
	return p.doc
}

// Article is the main text of the page, read at the first call.
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

// At is where the page is.
func (p *Page) At() canonical.URL { return p.visit.from.URL }

// Follow puts a reference on its way to the frontier if it is a URL in scope, and returns that in its canonical form with
// what the scope says. It may be called by several goroutines.
func (p *Page) Follow(ref string, q Request) (canonical.URL, scope.Decision, error) {
	v := p.visit
	v.mu.Lock()
	defer v.mu.Unlock()
	u, err := p.base.Resolve(ref)
	var request string
	if err == nil {
		request, err = q.encode()
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
	it := frontier.Item{URL: u, Request: request, Found: frontier.Found{Referrer: p.URL, FoundOn: v.from.ID, Depth: v.from.Depth + 1}}
	d := cfg.Scope.Check(u, int(it.Depth), 0, false)
	if q.Outside {
		d = cfg.Scope.Recheck(u, true)
	}
	v.out.admit(v.p, it, it.Fingerprint(cfg.Key), d)
	if d.In {
		link := &v.out.links[len(v.out.links)-1]
		link.item.Rank, link.asked = scope.Promote(cfg.Rank(u, it.Depth), q.Points), true
	}
	return u, d, nil
}

// Emit has an item written with the record of the page, if the handler does not fail. It may be called by several
// goroutines.
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
	v.room -= int32(len(text)) //nolint:gosec // which is in the room
	v.items = append(v.items, record.Item{Value: value, JSON: text})
	return nil
}

// Clone is a copy to keep when the page is over. Links and items that are added to it are those of the page.
func (p *Page) Clone() *Page {
	c := *p
	c.Body = bytes.Clone(p.Body)
	return &c
}

// handle has the handler look at the page of r, and returns it for the loop, if there is one. An error means that the
// page is not done.
func (w *processor) handle(ctx context.Context, r *result, f *fetched) (forLoop *Page, err error) {
	page := w.newPage(r, f)
	if w.p.cfg.Handle == nil {
		return page, nil
	}
	if err := w.passTo(ctx, page, r); err != nil || w.p.cfg.loop == nil {
		return nil, err
	}
	again := w.newPage(r, f)
	again.doc, again.text = page.doc, page.text
	return again, nil
}

func (w *processor) newPage(r *result, f *fetched) *Page {
	page := newPage(w.p, f, r.rec)
	page.Text = cmp.Or(r.rec.Text, r.text)
	if f.resp != nil {
		page.Header, page.Body = f.resp.Header, f.resp.Body
		if w.read {
			page.base = w.base(page.base)
		}
	}
	return page
}

func (w *processor) passTo(ctx context.Context, page *Page, r *result) error {
	defer page.end()
	err := w.call(ctx, page)
	page.end()
	switch {
	case errors.Is(err, ErrStop):
		w.p.Stop()
		fallthrough
	case err == nil:
		page.visit.into(r)
		return nil
	case ctx.Err() != nil:
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

// into passes on what was done until the end. The links come first: what they say of a URL counts.
func (v *visit) into(r *result) {
	if len(v.out.links) > 0 {
		r.links = append(v.out.links, r.links...)
	}
	if len(v.out.skips) > 0 {
		r.skips = append(v.out.skips, r.skips...)
	}
	r.rec.Items = append(r.rec.Items, v.items...)
}

// call turns a panic of the handler into an error. Its stack goes to the log.
func (w *processor) call(ctx context.Context, page *Page) (err error) {
	if w.p.cfg.Panics {
		return w.p.cfg.Handle(ctx, page)
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			w.p.cfg.Log.Error("the handler of a page panicked", "url", page.URL, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	return w.p.cfg.Handle(ctx, page)
}

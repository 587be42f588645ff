package pipeline

import (
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
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Page is what a handler gets. It is for one goroutine at a time.
type Page struct {
	record.Record
	// Header is the answer's header; nil when there was no answer.
	Header http.Header
	// Body is the decoded body. It belongs to the pipeline and is valid only until the handler returns; a handler
	// that keeps it must copy it.
	Body []byte

	base  canonical.URL // what references resolve against
	asked Request
	tree  *Tree
	doc   *dom.Document // of Document
	visit *visit
}

// visit is what can be done to the crawl while a page is handled. Copies of a page share it.
type visit struct {
	mu   sync.Mutex
	w    *processor // nil once the handler has returned
	out  result     // of which the links are followed
	from *frontier.Lease
	left int // of maxFollowed

	items []record.Item
	room  int // of maxItems
}

// maxFollowed is how many links a handler may follow on one page, as many as are followed of a page's own.
const maxFollowed = 10_000

// maxItems bounds the items of a page, in bytes of their JSON.
const maxItems = 1 << 20

// classHandler is the class of the error of a page whose handler failed.
const classHandler = "handler"

// What a handler may return, or wrap, beside errors of the page.
var (
	// ErrStop ends the crawl as [Pipeline.Stop] does. The page is done.
	ErrStop = errors.New("the handler ends the crawl")
	// ErrNotHandled leaves the page to the next run of the crawl, if there is a state.
	ErrNotHandled = errors.New("the page was not handled")
)

// The errors of [Page.Follow], beside those of a reference that is no URL.
var (
	ErrPageOver   = errors.New("the handler of the page has returned")
	ErrTooManyOut = fmt.Errorf("a handler follows at most %d links of a page", maxFollowed)

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
		elements := cmp.Or(p.tree.MaxElements, dom.MaxElements)
		budget := effort.New(context.Background(), effort.Steps(len(body), stepsPerElement*int64(elements)), nil, time.Time{})
		p.doc = dom.ParseWithin(body, elements, budget)
	}
	return p.doc
}

// Asked is what the page was asked for by.
func (p *Page) Asked() Request { return p.asked }

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
	case v.w == nil:
		err = ErrPageOver
	case v.left == 0:
		err = ErrTooManyOut
	}
	if err != nil {
		return u, scope.Decision{}, err
	}
	v.left--
	cfg := &v.w.p.cfg
	u = cfg.Rules.Apply(u)
	it := frontier.Item{URL: u, Request: request, Found: frontier.Found{Referrer: p.URL, FoundOn: v.from.ID, Depth: v.from.Depth + 1}}
	d := cfg.Scope.Check(u, int(it.Depth), 0, false)
	if q.Outside {
		d = cfg.Scope.Recheck(u, true)
	}
	v.w.admit(&v.out, it, it.Fingerprint(cfg.Key), d)
	if d.In {
		link := &v.out.links[len(v.out.links)-1]
		link.item.Rank, link.asked = promote(cfg.Rank(u, it.Depth), q.Points), true
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
	case v.w == nil:
		return ErrPageOver
	case v.room < len(text):
		return errItems
	case !slices.ContainsFunc(v.w.p.cfg.Sinks, func(s record.Sink) bool { to, ok := s.(record.ItemSink); return ok && to.Takes(value) }):
		return fmt.Errorf("no sink takes items of type %T", value)
	}
	v.room -= len(text)
	v.items = append(v.items, record.Item{Value: value, JSON: text})
	return nil
}

// handle has the handler look at the page of r. An error means that the page is not done.
func (w *processor) handle(ctx context.Context, r *result, f *fetched) error {
	page := &Page{Record: *r.rec, base: f.lease.URL, tree: &w.p.cfg.Tree, asked: r.asked}
	if f.resp != nil {
		page.Header, page.Body = f.resp.Header, f.resp.Body
		if w.read && w.found.Base != page.base.String() {
			if base, err := canonical.Parse(w.found.Base); err == nil {
				page.base = base
			}
		}
	}
	if page.Text == "" {
		page.Text = r.text
	}
	v := &visit{w: w, from: f.lease, left: maxFollowed, room: maxItems}
	page.visit = v
	defer v.end()
	err := w.call(ctx, page)
	v.end()
	switch {
	case errors.Is(err, ErrStop):
		w.p.Stop()
		fallthrough
	case err == nil:
		v.into(r)
		return nil
	case errors.Is(err, ErrNotHandled) || ctx.Err() != nil:
		return err
	}
	w.p.cfg.Log.Warn("the handler of a page failed", "url", page.URL, "err", err)
	if r.rec.Error == nil {
		r.rec.Error = &record.Error{Class: classHandler, Message: err.Error()}
	}
	return nil
}

// end closes the visit.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.w = nil
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

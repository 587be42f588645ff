package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
)

// The classes of error a record can carry beside those of package outcome.
const (
	classRobots      = "robots"         // robots.txt refuses the URL
	classRedirect    = "redirect_limit" // a chain of redirects longer than MaxRedirects
	classBadLocation = "bad_redirect"   // a redirect without a usable Location
)

// processor is one worker of Processing; what it reuses from page to page is its own.
type processor struct {
	p         *Pipeline
	extractor extract.Extractor
	found     extract.Result
	tree      treeReader
	passed    passedLinks
	reader    neardup.Reader
	budget    *effort.Budget      // of the page that is being read
	follows   []found             // of the page, until it is known how many there are
	send      func(*result) error // to Output; it fails when the crawl is given up
}

// process parses until Extraction has no more. What comes after the end of work is dropped.
func (p *Pipeline) process(ctx, work context.Context) error {
	w := &processor{p: p, tree: p.cfg.Tree.reader(), send: func(r *result) error {
		select {
		case p.results <- r:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	for f := range p.fetched {
		if err := w.pass(ctx, work, f); err != nil {
			return err
		}
	}
	return nil
}

// pass makes a result of what was fetched and sends it on.
func (w *processor) pass(ctx, work context.Context, f *fetched) error {
	if f.aside != nil {
		return w.send(&result{rec: f.aside, aside: true})
	}
	if work.Err() != nil {
		f.resp.Release()
		return w.send(w.cutOff(f))
	}
	from := w.p.tracedFrom(f.trip)
	r, err := w.page(ctx, work, f)
	if err != nil {
		return err
	}
	if f.trip != nil {
		r.trip = f.trip
		r.trip.parsed(from, w.p.cfg.Clock.Now())
	}
	return w.send(r)
}

// page turns what was fetched into a record and the links to follow.
func (w *processor) page(ctx, work context.Context, f *fetched) (*result, error) {
	defer f.resp.Release()
	r := &result{lease: f.lease, rec: newRecord(f.lease, f.sent)}
	r.rec.Timings.Queue = f.sent.Add(-f.permitWait).Sub(f.lease.Queued)
	r.rec.Timings.PermitWait, r.rec.Timings.Total = f.permitWait, f.total
	if f.err != nil {
		r.rec.Error = &sink.Error{Class: outcome.Of(0, f.err).String(), Message: f.err.Error()}
	}
	if f.resp != nil {
		w.answer(work, r, f)
		if work.Err() != nil && w.budget.Spent() { // it may not have been read to the end
			return w.cutOff(f), nil
		}
	}
	w.compare(r, f)
	if err := w.p.bodies.hold(ctx, r); err != nil {
		return nil, err
	}
	if r.quiet = r.quiet || nothingThere(r.rec, f.lease); r.quiet || w.p.cfg.Handle == nil {
		return r, nil
	}
	page := &Page{Record: *r.rec}
	if f.resp != nil {
		page.Header, page.Body = f.resp.Header, f.resp.Body
	}
	if err := w.p.cfg.Handle(work, page); err != nil {
		if work.Err() != nil && ctx.Err() == nil {
			w.p.bodies.release(r)
			return w.cutOff(f), nil
		}
		return nil, fmt.Errorf("handle %s: %w", r.rec.URL, err)
	}
	return r, nil
}

// cutOff is what becomes of a page that the end of the crawl overtakes. With a state the next
// run asks for it again.
func (w *processor) cutOff(f *fetched) *result {
	if w.p.cfg.State != nil {
		return &result{lease: f.lease, dropped: true}
	}
	status := 0
	if f.resp != nil {
		status = f.resp.Status
	}
	return &result{lease: f.lease, rec: endedRecord(f.lease, f.sent, outcome.Canceled, status, beforeDone), trip: f.trip}
}

// answer fills in what the host answered. The end of work ends the reading.
func (w *processor) answer(work context.Context, r *result, f *fetched) {
	resp, rec := f.resp, r.rec
	w.budget = nil
	rec.Status, rec.Proto, rec.RemoteAddr = resp.Status, resp.Proto, resp.RemoteAddr
	rec.ContentType, rec.Charset, rec.IgnoredCodings = resp.ContentType, resp.Charset, resp.IgnoredCodings
	rec.Bytes, rec.WireBytes, rec.Truncated = int64(len(resp.Body)), resp.WireBytes, resp.Truncated
	rec.Exchange = resp.Capture
	if w.p.cfg.StoreBody {
		store(rec, resp.Body)
	}
	t := &resp.Timings
	rec.Timings.DNS, rec.Timings.Connect, rec.Timings.TLS = t.DNS, t.Connect, t.TLS
	rec.Timings.FirstByte, rec.Timings.Body = t.FirstByte, t.Body
	if len(resp.Body) > 0 && !w.p.cfg.OmitDigest {
		sum := sha256.Sum256(resp.Body)
		rec.Digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	switch class := outcome.Of(resp.Status, nil); {
	case resp.Status == http.StatusNotModified:
		w.notModified(r, f)
	case class == outcome.Redirect:
		w.redirect(r, f)
	case class == outcome.OK:
		w.budget = w.p.effort(work, len(resp.Body))
		w.content(r, f)
		rec.Truncated = rec.Truncated || w.budget.Spent()
	}
}

// stepsPerElement is what a page may cost for each of the elements that a tree may have:
// some hundred rules look at all of them.
const stepsPerElement = 500

// effort is what reading a page of so many bytes may cost. It ends with ctx, so that a crawl
// that stops need not wait for a page.
func (p *Pipeline) effort(ctx context.Context, bytes int) *effort.Budget {
	elements := cmp.Or(p.cfg.Tree.MaxElements, dom.MaxElements)
	now := p.cfg.Clock.Now
	return effort.New(ctx, effort.Steps(bytes, stepsPerElement*int64(elements)), now, now().Add(cmp.Or(p.cfg.PageTime, 2*time.Second)))
}

// redirect makes the target a URL of its own, as deep as the page that sent us there.
func (w *processor) redirect(r *result, f *fetched) {
	l := f.lease
	to, err := l.URL.Resolve(location(f.resp.Location))
	if f.resp.Location == "" {
		err = fmt.Errorf("status %d without a Location", f.resp.Status)
	}
	if err != nil {
		r.rec.Error = &sink.Error{Class: classBadLocation, Message: err.Error()}
		return
	}
	if ruled := w.p.cfg.Rules.Apply(to); ruled != l.URL {
		to = ruled // else it is a redirect to a spelling that the server insists on
	}
	r.rec.RedirectTo = to.String()
	if l.Kind == frontier.Sitemap {
		w.moved(r, f, to)
		return
	}
	if l.Seed {
		// The user named a site by an address it no longer lives at; where it sends
		// us is what was meant.
		w.p.cfg.Scope.AddSeed(to)
	}
	v := w.follow(r, frontier.Item{
		URL: to, Found: frontier.Found{Referrer: l.URL.String(), FoundOn: l.ID, Depth: l.Depth, Hops: l.Hops + 1, Seed: l.Seed},
		Wait: w.p.waitOfTarget(f.resp),
	}, to.Fingerprint(w.p.cfg.Key), false)
	if v.Code == scope.TooManyRedirects {
		r.rec.Error = &sink.Error{Class: classRedirect, Message: v.Reason()}
	}
}

// location is a Location as browsers read it: bytes that are no UTF-8 are escaped as
// they are, for the server to recognise; a URL parser would replace them.
func location(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// content reads links and metadata out of a page.
func (w *processor) content(r *result, f *fetched) {
	if w.listing(r, f) {
		return
	}
	l, rec := f.lease, r.rec
	opts := w.p.cfg.Extract
	opts.Key, opts.Rules, opts.Budget = w.p.cfg.Key, w.p.cfg.Rules, w.budget
	if err := w.extractor.Document(&extract.Document{
		URL: l.URL, MediaType: f.resp.ContentType, Charset: f.resp.Charset, Header: f.resp.Header, Body: f.resp.Body,
	}, opts, &w.found); err != nil {
		if rec.Error == nil {
			rec.Error = &sink.Error{Class: outcome.Decode.String(), Message: err.Error()}
		}
		return
	}
	w.lost(rec.URL)
	w.describe(rec)
	w.examine(r, f) // before what may spend the budget: it costs little, and traps are to be known
	w.tree.read(rec, l.URL, &w.found, f.resp.Body, w.budget)
	w.declared(rec)
	r.unindexed = w.unindexed(l, f.sent)
	if !w.p.cfg.OmitLinks {
		w.list(rec)
	}
	w.followAll(r, l)
}

// reasonPageLinks is the reason of links that are dropped as their page has too many.
const reasonPageLinks = "page_links"

// lost counts the links of a page that were not taken: those that are too many, which are known
// to nobody then, as another page may lead there; and those longer than any URL may be.
func (w *processor) lost(page string) {
	s := &w.p.stats
	w.lose(&s.overLinks, w.found.DroppedLinks, page, reasonPageLinks, "none: a page has at most 10,000 links that are followed")
	w.lose(&s.overLong, w.found.LongLinks, page, trap.URLLength.String(), noLonger)
}

// noLonger is what to do about links that are too long whatever the settings.
var noLonger = fmt.Sprintf("none: most servers refuse a URL of more than %d bytes", canonical.MaxLength)

// lose counts links of a page that were dropped, and says so the first time.
func (w *processor) lose(count *atomic.Int64, links int, page, reason, fix string) {
	n := int64(links)
	if n > 0 && count.Add(n) == n {
		w.p.cfg.Log.Warn("links are being dropped",
			slog.String("reason", reason), slog.String("first_page", page), slog.Int64("links", n), slog.String("fix", fix))
	}
}

// maxFollows bounds what a worker keeps of memory for links, at 1 MB: few pages have as many
// that are new.
const maxFollows = 1 << 12

// followAll follows the links of a page. They are gathered in memory that serves again, and
// copied when it is known how many there are.
func (w *processor) followAll(r *result, l *frontier.Lease) {
	r.links = w.follows[:0]
	all := w.p.refuses()
	for i := range w.found.Links {
		link := &w.found.Links[i]
		if w.obeys(link) {
			continue
		}
		t := passed{link.Fingerprint, l.Depth + 1, link.Kind}
		if !all && w.passed.covers(t) {
			continue
		}
		it := frontier.Item{URL: link.URL, Found: frontier.Found{Referrer: r.rec.URL, FoundOn: l.ID, Depth: t.depth}}
		if w.follow(r, it, t.fp, link.Kind == extract.Resource).In {
			w.passed.put(t)
		}
	}
	gathered := r.links
	r.links = append([]found(nil), gathered...)
	if w.follows = nil; cap(gathered) <= maxFollows {
		clear(gathered)
		w.follows = gathered
	}
}

// list copies the links into the record.
func (w *processor) list(rec *sink.Record) {
	resources := 0
	for i := range w.found.Links {
		if w.found.Links[i].Kind == extract.Resource {
			resources++
		}
	}
	rec.Resources = slices.Grow(rec.Resources, resources)
	rec.Links = slices.Grow(rec.Links, len(w.found.Links)-resources)
	for i := range w.found.Links {
		if link := &w.found.Links[i]; link.Kind == extract.Resource {
			rec.Resources = append(rec.Resources, link.URL.String())
		} else {
			rec.Links = append(rec.Links, link.URL.String())
		}
	}
}

// follow puts a URL on its way to the frontier if the scope lets it in.
func (w *processor) follow(r *result, it frontier.Item, fp uint64, resource bool) scope.Decision {
	v := w.p.cfg.Scope.Check(it.URL, int(it.Depth), int(it.Hops), resource)
	if v.In {
		it.Rank = w.p.cfg.Rank(it.URL, it.Depth)
		r.links = append(r.links, found{it, fp, w.p.budgets.of(it.URL.String())})
	} else {
		w.p.stats.outOfScope(v)
	}
	return v
}

// describe copies what a page says about itself.
func (w *processor) describe(rec *sink.Record) {
	f := &w.found
	rec.Title, rec.Lang, rec.Text, rec.Meta = f.Title, f.Lang, f.Text, sink.Meta(f.Meta)
	if f.Charset != "" {
		rec.Charset = f.Charset
	}
}

// newRecord is what is known of a URL before its answer is looked at.
func newRecord(l *frontier.Lease, now time.Time) *sink.Record {
	return &sink.Record{
		URL: l.URL.String(), Kind: l.Kind.String(), Depth: int(l.Depth), Referrer: l.Referrer,
		FetchedAt: now, Attempt: int(l.Attempt) + 1,
	}
}

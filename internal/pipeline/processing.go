package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/items"
	"github.com/treadlight/crawl/internal/web/maintext"
	"github.com/treadlight/crawl/internal/web/metadata"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/record"
)

// The error classes that a record can have besides those of package outcome.
const (
	classRobots      = "robots"         // robots.txt disallows the URL
	classRedirect    = "redirect_limit" // a chain of redirects longer than MaxRedirects
	classBadLocation = "bad_redirect"   // a redirect without a usable Location
)

// processor is one worker of Processing. Its buffers are reused from page to page.
type processor struct {
	p         *Pipeline
	extractor extract.Extractor
	found     extract.Result
	fields    *fields.Extractor
	items     *items.Extractor
	passed    passedLinks
	reader    neardup.Reader
	budget    *effort.Budget // of the current page: nil or limit
	limit     effort.Budget
	now       func() time.Time
	follows   []found             // links of the current page, until their number is known
	read      bool                // found holds the current page
	send      func(*result) error // sends to Output; fails when the context of the crawl ends
}

// process reads pages until Extraction has no more. Pages that come after the end of work are dropped.
func (p *Pipeline) process(ctx, work context.Context) (err error) {
	w := &processor{p: p, now: p.cfg.Clock.Now, fields: p.cfg.Tree.Fields.Extractor(), send: func(r *result) error { return r.send(ctx, p) }}
	if w.items, err = p.cfg.Tree.Items.Extractor(); err != nil {
		return err
	}
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
		return w.send(f.cutShort(w.p))
	}
	if f.trip != nil {
		f.trip.Parse.From = w.p.cfg.Clock.Now()
	}
	r, err := w.page(ctx, work, f)
	if err != nil {
		return err
	}
	f.resp.Release()
	if r.trip = f.trip; r.trip != nil {
		r.trip.Parse.Til = w.p.cfg.Clock.Now()
	}
	return w.send(r)
}

func (r *result) send(ctx context.Context, p *Pipeline) error {
	select {
	case p.results <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// page turns what was fetched into a record and the links to follow.
func (w *processor) page(ctx, work context.Context, f *fetched) (*result, error) {
	r := &result{lease: f.lease, rec: newRecord(f.lease, f.sent)}
	r.rec.Timings.Queue = f.sent.Add(-f.permitWait).Sub(f.lease.Queued)
	r.rec.Timings.PermitWait, r.rec.Timings.Total = f.permitWait, f.total
	r.rec.Method = f.asked.Method
	if f.err != nil {
		r.rec.Error = &record.Error{Class: classOfFailure(f.err), Message: f.err.Error()}
	}
	if f.unasked {
		r.rec.Attempt--
	}
	if f.resp != nil {
		w.answer(work, r, f)
		if work.Err() != nil && w.budget.Spent() { // the page may not have been read to the end
			return f.cutShort(w.p), nil
		}
	}
	w.compare(r, f)
	if err := w.hold(ctx, r); err != nil {
		return nil, err
	}
	f.streamed.take(r, f)
	if r.quiet = r.quiet || nothingThere(r.rec, f.lease); r.quiet {
		return r, nil
	}
	if err := w.handle(work, r, f); err != nil {
		r.unhold(w.p)
		return f.cutShort(w.p), nil
	}
	w.p.cfg.failedFor(r.rec)
	return r, nil
}

// cutShort returns the result of a page that could not be finished before the end of the crawl. With a state the next
// run requests it again.
func (f *fetched) cutShort(p *Pipeline) *result {
	if p.cfg.State != nil {
		return &result{lease: f.lease, dropped: true}
	}
	status := 0
	if f.resp != nil {
		status = f.resp.Status
	}
	return &result{lease: f.lease, rec: endedRecord(f.lease, f.sent, outcome.Canceled, status, beforeDone), trip: f.trip}
}

// answer adds the response to the record. The end of work ends the reading of the page.
func (w *processor) answer(work context.Context, r *result, f *fetched) {
	resp, rec := f.resp, r.rec
	w.budget, w.read = nil, false
	rec.Status, rec.Proto, rec.RemoteAddr = resp.Status, resp.Proto, resp.RemoteAddr
	rec.ContentType, rec.Charset, rec.IgnoredCodings = resp.ContentType, resp.Charset, resp.IgnoredCodings
	rec.Bytes, rec.WireBytes, rec.Truncated = int64(len(resp.Body)), resp.WireBytes, resp.Truncated
	rec.Exchange = resp.Capture
	f.applyRendered(rec)
	switch { // a body is stored as text if that keeps every byte
	case !w.p.cfg.StoreBody:
	case utf8.Valid(resp.Body):
		rec.Body = string(resp.Body)
	default:
		rec.BodyBase64 = append([]byte(nil), resp.Body...)
	}
	t := &resp.Timings
	rec.Timings.DNS, rec.Timings.Connect, rec.Timings.TLS = t.DNS, t.Connect, t.TLS
	rec.Timings.FirstByte, rec.Timings.Body = t.FirstByte, t.Body
	if resp.Streamed {
		rec.Bytes = resp.Size
	}
	if rec.Bytes > 0 && !w.p.cfg.OmitDigest {
		rec.Digest = digest(f.sum())
	}
	switch class := outcome.Of(resp.Status, nil); {
	case resp.Status == http.StatusNotModified:
		w.notModified(r, f)
	case class == outcome.Redirect:
		w.redirect(r, f)
	case class == outcome.OK && !resp.Streamed:
		w.limit = w.p.cfg.effort(work, w.now, len(resp.Body))
		w.budget = &w.limit
		w.content(work, r, f)
		rec.Truncated = rec.Truncated || w.budget.Spent()
	}
}

// stepsPerElement is the number of steps that a page may cost for each element that a tree may have: some hundred rules
// look at all elements.
const stepsPerElement = 500

// defaultPageTime is how long reading a page may take.
const defaultPageTime = 2 * time.Second

// effort returns the budget for reading a page of that size. It ends with ctx, so that a crawl that stops need not wait
// for a page.
func (c *Config) effort(ctx context.Context, now func() time.Time, bytes int) effort.Budget {
	elements := cmp.Or(c.Tree.MaxElements, dom.MaxElements)
	steps, end := effort.Steps(bytes, stepsPerElement*int64(elements)), now().Add(cmp.Or(c.PageTime, defaultPageTime))
	return *effort.New(ctx, steps, now, end)
}

// content reads links and metadata of a page.
func (w *processor) content(work context.Context, r *result, f *fetched) {
	if read := w.p.cfg.Extractors[f.resp.ContentType]; read != nil && f.lease.Kind == frontier.Page {
		w.own(work, r, f, read)
		return
	}
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
			rec.Error = &record.Error{Class: outcome.Decode.String(), Message: err.Error()}
		}
		return
	}
	w.lost(rec.URL)
	w.read = true
	page := &w.found
	rec.Title, rec.Lang, rec.Text, rec.Meta = page.Title, page.Lang, page.Text, page.Meta
	rec.Charset = cmp.Or(page.Charset, rec.Charset)
	w.examine(r, f) // first: it costs little, and the trap detector needs it even if the rest uses up the budget
	w.tree(r, l.URL, f.resp.Body)
	rec.Directives, rec.Next, rec.Prev, rec.Alternates = page.Directives, page.Next, page.Prev, page.Alternates
	if w.p.cfg.SkipNoindex && l.Kind == frontier.Page {
		r.unindexed = page.NoIndex || !page.UnavailableAfter.IsZero() && page.UnavailableAfter.Before(f.sent)
	}
	if !w.p.cfg.OmitLinks {
		w.list(rec)
	}
	if !w.items.Follows() {
		w.followAll(r, l)
	}
	w.followRendered(r, f)
	w.noteScripted(f)
}

func newRecord(l *frontier.Lease, now time.Time) *record.Record {
	return &record.Record{
		URL: l.URL.String(), Kind: l.Kind.String(), Depth: int(l.Depth), Referrer: l.Referrer,
		FetchedAt: now, Attempt: int(l.Attempt) + 1,
	}
}

// Tree says what is read from the trees of pages. Building a tree costs several times as much as all other work on a
// page. The zero Tree builds none.
type Tree struct {
	Fields      *fields.Set     // the user's rules; nil means none
	Items       *items.Rules    // rules for several records of a page, and for the links to the next page of a list; nil means none
	Metadata    bool            // reads Open Graph, Twitter cards and JSON-LD
	MainText    bool            // reads the text without navigation and the like
	Markdown    bool            // renders the main text as a file of Markdown
	Reader      maintext.Reader // required for MainText and Markdown; nil reads neither
	MaxElements int             // bounds the elements of a tree; zero means 100,000
}

func (w *processor) tree(r *result, page canonical.URL, body []byte) {
	rec := r.rec
	t, wanted, items := &w.p.cfg.Tree, w.fields.Wants(rec.URL), w.items.Wants(rec.URL)
	if !w.found.HTML {
		if (wanted || items) && isJSON(rec.ContentType) {
			w.json(r, page, body)
		}
		return
	}
	if !wanted && !items && !t.Metadata && t.Reader == nil {
		return
	}
	d := dom.ParseWithin(extract.UTF8(body, w.found.Charset), cmp.Or(t.MaxElements, dom.MaxElements), w.budget)
	rec.Truncated = rec.Truncated || d.Cut
	if wanted {
		w.readFields(rec, page, d)
	}
	if items {
		w.readItems(r, w.within(page, d, nil))
	}
	if t.Metadata {
		m := metadata.Read(d)
		for _, p := range m.Properties {
			rec.Properties = append(rec.Properties, record.Values{Name: p.Name, Values: p.Values, List: len(p.Values) > 1})
		}
		for _, block := range m.JSONLD {
			rec.JSONLD = append(rec.JSONLD, json.RawMessage(block))
		}
		rec.InvalidJSONLD = m.InvalidJSONLD
	}
	if t.Reader != nil {
		w.readMainText(rec, page, d)
	}
}

func (w *processor) readMainText(rec *record.Record, page canonical.URL, d *dom.Document) {
	a := w.p.cfg.Tree.Reader(d, w.base(page).Parsed())
	if w.p.cfg.Tree.MainText {
		rec.MainText = a.Text()
	}
	if w.p.cfg.Tree.Markdown && rec.Status/100 == 2 {
		rec.Markdown = maintext.File(a, rec.URL, rec.FetchedAt)
	}
}

func (w *processor) readFields(rec *record.Record, page canonical.URL, d *dom.Document) {
	all, err := w.fields.Page(page, w.base(page), d)
	rec.Fields = namedOf(all)
	if err != nil {
		rec.FieldsError = err.Error()
	}
}

func (w *processor) base(page canonical.URL) canonical.URL {
	if w.found.Base == page.String() {
		return page
	}
	if base, err := canonical.Parse(w.found.Base); err == nil {
		return base
	}
	return page
}

func namedOf(all []fields.Field) (named record.Named) {
	for _, f := range all {
		named = append(named, record.Values{Name: f.Name, Values: f.Values, List: f.All, Number: f.Number})
	}
	return named
}

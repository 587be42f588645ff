package pipeline

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/record"
)

// The error classes that a record can have besides those of package outcome.
const (
	classRedirect    = "redirect_limit" // a chain of redirects longer than MaxRedirects
	classBadLocation = "bad_redirect"   // a redirect without a usable Location
)

// processor is one worker of Processing. Its buffers are reused from page to page.
type processor struct {
	p       *Pipeline
	reader  *content.Reader
	budget  *effort.Budget // of the current page; nil if it is not read
	passed  passedLinks
	follows []found             // links of the current page, until their number is known
	send    func(*result) error // sends to Output; fails when the context of the crawl ends
}

func (p *Pipeline) processor(send func(*result) error) (*processor, error) {
	reader, err := content.NewReader(&p.cfg.Options, p.cfg.Clock.Now)
	return &processor{p: p, reader: reader, send: send}, err
}

// process reads pages until Extraction has no more. Pages that come after the end of work are dropped.
func (p *Pipeline) process(ctx, work context.Context) error {
	w, err := p.processor(func(r *result) error { return r.send(ctx, p) })
	if err != nil {
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
	w.budget = nil
	w.reader.Reset() // also without a response: the page must not have the text of the last one
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
		rec.Digest = version.Text(f.sum())
	}
	switch class := outcome.Of(resp.Status, nil); {
	case resp.Status == http.StatusNotModified:
		w.notModified(r, f)
	case class == outcome.Redirect:
		w.redirect(r, f)
	case class == outcome.OK && !resp.Streamed:
		w.budget = w.reader.Budget(work, len(resp.Body))
		w.content(work, r, f)
		rec.Truncated = rec.Truncated || w.budget.Spent()
	}
}

// content reads a page, and follows its links.
func (w *processor) content(work context.Context, r *result, f *fetched) {
	l, rec := f.lease, r.rec
	doc := extract.Document{
		URL: l.URL, MediaType: f.resp.ContentType, Charset: f.resp.Charset, Header: f.resp.Header, Body: f.resp.Body,
	}
	if read := w.p.cfg.Extractors[doc.MediaType]; read != nil && l.Kind == frontier.Page {
		if w.reader.ReadBy(work, read, &doc, w.budget, rec) {
			w.lost(rec.URL)
			w.followAll(r, l)
		}
		return
	}
	if w.listing(r, f) || !w.reader.Read(&doc, w.budget, rec, f.asked.Meta[itemsMeta]) {
		return
	}
	page := &w.reader.Found
	w.lost(rec.URL)
	if w.p.cfg.SkipNoindex && l.Kind == frontier.Page {
		r.unindexed = page.NoIndex || !page.UnavailableAfter.IsZero() && page.UnavailableAfter.Before(f.sent)
	}
	if w.reader.Lists() {
		w.followList(r)
	} else {
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

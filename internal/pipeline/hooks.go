package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Failure is a request that did not end with a whole response, or a page with which a handler or an extractor failed.
type Failure struct {
	URL, Kind string
	Attempt   int
	Error     record.Error
	Again     bool // the URL is asked for again; else its record has the Error
}

// Skip is a URL that is not asked for.
type Skip struct {
	URL, Referrer  string
	Reason, Detail string // a name to count by, and the same in words
}

const (
	// reasonSeen is why a request of a handler, or a seed, is not made: it was made before, or is queued.
	reasonSeen = "seen"
	// classExtractor is the class of the error of a page with which an extractor of the program's own failed.
	classExtractor = "extractor"
)

func classOfFailure(err error) string {
	if hooked(err) {
		return classHandler
	}
	return outcome.Of(0, err).String()
}

func hooked(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Op == fetch.OpHook
}

func (c *Config) failedOnce(f *fetched) {
	if c.OnError != nil && f.err != nil {
		c.OnError(Failure{
			URL: f.lease.URL.String(), Kind: f.lease.Kind.String(), Attempt: int(f.lease.Attempt) + 1, Again: true,
			Error: record.Error{Class: classOfFailure(f.err), Message: f.err.Error()},
		})
	}
}

func (c *Config) failedFor(rec *record.Record) {
	if c.OnError != nil && rec.Error != nil {
		c.OnError(Failure{URL: rec.URL, Kind: rec.Kind, Attempt: rec.Attempt, Error: *rec.Error})
	}
}

// outOfScope counts a URL that the scope leaves out, and has it told of with the record of its page.
func (o *outward) outOfScope(p *Pipeline, u canonical.URL, referrer string, v scope.Decision) {
	p.stats.outOfScope(v)
	if p.cfg.OnSkip != nil {
		o.skips = append(o.skips, Skip{URL: u.String(), Referrer: referrer, Reason: v.Code.String(), Detail: v.Reason()})
	}
}

// skipping is what Discovery has Output tell of.
type skipping struct {
	tells bool
	skips []Skip
}

// skip has a URL told of that is left out.
func (d *skipping) skip(it *frontier.Item, reason, detail string) {
	if d.tells {
		d.skips = append(d.skips, Skip{URL: it.URL.String(), Referrer: it.Referrer, Reason: reason, Detail: detail})
	}
}

// skipSeen is skip for a URL that is known, if it was asked for by the program or the user.
func (d *skipping) skipSeen(link *found) {
	if link.asked || link.item.Seed {
		d.skip(&link.item, reasonSeen, "it was asked for before, or is queued")
	}
}

func (d *discovery) passSkips() {
	if len(d.skips) > 0 {
		d.outbox = append(d.outbox, &result{outward: outward{skips: d.skips}, aside: true})
		d.skips = nil
	}
}

// tellSkips is Output's part of it.
func (r *result) tellSkips(tell func(Skip)) {
	for _, s := range r.skips {
		tell(s)
	}
	r.skips = nil
}

// BodyHandler takes the bodies of a media type as they come.
type BodyHandler struct {
	MaxBytes int64         // of a body, decoded; zero is no bound
	Timeout  time.Duration // of a request, in place of the Fetcher's; zero is no bound but of the host's silence
	// Handle reads a body. What it leaves is not read. Its Page has no Body, and links and items are as those of
	// [Config.Handle].
	Handle func(context.Context, *Page, io.Reader) error
}

type streamed struct {
	visit *visit
	hash  hash.Hash // nil: nobody wants it
}

// sum is the hash of the body, as far as it was read; noDigest of one that nobody wants it of.
func (f *fetched) sum() (sum [sha256.Size]byte) {
	switch {
	case f.raw != nil:
		return sha256.Sum256(f.raw)
	case !f.resp.Streamed:
		return sha256.Sum256(f.resp.Body)
	case f.streamed.hash == nil:
		return noDigest
	}
	return [sha256.Size]byte(f.streamed.hash.Sum(nil))
}

// stream is who takes the body of an answer as it comes; nil: it is read as usual.
func (t *try) stream(ctx context.Context, resp *fetch.Response) *fetch.Stream {
	p, f := t.p, t.f
	to := p.cfg.Bodies(resp.ContentType)
	if to == nil || resp.Status/100 != 2 {
		return nil
	}
	page := newPage(p, f, newRecord(f.lease, f.sent))
	page.Header, page.Status, page.ContentType, page.Charset, page.Method = resp.Header, resp.Status, resp.ContentType, resp.Charset, f.asked.Method
	s := &streamed{visit: page.visit}
	if !p.cfg.OmitDigest {
		s.hash = sha256.New()
	}
	return &fetch.Stream{MaxBytes: to.MaxBytes, Timeout: to.Timeout, Hash: s.hash, Read: func(body io.Reader) error {
		defer page.visit.end()
		f.streamed = s
		err := to.Handle(ctx, page, body)
		if errors.Is(err, ErrStop) {
			p.Stop()
			return nil
		}
		return err
	}}
}

// take passes on what was made of a body that came to its end.
func (s *streamed) take(r *result, f *fetched) {
	if s == nil || f.err != nil {
		return
	}
	s.visit.into(r)
}

// Extractor reads pages of a media type in place of what is built in. The document is valid until it returns.
type Extractor func(ctx context.Context, doc *extract.Document) (*Extracted, error)

// Extracted is what an Extractor has read.
type Extracted struct {
	Title, Lang, Text string
	Links             []string // references, which resolve against the page
	Values            []record.Values
}

const (
	maxTitle = 1 << 10
	maxText  = 4 << 20
)

// own has an Extractor of the program's own read a page.
func (w *processor) own(ctx context.Context, r *result, f *fetched, read Extractor) {
	cfg, l, rec := &w.p.cfg, f.lease, r.rec
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.PageTime, defaultPageTime))
	defer cancel()
	out, err := read(ctx, &extract.Document{
		URL: l.URL, MediaType: f.resp.ContentType, Charset: f.resp.Charset, Header: f.resp.Header, Body: slices.Clip(f.resp.Body),
	})
	if err == nil && out == nil {
		err = errors.New("the extractor returned neither a result nor an error")
	}
	if err != nil {
		if rec.Error == nil {
			rec.Error = &record.Error{Class: classExtractor, Message: err.Error()}
		}
		return
	}
	w.found = extract.Result{Title: within(out.Title, maxTitle), Lang: within(out.Lang, maxTitle), Text: within(out.Text, maxText)}
	w.references(out, l.URL)
	w.read = true
	rec.Title, rec.Lang, rec.Fields = w.found.Title, w.found.Lang, out.Values
	if r.text = w.found.Text; cfg.Extract.Text {
		rec.Text = r.text
	}
	if cfg.Duplicates != nil {
		w.examine(r, f)
	}
	if !cfg.OmitLinks {
		w.list(rec)
	}
	w.lost(rec.URL)
	w.followAll(r, l)
}

// references resolves the references of an Extractor, each once.
func (w *processor) references(out *Extracted, page canonical.URL) {
	cfg := &w.p.cfg
	w.found.Base = page.String()
	known := make(map[canonical.URL]bool, len(out.Links))
	for _, ref := range out.Links {
		u, err := page.Resolve(strings.TrimSpace(ref))
		if err != nil {
			continue
		}
		if u = cfg.Rules.Apply(u); known[u] {
			continue
		}
		if len(known) >= maxFollowed {
			w.found.DroppedLinks++
			continue
		}
		known[u] = true
		w.found.Links = append(w.found.Links, extract.Link{URL: u, Fingerprint: u.Fingerprint(cfg.Key)})
	}
}

func within(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

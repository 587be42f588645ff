// Package content reads pages into records: title, text, links, metadata, what rules of the user pick, the main text,
// and whether a page repeats another one.
package content

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/items"
	"github.com/treadlight/crawl/internal/web/maintext"
	"github.com/treadlight/crawl/internal/web/mediatype"
	"github.com/treadlight/crawl/internal/web/metadata"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/trap"
	"github.com/treadlight/crawl/record"
)

// Options says what is read of pages besides links.
type Options struct {
	Extract    extract.Options // its Budget is not used
	Tree       Tree
	PageTime   time.Duration  // how long reading one page may take in all; zero means 2 s
	OmitLinks  bool           // leaves the links out of records; false writes them
	Traps      *trap.Detector // finds traps, and is told what pages say; nil follows every URL
	Duplicates *neardup.Index // finds pages that repeat others; nil looks for none
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

const (
	// stepsPerElement is the number of steps that a page may cost for each element that a tree may have: some hundred
	// rules look at all elements.
	stepsPerElement = 500
	// defaultTime is how long reading a page may take.
	defaultTime = 2 * time.Second
)

func (t *Tree) elements() int { return cmp.Or(t.MaxElements, dom.MaxElements) }

func (t *Tree) steps(bytes int) int64 {
	return effort.Steps(bytes, stepsPerElement*int64(t.elements()))
}

// Document returns the tree of an HTML page of that media type and charset, whenever it is asked for. For other pages
// the tree is empty.
func (t *Tree) Document(mediaType, charset string, body []byte) *dom.Document {
	var text []byte
	if mediaType == "" || mediatype.IsHTML(mediaType) {
		text = extract.UTF8(body, charset)
	}
	return dom.ParseWithin(text, t.elements(), effort.New(context.Background(), t.steps(len(text)), nil, time.Time{}))
}

// Reader reads pages, one after another. It reuses its memory and must not be used concurrently.
type Reader struct {
	Found   extract.Result // what the current page says; empty before it was read
	Next    []string       // URLs of the next pages of its list, by the rules for items
	Items   string         // the digest of its items, if the rules follow lists
	Repeats bool           // its items are those of the page before it, so they were left out

	cfg       *Options
	now       func() time.Time
	limit     effort.Budget
	page      canonical.URL // zero before the page was read
	extractor extract.Extractor
	fields    *fields.Extractor
	items     *items.Extractor
	texts     neardup.Reader
}

// NewReader returns a reader of pages. The error is about the rules for items.
func NewReader(cfg *Options, now func() time.Time) (*Reader, error) {
	of, err := cfg.Tree.Items.Extractor()
	return &Reader{cfg: cfg, now: now, fields: cfg.Tree.Fields.Extractor(), items: of}, err
}

// Budget returns the budget for a page of that size, until the next call. It ends with ctx, so that a crawl that stops
// need not wait for a page.
func (r *Reader) Budget(ctx context.Context, bytes int) *effort.Budget {
	r.limit = *effort.New(ctx, r.cfg.Tree.steps(bytes), r.now, r.now().Add(cmp.Or(r.cfg.PageTime, defaultTime)))
	return &r.limit
}

// Lists reports whether rules for items say which links are followed, and no others are.
func (r *Reader) Lists() bool { return r.items.Follows() }

// Reset makes the reader forget the page.
func (r *Reader) Reset() {
	r.Found.Reset()
	r.Next, r.Items, r.Repeats, r.page = nil, "", false, canonical.URL{}
}

// Base returns the URL against which references on the page are resolved.
func (r *Reader) Base(page canonical.URL) canonical.URL {
	if r.page.IsZero() || r.Found.Base == r.page.String() {
		return page
	}
	if base, err := canonical.Parse(r.Found.Base); err == nil {
		return base
	}
	return page
}

// Read reads a page into its record, as far as the budget goes. Before is the digest of the items of the page that led
// to it as the next one of a list. It returns false if the page cannot be decoded; the record says why.
func (r *Reader) Read(doc *extract.Document, budget *effort.Budget, rec *record.Record, before string) bool {
	opts := r.cfg.Extract
	opts.Budget = budget
	if err := r.extractor.Document(doc, opts, &r.Found); err != nil {
		rec.Error = cmp.Or(rec.Error, &record.Error{Class: outcome.Decode.String(), Message: err.Error()})
		return false
	}
	r.page = doc.URL
	page := &r.Found
	rec.Title, rec.Lang, rec.Text, rec.Meta = page.Title, page.Lang, page.Text, page.Meta
	rec.Charset = cmp.Or(page.Charset, rec.Charset)
	r.compare(doc, budget, rec) // first: it costs little, and the trap detector needs it even if the rest uses up the budget
	r.tree(doc, budget, rec, before)
	rec.Directives, rec.Next, rec.Prev, rec.Alternates = page.Directives, page.Next, page.Prev, page.Alternates
	r.list(rec)
	return true
}

func (r *Reader) list(rec *record.Record) {
	if r.cfg.OmitLinks {
		return
	}
	resources := 0
	for i := range r.Found.Links {
		if r.Found.Links[i].Kind == extract.Resource {
			resources++
		}
	}
	rec.Resources = slices.Grow(rec.Resources, resources)
	rec.Links = slices.Grow(rec.Links, len(r.Found.Links)-resources)
	for i := range r.Found.Links {
		link := &r.Found.Links[i]
		to := &rec.Links
		if link.Kind == extract.Resource {
			to = &rec.Resources
		}
		*to = append(*to, link.URL.String())
		if link.NoFollow {
			rec.NofollowLinks = append(rec.NofollowLinks, link.URL.String())
		}
	}
}

// compare tells the trap detector what a page says, and looks for other pages with the same content.
func (r *Reader) compare(doc *extract.Document, budget *effort.Budget, rec *record.Record) {
	var look trap.Visit
	if r.cfg.Traps != nil && r.Found.HTML {
		look = r.cfg.Traps.RecordVisit(doc.URL, r.Found.Title)
	}
	index := r.cfg.Duplicates
	fingerprint := index != nil && index.Near() && r.Found.HTML
	var sim uint64
	if look.Read || fingerprint {
		text := r.texts.Read(doc.Body, budget)
		whole := !budget.Spent() // the fingerprint of a part of a page cannot be compared
		if fingerprint && whole {
			sim = text.SimHash()
		}
		if look.Read && whole {
			missing := trap.SaysNotFound(r.Found.Title) || trap.SaysNotFound(string(text.Heading))
			r.cfg.Traps.RecordText(&look, text, missing)
		}
	}
	if index == nil || len(doc.Body) == 0 {
		return
	}
	if sim != 0 {
		rec.SimHash = fmt.Sprintf("%016x", sim)
	}
	if m := index.Add(rec.URL, xxhash.Sum64(doc.Body), sim); m.Kind != neardup.None {
		rec.Duplicate, rec.DuplicateOf = m.Kind.String(), m.Of
	}
}

// tree reads what needs the tree of the page, or its JSON.
func (r *Reader) tree(doc *extract.Document, budget *effort.Budget, rec *record.Record, before string) {
	t, wanted, listed := &r.cfg.Tree, r.fields.Wants(rec.URL), r.items.Wants(rec.URL)
	switch {
	case !r.Found.HTML:
		if (wanted || listed) && isJSON(rec.ContentType) {
			r.json(doc, budget, rec, before)
		}
		return
	case !wanted && !listed && !t.Metadata && t.Reader == nil:
		return
	}
	d := dom.ParseWithin(extract.UTF8(doc.Body, r.Found.Charset), t.elements(), budget)
	rec.Truncated = rec.Truncated || d.Cut
	base := r.Base(doc.URL)
	if wanted {
		all, err := r.fields.Page(doc.URL, base, d)
		noteFields(rec, all, err)
	}
	if listed {
		r.readItems(rec, &items.Page{URL: doc.URL, Base: base, Document: d, Budget: budget}, before)
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
	if t.Reader == nil {
		return
	}
	a := t.Reader(d, base.Parsed())
	if t.MainText {
		rec.MainText = a.Text()
	}
	if t.Markdown && rec.Status/100 == 2 {
		rec.Markdown = maintext.File(a, rec.Title, rec.URL, rec.FetchedAt)
	}
}

func noteFields(rec *record.Record, all []record.Values, err error) {
	rec.Fields = append(rec.Fields, all...)
	if err != nil {
		rec.FieldsError = err.Error()
	}
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

func (r *Reader) json(doc *extract.Document, budget *effort.Budget, rec *record.Record, before string) {
	if len(doc.Body) > dom.MaxBytes {
		rec.Truncated = true
		return
	}
	value, ok := fields.ReadJSON(extract.UTF8(doc.Body, rec.Charset), budget)
	if !ok {
		return
	}
	left := fields.MaxPage
	all, err := r.fields.In(fields.Within{URL: doc.URL, Base: doc.URL, JSON: value, Budget: budget, Left: &left})
	noteFields(rec, all, err)
	if r.items.Wants(rec.URL) {
		r.readItems(rec, &items.Page{URL: doc.URL, Base: r.Base(doc.URL), JSON: value, Budget: budget}, before)
	}
}

// readItems reads the items of a page and the links to the next page of its list. A page that has the same items as the
// page before it does not belong to the list: some sites show their last page for every higher number.
func (r *Reader) readItems(rec *record.Record, page *items.Page, before string) {
	found := r.items.Page(page)
	if found.Err != nil {
		rec.FieldsError = strings.TrimPrefix(rec.FieldsError+"\n"+found.Err.Error(), "\n")
	}
	if r.items.Follows() {
		r.Items = r.items.Digest(found.Items)
	}
	if r.Repeats = r.Items != "" && r.Items == before; r.Repeats {
		return
	}
	for _, item := range found.Items {
		text, err := item.MarshalJSON()
		if err != nil {
			rec.FieldsError = err.Error()
			continue
		}
		rec.Items = append(rec.Items, record.Item{Value: item, JSON: text})
	}
	r.Next = r.items.Next(page, len(found.Items))
}

package pipeline

import (
	"log/slog"
	"strings"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/items"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/record"
)

// itemsMeta is the key in Request.Meta of a link to the next page of a list. The value is the digest of the items of
// the page with the link.
const itemsMeta = "items of the page before"

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

func (w *processor) json(r *result, page canonical.URL, body []byte) {
	if len(body) > dom.MaxBytes {
		r.rec.Truncated = true
		return
	}
	value, ok := fields.ReadJSON(extract.UTF8(body, r.rec.Charset), w.budget)
	if !ok {
		return
	}
	left := fields.MaxPage
	all, err := w.fields.In(fields.Within{URL: page, Base: page, JSON: value, Budget: w.budget, Left: &left})
	r.rec.Fields = namedOf(all)
	if err != nil {
		r.rec.FieldsError = err.Error()
	}
	if w.items.Wants(r.rec.URL) {
		w.readItems(r, w.within(page, nil, value))
	}
}

func (w *processor) within(page canonical.URL, d *dom.Document, value any) *items.Page {
	return &items.Page{URL: page, Base: w.base(page), Document: d, JSON: value, Budget: w.budget}
}

// readItems reads the items of a page and follows the links to the next page of a list. A page that has the same items
// as the page before it does not belong to the list: some sites show their last page for every higher number.
func (w *processor) readItems(r *result, page *items.Page) {
	found := w.items.Page(page)
	if found.Err != nil {
		r.rec.FieldsError = strings.TrimPrefix(r.rec.FieldsError+"\n"+found.Err.Error(), "\n")
	}
	digest := ""
	if w.items.Follows() {
		digest = items.Digest(found.Items)
	}
	if digest != "" && request.Decode(r.lease.Request).Meta[itemsMeta] == digest {
		w.p.cfg.Log.Debug("a page has the items of the page before it, and its list ends there", slog.String("url", r.rec.URL))
		return
	}
	for _, item := range found.Items {
		text, err := item.MarshalJSON()
		if err != nil {
			r.rec.FieldsError = err.Error()
			continue
		}
		r.rec.Items = append(r.rec.Items, record.Item{Value: item, JSON: text})
	}
	for _, ref := range w.items.Next(page, len(found.Items)) {
		w.goOn(r, ref, digest)
	}
}

func (w *processor) goOn(r *result, ref, digest string) {
	u, err := canonical.Parse(ref)
	if err != nil {
		return
	}
	cfg := &w.p.cfg
	u = cfg.Rules.Apply(u)
	it := frontier.Item{URL: u, Found: frontier.Found{Referrer: r.rec.URL, FoundOn: r.lease.ID, Depth: r.lease.Depth + 1}}
	if digest != "" {
		q := request.Request{Meta: map[string]string{itemsMeta: digest}}
		if it.Request, err = q.Encode(); err != nil {
			return
		}
	}
	if r.follow(w.p, it, it.Fingerprint(cfg.Key), false).In {
		r.links[len(r.links)-1].asked = true
	}
}

package content

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/record"
)

// Extractor is a program's own reader of a media type. The document is valid until it returns.
type Extractor func(ctx context.Context, doc *extract.Document) (*Extracted, error)

// Extracted is what an Extractor has read from a page.
type Extracted struct {
	Title, Lang, Text string
	Links             []string            // references, which are resolved against the URL of the page
	Values            map[string][]string // by the names of fields
}

const (
	// classExtractor is the error class of a page for which an extractor of the program failed.
	classExtractor = "extractor"

	maxTitle = 1 << 10
	maxText  = 4 << 20
	maxLinks = 10_000
)

// ReadBy reads a page by an Extractor in place of the built-in reader. It returns false if that failed; the record says
// why.
func (r *Reader) ReadBy(ctx context.Context, read Extractor, doc *extract.Document, budget *effort.Budget, rec *record.Record) bool {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.cfg.PageTime, defaultTime))
	defer cancel()
	own := *doc
	own.Body = slices.Clip(doc.Body)
	out, err := read(ctx, &own)
	if err == nil && out == nil {
		err = errors.New("the extractor returned neither a result nor an error")
	}
	if err != nil {
		rec.Error = cmp.Or(rec.Error, &record.Error{Class: classExtractor, Message: err.Error()})
		return false
	}
	r.page = doc.URL
	r.Found = extract.Result{Title: within(out.Title, maxTitle), Lang: within(out.Lang, maxTitle), Text: within(out.Text, maxText)}
	r.references(out, doc.URL)
	rec.Title, rec.Lang = r.Found.Title, r.Found.Lang
	for _, name := range slices.Sorted(maps.Keys(out.Values)) {
		rec.Fields = append(rec.Fields, record.Values{Name: name, Values: out.Values[name], List: true})
	}
	if r.cfg.Extract.Text {
		rec.Text = r.Found.Text
	}
	if r.cfg.Duplicates != nil {
		r.compare(doc, budget, rec)
	}
	r.list(rec)
	return true
}

// references resolves the references of an Extractor and removes duplicates.
func (r *Reader) references(out *Extracted, page canonical.URL) {
	r.Found.Base = page.String()
	known := make(map[canonical.URL]bool, len(out.Links))
	for _, ref := range out.Links {
		u, err := page.Resolve(strings.TrimSpace(ref))
		if err != nil {
			continue
		}
		if u = r.cfg.Extract.Rules.Apply(u); known[u] {
			continue
		}
		if len(known) >= maxLinks {
			r.Found.DroppedLinks++
			continue
		}
		known[u] = true
		r.Found.Links = append(r.Found.Links, extract.Link{URL: u, Fingerprint: u.Fingerprint(r.cfg.Extract.Key)})
	}
}

func within(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

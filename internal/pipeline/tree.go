package pipeline

import (
	"cmp"
	"encoding/json"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/metadata"
	"github.com/treadlight/crawl/internal/web/readable"
)

// Tree says what is read out of pages by way of their trees, which cost several times what
// all else does that is done with a page. The zero Tree builds none.
type Tree struct {
	// Fields are the user's rules. Nil: none.
	Fields *fields.Set
	// Metadata asks for Open Graph, Twitter cards and JSON-LD.
	Metadata bool
	// MainText asks for the text without navigation and the like.
	MainText bool
	// MaxElements bounds a tree. Zero means 100,000.
	MaxElements int
}

// treeReader is the part of a worker that reads trees.
type treeReader struct {
	Tree
	fields *fields.Extractor
}

func (t Tree) reader() treeReader { return treeReader{t, t.Fields.Extractor()} }

// read puts what the tree of a page has into its record. found is what was read of the
// page without it.
func (t *treeReader) read(rec *sink.Record, page canonical.URL, found *extract.Result, body []byte, budget *effort.Budget) {
	wanted := t.fields.Wants(rec.URL)
	if !found.HTML || !wanted && !t.Metadata && !t.MainText {
		return
	}
	d := dom.ParseWithin(extract.UTF8(body, found.Charset), cmp.Or(t.MaxElements, dom.MaxElements), budget)
	rec.Truncated = rec.Truncated || d.Cut
	if wanted {
		t.readFields(rec, page, found, d)
	}
	if t.Metadata {
		readMetadata(rec, d)
	}
	if t.MainText {
		rec.MainText = readable.Text(d)
	}
}

func (t *treeReader) readFields(rec *sink.Record, page canonical.URL, found *extract.Result, d *dom.Document) {
	base, err := canonical.Parse(found.Base)
	if err != nil {
		base = page
	}
	all, err := t.fields.Page(page, base, d)
	for _, f := range all {
		rec.Fields = append(rec.Fields, sink.Values{Name: f.Name, Values: f.Values, List: f.All, Number: f.Number})
	}
	if err != nil {
		rec.FieldsError = err.Error()
	}
}

func readMetadata(rec *sink.Record, d *dom.Document) {
	m := metadata.Read(d)
	for _, p := range m.Properties {
		rec.Properties = append(rec.Properties, sink.Values{Name: p.Name, Values: p.Values, List: len(p.Values) > 1})
	}
	for _, block := range m.JSONLD {
		rec.JSONLD = append(rec.JSONLD, json.RawMessage(block))
	}
	rec.InvalidJSONLD = m.InvalidJSONLD
}

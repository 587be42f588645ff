// Package metadata reads what a page says of itself for other programs: the properties of
// Open Graph and Twitter cards, and JSON-LD. [Read] takes both from a page's tree.
//
// Properties are meta elements whose property or name begins with og:, article: and the
// like. Values are kept as they are written, white space collapsed; a property that comes
// several times keeps all of them, which is how Open Graph writes lists.
//
// JSON-LD is kept as JSON and not interpreted. A block that is no JSON is mended where the
// usual mistakes of templates are the only ones, and else counted.
package metadata

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

// What is kept of a page at most. Real pages have some twenty properties and a handful of
// blocks; a shop's list of products is the longest JSON-LD there is.
const (
	// MaxProperties is how many properties there are, each with at most MaxValues values.
	MaxProperties = 100
	// MaxValues is how many values of a property are kept.
	MaxValues = 50
	// MaxValue is the longest value, in bytes; the rest of it is cut off.
	MaxValue = 4 << 10
	// MaxBlocks is how many blocks of JSON-LD are kept.
	MaxBlocks = 32
	// MaxJSON bounds all blocks together, in bytes.
	MaxJSON = 512 << 10
	// MaxDepth is how deep the objects and arrays of a block may be in one another. Many a
	// reader of JSON gives up at a thousand, and would lose the whole record.
	MaxDepth = 256
)

// Property is one name with its values.
type Property struct {
	Name   string // in lower case: "og:title"
	Values []string
}

// Metadata is what a page says. The zero Metadata is a page that says nothing.
type Metadata struct {
	Properties []Property // in the order of the page
	JSONLD     []string   // blocks, each valid JSON without needless space
	// InvalidJSONLD counts blocks that are no JSON, Dropped values and blocks beyond the
	// bounds.
	InvalidJSONLD, Dropped int
}

// Read reads the metadata of a page. It takes any tree.
func Read(d *dom.Document) Metadata {
	r := reader{left: MaxJSON, budget: d.Budget}
	for n := d.Root; n != nil && r.budget.Spend(1); {
		switch {
		case n.Type != html.ElementNode:
		case n.DataAtom == atom.Meta:
			r.meta(n)
		case n.DataAtom == atom.Script && isJSONLD(n):
			r.block(n)
		}
		switch {
		case n.DataAtom == atom.Template: // it is no part of the page yet
			n = dom.After(n, d.Root)
		case n.FirstChild != nil:
			n = n.FirstChild
		default:
			n = dom.After(n, d.Root)
		}
	}
	return r.Metadata
}

type reader struct {
	Metadata
	left   int // bytes that blocks may still take
	budget *effort.Budget
}

// prefixes begin the names of properties: those of Open Graph and its types, what Facebook
// adds, and Twitter's.
var prefixes = []string{"og:", "article:", "book:", "profile:", "video:", "music:", "product:", "fb:", "twitter:"}

// meta notes a property. Sites write name for property and the other way round.
func (r *reader) meta(n *html.Node) {
	content, _ := dom.Attr(n, "content")
	if !r.budget.SpendText(len(content)) {
		return
	}
	var text dom.Collapser
	text.Add(content)
	if text.Len() == 0 {
		return
	}
	for _, attr := range []string{"property", "name"} {
		names, _ := dom.Attr(n, attr)
		for name := range strings.FieldsSeq(strings.ToLower(names)) { // RDFa has lists of names
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				r.add(dom.Clip(name, MaxValue), dom.Clip(text.String(), MaxValue))
				return
			}
		}
	}
}

func (r *reader) add(name, value string) {
	i := slices.IndexFunc(r.Properties, func(p Property) bool { return p.Name == name })
	switch {
	case i < 0 && len(r.Properties) == MaxProperties, i >= 0 && len(r.Properties[i].Values) == MaxValues:
		r.Dropped++
	case i < 0:
		r.Properties = append(r.Properties, Property{Name: name, Values: []string{value}})
	default:
		r.Properties[i].Values = append(r.Properties[i].Values, value)
	}
}

// isJSONLD goes by the media type, parameters aside.
func isJSONLD(script *html.Node) bool {
	mediaType, _ := dom.Attr(script, "type")
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), "application/ld+json")
}

// mendings is how often the text of a block is gone over at most.
const mendings = 8

// block notes what is in a script.
func (r *reader) block(script *html.Node) {
	var text strings.Builder
	for c := script.FirstChild; c != nil; c = c.NextSibling {
		text.WriteString(c.Data)
	}
	if !r.budget.SpendText(mendings*text.Len()) || strings.TrimSpace(text.String()) == "" {
		return
	}
	if len(r.JSONLD) == MaxBlocks || text.Len() > r.left {
		r.Dropped++
		return
	}
	json, ok := mend(text.String())
	if !ok {
		r.InvalidJSONLD++
		return
	}
	r.left -= text.Len()
	r.JSONLD = append(r.JSONLD, json)
}

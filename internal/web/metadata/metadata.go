// Package metadata reads Open Graph properties, Twitter cards and JSON-LD from the tree of a page.
//
// Properties are meta elements whose property or name has a prefix such as og: or article:, as they are written,
// white space collapsed; a repeated property keeps all values. JSON-LD is kept as JSON; usual mistakes of templates
// are repaired, other invalid blocks counted.
package metadata

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

// Bounds of what is kept of a page.
const (
	MaxProperties = 100
	MaxValues     = 50        // of a property
	MaxValue      = 4 << 10   // bytes of a value; the rest is cut off
	MaxBlocks     = 32        // of JSON-LD
	MaxJSON       = 512 << 10 // bytes of all blocks
	MaxDepth      = 256       // of a block; many readers of JSON fail at a thousand
)

// Property is one name with its values.
type Property struct {
	Name   string // in lower case: "og:title"
	Values []string
}

// Metadata is the metadata of a page.
type Metadata struct {
	Properties []Property // in the order of the page
	JSONLD     []string   // blocks, each valid JSON without needless space
	// InvalidJSONLD counts blocks that are no JSON, Dropped what is beyond the bounds.
	InvalidJSONLD, Dropped int
}

// Read reads the metadata of any tree.
func Read(d *dom.Document) Metadata {
	r := reader{left: MaxJSON, budget: d.Budget}
	r.children(d.Root)
	return r.Metadata
}

type reader struct {
	Metadata
	left   int // bytes that blocks may still take
	budget *effort.Budget
}

// children reads what is in n. It recurses, as trees are not deep.
func (r *reader) children(n *html.Node) {
	for c := n.FirstChild; c != nil && r.budget.Spend(1); c = c.NextSibling {
		switch c.DataAtom {
		case atom.Template: // it is no part of the page yet
			continue
		case atom.Meta:
			r.meta(c)
		case atom.Script:
			mediaType, _ := dom.Attr(c, "type")
			mediaType, _, _ = strings.Cut(mediaType, ";")
			if strings.EqualFold(strings.TrimSpace(mediaType), "application/ld+json") {
				r.block(c)
			}
		}
		r.children(c)
	}
}

// prefixes are those of Open Graph and its types, of Facebook and of Twitter.
var prefixes = []string{"og:", "article:", "book:", "profile:", "video:", "music:", "product:", "fb:", "twitter:"}

// meta reads a property. Sites confuse property and name.
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

// repairPasses bounds how often the text of a block is read.
const repairPasses = 8

func (r *reader) block(script *html.Node) {
	var text strings.Builder
	for c := script.FirstChild; c != nil; c = c.NextSibling {
		text.WriteString(c.Data)
	}
	if !r.budget.SpendText(repairPasses*text.Len()) || strings.TrimSpace(text.String()) == "" {
		return
	}
	if len(r.JSONLD) == MaxBlocks || text.Len() > r.left {
		r.Dropped++
		return
	}
	json, ok := repair(text.String())
	if !ok {
		r.InvalidJSONLD++
		return
	}
	r.left -= text.Len()
	r.JSONLD = append(r.JSONLD, json)
}

// repair compacts a block. It accepts what browsers and search engines do: comments and CDATA marks around it, a
// semicolon at the end, line ends within strings, trailing commas, and quotes as character references.
func repair(s string) (string, bool) {
	s = unwrap(s)
	if compact, ok := compactJSON(s); ok {
		return compact, true
	}
	if !strings.Contains(s, `"`) && strings.Contains(s, "&quot;") {
		s = html.UnescapeString(s)
	}
	return compactJSON(fixSyntax(s))
}

func compactJSON(s string) (string, bool) {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return "", false
	}
	if depth(b.Bytes()) > MaxDepth {
		return "", false
	}
	// A text or a number by itself is JSON, but says nothing.
	return b.String(), b.Len() > 0 && (b.Bytes()[0] == '{' || b.Bytes()[0] == '[')
}

// depth is how deep valid JSON is nested.
func depth(s []byte) (deepest int) {
	quoted, now := false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}', c == ']':
			now--
		}
	}
	return deepest
}

var wrappers = [...]string{"<!--", "-->", "<![CDATA[", "]]>", "//", "/*", "*/", ";", "\ufeff"}

func unwrap(s string) string {
	for again := true; again; {
		again = false
		s = strings.TrimSpace(s)
		for _, w := range wrappers {
			if rest := strings.TrimSuffix(strings.TrimPrefix(s, w), w); rest != s {
				s, again = rest, true
			}
		}
	}
	return s
}

// fixSyntax removes trailing commas and escapes controls within strings.
func fixSyntax(s string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted && c == '\\' && i+1 < len(s):
			b.WriteByte(c)
			i++
			c = s[i]
		case c == '"':
			quoted = !quoted
		case quoted && c < ' ':
			quoted, _ := json.Marshal(string(rune(c))) // cannot fail
			b.Write(bytes.Trim(quoted, `"`))
			continue
		case !quoted && c == ',' && closes(s[i+1:]):
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// closes reports whether a closing bracket is next.
func closes(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && (s[0] == '}' || s[0] == ']')
}

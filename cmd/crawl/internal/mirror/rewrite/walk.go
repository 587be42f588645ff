package rewrite

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
)

// walker walks through one document.
type walker struct {
	doc    *Document
	places *Places
	frames []frame // the texts around the current one, the outermost first
	depth  int     // how many attributes the current text is nested in

	base     canonical.URL // zero if the page has no base, or none so far
	late     bool          // there were references before the base
	again    bool          // the page has a base after references: walk again with it
	enc      encoding.Encoding
	noFollow bool   // a meta element says so for all links of the page
	charset  string // of the header
	declared bool   // the page declares a charset
	head     int    // where a declaration of the charset can be inserted
}

// frame is a text within the document, such as the value of an attribute.
type frame struct {
	from int   // its beginning in the text around it
	at   []int // offsets of its bytes from there; nil means that they are contiguous
}

// maxMapped bounds the values with character references that are read, as each byte takes eight in a map of its place.
const maxMapped = 4 << 20

// within walks through a text within another one: the value of an attribute, or the content of an element.
func (w *walker) within(s []byte, from, to int, value bool, walk func(s []byte)) {
	f, inner := frame{from: from}, s[from:to]
	if value {
		if w.depth++; bytes.IndexByte(inner, '&') >= 0 {
			if len(inner) > maxMapped {
				w.depth--
				return
			}
			inner, f.at = extract.UnescapeMapped(inner)
		}
	}
	w.frames = append(w.frames, f)
	walk(inner)
	if w.frames = w.frames[:len(w.frames)-1]; value {
		w.depth--
	}
}

// place converts an offset in the current text to one in the document.
func (w *walker) place(i int) int {
	for n := len(w.frames) - 1; n >= 0; n-- {
		f := &w.frames[n]
		if f.at != nil {
			i = f.at[i]
		}
		i += f.from
	}
	return i
}

// maxPlaces bounds the places of a document. A page written by a person has some thousands.
const maxPlaces = 1 << 20

func (w *walker) add(p place) {
	if len(w.places.list) < maxPlaces {
		p.from, p.to, p.depth = w.place(p.from), w.place(p.to), w.depth
		w.places.list = append(w.places.list, p)
	}
}

// set replaces a range in every copy by a text, which is ASCII without quotes.
func (w *walker) set(from, to int, text string) {
	w.add(place{Link: Link{Role: literal, Ref: []byte(text)}, from: from, to: to})
}

// link adds a reference that the text has between two offsets.
func (w *walker) link(ref []byte, from, to int, l Link, in quoting) {
	l.Ref = canonical.Trim(ref)
	switch scheme := schemeOf(l.Ref); {
	case scheme == "":
	case scheme != "http" && scheme != "https":
		return
	case bytes.HasPrefix(l.Ref[len(scheme):], []byte("://")):
		in |= absolute
	}
	if w.late = true; w.base.IsZero() && (len(l.Ref) == 0 || l.Ref[0] == '#') {
		return
	}
	if !w.base.IsZero() || w.enc != nil && !extract.IsASCII(l.Ref) {
		if len(l.Ref) == 0 && l.Role != Page { // an empty reference names no part
			return
		}
		if l.Ref = w.portable(l.Ref); len(l.Ref) == 0 {
			return
		}
	}
	l.NoFollow = l.NoFollow || w.noFollow && l.Role == Page
	w.add(place{Link: l, from: from, to: to, in: in})
}

// portable returns a reference that means the same without the base and the charset of the page. It returns nil if ref
// is invalid.
func (w *walker) portable(ref []byte) []byte {
	ref = w.utf8(ref)
	path, fragment, cut := bytes.Cut(ref, []byte("#"))
	base := w.base
	if base.IsZero() {
		base = w.doc.URL
	}
	u, err := base.ResolveBytes(extract.EncodeQuery(w.enc, path)) // as browsers do
	if err != nil {
		return nil
	}
	if ref = []byte(u.String()); cut {
		ref = append(append(ref, '#'), fragment...)
	}
	return ref
}

// utf8 returns a text of the document in UTF-8.
func (w *walker) utf8(s []byte) []byte {
	if w.enc != nil && !extract.IsASCII(s) {
		if text, err := w.enc.NewDecoder().Bytes(s); err == nil {
			return text
		}
	}
	return s
}

// schemeOf returns the scheme of a reference in lower case; empty if it has none.
func schemeOf(ref []byte) string {
	if i := bytes.IndexAny(ref, "/?#:"); i >= 0 && ref[i] == ':' {
		return strings.ToLower(string(ref[:i]))
	}
	return ""
}

// declaredWithin is how many bytes at the beginning of a page browsers search for the charset.
const declaredWithin = 1 << 10

// markup walks through HTML or XML.
func (w *walker) markup(s []byte) {
	once.Do(readTable)
	tags := extract.Tags{Elements: elementNames, Attrs: attrNames, XML: w.doc.Kind == XML}
	tags.Declaration = func(from, end int) {
		if len(w.frames) == 0 && from < declaredWithin && len(bytes.TrimSpace(s[w.head:from])) == 0 {
			w.head = end // before a document type, the declaration of a charset would not be valid
		}
	}
	tags.Scan(s, w.element)
}

// element handles a start tag and, if its element has raw text, that text. It returns where the walk goes on.
func (w *walker) element(t *extract.Tag) int {
	switch {
	case len(w.frames) > 0:
	case t.Name == "html" || t.Name == "head":
		w.head = t.End
	case t.Name == "meta" && t.Word("name") == "robots":
		for word := range extract.Directives(t.Word("content"), "", false) {
			w.noFollow = w.noFollow || word == "nofollow" || word == "none"
		}
	}
	first := len(w.places.list)
	for _, a := range t.Attrs {
		m := means[a.Index][t.Name]
		if m == nil {
			m = means[a.Index]["*"]
		}
		if m != nil && a.Value[0] > 0 {
			m(w, t, a)
		}
	}
	found := w.places.list[first:]
	if n := slices.IndexFunc(found, func(p place) bool { return p.Role == Part || p.Role == Frame }); n >= 0 {
		part := found[n]
		for _, a := range t.Attrs {
			if a.Name == "integrity" || a.Name == "crossorigin" {
				w.add(place{Link: Link{Role: dropped, Ref: part.Ref}, from: a.From, to: a.To})
			}
		}
	}
	xml := w.doc.Kind == XML
	if !rawText[t.Name] || t.SelfClosing() && (xml || t.Foreign) || xml && t.Name != "script" && t.Name != "style" {
		return t.End
	}
	end := extract.RawTextEnd(t.Text, t.End, t.Name)
	switch kind := t.Word("type"); {
	case t.Name == "style":
		w.within(t.Text, t.End, end, false, w.css)
	case t.Name == "script" && kind == "importmap":
		w.within(t.Text, t.End, end, false, func(s []byte) { w.json(s, importMapRole) })
	case t.Name == "script" && kind == "module":
		w.within(t.Text, t.End, end, false, w.module)
	}
	return end
}

// decode returns the document as text whose markup is ASCII.
func (w *walker) decode() (text []byte) {
	d := w.doc
	bom := bytes.HasPrefix(d.Body, []byte("\ufeff"))
	if bom {
		w.head = len("\ufeff")
	} else if !bytes.HasPrefix(d.Body, []byte("\xff\xfe")) && !bytes.HasPrefix(d.Body, []byte("\xfe\xff")) { // no byte order mark
		_, w.charset = charset.Lookup(d.Charset)
	}
	if bom || w.charset == "utf-8" || w.charset == "" && d.Kind != HTML && d.Kind != XML {
		return d.Body
	}
	text, w.enc, w.places.back = extract.Editable(d.Body, d.Charset)
	return text
}

// declare inserts the charset of the header into a document that does not declare one. A style sheet needs that only if
// it is not ASCII.
func (w *walker) declare() {
	switch kind := w.doc.Kind; {
	case w.charset == "" || w.declared:
	case kind == CSS && w.charset != "utf-8" && !bytes.HasPrefix(w.places.body, []byte("@charset")) && !extract.IsASCII(w.places.body):
		w.set(0, 0, `@charset "`+w.charset+`";`)
	case kind == HTML && strings.HasPrefix(w.charset, "utf-16"):
		w.set(0, 0, "\ufeff") // a byte order mark declares UTF-16
	case kind == HTML:
		w.set(w.head, w.head, `<meta charset="`+w.charset+`">`)
	}
}

// charsetLabel matches the label in the content of a meta element.
var charsetLabel = lazy.Regexp(`(?i)charset\s*=\s*["']?([\w:.-]+)`)

// label handles the name of a charset in a declaration. The charset of the header replaces it, because the header took
// precedence.
func (w *walker) label(s []byte, from, to int) {
	_, name := charset.Lookup(string(canonical.Trim(s[from:to])))
	if w.declared || name == "" || len(w.frames) > 1 {
		return
	}
	if w.declared = true; w.charset != "" && name != w.charset && !strings.HasPrefix(w.charset, "utf-16") {
		w.set(from, to, w.charset)
	}
}

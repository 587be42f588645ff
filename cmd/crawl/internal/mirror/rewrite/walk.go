package rewrite

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

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
	foreign  int    // open svg and math elements
	tag      tag
}

// frame is a text within the document, such as the value of an attribute.
type frame struct {
	from  int   // its beginning in the text around it
	at    []int // offsets of its bytes from there; nil means that they are contiguous
	value bool  // it is the value of an attribute
}

// maxMapped bounds the values with character references that are read, as each byte takes eight in a map of its place.
const maxMapped = 4 << 20

// within walks through a text within another one: the value of an attribute, or the content of an element.
func (w *walker) within(s []byte, from, to int, value bool, walk func(s []byte)) {
	f, inner := frame{from: from, value: value}, s[from:to]
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
	l.Ref = extract.Trim(ref)
	if elsewhere(l.Ref) {
		return
	}
	if w.late = true; w.base.IsZero() && (len(l.Ref) == 0 || l.Ref[0] == '#') {
		return
	}
	if hasScheme(l.Ref) {
		in |= absolute
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

// hasScheme reports whether a reference is an absolute http or https URL. "http:x" is not.
func hasScheme(ref []byte) bool { return bytes.IndexByte(ref, ':') > 0 && webURL.Match(ref) }

// scheme matches a reference with any scheme, webURL an absolute http or https URL, and web a reference with one of
// these schemes.
var (
	scheme = regexp.MustCompile(`^[^/?#:]*:`)
	webURL = regexp.MustCompile(`^(?i:https?)://`)
	web    = regexp.MustCompile(`^(?i:https?):`)
)

// elsewhere reports whether a reference has a scheme other than http and https.
func elsewhere(ref []byte) bool {
	return bytes.IndexByte(ref, ':') >= 0 && scheme.Match(ref) && !web.Match(ref)
}

// attribute is an attribute of the current tag that may have a meaning.
type attribute struct {
	*attr
	from, to int // the range of the whole attribute
	v0, v1   int // the range of the value without quotes; no value if v0 is zero
	quoted   bool
}

// tag is the current start tag.
type tag struct {
	name string // in lower case; empty if it has no meaning
	end  int    // the offset after its ">"
	s    []byte
	attr []attribute
}

// get returns the value of an attribute, unescaped, trimmed and in lower case.
func (t *tag) get(name string) string {
	for i := range t.attr {
		if a := &t.attr[i]; a.name == name {
			return strings.ToLower(strings.TrimSpace(extract.Unescape(string(t.s[a.v0:a.v1]))))
		}
	}
	return ""
}

// has reports whether an attribute, a list of words, has one of the given words.
func (t *tag) has(name string, words ...string) bool {
	for word := range strings.FieldsSeq(t.get(name)) {
		if slices.Contains(words, word) {
			return true
		}
	}
	return false
}

// markup walks through HTML or XML.
func (w *walker) markup(s []byte) {
	for i := 0; ; {
		n := bytes.IndexByte(s[i:], '<')
		if n < 0 || i+n+1 >= len(s) {
			return
		}
		i += n
		switch c := s[i+1]; {
		case c == '!':
			i = w.declaration(s, i)
		case c == '?':
			i = w.instruction(s, i)
		case c == '/':
			if i += 2; w.foreign > 0 && isForeign(s[i:extract.TagNameEnd(s, i)]) {
				w.foreign--
			}
		case isLetter(c):
			if !w.startTag(s, i+1, extract.TagNameEnd(s, i+1)) { // the page ends within the tag
				return
			}
			i = w.element(&w.tag)
		default:
			i++
		}
	}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isForeign(name []byte) bool {
	return bytes.EqualFold(name, []byte("svg")) || bytes.EqualFold(name, []byte("math"))
}

// declaration skips what begins with "<!", and returns where it ends.
func (w *walker) declaration(s []byte, i int) int {
	switch rest := s[i+2:]; {
	case bytes.HasPrefix(rest, []byte("--")):
		return extract.CommentEnd(s, i+4)
	case bytes.HasPrefix(rest, []byte("[CDATA[")) && (w.foreign > 0 || w.doc.Kind == XML):
		return extract.Through(s, i, "]]>")
	case w.doc.Kind == XML && bytes.HasPrefix(rest, []byte("DOCTYPE")):
		if end := bytes.IndexByte(s[i:], '>'); end > 0 && bytes.IndexByte(s[i:i+end], '[') >= 0 {
			return extract.Through(s, i, "]>")
		}
	}
	end := extract.Through(s, i, ">")
	if len(w.frames) == 0 && i < declaredWithin && len(bytes.TrimSpace(s[w.head:i])) == 0 {
		w.head = end // before a document type, the declaration would not be valid
	}
	return end
}

// declaredWithin is how many bytes at the beginning of a page browsers search for the charset.
const declaredWithin = 1 << 10

// instruction reads what begins with "<?", which may name a style sheet of XML. It returns where that ends.
func (w *walker) instruction(s []byte, i int) int {
	const name = "?xml-stylesheet"
	if end := i + 1 + len(name); w.doc.Kind == XML && bytes.HasPrefix(s[i+1:], []byte(name)) {
		if w.startTag(s, i+1, end) {
			return w.element(&w.tag)
		}
	}
	return extract.Through(s, i, ">")
}

// startTag reads the tag whose name is from i to end. It returns false if the page ends within the tag.
func (w *walker) startTag(s []byte, i, end int) bool {
	t := &w.tag
	t.name, t.s, t.attr = "", s, t.attr[:0]
	if name := s[i:end]; tagShapes.has(name) {
		var buf [maxName]byte
		t.name = elements[string(extract.AppendLower(buf[:0], name))]
	}
	for at := extract.SkipSpace(s, end); at < len(s); at = extract.SkipSpace(s, at) {
		if s[at] == '>' {
			t.end = at + 1
			return true
		}
		at = w.attribute(s, at)
	}
	return false
}

// attribute reads the attribute at an offset, and returns the offset after it. Of two attributes with the same name the
// first counts.
func (w *walker) attribute(s []byte, at int) (next int) {
	key, val, next := extract.NextAttr(s, at)
	if !attrShapes.has(key) {
		return max(next, at+1)
	}
	var buf [maxName]byte
	a := attribute{attr: attrs[string(extract.AppendLower(buf[:0], key))], from: at, to: at + len(key)}
	if a.attr == nil || slices.ContainsFunc(w.tag.attr, func(b attribute) bool { return b.attr == a.attr }) {
		return next
	}
	if val != nil {
		q := s[next-1]
		a.quoted = (q == '"' || q == '\'') && next-2-len(val) >= at && s[next-2-len(val)] == q
		if a.to, a.v1 = next, next; a.quoted {
			a.v1--
		}
		a.v0 = a.v1 - len(val)
	}
	w.tag.attr = append(w.tag.attr, a)
	return next
}

// element handles a start tag and, if its element has raw text, that text. It returns where the walk goes on.
func (w *walker) element(t *tag) int {
	closed := t.s[t.end-2] == '/'
	switch t.name {
	case "html", "head":
		if len(w.frames) == 0 {
			w.head = t.end
		}
	case "svg", "math":
		if !closed {
			w.foreign++
		}
	case "meta":
		if name := t.get("name"); name == "robots" && len(w.frames) == 0 {
			for word := range extract.Directives(t.get("content"), "", false) {
				w.noFollow = w.noFollow || word == "nofollow" || word == "none"
			}
		}
	}
	first := len(w.places.list)
	for i := range t.attr {
		if a := &t.attr[i]; a.v0 > 0 {
			a.handle(w, t)
		}
	}
	if n := len(w.places.list) - first; n > 0 {
		for i := range t.attr {
			if a := &t.attr[i]; a.name == "integrity" || a.name == "crossorigin" {
				w.add(place{Link: Link{Role: dropped}, from: a.from, to: a.to, of: n})
				n++
			}
		}
	}
	if !rawText[t.name] || closed && (w.doc.Kind == XML || w.foreign > 0) || w.doc.Kind == XML && t.name != "script" && t.name != "style" {
		return t.end
	}
	end := extract.RawTextEnd(t.s, t.end, t.name)
	switch kind := t.get("type"); {
	case t.name == "style":
		w.within(t.s, t.end, end, false, w.css)
	case t.name == "script" && kind == "importmap":
		w.within(t.s, t.end, end, false, func(s []byte) { w.json(s, importMapRole) })
	case t.name == "script" && kind == "module":
		w.within(t.s, t.end, end, false, w.module)
	}
	return end
}

// decode returns the document as text whose markup is ASCII. In most charsets it is so already: the bytes stay, and
// only references are decoded. UTF-16 and ISO-2022-JP become UTF-8 if that can be undone byte by byte. Otherwise the
// document is not changed.
func (w *walker) decode() []byte {
	d := w.doc
	switch {
	case bytes.HasPrefix(d.Body, []byte("\xef\xbb\xbf")):
		w.head = len("\ufeff")
		return d.Body
	case !bytes.HasPrefix(d.Body, []byte("\xff\xfe")) && !bytes.HasPrefix(d.Body, []byte("\xfe\xff")): // no byte order mark
		_, w.charset = charset.Lookup(d.Charset)
		if w.charset == "utf-8" || w.charset == "" && d.Kind != HTML && d.Kind != XML {
			return d.Body
		}
	}
	enc, name := extract.Encoding(d.Body, d.Charset)
	switch name {
	case "utf-8", "replacement", "x-user-defined":
		return d.Body
	case "utf-16le":
		enc = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "utf-16be":
		enc = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case "iso-2022-jp":
	default:
		w.enc = enc
		return d.Body
	}
	text, _, err := transform.Bytes(enc.NewDecoder(), d.Body)
	w.places.back = func(b []byte) []byte {
		out, _, e := transform.Bytes(enc.NewEncoder(), b)
		if err != nil || e != nil {
			return d.Body
		}
		return out
	}
	if !bytes.Equal(w.places.back(text), d.Body) {
		err = encoding.ErrInvalidUTF8
		return nil
	}
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
var charsetLabel = regexp.MustCompile(`(?i)charset\s*=\s*["']?([\w:.-]+)`)

// label handles the name of a charset in a declaration. The charset of the header replaces it, because the header took
// precedence.
func (w *walker) label(s []byte, from, to int) {
	_, name := charset.Lookup(string(extract.Trim(s[from:to])))
	if w.declared || name == "" || len(w.frames) > 1 {
		return
	}
	if w.declared = true; w.charset != "" && name != w.charset && !strings.HasPrefix(w.charset, "utf-16") {
		w.set(from, to, w.charset)
	}
}

package rewrite

import (
	"bytes"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/treadlight/crawl/internal/web/extract"
)

// attribute is one of the current tag.
type attribute struct {
	name     string // in lower case
	from, to int    // all of it
	v0, v1   int    // the value, without quotes; none if v0 is zero
	quoted   bool
}

// tag is the current start tag.
type tag struct {
	name string
	from int
	end  int // after its ">"
	s    []byte
	attr []attribute
}

// get is the value of an attribute, references resolved.
func (t *tag) get(name string) string {
	for i := range t.attr {
		if t.attr[i].name == name {
			return t.value(&t.attr[i])
		}
	}
	return ""
}

func (t *tag) value(a *attribute) string {
	if a.v0 == 0 {
		return ""
	}
	return extract.Unescape(string(t.s[a.v0:a.v1]))
}

// rawElements have text in which there is no markup. Of noscript, noframes and noembed the content is markup for those
// browsers that show it.
var rawElements = map[string]bool{"script": true, "style": true, "textarea": true, "title": true, "xmp": true, "iframe": true, "plaintext": true}

// markup walks through HTML or XML.
func (w *walker) markup(s []byte) {
	w.head = 0
	if bytes.HasPrefix(s, []byte("\xef\xbb\xbf")) {
		w.head = 3
	}
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
			i = w.endTag(s, i)
		case isLetter(c):
			if end := plain(s, i+1); end > 0 {
				i = end
				continue
			}
			t, ok := w.startTag(s, i)
			if !ok { // the page ends in it
				return
			}
			i = w.element(&t)
		default:
			i++
		}
	}
}

// plain is the end of a start tag of those that have no attribute but a class or an id, as most of a text; zero: it must
// be looked at.
func plain(s []byte, i int) int {
	end := extract.TagNameEnd(s, i)
	if end >= len(s) || !isPlain(s[i:end]) {
		return 0
	}
	rest := s[end:]
	if rest[0] == '>' {
		return end + 1
	}
	for _, attr := range [...]string{` class="`, ` id="`} {
		if len(rest) > len(attr) && string(rest[:len(attr)]) == attr {
			if n := bytes.IndexByte(rest[len(attr):], '"'); n >= 0 && len(attr)+n+1 < len(rest) && rest[len(attr)+n+1] == '>' {
				return end + len(attr) + n + 2
			}
		}
	}
	return 0
}

// isPlain reports whether an element is one whose attributes rarely have links.
func isPlain(name []byte) bool {
	switch string(name) {
	case "span", "p", "div", "li", "ul", "ol", "dl", "dt", "dd", "em", "i", "b", "strong", "code", "pre", "tt", "td", "th", "tr", "tbody", "thead",
		"table", "h1", "h2", "h3", "h4", "h5", "h6", "br", "hr", "sup", "sub", "section", "article", "nav", "var", "kbd", "small", "cite", "abbr":
		return true
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// declaration skips what begins with "<!".
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
	if i-w.head < declaredWithin && len(bytes.TrimSpace(s[w.head:i])) == 0 {
		w.head = end // after the document type, or a declaration would be before it
	}
	return end
}

// instruction reads what begins with "<?": a style sheet of XML may be in it.
func (w *walker) instruction(s []byte, i int) int {
	end := extract.Through(s, i, ">")
	const name = "<?xml-stylesheet"
	if w.doc.Kind == XML && bytes.HasPrefix(s[i:end], []byte(name)) {
		t := tag{name: "?xml-stylesheet", from: i, end: end, s: s}
		t.attr = w.attributes(s, i+len(name), end-1)
		for j := range t.attr {
			if t.attr[j].name == "href" {
				w.url(&t, &t.attr[j], Link{Role: Part, As: CSS})
			}
		}
	}
	return end
}

func (w *walker) endTag(s []byte, i int) int {
	if i+2 >= len(s) || !isLetter(s[i+2]) {
		return extract.Through(s, i, ">")
	}
	end := extract.Through(s, i, ">")
	if w.foreign > 0 && isForeign(s[i+2:extract.TagNameEnd(s, i+2)]) {
		w.foreign--
	}
	return end
}

func isForeign(name []byte) bool {
	return hasFold(name, "svg") && len(name) == 3 || hasFold(name, "math") && len(name) == 4
}

// startTag reads the tag at i. It is false if the page ends in it.
func (w *walker) startTag(s []byte, i int) (tag, bool) {
	end := extract.TagNameEnd(s, i+1)
	t := tag{name: lower(s[i+1 : end]), from: i, s: s}
	w.attrs = w.attrs[:0]
	at := end
	for {
		if at = extract.SkipSpace(s, at); at >= len(s) {
			return t, false
		}
		if s[at] == '>' {
			break
		}
		at = w.attribute(s, at)
	}
	t.end, t.attr = at+1, w.attrs
	return t, true
}

// attributes reads those between two places.
func (w *walker) attributes(s []byte, at, end int) []attribute {
	w.attrs = w.attrs[:0]
	for at = extract.SkipSpace(s, at); at < end; at = extract.SkipSpace(s, at) {
		at = w.attribute(s[:end], at)
	}
	return w.attrs
}

// maxAttrs bounds the attributes of a tag that are read; those of a page that somebody wrote are a few dozen.
const maxAttrs = 256

// attribute reads the one at that place and returns what is behind it. Of two of one name the first counts.
func (w *walker) attribute(s []byte, at int) (next int) {
	key, val, next := extract.NextAttr(s, at)
	a := attribute{from: at, to: next}
	if len(key) == 0 {
		return max(next, at+1)
	}
	if val != nil {
		if q := s[next-1]; next >= 1 && (q == '"' || q == '\'') && next-2-len(val) >= at && s[next-2-len(val)] == q {
			a.v1, a.quoted = next-1, true
		} else {
			a.v1 = next
		}
		a.v0 = a.v1 - len(val)
	} else {
		a.to = at + len(key)
	}
	if len(w.attrs) == maxAttrs {
		return next
	}
	a.name = lower(key)
	for i := range w.attrs {
		if w.attrs[i].name == a.name {
			return next
		}
	}
	w.attrs = append(w.attrs, a)
	return next
}

// names are those that need no memory of their own, each where its slot says unless another one is there.
var names = func() (table [1 << 10]string) {
	for n := range strings.FieldsSeq(`a abbr article aside audio b base body br button code dd div dl dt em footer form frame h1 h2 h3 h4 h5 h6 head
		header hr html i iframe img input kbd li link main meta nav noscript ol option p path picture pre script section
		small source span strong style sup svg table tbody td template tfoot th thead title tr tt ul use var video
		alt async charset class content crossorigin data-src defer height href hreflang http-equiv id integrity lang name
		property rel role scope size src srcset style summary target title type value width xmlns colspan rowspan d fill`) {
		table[slot([]byte(n))] = n
	}
	return table
}()

func slot(s []byte) uint {
	return (uint(len(s))*53 ^ uint(s[0])*5 ^ uint(s[len(s)/2])*11 ^ uint(s[len(s)-1])*17) % (1 << 10)
}

// lower is a name, which is not empty, in lower case.
func lower(s []byte) string {
	if n := names[slot(s)]; n == string(s) {
		return n
	}
	return strings.ToLower(string(s))
}

// findBase finds the base of a page before its links are read: it counts for those before it too.
func (w *walker) findBase(s []byte) {
	for at := 0; ; {
		n := bytes.IndexByte(s[at:], '<')
		if n < 0 || at+n+5 > len(s) {
			return
		}
		if at += n + 1; s[at]|0x20 == 'b' && hasFold(s[at:], "base") {
			break
		}
	}
	v := &walker{doc: w.doc, finding: true, ahead: true, nested: maxNested, enc: w.enc, base: w.base}
	v.markup(s)
	w.base, w.based = v.base, v.based
}

// element handles a start tag and, if it is one of raw text, what is in it. It returns where the walk goes on.
func (w *walker) element(t *tag) int {
	switch t.name {
	case "html", "head":
		w.head = t.end
	case "svg", "math":
		if t.s[t.end-2] != '/' {
			w.foreign++
		}
	case "base":
		w.baseElement(t)
	case "meta":
		w.meta(t)
	}
	kept := w.links(t)
	if kept {
		w.drop(t, "integrity")
		w.drop(t, "crossorigin")
	}
	if !rawElements[t.name] || t.s[t.end-2] == '/' && (w.doc.Kind == XML || w.foreign > 0) || w.doc.Kind == XML && t.name != "script" && t.name != "style" {
		return t.end
	}
	end := extract.RawTextEnd(t.s, t.end, t.name)
	content := t.s[t.end:end]
	switch t.name {
	case "style":
		w.css(content, t.end, bare)
	case "script":
		switch strings.ToLower(strings.TrimSpace(t.get("type"))) {
		case "importmap":
			w.json(content, t.end, importMapRole)
		case "module":
			w.module(content, t.end)
		}
	}
	return end
}

// drop removes an attribute.
func (w *walker) drop(t *tag, name string) {
	for i := range t.attr {
		if a := &t.attr[i]; a.name == name {
			w.edit(a.from, a.to, "")
		}
	}
}

// baseElement takes the first base with an href, and empties it.
func (w *walker) baseElement(t *tag) {
	for i := range t.attr {
		a := &t.attr[i]
		if a.name != "href" || a.v0 == 0 {
			continue
		}
		if !w.based {
			if u, err := w.doc.URL.Resolve(strings.TrimSpace(w.text(t.value(a)))); err == nil {
				w.base, w.based = u, true
			}
		}
		w.set(a, "")
	}
}

// set gives an attribute another value, written as its place wants it.
func (w *walker) set(a *attribute, text string) {
	if !a.quoted {
		text = `"` + text + `"`
	}
	w.edit(a.v0, a.v1, text)
}

// meta handles what a page says of itself.
func (w *walker) meta(t *tag) {
	equiv := strings.ToLower(strings.TrimSpace(t.get("http-equiv")))
	for i := range t.attr {
		switch a := &t.attr[i]; {
		case a.v0 == 0:
		case a.name == "charset":
			w.charsetAttr(a, t.value(a), "", "")
		case a.name == "content" && equiv == "content-type":
			if value := t.value(a); strings.Contains(strings.ToLower(value), "charset=") {
				at := strings.Index(strings.ToLower(value), "charset=") + len("charset=")
				label := strings.Trim(value[at:], `"' `)
				w.charsetAttr(a, label, value[:at], "")
			}
		case a.name == "content" && equiv == "refresh":
			w.refresh(t, a)
		case a.name == "http-equiv" && equiv == "content-security-policy":
			w.set(a, "x-disabled-content-security-policy")
		}
	}
	if name := strings.ToLower(t.get("name")); name == "robots" && w.nested == 0 {
		for word := range strings.SplitSeq(strings.ToLower(t.get("content")), ",") {
			if word = strings.TrimSpace(word); word == "nofollow" || word == "none" {
				w.noFollow = true
			}
		}
	}
}

// charsetAttr has a declaration say what the header said, which was stronger.
func (w *walker) charsetAttr(a *attribute, label, before, after string) {
	_, name := charset.Lookup(strings.TrimSpace(label))
	if w.declared || name == "" || w.nested > 0 {
		return
	}
	w.declared, w.label = true, name
	if w.charset != "" && name != w.charset && !strings.HasPrefix(w.charset, "utf-16") {
		w.set(a, before+w.charset+after)
	}
}

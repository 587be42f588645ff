package rewrite

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// declaredWithin is where browsers look for a declaration.
const declaredWithin = 1 << 10

// decode is the document as text whose markup is ASCII, and the way back. Most charsets have that as they are: their
// bytes stay, and only references are decoded. UTF-16 and ISO-2022-JP become UTF-8, if they can be had back byte by
// byte; a document that cannot is not touched.
func (w *walker) decode(body []byte) (text []byte, back func([]byte) []byte) {
	same := func(b []byte) []byte { return b }
	name := byMark(body)
	marked := name != ""
	if !marked {
		_, name = charset.Lookup(w.doc.Charset)
		w.charset = name
	}
	if name == "" && (w.doc.Kind == HTML || w.doc.Kind == XML) {
		name = w.declaredIn(body[:min(len(body), declaredWithin)])
	}
	enc, name := charset.Lookup(name)
	switch name {
	case "", "utf-8", "replacement", "x-user-defined":
		return body, same
	case "utf-16le", "utf-16be", "iso-2022-jp":
	default:
		w.enc = enc
		return body, same
	}
	if name != "iso-2022-jp" {
		enc = unicode.UTF16(map[bool]unicode.Endianness{true: unicode.BigEndian, false: unicode.LittleEndian}[name == "utf-16be"], unicode.IgnoreBOM)
	}
	text, _, err := transform.Bytes(enc.NewDecoder(), body)
	if err != nil {
		return nil, same
	}
	if again, _, err := transform.Bytes(enc.NewEncoder(), text); err != nil || !bytes.Equal(again, body) {
		return nil, same
	}
	return text, func(b []byte) []byte {
		out, _, err := transform.Bytes(enc.NewEncoder(), b)
		if err != nil {
			return body
		}
		return out
	}
}

// byMark is the charset that a byte order mark says.
func byMark(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		return "utf-8"
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return "utf-16be"
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return "utf-16le"
	}
	return ""
}

// declaredIn is the charset that the beginning of a page declares.
func (w *walker) declaredIn(head []byte) string {
	if m := xmlDeclaration.FindSubmatch(head); m != nil && w.doc.Kind == XML {
		return string(m[1])
	}
	v := &walker{doc: w.doc, finding: true, ahead: true, base: w.base}
	v.markup(head)
	if strings.HasPrefix(v.label, "utf-16") { // which cannot be read as ASCII
		return "utf-8"
	}
	return v.label
}

var xmlDeclaration = regexp.MustCompile(`^<\?xml[^>]*?encoding\s*=\s*["']([\w-]+)["']`)

// text is a reference that was read from the bytes of the document, as UTF-8.
func (w *walker) text(s string) string {
	if w.enc == nil || isASCII(s) {
		return s
	}
	out, err := w.enc.NewDecoder().String(s)
	if err != nil {
		return s
	}
	return out
}

// query has the query of a reference in the charset of the page, as browsers send it.
func (w *walker) query(ref string) string {
	i := strings.IndexByte(ref, '?')
	if w.enc == nil || i < 0 || isASCII(ref[i:]) {
		return ref
	}
	var b strings.Builder
	b.WriteString(ref[:i])
	for _, r := range ref[i:] {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		out, err := encoding.ReplaceUnsupported(w.enc.NewEncoder()).String(string(r))
		if _, e := w.enc.NewEncoder().String(string(r)); e != nil || err != nil {
			out = "%26%23" + strconv.Itoa(int(r)) + "%3B"
			b.WriteString(out)
			continue
		}
		for j := range len(out) {
			if c := out[j]; c < utf8.RuneSelf {
				b.WriteByte(c)
			} else {
				b.WriteString(Fragment(out[j : j+1]))
			}
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c >= utf8.RuneSelf })
}

// declare puts the charset of the header into a page that has no declaration.
func (w *walker) declare() {
	if w.doc.Kind != HTML || w.charset == "" || w.declared {
		return
	}
	if strings.HasPrefix(w.charset, "utf-16") {
		w.edit(0, 0, "\ufeff") // nothing else says so
		return
	}
	w.edit(w.head, w.head, `<meta charset="`+w.charset+`">`)
}

// declareCSS is declare for a style sheet, whose charset matters only beyond ASCII.
func (w *walker) declareCSS(text []byte) {
	if w.charset == "" || w.charset == "utf-8" || bytes.HasPrefix(text, []byte("@charset")) || isASCII(string(text)) {
		return
	}
	w.edit(0, 0, `@charset "`+w.charset+`";`)
}

package extract

import (
	"strings"
	"unicode/utf8"
)

// gap is the space before the next character. Of two the larger one counts.
type gap uint8

const (
	none gap = iota
	blank
	line
)

// textBuffer collects the text of a page: one space for white space, a new line between blocks,
// none at the ends.
type textBuffer struct {
	buf []byte
	due gap
}

func (t *textBuffer) add(s []byte) {
	for len(s) > 0 {
		n := 0
		for n < len(s) && !isSpace(s[n]) {
			n++
		}
		if n > 0 {
			t.fill()
			t.buf = append(t.buf, s[:n]...)
		}
		if s = s[n:]; len(s) > 0 {
			t.due = max(t.due, blank)
			s = s[1:]
		}
	}
}

func (t *textBuffer) fill() {
	if len(t.buf) > 0 {
		switch t.due {
		case blank:
			t.buf = append(t.buf, ' ')
		case line:
			t.buf = append(t.buf, '\n')
		}
	}
	t.due = none
}

// breakBefore separates text at a tag, by its name alone: styles are not read.
func (t *textBuffer) breakBefore(name []byte) {
	switch string(name) {
	case "td", "th", "img", "option", "button", "label", "input", "select", "iframe", "video", "audio":
		t.due = max(t.due, blank)
	case "p", "div", "br", "hr", "li", "ul", "ol", "dl", "dt", "dd", "tr", "table", "caption", "thead", "tbody", "tfoot",
		"h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "section", "article", "aside", "header", "footer",
		"nav", "main", "address", "figure", "figcaption", "form", "fieldset", "legend", "details", "summary", "dialog",
		"body", "title", "textarea", "center", "menu", "search", "hgroup", "xmp", "noscript", "optgroup":
		t.due = line
	}
}

func (t *textBuffer) string() string { return strings.ToValidUTF8(string(t.buf), "\ufffd") }

// field is s with white space collapsed, as valid UTF-8, at most maxField bytes of whole
// characters.
func field(s []byte) string {
	if len(s) == 0 {
		return ""
	}
	if collapsed(s) {
		return string(s)
	}
	var room [256]byte // for most
	t := textBuffer{buf: room[:0]}
	t.add(s[:min(len(s), 4*maxField)])
	out := strings.ToValidUTF8(string(t.buf), "\ufffd")
	if len(out) <= maxField {
		return out
	}
	end := maxField
	for !utf8.RuneStart(out[end]) {
		end--
	}
	return out[:end]
}

// collapsed reports whether [field] would not change s: most titles are ASCII words with single
// spaces.
func collapsed(s []byte) bool {
	if len(s) > maxField {
		return false
	}
	before := byte(' ')
	for _, c := range s {
		if c >= utf8.RuneSelf || c < ' ' || c == ' ' && before == ' ' {
			return false
		}
		before = c
	}
	return before != ' '
}

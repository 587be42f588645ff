package extract

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// cssScanner finds the references of a style sheet: url(), src(), @import and the strings of image-set() and image(),
// whether their rules apply or not. It parses comments, strings, escapes, names and brackets of the CSS syntax.
type cssScanner struct {
	s   []byte
	at  int
	buf []byte // the current reference, if it has escapes

	from, to int // the bounds in s of the last string or URL, without quotes

	importing bool   // an @import was begun
	namespace bool   // an @namespace was begun, whose URL is only a name
	functions uint64 // a bit for each open bracket, the innermost lowest: one means that its strings are references
}

// css adds the references of a style sheet or declaration as resources.
func (e *Extractor) css(s []byte) {
	if !e.opts.Resources || !refers(s) {
		return
	}
	c := cssScanner{s: s}
	for ref := c.next(); ref != nil && e.opts.Budget.Spend(1); ref = c.next() {
		if ref = canonical.Trim(ref); len(ref) > 0 && ref[0] != '#' {
			e.links.add(part, ref)
		}
	}
}

// CSSReferences calls visit for the references of a style sheet or declaration in their order: url(), src(), @import
// and the strings of image-set() and image(). From and to are the bounds of the reference in s, without quotes. Ref is
// valid until visit returns.
func CSSReferences(s []byte, visit func(ref []byte, from, to int)) {
	if !refers(s) {
		return
	}
	c := cssScanner{s: s}
	for ref := c.next(); ref != nil; ref = c.next() {
		visit(ref, c.from, c.to)
	}
}

// refers reports whether a style sheet may have a reference. Most have none, and this check is ten times as fast as
// scanning.
func refers(s []byte) bool {
	if bytes.IndexByte(s, '\\') >= 0 { // any letter may be escaped
		return true
	}
	for at := 0; ; at++ {
		n := bytes.IndexByte(s[at:], '(')
		if n < 0 {
			break
		}
		at += n
		switch name := s[max(0, at-3):at]; {
		case is(name, "url"), is(name, "src"), is(name, "set"), is(name, "age"): // of image-set and image
			return true
		}
	}
	for at := 0; ; at++ {
		n := bytes.IndexByte(s[at:], '@')
		if n < 0 {
			return false
		}
		if at += n; is(s[at+1:min(len(s), at+7)], "import") {
			return true
		}
	}
}

// next returns the next reference, or nil at the end. It is valid until the next call.
func (c *cssScanner) next() []byte {
	for c.at < len(c.s) {
		switch b := c.s[c.at]; {
		case b == '/' && hasPrefix(c.s[c.at:], "/*"):
			c.at = Through(c.s, c.at+2, "*/")
		case b == '"' || b == '\'':
			if ref := c.quoted(); c.importing || c.functions&1 != 0 {
				c.importing = false
				return ref
			}
		case b == '(' || b == '[':
			c.open(false)
		case b == ')' || b == ']':
			c.at++
			c.functions >>= 1
		case b == ';' || b == '{' || b == '}':
			c.at++
			c.importing, c.namespace, c.functions = false, false, 0
		case b == '@' || b == '#' || kinds[b]&digit != 0:
			c.at++ // a name right after a hash or a digit is no function
			if name := c.name(); b == '@' {
				c.importing, c.namespace = is(name, "import"), is(name, "namespace")
			}
		case startsName(c.s[c.at:]):
			if ref := c.word(); ref != nil {
				return ref
			}
		default:
			c.at++
		}
	}
	return nil
}

// open enters a bracket. If more than 64 are open, the outermost are forgotten.
func (c *cssScanner) open(references bool) {
	c.at++
	c.functions <<= 1
	if references {
		c.functions |= 1
	}
}

// word reads a name and, if it is a function with a reference, returns the reference.
func (c *cssScanner) word() []byte {
	name := c.name()
	if c.at >= len(c.s) || c.s[c.at] != '(' {
		return nil
	}
	switch {
	case is(name, "url"), is(name, "src"):
		return c.url()
	case is(name, "image-set"), is(name, "-webkit-image-set"), is(name, "image"):
		c.open(true)
	default:
		c.open(false)
	}
	return nil
}

// url reads the string or URL in the bracket that begins here. It returns nil if there is no reference.
func (c *cssScanner) url() []byte {
	c.open(false)
	c.at = SkipSpace(c.s, c.at)
	var ref []byte
	if c.at < len(c.s) && (c.s[c.at] == '"' || c.s[c.at] == '\'') {
		ref = c.quoted() // what may follow is read as usual
	} else {
		ref = c.unquoted()
		c.functions >>= 1 // unquoted has read the closing bracket
	}
	if c.importing = false; c.namespace {
		return nil
	}
	return ref
}

// unquoted reads a URL without quotes, CSS syntax §4.3.6. It returns nil if the URL has invalid characters.
func (c *cssScanner) unquoted() []byte {
	from, to, bad := c.at, -1, false
	for c.at < len(c.s) && c.s[c.at] != ')' {
		switch b := c.s[c.at]; {
		case isSpace(b) && to < 0:
			to = c.at
		case isSpace(b):
		case to >= 0, b == '"', b == '\'', b == '(', b < ' ', b == 0x7f:
			bad = true
		case b == '\\':
			_, n := escape(c.s[c.at:])
			bad = bad || n == 0
			c.at += max(0, n-1)
		}
		c.at++
	}
	if to < 0 {
		to = c.at
	}
	c.at = min(c.at+1, len(c.s)) // skips the bracket
	if bad {
		return nil
	}
	c.from, c.to = from, to
	return c.read(c.s[from:to])
}

// quoted reads a string, which ends at its quote, at the end of its line, or at the end of the sheet.
func (c *cssScanner) quoted() []byte {
	quote := c.s[c.at]
	c.at++
	c.from = c.at
	for c.at < len(c.s) {
		switch c.to = c.at; c.s[c.at] {
		case quote:
			c.at++
			return c.read(c.s[c.from:c.to])
		case '\n', '\r', '\f':
			return c.read(c.s[c.from:c.to])
		case '\\':
			_, n := escape(c.s[c.at:])
			c.at += max(n, 1+newline(c.s[c.at+1:])) // an escaped line end continues the string
			continue
		}
		c.at++
	}
	c.at = min(c.at, len(c.s))
	c.to = c.at
	return c.read(c.s[c.from:c.to])
}

// name reads a name with its escapes. It may be empty.
func (c *cssScanner) name() []byte {
	from := c.at
	for c.at < len(c.s) {
		b, n := c.s[c.at], 1
		if b == '\\' {
			_, n = escape(c.s[c.at:])
		} else if b != '-' && b != '_' && kinds[b]&(letter|digit) == 0 && b < utf8.RuneSelf {
			n = 0
		}
		if n == 0 {
			break
		}
		c.at += n
	}
	return c.read(c.s[from:c.at])
}

// read decodes escapes. It never returns nil.
func (c *cssScanner) read(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return slices.Clip(raw)
	}
	if c.buf == nil {
		c.buf = make([]byte, 0, 64)
	}
	c.buf = c.buf[:0]
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			c.buf = append(c.buf, raw[i])
			i++
			continue
		}
		if r, n := escape(raw[i:]); n > 0 {
			c.buf = utf8.AppendRune(c.buf, r)
			i += n
			continue
		}
		i++
		i += newline(raw[i:]) // an escaped line end is dropped
	}
	return c.buf
}

// escape decodes an escape, §4.3.7, and returns its length. The length is zero at the end of a line.
func escape(s []byte) (r rune, n int) {
	n = 1
	if newline(s[n:]) > 0 {
		return 0, 0
	}
	for n < len(s) && n <= 6 && kinds[s[n]]&hexDigit != 0 {
		r = r<<4 | hexValue(s[n])
		n++
	}
	if n == 1 { // not a hexadecimal number
		r, size := utf8.DecodeRune(s[n:])
		return r, n + size
	}
	if n < len(s) && isSpace(s[n]) {
		n += max(1, newline(s[n:]))
	}
	if r == 0 || !utf8.ValidRune(r) {
		r = utf8.RuneError
	}
	return r, n
}

func newline(s []byte) int {
	switch {
	case hasPrefix(s, "\r\n"):
		return 2
	case len(s) > 0 && (s[0] == '\n' || s[0] == '\r' || s[0] == '\f'):
		return 1
	}
	return 0
}

func startsName(s []byte) bool {
	return s[0] == '-' || s[0] == '_' || s[0] >= utf8.RuneSelf || kinds[s[0]]&letter != 0 || s[0] == '\\' && newline(s[1:]) == 0
}

func hexValue(c byte) rune {
	if kinds[c]&digit != 0 {
		return rune(c - '0')
	}
	return rune(lower(c)-'a') + 10
}

// is reports whether name equals want, ignoring case.
func is(name []byte, want string) bool { return bytes.EqualFold(name, []byte(want)) }

// prolog reads an XML document up to its root element, and returns the name of that in lower case without a prefix, or
// an empty string if there is none. It calls instruction for each processing instruction.
func prolog(body []byte, instruction func([]byte)) (root string) {
	s := scanner{body: body, xhtml: true, withText: true}
	for i := s.markupFrom(0); i+1 < len(body); i = s.markupFrom(s.at) {
		if kinds[body[i+1]]&letter != 0 {
			name := body[i+1 : endOf(body, i+1, endsName)]
			name = name[bytes.LastIndexByte(name, ':')+1:]
			return string(AppendLower(nil, name[:min(len(name), maxName)]))
		}
		if _, text := s.markupAt(i); text {
			break // text is not allowed before the root
		}
		if body[i+1] == '?' && instruction != nil {
			instruction(bytes.TrimSuffix(body[i+2:s.at], []byte("?>")))
		}
	}
	return ""
}

// styleSheets adds the targets of xml-stylesheet instructions before the root element.
func (e *Extractor) styleSheets(body []byte) {
	var s scanner // only for its buffers
	prolog(body, func(instruction []byte) {
		attributes, found := bytes.CutPrefix(instruction, []byte("xml-stylesheet"))
		for at := SkipSpace(attributes, 0); found && at < len(attributes); at = SkipSpace(attributes, at) {
			var key, val []byte
			if key, val, at = NextAttr(attributes, at); string(key) != "href" {
				continue
			}
			if ref := s.read(val, reading{refs: true, attr: true}); len(ref) > 0 && ref[0] != '#' {
				e.links.add(part, ref)
			}
		}
	})
}

type manifest struct {
	StartURL    string  `json:"start_url"`
	Icons       []image `json:"icons"`
	Screenshots []image `json:"screenshots"`
	Shortcuts   []struct {
		URL   string  `json:"url"`
		Icons []image `json:"icons"`
	} `json:"shortcuts"`
}

type image struct {
	Src string `json:"src"`
}

func (e *Extractor) webManifest(body []byte) {
	var m manifest
	_ = json.Unmarshal(body, &m) // what can be decoded counts
	add := func(url string, images ...image) {
		if url != "" {
			e.links.add(toFollow, []byte(url))
		}
		for _, i := range images {
			if e.opts.Resources && i.Src != "" {
				e.links.add(part, []byte(i.Src))
			}
		}
	}
	add(m.StartURL, append(m.Icons, m.Screenshots...)...)
	for i := range m.Shortcuts {
		add(m.Shortcuts[i].URL, m.Shortcuts[i].Icons...)
	}
}

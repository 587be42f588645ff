package extract

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

type token uint8

const (
	endOfPage token = iota
	startTag
	endTag
	chars // text: of the page if withText, and of elements with raw text
)

// source yields the tokens of a page that matter, in order; it may leave out others. The tests compare scanner with
// another source, the tokenizer of x/net/html.
type source interface {
	// reset begins a page. Text between tags is yielded if withText is set.
	reset(body []byte, xhtml, withText bool)
	// next returns the next token. The results of the other methods are valid until the following call.
	next() token
	// tag returns the lower-case name of the tag, or an empty one if it is longer than maxName.
	tag() []byte
	// attr returns the value of an attribute of the start tag, the first of its name, with references resolved.
	attr(a attr) (val []byte, has bool)
	// has returns a bit for each attr of the start tag.
	has() uint64
	// selfClosing reports whether the start tag ends in a slash that is not part of a value.
	selfClosing() bool
	// text returns the current text with references resolved.
	text() []byte
	// markup makes the content of the element just begun be read as markup instead of raw text.
	markup()
}

// scanner is the source used in production. It implements the tokenizer of the HTML standard, §13.2.5, for a body in
// memory. It jumps from one "<" to the next, skips most tags by the first letter and the length of their names, and
// copies only values with character references. A tag that the end of the page cuts off is ignored.
type scanner struct {
	body     []byte
	at       int // index of the next token
	xhtml    bool
	withText bool
	shared   uint64 // attributes that matter in every tag, as bits

	name     []byte // of the current tag, in nameBuf
	nameBuf  [maxName]byte
	nameEnd  int    // index in body after the name
	attrs    attrs  // of the current start tag
	words    []byte // the current text, not decoded
	verbatim bool   // character references are not resolved in words
	noNUL    bool   // a NUL in words stands for U+FFFD
	raw      string // the element whose raw text comes next, or empty
	decoded  []byte // buffer for decoded text
}

func (s *scanner) reset(body []byte, xhtml, withText bool) {
	*s = scanner{body: body, xhtml: xhtml, withText: withText, shared: sharedPages, decoded: s.decoded[:0]}
}

func (s *scanner) release() {
	s.reset(nil, false, false)
	if cap(s.decoded) > maxKept {
		s.decoded = nil
	}
}

func (s *scanner) tag() []byte { return s.name }

func (s *scanner) markup() { s.raw = "" }

func (s *scanner) next() token {
	s.decoded = s.decoded[:0]
	if s.raw != "" && s.rawText() {
		return chars
	}
	for look := s.at; ; look = s.at {
		lt := s.find(look)
		if s.withText && lt > s.at {
			s.setText(s.at, lt, lt)
			return chars
		}
		if lt >= len(s.body) {
			return endOfPage
		}
		if t, found := s.markupAt(lt); found {
			return t
		}
	}
}

// find returns the index of the next markup that matters.
func (s *scanner) find(i int) int {
	if s.withText || s.every() {
		return s.markupFrom(i)
	}
	return skim(s.body, i)
}

// markupFrom returns the index of the next "<" that begins markup, or the length of the page.
func (s *scanner) markupFrom(i int) int {
	for i < len(s.body) {
		lt := near(s.body, i, '<')
		if lt < 0 || lt+1 >= len(s.body) {
			break
		}
		if kinds[s.body[lt+1]]&(letter|mark) != 0 {
			return lt
		}
		i = lt + 1
	}
	return len(s.body)
}

// markupAt reads the markup at lt, and reports whether it is a token to yield.
func (s *scanner) markupAt(lt int) (token, bool) {
	switch s.body[lt+1] {
	case '!':
		return chars, s.declaration(lt + 2)
	case '?':
		s.at = Through(s.body, lt+1, ">")
		return 0, false
	case '/':
		return s.endTagAt(lt)
	}
	return s.tagAt(lt+1, startTag)
}

// endTagAt reads from "</". At the end of the page that is text.
func (s *scanner) endTagAt(lt int) (token, bool) {
	i := lt + len("</")
	switch {
	case i == len(s.body):
		s.setText(lt, i, i)
		return chars, s.withText
	case kinds[s.body[i]]&letter != 0:
		return s.tagAt(i, endTag)
	}
	s.at = Through(s.body, i, ">") // by the standard it is a comment
	return 0, false
}

func (s *scanner) tagAt(i int, t token) (token, bool) {
	end := endOf(s.body, i, endsName)
	// If text is wanted every tag matters, as most tags separate text.
	wanted := s.withText || tagShapes.has(s.body[i:end])
	s.nameEnd = end
	s.at = s.attributes(end, s.leastKept(t, wanted))
	if s.at < 0 { // the page ends within the tag
		s.at = len(s.body)
		return endOfPage, true
	}
	if !wanted && s.attrs.has&s.shared == 0 {
		return t, false
	}
	s.name = s.nameBuf[:0]
	if end-i <= maxName {
		s.name = AppendLower(s.name, s.body[i:end])
	}
	if t == startTag {
		s.raw = rawElement(s.name)
	}
	return t, true
}

// every reports whether attributes with short names matter in every tag, too.
func (s *scanner) every() bool { return s.shared != sharedPages }

// leastKept returns the length from which on names of attributes of a tag are kept.
func (s *scanner) leastKept(t token, wanted bool) int {
	switch {
	case t == endTag:
		return len(s.body) // keeps none
	case wanted || s.every():
		return 0
	}
	return leastShared
}

func (s *scanner) setText(from, to, next int) {
	s.words, s.at = s.body[from:to], next
	s.verbatim, s.noNUL = false, false
}

// declaration skips what follows "<!", and reports whether it is text: a CDATA section of XHTML.
func (s *scanner) declaration(i int) (text bool) {
	const comment, cdata = "--", "[CDATA["
	rest := s.body[i:]
	switch {
	case hasPrefix(rest, comment):
		s.at = CommentEnd(s.body, i+len(comment))
	case s.xhtml && hasPrefix(rest, cdata):
		from := i + len(cdata)
		next := Through(s.body, from, "]]>")
		to := next
		if bytes.HasSuffix(s.body[from:next], []byte("]]>")) {
			to -= len("]]>")
		}
		s.setText(from, to, next)
		s.noNUL = true
		return s.withText
	default:
		s.at = Through(s.body, i, ">") // a document type or a bogus comment, in which quotes do not count
	}
	return false
}

// CommentEnd returns the index after the end of a comment whose text begins at i: after "-->", "--!>" or, right at its
// beginning, ">" or "->". Without such an end it is the length of s.
func CommentEnd(s []byte, i int) int {
	for end := i; ; {
		n := bytes.IndexByte(s[end:], '>')
		if n < 0 {
			return len(s)
		}
		end += n + 1
		text := s[i : end-1]
		if len(text) == 0 || string(text) == "-" || hasSuffix(text, "--") || hasSuffix(text, "--!") {
			return end
		}
	}
}

// Through returns the index after the first occurrence of end from i on, or the length of s.
func Through(s []byte, i int, end string) int {
	if n := bytes.Index(s[i:], []byte(end)); n >= 0 {
		return i + n + len(end)
	}
	return len(s)
}

func hasPrefix(s []byte, p string) bool { return len(s) >= len(p) && string(s[:len(p)]) == p }

func hasSuffix(s []byte, p string) bool { return len(s) >= len(p) && string(s[len(s)-len(p):]) == p }

// Classes of bytes, as bits for a table lookup.
const (
	space     = 1 << iota // white space of HTML
	letter                // ASCII letter; begins the name of a tag
	digit                 //
	hexDigit              //
	endsName              // ends the name of a tag
	endsKey               // ends the name of an attribute
	endsValue             // ends a value without quotes
	mark                  // after "<", begins markup that is no start tag
)

var kinds = func() (t [256]uint8) {
	set := func(chars string, bits uint8) {
		for _, c := range []byte(chars) {
			t[c] |= bits
		}
	}
	const lowers, uppers = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(" \n\t\r\f", space|endsName|endsKey|endsValue)
	set(">", endsName|endsKey|endsValue)
	set("/", endsName|endsKey)
	set("=", endsKey)
	set("/!?", mark)
	set(lowers+uppers, letter)
	set("0123456789", digit|hexDigit)
	set("abcdefABCDEF", hexDigit)
	return t
}()

func isSpace(c byte) bool { return kinds[c]&space != 0 }

// SkipSpace returns the index of the next byte from i on that is no white space, or the length of s.
func SkipSpace(s []byte, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// endOf returns the index of the next byte of that kind from i on, or the length of s.
func endOf(s []byte, i int, kind uint8) int {
	for n, c := range s[i:] { // without bounds checks
		if kinds[c]&kind != 0 {
			return i + n
		}
	}
	return len(s)
}

// TagNameEnd returns the index after the tag name that contains i.
func TagNameEnd(s []byte, i int) int { return endOf(s, i, endsName) }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// skim is [scanner.markupFrom] for scans without text where only sharedPages matter in every tag. It skips tags without
// a meaning that have the usual form, in fewer steps than the standard needs.
func skim(s []byte, i int) int {
	for i < len(s) {
		lt := near(s, i, '<')
		if lt < 0 || lt+1 >= len(s) {
			break
		}
		name, least := lt+1, leastShared
		if s[name] == '/' {
			name, least = name+1, math.MaxInt // end tags have no attributes that matter
		}
		switch {
		case name < len(s) && kinds[s[name]]&letter != 0:
			if i = passOver(s, name, least); i < 0 {
				return lt
			}
		case kinds[s[lt+1]]&mark != 0:
			return lt
		default:
			i = lt + 1
		}
	}
	return len(s)
}

// passOver returns the index after the tag whose name begins at i. It returns -1 if the tag may matter, is not closed,
// or does not have the usual form, in which attributes have no value or one in quotes. Attributes with names shorter
// than least do not matter.
func passOver(s []byte, i, least int) int {
	name := i
	i = endOf(s, i, endsKey) // for a tag name with "=" the loop returns -1
	if tagShapes.has(s[name:i]) {
		return -1
	}
	for i < len(s) {
		switch c := s[i]; {
		case c == '>':
			return i + 1
		case c == '/' || isSpace(c):
			i++
			continue
		case c == '=':
			return -1
		}
		key := i
		i = endOf(s, i, endsKey)
		if i-key >= least && attrShapes.has(s[key:i]) {
			return -1
		}
		if i+1 < len(s) && s[i] == '=' {
			if s[i+1] != '"' && s[i+1] != '\'' {
				return -1
			}
			end := near(s, i+2, s[i+1])
			if end < 0 {
				return -1
			}
			i = end + 1
		}
	}
	return -1
}

// nearWords is how many words of eight bytes near tests before it calls IndexByte.
const nearWords = 4

// near returns the index of the next c from i on, or -1. In a page it is usually a few bytes away, where IndexByte is
// slower. The test of a word is from H. S. Warren, Hacker's Delight, section 6-1; its lowest hit is exact.
func near(s []byte, i int, c byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	want := ones * uint64(c)
	for range nearWords {
		if i+8 > len(s) {
			break
		}
		x := binary.LittleEndian.Uint64(s[i:]) ^ want
		if hit := (x - ones) &^ x & tops; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	if i > len(s) {
		return -1
	}
	n := bytes.IndexByte(s[i:], c)
	if n < 0 {
		return -1
	}
	return i + n
}

package extract

import "bytes"

// token is what a source stands on.
type token uint8

const (
	endOfPage token = iota
	startTag
	endTag
	chars // text: of the page if it was asked for, and of elements that hold raw text
)

// source gives the tokens of a page that can matter, in order; others it may leave out.
// The tests have a second one, the tokenizer of x/net/html, and hold the first to it.
type source interface {
	// reset begins a page. Text that stands between tags is given if withText.
	reset(body []byte, xhtml, withText bool)
	// next moves on. What the other methods return is valid until it is called again.
	next() token
	// tag is the lower-case name of the tag, or empty if it is longer than maxName.
	tag() []byte
	// attr is an attribute of the start tag, the first of its name, references resolved.
	attr(a attr) (val []byte, has bool)
	// has tells which attributes there are, a bit for each attr.
	has() uint64
	// selfClosing reports whether the start tag ends in a slash that is no value's.
	selfClosing() bool
	// text is the current text with references resolved.
	text() []byte
	// markup makes the content of the element just begun be read as markup, where it
	// would be raw text otherwise.
	markup()
}

// scanner is the source of production: the tokenizer of the HTML standard, §13.2.5,
// on a body in memory. It jumps from one "<" to the next, knows most tags for
// meaningless by the first letter and the length of their names, and copies nothing
// but what holds character references. A tag that the page cuts off is none.
type scanner struct {
	body     []byte
	at       int // where the next token begins
	xhtml    bool
	withText bool
	every    bool // the attributes of any tag matter

	name     []byte // of the current tag, in nameBuf
	nameBuf  [maxName]byte
	nameEnd  int    // where it ends in body
	attrs    attrs  // of the current start tag
	words    []byte // the current text as it stands
	verbatim bool   // it holds no character references
	noNUL    bool   // a NUL in it stands for U+FFFD
	raw      string // the element whose raw text comes next, or ""
	decoded  []byte // memory for what is not in the page as it reads
}

// reset keeps nothing of the last page but memory.
func (s *scanner) reset(body []byte, xhtml, withText bool) {
	*s = scanner{body: body, xhtml: xhtml, withText: withText, decoded: s.decoded[:0]}
}

// release lets go of the page, and of memory beyond the usual.
func (s *scanner) release() {
	s.reset(nil, false, false)
	if cap(s.decoded) > maxKept {
		s.decoded = nil
	}
}

func (s *scanner) tag() []byte { return s.name }

func (s *scanner) markup() { s.raw = "" }

// next looks on behind the current token, or behind what has turned out not to matter.
func (s *scanner) next() token {
	s.decoded = s.decoded[:0]
	if s.raw != "" && s.rawText() {
		return chars
	}
	for look := s.at; ; look = s.at {
		lt := s.find(look)
		if s.withText && lt > s.at { // the markup is found again by the next call
			s.say(s.at, lt, lt)
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

// find is where the next markup stands that is to be read.
func (s *scanner) find(i int) int {
	if s.withText || s.every {
		return s.markupFrom(i)
	}
	return skim(s.body, i)
}

// markupFrom is where the next "<" stands that begins something other than text, or
// the end of the page.
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

// markupAt reads what begins at lt, and reports whether it is a token to give.
func (s *scanner) markupAt(lt int) (token, bool) {
	switch s.body[lt+1] {
	case '!':
		return chars, s.declaration(lt + 2)
	case '?':
		s.at = through(s.body, lt+1, ">")
		return 0, false
	case '/':
		return s.endTagAt(lt)
	}
	return s.tagAt(lt+1, startTag)
}

// endTagAt reads what begins with "</". Where the page ends there, that is text.
func (s *scanner) endTagAt(lt int) (token, bool) {
	i := lt + len("</")
	switch {
	case i == len(s.body):
		s.say(lt, i, i)
		return chars, s.withText
	case kinds[s.body[i]]&letter != 0:
		return s.tagAt(i, endTag)
	}
	s.at = through(s.body, i, ">") // a comment, says the standard
	return 0, false
}

// tagAt reads the tag whose name begins at i.
func (s *scanner) tagAt(i int, t token) (token, bool) {
	end := endOf(s.body, i, endsName)
	// With text every tag matters, since most of them part it.
	wanted := s.withText || tagShapes.has(s.body[i:end])
	s.nameEnd = end
	s.at = s.attributes(end, s.leastKept(t, wanted))
	if s.at < 0 { // the page ends within it
		s.at = len(s.body)
		return endOfPage, true
	}
	if !wanted && s.attrs.has&s.shared() == 0 {
		return t, false
	}
	s.name = s.nameBuf[:0]
	if end-i <= maxName { // else it is none that we look for
		s.name = lowered(s.name, s.body[i:end])
	}
	if t == startTag {
		s.raw = rawElement(s.name)
	}
	return t, true
}

// shared is the attributes for whose sake any tag matters.
func (s *scanner) shared() uint64 {
	if s.every {
		return sharedAttrs
	}
	return sharedNavigation
}

// leastKept is how long the names of a tag's attributes are at least that are kept.
func (s *scanner) leastKept(t token, wanted bool) int {
	switch {
	case t == endTag:
		return len(s.body) // none
	case wanted || s.every:
		return 0
	}
	return leastShared
}

// say makes a stretch of the page the current text.
func (s *scanner) say(from, to, next int) {
	s.words, s.at = s.body[from:to], next
	s.verbatim, s.noNUL = false, false
}

// declaration steps over what begins with "<!", up to i, and reports whether it was
// text: only XHTML has sections of that.
func (s *scanner) declaration(i int) (text bool) {
	const comment, cdata = "--", "[CDATA["
	// What is left is a document type or a comment that was meant to be something else;
	// both end at the first ">", whatever quotes they hold.
	rest := s.body[i:]
	switch {
	case hasPrefix(rest, comment):
		s.at = CommentEnd(s.body, i+len(comment))
	case s.xhtml && hasPrefix(rest, cdata):
		from := i + len(cdata)
		next := through(s.body, from, "]]>")
		to := next
		if bytes.HasSuffix(s.body[from:next], []byte("]]>")) {
			to -= len("]]>")
		}
		s.say(from, to, next)
		s.noNUL = true
		return s.withText
	default:
		s.at = through(s.body, i, ">")
	}
	return false
}

// CommentEnd is where a comment ends whose text begins at i: behind "-->", "--!>" or,
// at its very beginning, ">" or "->". Without any of them it is the end of s.
func CommentEnd(s []byte, i int) int {
	for end := i; ; {
		n := bytes.IndexByte(s[end:], '>')
		if n < 0 {
			return len(s)
		}
		end += n + 1
		// Dashes of the opening do not count, which is why the text is looked at alone.
		text := s[i : end-1]
		if len(text) == 0 || string(text) == "-" || hasSuffix(text, "--") || hasSuffix(text, "--!") {
			return end
		}
	}
}

// through is where s goes on behind the first end from i, or the length of s.
func through(s []byte, i int, end string) int {
	if n := bytes.Index(s[i:], []byte(end)); n >= 0 {
		return i + n + len(end)
	}
	return len(s)
}

func hasPrefix(s []byte, p string) bool { return len(s) >= len(p) && string(s[:len(p)]) == p }

func hasSuffix(s []byte, p string) bool { return len(s) >= len(p) && string(s[len(s)-len(p):]) == p }

package extract

import (
	"bytes"
	"slices"
	"strings"
)

// Names are names of elements or attributes, which are found in any case. No name has more than 24 bytes.
type Names struct {
	shapes shapes
	byName map[string]int
	list   []string
}

// NewNames returns the given names without duplicates, in their order.
func NewNames(names ...string) *Names {
	n := &Names{byName: make(map[string]int)}
	for _, name := range names {
		if _, known := n.byName[name]; !known {
			n.byName[name] = len(n.list)
			n.list = append(n.list, name)
		}
	}
	n.shapes = shapesOf(n.list...)
	return n
}

// Index returns the place of a name among the Names, or -1.
func (n *Names) Index(name []byte) int {
	if n.shapes.has(name) {
		var buf [maxName]byte
		if i, ok := n.byName[string(AppendLower(buf[:0], name))]; ok {
			return i
		}
	}
	return -1
}

// Tag is a start tag. Offsets are those in the Text around it.
type Tag struct {
	Text  []byte
	Name  string // in lower case; empty if it is not among the Names
	End   int    // the offset after its ">"
	Attrs []Attr // those among the Names, the first of each name
	// Foreign says that the element, or one around it, is svg or math. There "/>" ends an element.
	Foreign bool
}

// Attr is an attribute of a Tag.
type Attr struct {
	Name     string // in lower case
	Index    int    // of the name among the Names
	From, To int    // the bounds of the whole attribute
	Value    [2]int // the bounds of the value without quotes; zero if there is none
	Quoted   bool
}

// Tags finds the start tags of a page and where they are, in one pass and without a tree.
type Tags struct {
	Elements, Attrs *Names
	// XML says that the page is XML. Of its processing instructions "?xml-stylesheet" counts as an element.
	XML bool
	// Declaration is called with the bounds of a document type. Nil ignores them.
	Declaration func(from, end int)

	foreign int // open svg and math elements
	tag     Tag
}

// Scan calls visit for the start tags of s in their order. A tag is valid until visit returns the offset to go on at. A
// tag that the end of the page cuts off is ignored.
func (t *Tags) Scan(s []byte, visit func(*Tag) (next int)) {
	for i := 0; ; {
		n := bytes.IndexByte(s[i:], '<')
		if n < 0 || i+n+1 >= len(s) {
			return
		}
		i += n
		switch c := s[i+1]; {
		case c == '!':
			i = t.declaration(s, i)
		case c == '/':
			i = t.end(s, i+2)
		case kinds[c]&letter != 0 || c == '?' && t.XML && hasPrefix(s[i+1:], styleSheetPI):
			end := TagNameEnd(s, i+1)
			if c == '?' {
				end = i + 1 + len(styleSheetPI)
			}
			if !t.start(s, i+1, end) {
				return
			}
			i = visit(&t.tag)
		case c == '?':
			i = Through(s, i, ">")
		default:
			i++
		}
	}
}

const styleSheetPI = "?xml-stylesheet"

func isForeign(name []byte) bool { return is(name, "svg") || is(name, "math") }

// declaration skips what begins with "<!", and returns where it ends.
func (t *Tags) declaration(s []byte, i int) int {
	switch rest := s[i+2:]; {
	case hasPrefix(rest, "--"):
		return CommentEnd(s, i+4)
	case hasPrefix(rest, "[CDATA[") && (t.foreign > 0 || t.XML):
		return Through(s, i, "]]>")
	case t.XML && hasPrefix(rest, "DOCTYPE"):
		if end := bytes.IndexByte(s[i:], '>'); end > 0 && bytes.IndexByte(s[i:i+end], '[') >= 0 {
			return Through(s, i, "]>")
		}
	}
	end := Through(s, i, ">")
	if t.Declaration != nil {
		t.Declaration(i, end)
	}
	return end
}

// end skips the rest of an end tag, whose name begins at i, and returns where it ends.
func (t *Tags) end(s []byte, i int) int {
	if i == len(s) || kinds[s[i]]&letter == 0 {
		return Through(s, i, ">")
	}
	end := TagNameEnd(s, i)
	if t.foreign > 0 && isForeign(s[i:end]) {
		t.foreign--
	}
	for end = SkipSpace(s, end); end < len(s) && s[end] != '>'; end = SkipSpace(s, end) {
		_, _, end = NextAttr(s, end)
	}
	return end
}

// start reads the tag whose name is from i to end. It returns false if the page ends within the tag.
func (t *Tags) start(s []byte, i, end int) bool {
	tag := &t.tag
	*tag = Tag{Text: s, Attrs: tag.Attrs[:0]}
	if n := t.Elements.Index(s[i:end]); n >= 0 {
		tag.Name = t.Elements.list[n]
	}
	for at := SkipSpace(s, end); at < len(s); at = SkipSpace(s, at) {
		if s[at] != '>' {
			at = t.attr(s, at)
			continue
		}
		if tag.End = at + 1; isForeign(s[i:end]) && s[at-1] != '/' {
			t.foreign++
		}
		tag.Foreign = t.foreign > 0
		return true
	}
	return false
}

// attr reads the attribute at an offset, and returns the offset after it.
func (t *Tags) attr(s []byte, at int) (next int) {
	key, val, next := NextAttr(s, at)
	n := t.Attrs.Index(key)
	if n < 0 || slices.ContainsFunc(t.tag.Attrs, func(a Attr) bool { return a.Index == n }) {
		return max(next, at+1)
	}
	a := Attr{Name: t.Attrs.list[n], Index: n, From: at, To: at + len(key)}
	if val != nil {
		q := s[next-1]
		a.To, a.Value[1] = next, next
		if a.Quoted = (q == '"' || q == '\'') && next-2-len(val) >= at && s[next-2-len(val)] == q; a.Quoted {
			a.Value[1]--
		}
		a.Value[0] = a.Value[1] - len(val)
	}
	t.tag.Attrs = append(t.tag.Attrs, a)
	return next
}

// SelfClosing reports whether the tag ends in "/>".
func (t *Tag) SelfClosing() bool { return t.Text[t.End-2] == '/' }

// Word returns the value of an attribute, unescaped, trimmed and in lower case.
func (t *Tag) Word(name string) string {
	for _, a := range t.Attrs {
		if a.Name == name {
			return strings.ToLower(strings.TrimSpace(Unescape(string(t.Text[a.Value[0]:a.Value[1]]))))
		}
	}
	return ""
}

// HasWord reports whether an attribute, a list of words, has one of the given words.
func (t *Tag) HasWord(name string, words ...string) bool {
	return slices.ContainsFunc(strings.Fields(t.Word(name)), func(word string) bool { return slices.Contains(words, word) })
}

package extract

import (
	"bytes"
	"slices"
)

// maxName bounds the names of elements and attributes that matter.
const maxName = 24

// attr is an attribute that matters. Others are not kept.
type attr uint8

const (
	attrHref attr = iota
	attrSrc
	attrSrcset
	attrImageSrcset
	attrPoster
	attrData
	attrRel
	attrType
	attrName
	attrProperty
	attrContent
	attrHTTPEquiv
	attrLang
	attrXMLLang
	attrShadowRootMode
	attrAs
	attrHrefLang
	attrSrcdoc
	attrManifest
	attrCode
	attrArchive
	attrCodebase
	attrValue
	attrValueType
	attrLowSrc
	attrDynSrc
	attrAction
	attrMethod
	attrFormAction
	attrFormMethod
	attrChecked
	attrSelected
	attrMultiple
	attrDisabled
	attrCite
	attrLongDesc
	attrBackground
	attrCharset
	attrDataHref
	attrDataURL
	attrDataLink
	attrXlinkHref
	attrStyle
	attrDataSrc // the first of the data-* images, whose sets come after them
	numAttrs    = attrDataSrc + 14

	firstShared = attrDataHref
)

var attrNames = [numAttrs]string{
	"href", "src", "srcset", "imagesrcset", "poster", "data", "rel", "type", "name", "property", "content", "http-equiv",
	"lang", "xml:lang", "shadowrootmode", "as", "hreflang", "srcdoc", "manifest", "code", "archive", "codebase", "value",
	"valuetype", "lowsrc", "dynsrc", "action", "method", "formaction", "formmethod", "checked", "selected", "multiple",
	"disabled", "cite", "longdesc", "background", "charset",
	"data-href", "data-url", "data-link", "xlink:href", "style",
	"data-src", "data-original", "data-lazy", "data-lazy-src", "data-lazyload", "data-poster", "data-image",
	"data-bg", "data-bg-src", "data-background", "data-background-image",
	"data-srcset", "data-lazy-srcset", "data-bgset",
}

// Attributes that matter in every element: sharedPages are those that scripts make links of, sharedAttrs also includes
// those that show something.
const (
	sharedPages = 1<<attrDataHref | 1<<attrDataURL | 1<<attrDataLink
	sharedAttrs = 1<<numAttrs - 1<<firstShared
	// resourceAttrs adds the attributes that show something in some elements.
	resourceAttrs = sharedAttrs | 1<<attrSrc | 1<<attrSrcset | 1<<attrPoster | 1<<attrBackground
	// leastShared is the length of the shortest name in sharedPages. In tags without a meaning shorter attributes are
	// skipped.
	leastShared = len("data-url")
)

// shapes excludes most names by their length, first and last letter.
type shapes struct {
	first, last [32]uint32 // a bit for each length, indexed by the lower five bits of the letter
}

func shapesOf(names ...string) (x shapes) {
	for _, name := range names {
		x.first[name[0]&31] |= 1 << len(name)
		x.last[name[len(name)-1]&31] |= 1 << len(name)
	}
	return x
}

// has reports whether name has the shape of a name in the set. Case is ignored.
func (x *shapes) has(name []byte) bool {
	n := len(name)
	return n > 0 && n <= maxName && x.first[name[0]&31]&x.last[name[n-1]&31]&(1<<n) != 0
}

// tagShapes has the shapes of the elements that matter even without text and resources.
var tagShapes = func() shapes {
	names := []string{"noembed", "plaintext", "xmp"} // for their raw text
	for _, el := range slices.Concat(elements[:]...) {
		if el.open != nil || el.close != nil || el.field || slices.ContainsFunc(el.refs, func(r reference) bool { return r.as == toPage || r.as == likePage }) {
			names = append(names, el.name)
		}
	}
	return shapesOf(names...)
}()

// attrShapes has the shapes of the attributes; attrsByLen has the attributes by length.
var (
	attrShapes = shapesOf(attrNames[:]...)
	attrsByLen = func() (t [maxName + 1][]attr) {
		for a, name := range attrNames {
			t[len(name)] = append(t[len(name)], attr(a))
		}
		return t
	}()
)

// attrOf returns the attribute with a name, which must have a shape of attrShapes.
func attrOf(name []byte) (attr, bool) {
	for _, a := range attrsByLen[len(name)] {
		if spells(name, attrNames[a]) {
			return a, true
		}
	}
	return 0, false
}

// spells reports whether name equals want except for case. Want is in lower case and has the same length.
func spells(name []byte, want string) bool {
	for i := range name {
		if lower(name[i]) != want[i] {
			return false
		}
	}
	return true
}

// attrs has the attributes of a start tag that matter, the first of each name.
type attrs struct {
	has  uint64 // a bit for each attribute of the tag
	read uint64 // a bit for each attribute whose references are resolved
	vals [numAttrs][]byte
}

// put keeps an attribute if it matters and is the first of its name.
func (as *attrs) put(key, val []byte) {
	if a, ok := attrOf(key); ok && as.has&(1<<a) == 0 {
		as.has |= 1 << a
		as.vals[a] = val
	}
}

// attr returns the value of an attribute. Character references are resolved at the first call: few values have any.
func (s *scanner) attr(a attr) (val []byte, has bool) {
	as, bit := &s.attrs, uint64(1)<<a
	if as.has&bit == 0 {
		return nil, false
	}
	if as.read&bit == 0 {
		as.read |= bit
		as.vals[a] = s.read(as.vals[a], reading{refs: true, attr: true, noNUL: true})
	}
	return as.vals[a], true
}

func (s *scanner) has() uint64 { return s.attrs.has }

// attributes reads the rest of a tag whose name ends at i, §13.2.5.32 to 40, including its ">". It returns the index
// after it, or -1 if the page ends within the tag. It keeps attributes that matter and have at least atLeast letters.
func (s *scanner) attributes(i, atLeast int) int {
	s.attrs.has, s.attrs.read = 0, 0
	for {
		i = SkipSpace(s.body, i)
		switch {
		case i >= len(s.body):
			return -1
		case s.body[i] == '>':
			return i + 1
		}
		var key, val []byte
		key, val, i = NextAttr(s.body, i) // even if none matters: a ">" may be within quotes
		if len(key) >= atLeast && attrShapes.has(key) {
			s.attrs.put(key, val)
		}
	}
}

// NextAttr reads the attribute at i, where there must be neither white space nor ">", and returns the index where the
// next one can begin. A slash is an attribute without a name.
func NextAttr(s []byte, i int) (key, val []byte, next int) {
	start := i
	if s[i] == '=' { // at the beginning it belongs to the name
		i++
	}
	i = endOf(s, i, endsKey)
	key = s[start:i]
	val, next = value(s, SkipSpace(s, i))
	return key, val, next
}

// value reads what may follow the name of an attribute: nothing, a slash, or "=" and a value.
func value(s []byte, i int) (val []byte, next int) {
	if i >= len(s) || s[i] != '=' && s[i] != '/' {
		return nil, i
	}
	if s[i] == '/' {
		return nil, i + 1
	}
	i = SkipSpace(s, i+1)
	if i >= len(s) {
		return nil, i
	}
	// If the closing quote is missing, the page ends within the tag, as in browsers.
	if q := s[i]; q == '"' || q == '\'' {
		i++
		end := near(s, i, q)
		if end < 0 {
			return nil, len(s)
		}
		return s[i:end], end + 1
	}
	end := endOf(s, i, endsValue)
	return s[i:end], end
}

// selfClosing reports whether the tag ends in a slash. If the last slash ends an unquoted value, the tag is
// self-closing only if its attribute is not the first of its name: x/net/html drops such attributes too early, and so
// do we.
func (s *scanner) selfClosing() bool {
	end := s.at - len(">")
	if s.body[end-1] != '/' {
		return false
	}
	for i := SkipSpace(s.body, s.nameEnd); i < end; {
		key, val, next := NextAttr(s.body, i)
		if next == end && len(val) > 0 && s.body[next-1] == '/' {
			return s.hasBefore(key, i)
		}
		i = SkipSpace(s.body, next)
	}
	return true
}

func (s *scanner) hasBefore(name []byte, i int) bool {
	for at := SkipSpace(s.body, s.nameEnd); at < i; {
		key, _, next := NextAttr(s.body, at)
		if bytes.Equal(AppendLower(nil, key), AppendLower(nil, name)) {
			return true
		}
		at = SkipSpace(s.body, next)
	}
	return false
}

// AppendLower appends s with ASCII letters in lower case.
func AppendLower(dst, s []byte) []byte {
	for _, c := range s {
		dst = append(dst, lower(c))
	}
	return dst
}

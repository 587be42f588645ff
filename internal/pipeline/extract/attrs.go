package extract

import (
	"bytes"

	nethtml "golang.org/x/net/html"
)

const (
	maxName = 16  // longer than any element or attribute we look for
	maxRel  = 256 // bytes of a rel attribute that are kept
)

// attr is an attribute that can matter. The rest are not even copied.
type attr uint8

const (
	attrHref attr = iota
	attrXlinkHref
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
	attrShadowRootMode
	numAttrs
)

// attrNames spells the attributes as links carry them.
var attrNames = [numAttrs]string{
	"href", "xlink:href", "src", "srcset", "imagesrcset", "poster", "data", "rel", "type",
	"name", "property", "content", "http-equiv", "lang", "shadowrootmode",
}

// attrOf knows the attributes of links.
func attrOf(name []byte) (attr, bool) {
	switch string(name) {
	case "href":
		return attrHref, true
	case "xlink:href":
		return attrXlinkHref, true
	case "src":
		return attrSrc, true
	case "srcset":
		return attrSrcset, true
	case "imagesrcset":
		return attrImageSrcset, true
	case "poster":
		return attrPoster, true
	case "data":
		return attrData, true
	case "rel":
		return attrRel, true
	case "type":
		return attrType, true
	}
	return metaAttrOf(name)
}

// metaAttrOf knows those of meta and of elements that a page has few of.
func metaAttrOf(name []byte) (attr, bool) {
	switch string(name) {
	case "name":
		return attrName, true
	case "property":
		return attrProperty, true
	case "content":
		return attrContent, true
	case "http-equiv":
		return attrHTTPEquiv, true
	case "lang":
		return attrLang, true
	case "shadowrootmode":
		return attrShadowRootMode, true
	}
	return 0, false
}

// attrs holds the attributes of one tag: the first of each name, entities resolved,
// valid until the next token.
type attrs struct {
	at   int // 1 + where in the page the tag stands; 0 is no tag
	has  [numAttrs]bool
	vals [numAttrs][]byte
}

// get is the value of a, which is empty too if the tag has no such attribute.
func (as *attrs) get(a attr) []byte { return as.vals[a] }

// put keeps an attribute that can matter. Of two with one name the first counts, says
// the HTML standard.
func (as *attrs) put(name, val []byte) {
	if a, ok := attrOf(name); ok && !as.has[a] {
		as.has[a], as.vals[a] = true, val
	}
}

// read takes the attributes of the current tag, once. Where no character stands for
// another they lie in the page as they are; otherwise the tokenizer resolves them,
// whose rules for a lone "&" in an attribute are subtle.
func (as *attrs) read(s *scanner) {
	if as.at == s.pos+1 {
		return
	}
	*as = attrs{at: s.pos + 1}
	raw := s.raw()
	if bytes.IndexByte(raw, '&') < 0 && bytes.IndexByte(raw, '\r') < 0 && bytes.IndexByte(raw, 0) < 0 {
		as.readPlain(raw)
		return
	}
	as.readTokenizer(s.z)
}

// readTokenizer copies every attribute of the tag, to keep a few of them.
func (as *attrs) readTokenizer(z *nethtml.Tokenizer) {
	for more := true; more; {
		var key, val []byte
		key, val, more = z.TagAttr()
		as.put(key, val)
	}
}

// readPlain splits a tag as the tokenizer does. It follows the HTML standard,
// §13.2.5.32 to 40, on a tag that is known to be complete.
func (as *attrs) readPlain(raw []byte) {
	i := endOfName(raw, 1)
	for {
		i = skipSpace(raw, i)
		if i >= len(raw) || raw[i] == '>' {
			return
		}
		start := i
		if raw[i] == '=' { // in front of a name it belongs to it
			i++
		}
		i = endOfKey(raw, i)
		key := raw[start:i]
		var val []byte
		val, i = value(raw, skipSpace(raw, i))
		if len(key) > 0 && len(key) <= maxName {
			var buf [maxName]byte
			as.put(lowered(buf[:0], key), val)
		}
	}
}

// value reads what may follow a name: nothing, a slash, or "=" and a value. It
// returns where the next name can begin.
func value(raw []byte, i int) (val []byte, next int) {
	if i >= len(raw) || raw[i] != '=' && raw[i] != '/' {
		return nil, i
	}
	if raw[i] == '/' {
		return nil, i + 1
	}
	i = skipSpace(raw, i+1)
	if i >= len(raw) {
		return nil, i
	}
	if q := raw[i]; q == '"' || q == '\'' {
		i++
		n := bytes.IndexByte(raw[i:], q)
		if n < 0 {
			return nil, len(raw)
		}
		return raw[i : i+n], i + n + 1
	}
	start := i
	for i < len(raw) && !isSpace(raw[i]) && raw[i] != '>' {
		i++
	}
	return raw[start:i], i
}

// endOfName is where the name of an element ends.
func endOfName(raw []byte, i int) int {
	for i < len(raw) && !isSpace(raw[i]) && raw[i] != '/' && raw[i] != '>' {
		i++
	}
	return i
}

// endOfKey is where the name of an attribute ends.
func endOfKey(raw []byte, i int) int {
	for i < len(raw) && !isSpace(raw[i]) && raw[i] != '/' && raw[i] != '>' && raw[i] != '=' {
		i++
	}
	return i
}

// skipSpace is the next byte from i that is no white space.
func skipSpace(raw []byte, i int) int {
	for i < len(raw) && isSpace(raw[i]) {
		i++
	}
	return i
}

// isSpace is true of the white space of HTML.
func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'
}

func lowered(dst, s []byte) []byte {
	for _, c := range s {
		dst = append(dst, lower(c))
	}
	return dst
}

// hasToken reports whether list, separated by space, holds token. Both are in lower
// case.
func hasToken[T ~string | ~[]byte](list T, token string) bool {
	for i := 0; i < len(list); {
		for i < len(list) && isSpace(list[i]) {
			i++
		}
		start := i
		for i < len(list) && !isSpace(list[i]) {
			i++
		}
		if string(list[start:i]) == token {
			return true
		}
	}
	return false
}

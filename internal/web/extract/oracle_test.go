package extract

import (
	"bytes"
	"slices"

	nethtml "golang.org/x/net/html"
)

// oracle is a source by the tokenizer of x/net/html, in the plainest way: every token,
// every attribute, every text.
type oracle struct {
	z     *nethtml.Tokenizer
	kind  nethtml.TokenType
	name  []byte
	vals  map[string][]byte
	words []byte
}

func (o *oracle) reset(body []byte, xhtml, _ bool) {
	*o = oracle{z: nethtml.NewTokenizer(bytes.NewReader(body))}
	o.z.AllowCDATA(xhtml)
}

func (o *oracle) next() token {
	for {
		o.kind = o.z.Next()
		switch o.kind {
		case nethtml.ErrorToken:
			return endOfPage
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			o.readTag()
			return startTag
		case nethtml.EndTagToken:
			o.readTag()
			return endTag
		case nethtml.TextToken:
			o.words = o.z.Text()
			return chars
		}
	}
}

func (o *oracle) readTag() {
	name, more := o.z.TagName()
	o.name = slices.Clone(name)
	if len(name) > maxName {
		o.name = nil
	}
	o.vals = make(map[string][]byte)
	for more {
		var key, val []byte
		key, val, more = o.z.TagAttr()
		if _, ok := o.vals[string(key)]; !ok {
			o.vals[string(key)] = append([]byte{}, val...)
		}
	}
}

func (o *oracle) tag() []byte { return o.name }

func (o *oracle) attr(a attr) (val []byte, has bool) {
	val, has = o.vals[attrNames[a]]
	return val, has
}

func (o *oracle) has() (bits uint64) {
	for a, name := range attrNames {
		if _, ok := o.vals[name]; ok {
			bits |= 1 << a
		}
	}
	return bits
}

func (o *oracle) selfClosing() bool { return o.kind == nethtml.SelfClosingTagToken }

func (o *oracle) text() []byte { return o.words }

func (o *oracle) markup() { o.z.NextIsNotRawText() }

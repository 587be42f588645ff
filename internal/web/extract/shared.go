package extract

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// shared takes the attributes that any element may carry. Those of data- are a page's own,
// and mean what its scripts make of them; but most scripts that load images late and make
// rows of a table lead somewhere call them alike. What is no URL is told by its look.
func (e *Extractor) shared(name []byte, has uint64) {
	tag := e.tagName(name)
	if has&sharedNavigation != 0 {
		e.sharedLinks(tag)
	}
	if ref := e.attr(attrXlinkHref); len(ref) > 0 && tag != "a" {
		switch {
		case e.svg > 0:
			e.resource(tag, attrXlinkHref)
		case e.form == xml:
			e.leads(tag, attrXlinkHref)
		}
	}
	if !e.opts.Resources || has&(sharedResource&^(1<<attrXlinkHref)) == 0 {
		return
	}
	if style := e.attr(attrStyle); bytes.IndexByte(style, '(') >= 0 {
		e.css(tag, "style", style)
	}
	switch tag {
	case "body", "table", "thead", "tbody", "tfoot", "tr", "td", "th":
		e.resource(tag, attrBackground)
	}
	for rest := has & sharedImages; rest != 0; rest &= rest - 1 {
		e.sharedImage(tag, attr(bits.TrailingZeros64(rest)))
	}
	for rest := has & sharedSets; rest != 0; rest &= rest - 1 {
		if a := attr(bits.TrailingZeros64(rest)); likeURL(bytes.TrimRight(first(e.attr(a)), ",")) {
			e.srcset(tag, a)
		}
	}
}

// sharedLinks takes those that lead to pages. Only data-href is always meant so; of the
// others we want to see that it is a URL.
func (e *Extractor) sharedLinks(tag string) {
	rel := "" // as other elements have none
	if tag == "a" || tag == "area" {
		rel = e.relOf()
	}
	if ref := e.attr(attrDataHref); likeURL(ref) {
		e.put(pending{tag: tag, attr: attrNames[attrDataHref], kind: Navigation, rel: rel}, ref)
	}
	for _, a := range [...]attr{attrDataURL, attrDataLink} {
		ref := trim(e.attr(a))
		for _, start := range [...]string{"/", "./", "../", "?", "http://", "https://"} {
			if hasPrefix(ref, start) && likeURL(ref) {
				e.put(pending{tag: tag, attr: attrNames[a], kind: Navigation, rel: rel}, ref)
				break
			}
		}
	}
}

// sharedImage takes one that names an image, alone or as a style would.
func (e *Extractor) sharedImage(tag string, a attr) {
	switch ref := e.attr(a); {
	case tag == "iframe" || tag == "amp-iframe": // which shows pages
	case hasPrefix(trim(ref), "url("):
		e.css(tag, attrNames[a], ref)
	case likeURL(ref):
		e.resource(tag, a)
	}
}

// likeURL tells references from what else stands in attributes of a page's own: words,
// numbers, colours, data and what a script would put something into.
func likeURL(s []byte) bool {
	s = trim(s)
	if len(s) == 0 || len(s) > canonical.MaxLength || s[0] == '#' {
		return false
	}
	letters, marks := false, false
	for _, c := range s {
		switch {
		case c <= ' ', c == '{', c == '}', c == '<', c == '>', c == '"', c == '`':
			return false
		case c == '/', c == '.', c == '?':
			marks = true
		case c >= 0x80, kinds[c]&letter != 0:
			letters = true
		}
	}
	return letters && marks
}

// first is the first word of s.
func first(s []byte) []byte {
	s = trim(s)
	for i, c := range s {
		if isSpace(c) {
			return s[:i]
		}
	}
	return s
}

// tagName is an element's name for a [Link]: as it is if it is one as HTML and SVG have
// them, and "other" if it is not.
func (e *Extractor) tagName(name []byte) string {
	for _, c := range name {
		if kinds[c]&(letter|digit) == 0 && c != '-' && c != ':' {
			return "other"
		}
	}
	if len(name) == 0 {
		return "other"
	}
	return e.interned(name, maxName)
}

// maxArchives bounds the archives of an applet: each is as long as its codebase.
const maxArchives = 64

// applet takes the program of an applet. Its codebase is a directory, with a slash or
// without.
func (e *Extractor) applet() {
	base := bytes.Clone(trim(e.attr(attrCodebase)))
	if len(base) > 0 && base[len(base)-1] != '/' {
		base = append(base, '/')
	}
	for _, a := range [...]attr{attrCode, attrArchive} {
		list := e.attr(a)
		for n := 0; len(list) > 0 && n < maxArchives; n++ {
			var ref []byte
			ref, list, _ = bytes.Cut(list, []byte(","))
			if ref = trim(ref); len(ref) > 0 {
				e.add(Resource, "applet", attrNames[a], append(slices.Clip(base), ref...))
			}
		}
	}
}

// param takes what an object is told to load.
func (e *Extractor) param() {
	name, value := e.attr(attrName), e.attr(attrValue)
	known := false
	for _, n := range [...]string{"movie", "src", "filename", "url", "href", "ref", "data"} {
		known = known || is(name, n)
	}
	if is(e.attr(attrValueType), "ref") || known && likeURL(value) {
		e.resource("param", attrValue)
	}
}

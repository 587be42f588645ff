package extract

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// shared handles the attributes of any element. Those of data- belong to the page, but most
// scripts that load images late or make rows clickable use the same names; what is no URL is
// recognised by its form.
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

// sharedLinks adds links to pages. Only data-href always is one.
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

// sharedImage adds an image, given as a URL or as in a style.
func (e *Extractor) sharedImage(tag string, a attr) {
	switch ref := e.attr(a); {
	case tag == "iframe" || tag == "amp-iframe": // which shows pages
	case hasPrefix(trim(ref), "url("):
		e.css(tag, attrNames[a], ref)
	case likeURL(ref):
		e.resource(tag, a)
	}
}

// likeURL rules out words, numbers, colours, data and templates.
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

func first(s []byte) []byte {
	s = trim(s)
	for i, c := range s {
		if isSpace(c) {
			return s[:i]
		}
	}
	return s
}

// tagName is an element name for a [Link], "other" if it is no name of HTML or SVG.
func (e *Extractor) tagName(name []byte) string {
	for _, c := range name {
		if kinds[c]&(letter|digit) == 0 && c != '-' && c != ':' {
			return "other"
		}
	}
	return cmp.Or(e.interned(name, maxName), "other")
}

// maxArchives bounds the archives of an applet.
const maxArchives = 64

// applet adds the program of an applet. Its codebase is a directory.
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

// param adds what an object is to load.
func (e *Extractor) param() {
	names := []string{"movie", "src", "filename", "url", "href", "ref", "data"}
	known := slices.ContainsFunc(names, func(n string) bool { return is(e.attr(attrName), n) })
	if is(e.attr(attrValueType), "ref") || known && likeURL(e.attr(attrValue)) {
		e.resource("param", attrValue)
	}
}

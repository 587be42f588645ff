package extract

import (
	"bytes"
	"hash/maphash"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// maxRel is how many bytes of a rel attribute are kept.
const maxRel = 256

// maxRels bounds the interned values of rel and type. A page has a handful, a site too;
// what finds no room is allocated for each link.
const maxRels = 256

// maxAlternates bounds the alternates of a page: there are some two hundred languages
// that sites are written in, and nobody has half of them.
const maxAlternates = 100

// Alternate is another form of the page: a translation, a feed, a printable one.
type Alternate struct {
	Href     string // canonical
	HrefLang string // as written, at most 1 KiB; empty if it is not said
	Type     string // the media type in lower case; empty if it is not said
}

// relation is a page that this one names as something to it. Like a pending link it
// waits for the base.
type relation struct {
	kind     relMeaning // one of relOfPage
	of       pending    // of which there is no more than the reference
	hrefLang string
	typ      string
}

// relMeaning is what a rel says, all of its tokens together.
type relMeaning uint16

const (
	relPage     relMeaning = 1 << iota // it leads to a page
	relResource                        // it names what a browser loads to show this one
	relDocument                        // that may be a page, if it says so
	relSitemap
	relCanonical
	relNext
	relPrev
	relAlternate

	relOfPage = relCanonical | relNext | relPrev | relAlternate
)

// linked is what a link element says, or one of a Link header: their meaning is the same.
type linked struct {
	tag, attr         string
	ref               []byte
	rel               string // in lower case
	mediaType, as     []byte
	hrefLang          []byte
	ofAnotherDocument bool // the header's anchor names what it is about, and not this page
}

// linkElement takes a link element.
func (e *Extractor) linkElement() {
	if e.template > 0 {
		return
	}
	l := linked{
		tag: "link", attr: "href", ref: e.attr(attrHref), rel: e.relOf(),
		mediaType: e.attr(attrType), as: e.attr(attrAs), hrefLang: e.attr(attrHrefLang), ofAnotherDocument: e.inner,
	}
	resource := e.linked(&l)
	if resource && e.opts.Resources {
		e.srcset("link", attrImageSrcset)
	}
}

// linked goes by the rel of a link, and reports whether it is a resource.
func (e *Extractor) linked(l *linked) (resource bool) {
	rel := e.meaning(l.rel)
	if rel&relDocument != 0 && is(l.as, "document") {
		rel = rel&^relResource | relPage
	}
	resource = rel&relResource != 0
	if len(l.ref) == 0 {
		return resource
	}
	switch {
	case resource:
		if e.opts.Resources {
			e.put(pending{tag: l.tag, attr: l.attr, kind: Resource, rel: l.rel}, l.ref)
		}
	case rel&relPage != 0:
		mediaType := e.interned(l.mediaType, maxRel)
		if !l.ofAnotherDocument && rel&relOfPage != 0 {
			e.relation(l, rel, mediaType)
		}
		if isPageType(mediaType) || e.opts.Feeds && (isFeedType(mediaType) || rel&relSitemap != 0) {
			e.put(pending{tag: l.tag, attr: l.attr, kind: Navigation, rel: l.rel, mediaType: mediaType}, l.ref)
		}
	}
	return resource
}

// relation notes what a page says that others are to it. Of alternates there may be
// many, of the rest the first counts.
func (e *Extractor) relation(l *linked, rel relMeaning, mediaType string) {
	ref, _, _ := bytes.Cut(trim(l.ref), []byte("#"))
	if len(ref) > canonical.MaxLength {
		return
	}
	if len(e.relations) >= maxAlternates {
		rel &^= relAlternate
	}
	rel &= relOfPage &^ (e.related &^ relAlternate)
	e.related |= rel
	for ; rel != 0; rel &= rel - 1 {
		p := pending{hash: maphash.Bytes(e.seed, ref), from: len(e.refs)}
		e.refs = append(e.refs, ref...)
		p.to = len(e.refs)
		e.relations = append(e.relations, relation{rel & -rel, p, field(l.hrefLang), mediaType})
	}
}

// relate resolves the relations, most of which are links too and known by now. What is
// no URL has been counted there.
func (e *Extractor) relate() {
	d := e.dst
	bad, skipped, long := d.BadLinks, d.SkippedSchemes, d.LongLinks
	for i := range e.relations {
		r := &e.relations[i]
		to, ok := e.target(&r.of)
		if !ok && r.of.from != r.of.to { // what is empty is the page itself
			continue
		}
		switch url := to.url.String(); r.kind {
		case relCanonical:
			d.Meta.Canonical = url
		case relNext:
			d.Next = url
		case relPrev:
			d.Prev = url
		case relAlternate:
			d.Alternates = append(d.Alternates, Alternate{url, r.hrefLang, r.typ})
		}
	}
	d.BadLinks, d.SkippedSchemes, d.LongLinks = bad, skipped, long
}

// meaning is meaningOf, remembered: a page repeats a few.
func (e *Extractor) meaning(rel string) relMeaning {
	if m, ok := e.meanings[rel]; ok {
		return m
	}
	m := meaningOf(rel)
	if e.meanings == nil {
		e.meanings = make(map[string]relMeaning)
	}
	if len(e.meanings) < maxRels {
		e.meanings[rel] = m
	}
	return m
}

// meaningOf goes by the tokens of rel. Of those that are not here some ask for nothing
// (preconnect), some are for programs (pingback), and most we have never heard of.
func meaningOf(rel string) (m relMeaning) {
	for token := range strings.FieldsSeq(rel) {
		switch token {
		case "stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon", "fluid-icon",
			"apple-touch-startup-image", "image_src", "modulepreload", "manifest":
			m |= relResource
		case "preload", "prefetch":
			m |= relResource | relDocument
		case "canonical":
			m |= relPage | relCanonical
		case "next":
			m |= relPage | relNext
		case "prev", "previous":
			m |= relPage | relPrev
		case "alternate":
			m |= relPage | relAlternate
		case "sitemap":
			m |= relPage | relSitemap
		case "amphtml", "author", "help", "license", "search", "shortlink", "index", "contents", "copyright", "first",
			"last", "up", "start", "glossary", "chapter", "section", "subsection", "appendix", "bookmark",
			"privacy-policy", "terms-of-service", "about", "archives", "cite-as", "collection", "convertedfrom",
			"current", "describedby", "home", "item", "latest-version", "me", "memento", "original", "payment",
			"predecessor-version", "prerender", "related", "replies", "self", "source", "successor-version", "tag",
			"toc", "top", "version-history", "via":
			m |= relPage
		}
	}
	return m
}

// isPageType keeps feeds, search descriptions and the like out, which share rel with
// pages. It is given the type in lower case.
func isPageType(mediaType string) bool {
	switch mediaType = essence(mediaType); mediaType {
	case "", "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "text/markdown":
		return true
	}
	return false
}

// isFeedType knows the types that feeds are linked with.
func isFeedType(mediaType string) bool {
	switch essence(mediaType) {
	case "application/rss+xml", "application/atom+xml", "application/rdf+xml":
		return true
	}
	return false
}

// essence is a media type without its parameters.
func essence(mediaType string) string {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return strings.TrimSpace(mediaType)
}

// relOf is the rel of the current tag in lower case, interned.
func (e *Extractor) relOf() string { return e.interned(e.attr(attrRel), maxRel) }

// interned is s in lower case and cut to so many bytes, at most maxRel: a page repeats
// a few.
func (e *Extractor) interned(s []byte, atMost int) string {
	if len(s) == 0 {
		return ""
	}
	var buf [maxRel]byte
	s = lowered(buf[:0], s[:min(len(s), atMost)])
	if known, ok := e.rels[string(s)]; ok {
		return known
	}
	valid := strings.ToValidUTF8(string(s), "\ufffd")
	if e.rels == nil {
		e.rels = make(map[string]string)
	}
	if len(e.rels) < maxRels {
		e.rels[string(s)] = valid
	}
	return valid
}

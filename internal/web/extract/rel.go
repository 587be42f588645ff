package extract

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	maxRel        = 256 // bytes of a rel attribute that are kept
	maxRels       = 256 // interned values; further ones are allocated for each link
	maxAlternates = 100 // of a page
)

// Alternate is another form of the page: a translation, a feed, a printable one.
type Alternate struct {
	Href     string // canonical
	HrefLang string // as written, at most 1 KiB; empty if it is not said
	Type     string // the media type in lower case; empty if it is not said
}

// relation is a canonical, next, prev or alternate link, resolved at the end of the page.
type relation struct {
	kind     relMeaning // one of relOfPage
	of       pending    // of which there is no more than the reference
	hrefLang string
	typ      string
}

// relMeaning is the meaning of all tokens of a rel.
type relMeaning uint16

const (
	relPage     relMeaning = 1 << iota // a link to a page
	relResource                        // part of this page
	relDocument                        // a page if as=document
	relSitemap
	relCanonical
	relNext
	relPrev
	relAlternate

	relOfPage = relCanonical | relNext | relPrev | relAlternate
)

// linked is a link element, or a link of a Link header.
type linked struct {
	tag, attr         string
	ref               []byte
	rel               string // in lower case
	mediaType, as     []byte
	hrefLang          []byte
	ofAnotherDocument bool // by the anchor of the header
}

func (e *Extractor) linkElement() {
	if e.template > 0 {
		return
	}
	l := linked{
		tag: "link", attr: "href", ref: e.attr(attrHref), rel: e.relOf(),
		mediaType: e.attr(attrType), as: e.attr(attrAs), hrefLang: e.attr(attrHrefLang), ofAnotherDocument: e.inner,
	}
	if e.linked(&l) {
		e.resource("link", attrImageSrcset)
	}
}

// linked handles a link by its rel, and reports whether it is a resource.
func (e *Extractor) linked(l *linked) (resource bool) {
	rel := meaningOf(l.rel)
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

// relation keeps the first link of each relation, and several alternates.
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

// relate resolves the relations. Invalid ones were counted as links.
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

// meaningOf ignores unknown tokens, and those for programs, such as preconnect and pingback.
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

// isPageType excludes feeds, search descriptions and the like. The type is in lower case.
func isPageType(mediaType string) bool {
	return slices.Contains([]string{"", "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "text/markdown"}, essence(mediaType))
}

func isFeedType(mediaType string) bool {
	return slices.Contains([]string{"application/rss+xml", "application/atom+xml", "application/rdf+xml"}, essence(mediaType))
}

func essence(mediaType string) string {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return strings.TrimSpace(mediaType)
}

func (e *Extractor) relOf() string { return e.interned(e.attr(attrRel), maxRel) }

// interned is s in lower case, cut to atMost bytes (at most maxRel), without repeated
// allocation.
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

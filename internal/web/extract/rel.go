package extract

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

const (
	maxRel        = 256 // bytes read of a rel attribute or a media type
	maxAlternates = 100 // of a page
)

// relation is a canonical, next, prev or alternate link. It is resolved at the end of the page.
type relation struct {
	kind     relMeaning // one bit of relOfPage
	of       pending    // only its reference is used
	hrefLang string
	typ      string
}

// relMeaning has the meanings of the tokens of a rel, as bits.
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

// relMeanings has the meanings of single tokens. Unknown tokens have none, nor do those for programs, such as
// preconnect and pingback.
var relMeanings = func() map[string]relMeaning {
	all := make(map[string]relMeaning)
	for m, tokens := range map[relMeaning]string{
		relResource: "stylesheet icon apple-touch-icon apple-touch-icon-precomposed mask-icon fluid-icon " +
			"apple-touch-startup-image image_src modulepreload manifest",
		relResource | relDocument: "preload prefetch",
		relPage | relCanonical:    "canonical",
		relPage | relNext:         "next",
		relPage | relPrev:         "prev previous",
		relPage | relAlternate:    "alternate",
		relPage | relSitemap:      "sitemap",
		relPage: "amphtml author help license search shortlink index contents copyright first last up start glossary chapter " +
			"section subsection appendix bookmark privacy-policy terms-of-service about archives cite-as collection " +
			"convertedfrom current describedby home item latest-version me memento original payment predecessor-version " +
			"prerender related replies self source successor-version tag toc top version-history via",
	} {
		for token := range strings.FieldsSeq(tokens) {
			all[token] = m
		}
	}
	return all
}()

func meaningOf(rel []byte) (m relMeaning) {
	var buf [maxRel]byte
	rest := AppendLower(buf[:0], rel[:min(len(rel), maxRel)])
	for len(rest) > 0 {
		end := endOf(rest, 0, space)
		m |= relMeanings[string(rest[:end])]
		rest = rest[min(end+1, len(rest)):]
	}
	return m
}

// linked is a link element, or a link of a Link header.
type linked struct {
	ref, rel          []byte
	mediaType, as     []byte
	hrefLang          []byte
	ofAnotherDocument bool // by the anchor parameter, or within a srcdoc
}

func (e *Extractor) openLink() {
	if e.template > 0 {
		return
	}
	resource := e.links.linked(&linked{
		ref: e.attr(attrHref), rel: e.attr(attrRel), mediaType: e.attr(attrType), as: e.attr(attrAs),
		hrefLang: e.attr(attrHrefLang), ofAnotherDocument: e.inner,
	})
	e.takeIf(resource, attrImageSrcset, toParts)
}

// linked handles a link by its rel, and reports whether it is to a resource.
func (l *links) linked(k *linked) (resource bool) {
	rel := meaningOf(k.rel)
	if rel&relDocument != 0 && is(k.as, "document") {
		rel = rel&^relResource | relPage
	}
	switch resource = rel&relResource != 0; {
	case len(k.ref) == 0:
	case resource && l.opts.Resources:
		l.add(part, k.ref)
	case !resource && rel&relPage != 0:
		mediaType := strings.ToLower(strings.ToValidUTF8(string(k.mediaType[:min(len(k.mediaType), maxRel)]), "\ufffd"))
		if !k.ofAnotherDocument && rel&relOfPage != 0 {
			l.relation(k, rel, mediaType)
		}
		of := essence(mediaType)
		if slices.Contains(pageTypes, of) || l.opts.Feeds && (slices.Contains(feedTypes, of) || rel&relSitemap != 0) {
			l.add(worthOf(k.rel), k.ref)
		}
	}
	return resource
}

func (l *links) relation(k *linked, rel relMeaning, mediaType string) {
	ref := withoutFragment(k.ref)
	if len(ref) > canonical.MaxLength {
		return
	}
	if len(l.relations) >= maxAlternates {
		rel &^= relAlternate
	}
	rel &= relOfPage &^ (l.related &^ relAlternate)
	l.related |= rel
	for ; rel != 0; rel &= rel - 1 {
		p := l.store(pending{hash: maphash.Bytes(l.seed, ref)}, ref)
		l.relations = append(l.relations, relation{rel & -rel, p, field(k.hrefLang), mediaType})
	}
}

func (l *links) relate() {
	d := l.dst
	for i := range l.relations {
		r := &l.relations[i]
		to, err := l.target(&r.of)
		if err != nil && r.of.from != r.of.to { // an empty reference means the page itself
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
			d.Alternates = append(d.Alternates, record.Alternate{Href: url, HrefLang: r.hrefLang, Type: r.typ})
		}
	}
}

func essence(mediaType string) string {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return strings.TrimSpace(mediaType)
}

var (
	// pageTypes are the media types of alternates that are pages: no feeds, search descriptions and the like.
	pageTypes = []string{"", "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "text/markdown"}
	feedTypes = []string{"application/rss+xml", "application/atom+xml", "application/rdf+xml"}
)

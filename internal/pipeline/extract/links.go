package extract

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"strings"

	"github.com/treadlight/crawl/internal/pipeline/canonical"
)

// pending is a link whose reference has not been resolved yet. It waits for the end of
// the page because a base element may still come. What it refers to lies in buffers of
// the extractor: the page's own bytes are gone with the next token.
type pending struct {
	tag, attr, rel string
	kind           Kind
	hash           uint64 // of the reference
	from, to       int    // where it is, in Extractor.refs
	text, textEnd  int    // what it reads, in the text
}

// link takes the first of the attributes that the tag has, and returns the index of
// the pending link or -1.
func (e *Extractor) link(kind Kind, tag string, from ...attr) int {
	if e.template > 0 {
		return -1
	}
	for _, a := range from {
		if ref, has := e.source.attr(a); has {
			return e.add(kind, tag, attrNames[a], ref)
		}
	}
	return -1
}

// attr is an attribute of the current tag, which is empty too if the tag has none such.
func (e *Extractor) attr(a attr) []byte {
	val, _ := e.source.attr(a)
	return val
}

// resource takes an attribute that names something to show. There, empty is nothing.
func (e *Extractor) resource(tag string, a attr) {
	if !e.opts.Resources || e.template > 0 {
		return
	}
	if ref := e.attr(a); len(ref) > 0 {
		e.add(Resource, tag, attrNames[a], ref)
	}
}

// srcset takes every image of a set: which of them a browser would show depends on a
// screen that we do not have.
func (e *Extractor) srcset(tag string, a attr) {
	if e.template > 0 {
		return
	}
	for rest := e.attr(a); len(rest) > 0; {
		var ref []byte
		if ref, rest = nextImage(rest); len(ref) > 0 {
			e.add(Resource, tag, attrNames[a], ref)
		}
	}
}

// linkElement goes by the rel of a link element.
func (e *Extractor) linkElement() {
	if e.template > 0 {
		return
	}
	ref, rel := e.attr(attrHref), e.relOf()
	if e.opts.Resources && isResourceRel(rel) {
		if len(ref) > 0 {
			e.add(Resource, "link", "href", ref)
		}
		e.srcset("link", attrImageSrcset)
		return
	}
	if len(ref) == 0 || isResourceRel(rel) || !isPageRel(rel) || !isPageType(e.attr(attrType)) {
		return
	}
	if len(e.canonical) == 0 && hasToken(rel, "canonical") {
		e.canonical = append(e.canonical, ref...)
	}
	e.add(Navigation, "link", "href", ref)
}

// isResourceRel knows the kinds of link that a browser loads to show the page.
func isResourceRel(rel string) bool {
	for _, r := range [...]string{
		"stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon",
		"preload", "modulepreload", "prefetch", "manifest",
	} {
		if hasToken(rel, r) {
			return true
		}
	}
	return false
}

// isPageRel knows the kinds that lead to pages. Of the others some ask for nothing
// (preconnect), some are for programs (pingback), and most we have never heard of.
func isPageRel(rel string) bool {
	for _, r := range [...]string{
		"alternate", "amphtml", "author", "canonical", "help", "license", "next", "prev", "search", "shortlink",
		"index", "contents", "copyright", "first", "last", "up", "start", "previous", "glossary", "chapter",
		"section", "subsection", "appendix", "bookmark", "privacy-policy", "terms-of-service",
	} {
		if hasToken(rel, r) {
			return true
		}
	}
	return false
}

// isPageType keeps feeds and search descriptions out, which share rel with pages.
func isPageType(mediaType []byte) bool {
	if len(mediaType) == 0 {
		return true
	}
	f := formOf(string(mediaType), nil)
	return f == html || f == xhtml
}

// add makes a reference pending unless the page had it before. It returns the
// index of the pending link, or -1 if there is none.
func (e *Extractor) add(kind Kind, tag, attr string, ref []byte) int {
	// Without its fragment a reference to each section of a page is the same reference,
	// and it is resolved once.
	ref = trim(ref)
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	if len(ref) > canonical.MaxLength { // it can be no link: do not carry it around
		_, err := e.doc.ResolveBytes(ref)
		e.count(err)
		return -1
	}
	now := pending{tag: tag, attr: attr, kind: kind, rel: e.relOf(), hash: maphash.Bytes(e.seed, ref)}
	slot, old := e.byRef.find(now.hash)
	if old >= 0 {
		return e.again(now, old)
	}
	if len(e.pending) >= e.opts.MaxLinks {
		e.dst.DroppedLinks++
		return -1
	}
	e.byRef.set(slot, len(e.pending))
	now.from = len(e.refs)
	e.refs = append(e.refs, ref...)
	now.to = len(e.refs)
	now.text = e.text.mark()
	now.textEnd = now.text
	e.pending = append(e.pending, now)
	return len(e.pending) - 1
}

// again merges a link with the one at index old, which has the same reference. The
// first text counts: many a logo is followed by its caption.
func (e *Extractor) again(now pending, old int) int {
	was := &e.pending[old]
	if better(now.kind, now.rel, was.kind, was.rel) {
		was.tag, was.attr, was.kind, was.rel = now.tag, now.attr, now.kind, now.rel
	}
	if was.textEnd > was.text {
		return -1
	}
	was.text, was.textEnd = e.text.mark(), e.text.mark()
	return old
}

// trim removes what a URL may not begin or end with: C0 controls and space.
func trim(s []byte) []byte {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// better reports whether the second of two links to one URL replaces the first: it
// can be followed where the first could not.
func better(kind Kind, rel string, oldKind Kind, oldRel string) bool {
	if kind != oldKind {
		return kind == Navigation
	}
	return hasToken(oldRel, "nofollow") && !hasToken(rel, "nofollow")
}

// maxRels bounds the interned values of rel. A page has a handful, a site too; what
// finds no room is allocated for each link.
const maxRels = 256

// relOf is the rel of the current tag in lower case, interned.
func (e *Extractor) relOf() string {
	rel := e.attr(attrRel)
	if len(rel) == 0 {
		return ""
	}
	var buf [maxRel]byte
	rel = lowered(buf[:0], rel[:min(len(rel), maxRel)])
	if s, ok := e.rels[string(rel)]; ok {
		return s
	}
	s := strings.ToValidUTF8(string(rel), "\ufffd")
	if e.rels == nil {
		e.rels = make(map[string]string)
	}
	if len(e.rels) < maxRels {
		e.rels[string(rel)] = s
	}
	return s
}

// endAnchor ends the text of the link being read.
func (e *Extractor) endAnchor() {
	if e.anchor >= 0 {
		e.pending[e.anchor].textEnd = e.text.mark()
	}
	e.anchor = -1
}

// finish resolves what is pending.
func (e *Extractor) finish() {
	e.endAnchor()
	text := e.text.string()
	if e.opts.Text {
		e.dst.Text = text
	}
	e.inDirectory()
	for i := range e.pending {
		p := &e.pending[i]
		to, ok := e.target(p)
		if !ok {
			continue
		}
		l := Link{URL: to.url, Fingerprint: to.fp, Tag: p.tag, Attr: p.attr, Rel: p.rel, Kind: p.kind}
		if p.textEnd > p.text {
			l.Text = strings.TrimSpace(text[min(p.text, len(text)):min(p.textEnd, len(text))])
		}
		e.keep(l)
	}
	if u, ok := e.resolve(e.canonical); ok {
		e.dst.Meta.Canonical = u.String()
	}
}

// resolve counts what is no link. Nothing but a fragment is none either, unless the
// base makes it lead elsewhere.
func (e *Extractor) resolve(ref []byte) (canonical.URL, bool) {
	if len(ref) == 0 {
		return e.base, e.base != e.doc
	}
	u, err := e.base.ResolveBytes(e.inCharset(ref))
	e.count(err)
	return u, err == nil
}

// count tells links to other schemes, which are fine, from mistakes.
func (e *Extractor) count(err error) {
	switch {
	case errors.Is(err, canonical.ErrScheme):
		e.dst.SkippedSchemes++
	case err != nil:
		e.dst.BadLinks++
	}
}

// keep adds l unless another spelling of its URL was there before. Then the place is
// the first one's, and what is said of the link the better one's.
func (e *Extractor) keep(l Link) {
	slot, old := e.byURL.find(l.Fingerprint)
	if old < 0 {
		if e.linkBytes += len(l.URL.String()); e.linkBytes > maxLinkBytes {
			e.dst.DroppedLinks++
			return
		}
		e.byURL.set(slot, len(e.dst.Links))
		e.dst.Links = append(e.dst.Links, l)
		return
	}
	was := &e.dst.Links[old]
	if better(l.Kind, l.Rel, was.Kind, was.Rel) {
		l.Text = cmp.Or(was.Text, l.Text)
		*was = l
	} else if was.Text == "" {
		was.Text = l.Text
	}
}

package extract

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// pending is a link whose reference is resolved at the end of the page, when the base is known.
type pending struct {
	tag, attr, rel, mediaType string
	kind                      Kind
	hash                      uint64 // of the reference
	from, to                  int    // in Extractor.refs
	text, textEnd             int    // in the text
}

// link adds the first of the attributes that the tag has as a link to a page, and returns the index
// of the pending link or -1.
func (e *Extractor) link(tag string, from ...attr) int {
	if e.template > 0 {
		return -1
	}
	for _, a := range from {
		if ref, has := e.source.attr(a); has {
			return e.add(Navigation, tag, attrNames[a], ref)
		}
	}
	return -1
}

// attr is an attribute of the current tag, or empty.
func (e *Extractor) attr(a attr) []byte {
	val, _ := e.source.attr(a)
	return val
}

// resource adds the resource that an attribute refers to, or all of a set.
func (e *Extractor) resource(tag string, a attr) {
	if !e.opts.Resources || e.template > 0 {
		return
	}
	rest := e.attr(a)
	if 1<<a&attrSets == 0 {
		if len(rest) > 0 && rest[0] != '#' {
			e.add(Resource, tag, attrNames[a], rest)
		}
		return
	}
	for len(rest) > 0 && e.opts.Budget.Spend(1) {
		var ref []byte
		if ref, rest = nextImage(rest); len(ref) > 0 {
			e.add(Resource, tag, attrNames[a], ref)
		}
	}
}

// add adds a reference of the current tag; see put.
func (e *Extractor) add(kind Kind, tag, attr string, ref []byte) int {
	return e.put(pending{tag: tag, attr: attr, kind: kind, rel: e.relOf()}, ref)
}

// put adds a reference unless the page had it before. It returns the index of the pending link,
// or -1.
func (e *Extractor) put(now pending, ref []byte) int {
	ref = trim(ref) // without its fragment, so that links to sections are one
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	if len(ref) > canonical.MaxLength {
		_, err := e.doc.ResolveBytes(ref)
		e.count(cmp.Or(err, canonical.ErrLong))
		return -1
	}
	e.opts.Budget.SpendText(len(ref))
	now.hash = maphash.Bytes(e.seed, ref)
	if old, ok := e.byRef[now.hash]; ok {
		return e.again(now, old)
	}
	if len(e.pending) >= e.opts.MaxLinks {
		e.dst.DroppedLinks++
		return -1
	}
	e.byRef[now.hash] = len(e.pending)
	now.from = len(e.refs)
	e.refs = append(e.refs, ref...)
	now.to = len(e.refs)
	now.text = len(e.text.buf)
	now.textEnd = now.text
	e.pending = append(e.pending, now)
	return len(e.pending) - 1
}

// again merges a link into the pending one with the same reference. The first text counts: many
// logos have a caption.
func (e *Extractor) again(now pending, old int) int {
	was := &e.pending[old]
	if worth(now.kind, now.rel) > worth(was.kind, was.rel) {
		was.tag, was.attr, was.kind, was.rel, was.mediaType = now.tag, now.attr, now.kind, now.rel, now.mediaType
	}
	if was.textEnd > was.text {
		return -1
	}
	was.text, was.textEnd = len(e.text.buf), len(e.text.buf)
	return old
}

// trim removes C0 controls and space, as for URLs.
func trim(s []byte) []byte {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// worth ranks links to one URL: nofollow, resource, navigation.
func worth(kind Kind, rel string) int {
	switch {
	case kind == Resource:
		return 1
	case hasToken(rel, "nofollow"):
		return 0
	}
	return 2
}

func (e *Extractor) endAnchor() {
	if e.anchor >= 0 {
		e.pending[e.anchor].textEnd = len(e.text.buf)
	}
	e.anchor = -1
}

// finish completes the result.
func (e *Extractor) finish() {
	e.endAnchor()
	text := e.text.string()
	if e.opts.Text {
		e.dst.Text = text
	}
	d := e.dst
	d.Lang = cmp.Or(d.Lang, e.metaLang, e.headerLang)
	d.Directives, d.NoIndex, d.NoFollow = e.directives.list, e.directives.noIndex, e.directives.noFollow
	d.UnavailableAfter = e.directives.unavailableAfter
	e.inDirectory()
	for i := range e.pending { // all slots load in the time of one
		e.loaded ^= e.resolved.at(e.pending[i].hash ^ e.dir).hash
	}
	for i := range e.pending {
		p := &e.pending[i]
		to, ok := e.target(p)
		if !ok {
			continue
		}
		l := Link{URL: to.url, Fingerprint: to.fp, Tag: p.tag, Attr: p.attr, Rel: p.rel, Type: p.mediaType, Kind: p.kind}
		if p.textEnd > p.text {
			l.Text = strings.TrimSpace(text[min(p.text, len(text)):min(p.textEnd, len(text))])
		}
		e.keep(l)
	}
	e.relate()
}

// resolve also counts what is no link: a mere fragment is none, unless the base is another
// document.
func (e *Extractor) resolve(ref []byte) (canonical.URL, bool) {
	if len(ref) == 0 {
		return e.opts.Rules.Apply(e.base), e.base != e.doc
	}
	e.opts.Budget.SpendText(len(ref) + len(e.base.String()))
	u, err := e.base.ResolveBytes(e.inCharset(ref))
	e.count(err)
	return e.opts.Rules.Apply(u), err == nil
}

// count counts a reference that is no link.
func (e *Extractor) count(err error) {
	switch {
	case errors.Is(err, canonical.ErrScheme):
		e.dst.SkippedSchemes++
	case errors.Is(err, canonical.ErrLong):
		e.dst.LongLinks++
	case err != nil:
		e.dst.BadLinks++
	}
}

// keep adds l, or merges it with the link to the same URL: the first place counts, and the
// higher worth.
func (e *Extractor) keep(l Link) {
	old, ok := e.byURL[l.Fingerprint]
	if !ok {
		if e.linkBytes += len(l.URL.String()); e.linkBytes > max(maxLinkBytes, e.opts.MaxLinks*(maxLinkBytes/defaultMaxLinks)) {
			e.dst.DroppedLinks++
			return
		}
		e.byURL[l.Fingerprint] = len(e.dst.Links)
		e.dst.Links = append(e.dst.Links, l)
		return
	}
	was := &e.dst.Links[old]
	if worth(l.Kind, l.Rel) > worth(was.Kind, was.Rel) {
		l.Text = cmp.Or(was.Text, l.Text)
		*was = l
	} else if was.Text == "" {
		was.Text = l.Text
	}
}

const (
	minResolved    = 1 << 9  // 20 KB
	maxResolved    = 1 << 14 // pages of a site repeat a few thousand references
	maxResolvedURL = 256     // bytes, 4 MB for all: links of menus are shorter
)

// target is a URL and its fingerprint, and the hash of the reference that resolves to them.
type target struct {
	hash uint64
	url  canonical.URL
	fp   uint64
}

// resolvedCache holds what references resolved to, by a seeded hash of the reference and the
// directory of the base: pages of a site repeat them. Of two in one slot the later is kept.
type resolvedCache struct {
	slots []target // a power of two; the hash is the index
	used  int
	key   uint64           // of the fingerprints
	rules *canonical.Rules // of the URLs
}

// reset empties the cache if the key or the rules have changed.
func (k *resolvedCache) reset(key uint64, rules *canonical.Rules) {
	if k.slots == nil || k.key != key || k.rules != rules {
		*k = resolvedCache{slots: make([]target, minResolved), key: key, rules: rules}
	}
}

func (k *resolvedCache) at(hash uint64) *target { return &k.slots[hash&uint64(len(k.slots)-1)] }

// put keeps t. The slots double when one in eight is taken, so that few fall to one place.
func (k *resolvedCache) put(t target) {
	if 8*k.used >= len(k.slots) && len(k.slots) < maxResolved {
		old := k.slots
		k.slots, k.used = make([]target, 2*len(old)), 0
		for _, t := range old {
			if t.hash != 0 {
				k.put(t)
			}
		}
	}
	at := k.at(t.hash)
	if at.hash == 0 {
		k.used++
	}
	*at = t
}

// target is what a pending reference resolves to, from the cache or anew.
func (e *Extractor) target(p *pending) (target, bool) {
	ref := e.refs[p.from:p.to]
	hash := p.hash ^ e.dir
	known := canonical.Portable(ref) && e.enc == nil && hash != 0
	if t := e.resolved.at(hash); known && t.hash == hash {
		return *t, true
	}
	u, ok := e.resolve(ref)
	t := target{hash, u, u.Fingerprint(e.opts.Key)}
	if ok && known && len(u.String()) <= maxResolvedURL {
		e.resolved.put(t)
	}
	return t, ok
}

// inDirectory hashes the directory of the base with a seed of its own: with the seed of
// references, a link to that directory would cancel it out.
func (e *Extractor) inDirectory() { e.dir = maphash.String(e.dirSeed, e.base.Dir()) }

// index finds a position by a 64-bit hash, without storing keys: of 10,000 links on a page, two
// share a seeded hash once in 10^11 pages, and then one link is lost.
type index map[uint64]int

// maxIndex is the entries for which memory is kept from page to page; few pages have more.
const maxIndex = 2048

func (x *index) reset() {
	if *x == nil || len(*x) > maxIndex {
		*x = make(index, 256)
	}
	clear(*x)
}

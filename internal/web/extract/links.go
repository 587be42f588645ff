package extract

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// worth ranks links to the same URL. The highest applies.
type worth uint8

const (
	mentioned  worth = iota // to a page, by a text
	unfollowed              // to a page, not to be followed
	part                    // to a resource
	toFollow                // to a page
)

// worthOf returns the worth of a link to a page with this rel.
func worthOf(rel []byte) worth {
	for rel = rel[:min(len(rel), maxRel)]; len(rel) > 0; {
		end := endOf(rel, 0, space)
		if is(rel[:end], "nofollow") {
			return unfollowed
		}
		rel = rel[min(end+1, len(rel)):]
	}
	return toFollow
}

type pending struct {
	worth    worth
	hash     uint64 // of the reference
	from, to int    // in links.refs
}

// links collects the references of a page and resolves them at its end. Its buffers are reused from page to page.
type links struct {
	opts      *Options
	dst       *Result
	doc, base canonical.URL
	enc       encoding.Encoding // encoding of queries; nil means UTF-8

	pending   []pending // at most Options.MaxLinks
	refs      []byte    // the references of pending and relations, one after another
	relations []relation
	related   relMeaning    // the kinds in relations
	byRef     index         // pending, by the hash of the reference
	byURL     index         // links, by their fingerprint
	resolved  resolvedCache // references resolved earlier
	loaded    uint64        // keeps the compiler from removing loads
	bytes     int           // of the links kept, plus the first that was not kept

	dir     uint64       // hash of the directory to which references are relative
	seed    maphash.Seed // secret, against constructed collisions
	dirSeed maphash.Seed // for dir: a reference may be equal to a directory
	hasSeed bool
}

// begin prepares for the next page. The seeds are kept, as a page cannot learn them from the links that are followed.
func (l *links) begin(doc canonical.URL, opts *Options, dst *Result) {
	if !l.hasSeed {
		l.seed, l.dirSeed, l.hasSeed = maphash.MakeSeed(), maphash.MakeSeed(), true
	}
	l.opts, l.dst, l.doc, l.base, l.enc = opts, dst, doc, doc, nil
	l.pending, l.refs, l.relations, l.related, l.bytes = l.pending[:0], l.refs[:0], l.relations[:0], 0, 0
	l.byRef.reset()
	l.byURL.reset()
	l.resolved.reset(opts.Key, opts.Rules)
}

func (l *links) release() {
	if l.dst = nil; cap(l.refs) > maxKept {
		l.refs = nil
	}
}

// add adds a reference. If the page had it before, the higher worth is kept.
func (l *links) add(w worth, ref []byte) {
	ref = withoutFragment(ref) // links to sections of a page are one link
	if len(ref) > canonical.MaxLength {
		_, err := l.doc.ResolveBytes(ref)
		l.count(cmp.Or(err, canonical.ErrLong))
		return
	}
	l.opts.Budget.SpendText(len(ref))
	hash := maphash.Bytes(l.seed, ref)
	if old, ok := l.byRef[hash]; ok {
		l.pending[old].worth = max(l.pending[old].worth, w)
		return
	}
	if len(l.pending) >= l.opts.MaxLinks {
		l.dst.DroppedLinks++
		return
	}
	l.byRef[hash] = len(l.pending)
	l.pending = append(l.pending, l.store(pending{worth: w, hash: hash}, ref))
}

func (l *links) store(p pending, ref []byte) pending {
	p.from = len(l.refs)
	l.refs = append(l.refs, ref...)
	p.to = len(l.refs)
	return p
}

func withoutFragment(ref []byte) []byte {
	ref, _, _ = bytes.Cut(canonical.Trim(ref), []byte("#"))
	return ref
}

// count counts a reference if the error says that it is too long.
func (l *links) count(err error) {
	if errors.Is(err, canonical.ErrLong) {
		l.dst.LongLinks++
	}
}

func (l *links) finish() {
	// With the seed of references, a link to that directory would have the hash zero.
	l.dir = maphash.String(l.dirSeed, l.base.Dir())
	for i := range l.pending { // loads the slots together, which hides the latency of memory
		l.loaded ^= l.resolved.at(l.pending[i].hash ^ l.dir).hash
	}
	for i := range l.pending {
		p := &l.pending[i]
		if to, err := l.target(p); err == nil {
			l.keep(to, p.worth)
		} else {
			l.count(err)
		}
	}
	l.relate()
}

// keep adds a link, or merges it with an earlier one to the same URL: the place of the first and the higher worth are
// kept.
func (l *links) keep(to target, w worth) {
	link := Link{URL: to.url, Fingerprint: to.fp, NoFollow: w == unfollowed}
	if w == part {
		link.Kind = Resource
	}
	if old, ok := l.byURL[to.fp]; ok {
		if was := &l.dst.Links[old]; w != mentioned && (was.NoFollow || was.Kind == Resource && w == toFollow) {
			*was = link
		}
		return
	}
	if l.bytes += len(to.url.String()); l.bytes > maxLinkBytes {
		l.dst.DroppedLinks++
		return
	}
	l.byURL[to.fp] = len(l.dst.Links)
	l.dst.Links = append(l.dst.Links, link)
}

// target is a URL with its fingerprint, and the hash of a reference that resolves to it.
type target struct {
	hash uint64
	url  canonical.URL
	fp   uint64
}

// target returns what a pending reference resolves to. It uses the cache if it can.
func (l *links) target(p *pending) (target, error) {
	ref := l.refs[p.from:p.to]
	hash := p.hash ^ l.dir
	known := canonical.Portable(ref) && l.enc == nil && hash != 0
	if t := l.resolved.at(hash); known && t.hash == hash {
		return *t, nil
	}
	u, err := l.resolve(ref)
	t := target{hash, u, u.Fingerprint(l.opts.Key)}
	if err == nil && known && len(u.String()) <= maxResolvedURL {
		l.resolved.put(t)
	}
	return t, err
}

var errSelf = errors.New("it is the page itself")

// resolve resolves a reference. A fragment alone is no link, unless the base is a different document.
func (l *links) resolve(ref []byte) (u canonical.URL, err error) {
	if u = l.base; len(ref) == 0 && u == l.doc {
		err = errSelf
	} else if len(ref) > 0 {
		l.opts.Budget.SpendText(len(ref) + len(u.String()))
		u, err = u.ResolveBytes(EncodeQuery(l.enc, ref))
	}
	return l.opts.Rules.Apply(u), err
}

// EncodeQuery encodes the query of a reference in the encoding of its page (URL standard, percent-encode after
// encoding). Paths are always UTF-8, and so are queries if enc is nil.
func EncodeQuery(enc encoding.Encoding, ref []byte) []byte {
	q := bytes.IndexByte(ref, '?')
	if enc == nil || q < 0 || IsASCII(ref[q:]) {
		return ref
	}
	out := append(make([]byte, 0, 2*len(ref)), ref[:q]...)
	encoder := enc.NewEncoder()
	for _, r := range string(ref[q:]) {
		b, err := encoder.Bytes([]byte(string(r)))
		if r >= utf8.RuneSelf && (err != nil || bytes.HasPrefix(b, []byte("&#"))) { // not in the charset: encoded as by a form
			out = fmt.Appendf(out, "%%26%%23%d%%3B", r)
			continue
		}
		for _, c := range b {
			if c < utf8.RuneSelf {
				out = append(out, c)
			} else {
				out = fmt.Appendf(out, "%%%02X", c)
			}
		}
	}
	return out
}

const (
	minResolved    = 1 << 9  // 20 KB
	maxResolved    = 1 << 14 // pages of a site share a few thousand references
	maxResolvedURL = 256     // in bytes, 4 MB for all: links of menus are shorter
)

// resolvedCache has the results of resolving references, by a seeded hash of the reference and the directory of the
// base, because pages of a site repeat them. If two fall on one slot, the later is kept.
type resolvedCache struct {
	slots []target // length is a power of two; indexed by the hash
	used  int
	key   uint64           // of the fingerprints in the cache
	rules *canonical.Rules // applied to the URLs in the cache
}

// reset empties the cache if the key or the rules have changed.
func (k *resolvedCache) reset(key uint64, rules *canonical.Rules) {
	if k.slots == nil || k.key != key || k.rules != rules {
		*k = resolvedCache{slots: make([]target, minResolved), key: key, rules: rules}
	}
}

func (k *resolvedCache) at(hash uint64) *target { return &k.slots[hash&uint64(len(k.slots)-1)] }

// put adds t. The number of slots doubles when one in eight is used, so that few entries share a slot.
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

// index finds a position by a 64-bit hash, without storing keys. Of the 10,000 links of a page, two have the same
// seeded hash once in 10^11 pages, and then one link is lost.
type index map[uint64]int

// maxIndex bounds the entries for which memory is kept from page to page. Few pages have more.
const maxIndex = 2048

func (x *index) reset() {
	if *x == nil || len(*x) > maxIndex {
		*x = make(index, 256)
	}
	clear(*x)
}

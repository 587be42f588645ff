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

// worth ranks links to one URL: the highest counts.
type worth uint8

const (
	mentioned  worth = iota // by a text: a page
	unfollowed              // to a page, not to be followed
	part                    // to a resource
	toFollow                // to a page
)

// worthOf is that of a link to a page, by its rel.
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

// links collects the references of a page and resolves them. Its buffers last from page to page.
type links struct {
	opts      *Options
	dst       *Result
	doc, base canonical.URL
	enc       encoding.Encoding // nil if queries are UTF-8

	pending   []pending // at most Options.MaxLinks
	refs      []byte    // those of pending and relations, one after another
	relations []relation
	related   relMeaning    // which relations there are
	byRef     index         // pending by its reference
	byURL     index         // links by their fingerprint
	resolved  resolvedCache // resolved references
	loaded    uint64        // so that loads are not optimised away
	bytes     int           // of the links kept, and of the first that was not

	dir     uint64       // hash of the directory that references are relative to
	seed    maphash.Seed // secret, against constructed collisions
	dirSeed maphash.Seed // of dir: a reference may be equal to a directory
	hasSeed bool
}

// begin resets what is reused. A page cannot learn the seeds from the links we follow, so they last.
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

// add adds a reference unless the page had it before; then the higher worth counts.
func (l *links) add(w worth, ref []byte) {
	ref = withoutFragment(ref) // so that links to sections are one
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
	ref, _, _ = bytes.Cut(Trim(ref), []byte("#"))
	return ref
}

// Trim removes C0 controls and space, as for URLs.
func Trim(s []byte) []byte {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// count counts a reference that is too long.
func (l *links) count(err error) {
	if errors.Is(err, canonical.ErrLong) {
		l.dst.LongLinks++
	}
}

func (l *links) finish() {
	// With the seed of references, a link to that directory would cancel it out.
	l.dir = maphash.String(l.dirSeed, l.base.Dir())
	for i := range l.pending { // all slots load in the time of one
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

// keep adds a link, or merges it with one to the same URL: the first place counts, and the higher worth.
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

// target is a URL and its fingerprint, and the hash of the reference that resolves to them.
type target struct {
	hash uint64
	url  canonical.URL
	fp   uint64
}

// target is what a pending reference resolves to, from the cache or anew.
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

// resolve resolves a reference. A mere fragment is no link, unless the base is another document.
func (l *links) resolve(ref []byte) (u canonical.URL, err error) {
	if u = l.base; len(ref) == 0 && u == l.doc {
		err = errSelf
	} else if len(ref) > 0 {
		l.opts.Budget.SpendText(len(ref) + len(u.String()))
		u, err = u.ResolveBytes(EncodeQuery(l.enc, ref))
	}
	return l.opts.Rules.Apply(u), err
}

// EncodeQuery encodes the query of a reference in the encoding of its page (URL standard, percent-encode after encoding). Paths
// are always UTF-8, and so are queries if enc is nil.
func EncodeQuery(enc encoding.Encoding, ref []byte) []byte {
	q := bytes.IndexByte(ref, '?')
	if enc == nil || q < 0 || IsASCII(ref[q:]) {
		return ref
	}
	out := append(make([]byte, 0, 2*len(ref)), ref[:q]...)
	encoder := enc.NewEncoder()
	for _, r := range string(ref[q:]) {
		b, err := encoder.Bytes([]byte(string(r)))
		if r >= utf8.RuneSelf && (err != nil || bytes.HasPrefix(b, []byte("&#"))) { // not in the charset: what a form sends
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
	maxResolved    = 1 << 14 // pages of a site repeat a few thousand references
	maxResolvedURL = 256     // bytes, 4 MB for all: links of menus are shorter
)

// resolvedCache holds what references resolved to, by a seeded hash of the reference and the directory of the base:
// pages of a site repeat them. Of two in one slot the later is kept.
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

// index finds a position by a 64-bit hash, without storing keys: of 10,000 links on a page, two share a seeded hash
// once in 10^11 pages, and then one link is lost.
type index map[uint64]int

// maxIndex is the entries for which memory is kept from page to page; few pages have more.
const maxIndex = 2048

func (x *index) reset() {
	if *x == nil || len(*x) > maxIndex {
		*x = make(index, 256)
	}
	clear(*x)
}

package extract

import (
	"hash/maphash"

	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	minKnown = 1 << 9 // 20 KB, which a program with one page to read can bear
	// maxKnown bounds what is known, at 640 KB and the URLs. On a documentation of 3,805
	// pages with 15,364 different references, this many find nine of ten that come
	// again, in whatever order the pages come, and twice as many find one more in thirty.
	maxKnown = 1 << 14
	// maxKnownURL bounds the URLs, to 4 MB: longer ones are not what menus are made of.
	maxKnownURL = 256
)

// known remembers what references resolved to, for the pages of a site repeat theirs.
// Of two that fall to one place the later one is kept; what was forgotten is resolved
// again. References are told apart by 64-bit hashes alone, like those of one page: see
// index.
type known struct {
	slots []target // a power of two of them, in the place that the hash says
	used  int
	key   uint64           // that the fingerprints are under
	rules *canonical.Rules // that the URLs are spelled by
	read  uint64           // by expect, for it to be no idle reading
}

// target is a URL and its fingerprint. A zero hash is none.
type target struct {
	hash uint64
	url  canonical.URL
	fp   uint64
}

// reset begins a page. What is known stays known unless the key or the rules have changed.
func (k *known) reset(key uint64, rules *canonical.Rules) {
	if len(k.slots) == 0 || k.key != key || k.rules != rules {
		*k = known{slots: make([]target, minKnown), key: key, rules: rules}
	}
}

// at is the place for a hash.
func (k *known) at(hash uint64) *target { return &k.slots[hash&uint64(len(k.slots)-1)] }

// expect brings the place for a hash near. The places are more than the nearest caches hold, and
// those of all references of a page come in the time of one if nothing is done between them.
func (k *known) expect(hash uint64) { k.read ^= k.at(hash).hash }

// put remembers a target.
func (k *known) put(t target) {
	if len(t.url.String()) > maxKnownURL || t.hash == 0 {
		return
	}
	if 8*k.used >= len(k.slots) && len(k.slots) < maxKnown { // so that few fall to one place
		k.grow()
	}
	at := k.at(t.hash)
	if at.hash == 0 {
		k.used++
	}
	*at = t
}

func (k *known) grow() {
	old := k.slots
	k.slots, k.used = make([]target, 2*len(old)), 0
	for _, t := range old {
		if t.hash != 0 {
			*k.at(t.hash) = t
			k.used++
		}
	}
}

// target is what a pending reference resolves to, by what is known or anew. It counts
// what is no link.
func (e *Extractor) target(p *pending) (target, bool) {
	ref := e.refs[p.from:p.to]
	if !canonical.Portable(ref) || e.enc != nil {
		u, ok := e.resolve(ref)
		return target{url: u, fp: u.Fingerprint(e.opts.Key)}, ok
	}
	hash := p.hash ^ e.dir
	if t := e.known.at(hash); t.hash == hash && hash != 0 {
		return *t, true
	}
	u, ok := e.resolve(ref)
	t := target{hash: hash, url: u, fp: u.Fingerprint(e.opts.Key)}
	if ok {
		e.known.put(t)
	}
	return t, ok
}

// inDirectory notes what references are relative to. The hash is under a seed of its own, or a
// link to the directory by its whole name would cancel it out, and two pages that link to each
// other's directories would take one link for the other.
func (e *Extractor) inDirectory() { e.dir = maphash.String(e.dirSeed, e.base.Dir()) }

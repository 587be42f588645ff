package extract

import (
	"hash/maphash"

	"github.com/treadlight/crawl/internal/web/canonical"
)

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

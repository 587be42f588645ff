package extract

import (
	"hash/maphash"
	"math"

	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	minResolved = 1 << 9 // 20 KB
	// On a documentation of 3,805 pages with 15,364 references, 640 KB find nine of ten
	// repetitions, and twice as much one more in thirty.
	maxResolved    = 1 << 14
	maxResolvedURL = 256 // bytes, 4 MB for all: links of menus are shorter
)

// resolvedCache holds what references resolved to: pages of a site repeat them. Of two in one
// slot the later is kept. References are compared by 64-bit hashes alone, as in index.
type resolvedCache struct {
	slots []target // a power of two; the hash is the index
	used  int
	key   uint64           // of the fingerprints
	rules *canonical.Rules // of the URLs
	read  uint64           // by prefetch, so that it is not optimised away
}

// target is a URL and its fingerprint. A zero hash is an empty slot.
type target struct {
	hash uint64
	url  canonical.URL
	fp   uint64
}

// reset empties the cache if the key or the rules have changed.
func (k *resolvedCache) reset(key uint64, rules *canonical.Rules) {
	if len(k.slots) == 0 || k.key != key || k.rules != rules {
		*k = resolvedCache{slots: make([]target, minResolved), key: key, rules: rules}
	}
}

func (k *resolvedCache) at(hash uint64) *target { return &k.slots[hash&uint64(len(k.slots)-1)] }

// prefetch loads a slot into the CPU cache: the slots of all references of a page load in the
// time of one.
func (k *resolvedCache) prefetch(hash uint64) { k.read ^= k.at(hash).hash }

func (k *resolvedCache) put(t target) {
	if len(t.url.String()) > maxResolvedURL || t.hash == 0 {
		return
	}
	if 8*k.used >= len(k.slots) && len(k.slots) < maxResolved { // so that few fall to one place
		k.grow()
	}
	at := k.at(t.hash)
	if at.hash == 0 {
		k.used++
	}
	*at = t
}

func (k *resolvedCache) grow() {
	old := k.slots
	k.slots, k.used = make([]target, 2*len(old)), 0
	for _, t := range old {
		if t.hash != 0 {
			*k.at(t.hash) = t
			k.used++
		}
	}
}

// target is what a pending reference resolves to, from the cache or anew.
func (e *Extractor) target(p *pending) (target, bool) {
	ref := e.refs[p.from:p.to]
	if !canonical.Portable(ref) || e.enc != nil {
		u, ok := e.resolve(ref)
		return target{url: u, fp: u.Fingerprint(e.opts.Key)}, ok
	}
	hash := p.hash ^ e.dir
	if t := e.resolved.at(hash); t.hash == hash && hash != 0 {
		return *t, true
	}
	u, ok := e.resolve(ref)
	t := target{hash: hash, url: u, fp: u.Fingerprint(e.opts.Key)}
	if ok {
		e.resolved.put(t)
	}
	return t, ok
}

// inDirectory hashes the directory of the base with a seed of its own: with the seed of
// references, a link to that directory would cancel it out.
func (e *Extractor) inDirectory() { e.dir = maphash.String(e.dirSeed, e.base.Dir()) }

// index finds a position by a 64-bit hash, without storing keys: of 10,000 links on a page, two
// share a seeded hash once in 10^11 pages, and then one link is lost.
type index struct {
	slots []slot // a power of two of them, at most half full
	used  int
	round uint32 // of the slots that are taken; never 0 once there are slots
}

type slot struct {
	hash  uint64
	at    int32
	round uint32 // in which it was taken: in another one it is free
}

const (
	minSlots = 512  // 8 KB, for up to 256 links: most pages
	maxSlots = 4096 // kept from page to page: 64 KB, which few pages need
)

// reset empties the index by beginning a new round: clearing all slots takes longer.
func (x *index) reset() {
	if len(x.slots) == 0 || len(x.slots) > maxSlots || x.round == math.MaxUint32 {
		*x = index{slots: make([]slot, minSlots)}
	}
	x.used = 0
	x.round++
}

// find returns the position for hash, or -1 and the slot for it, which is valid until set.
func (x *index) find(hash uint64) (free *slot, at int) {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.round != x.round {
			s.hash = hash // harmless while it is free
			return s, -1
		}
		if s.hash == hash {
			return s, int(s.at)
		}
	}
}

func (x *index) set(s *slot, at int) {
	s.at, s.round = int32(at), x.round
	if x.used++; 2*x.used >= len(x.slots) {
		x.grow()
	}
}

// grow doubles the table.
func (x *index) grow() {
	old := x.slots
	x.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.round == x.round {
			free, _ := x.find(s.hash)
			free.at, free.round = s.at, s.round
		}
	}
}

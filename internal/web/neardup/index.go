package neardup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kind is in what way a page repeats another one.
type Kind uint8

// The kinds.
const (
	None  Kind = iota // it does not
	Exact             // byte by byte
	Near              // in nearly all it says
)

// String is the kind as records have it; empty for None.
func (k Kind) String() string { return [...]string{"", "exact", "near"}[k] }

// Match is what an Index knows of a page.
type Match struct {
	Kind Kind
	// Of is the URL of the first page of those that say the same. A page that repeats one
	// that is itself near the first counts as near the first, even if the two are equal.
	Of string
}

// Cluster is a page with those that repeat it.
type Cluster struct {
	URL   string `json:"url"`
	Exact int64  `json:"exact"` // pages that are the same byte by byte
	Near  int64  `json:"near"`  // others that say nearly the same
}

// Totals are what an Index has found.
type Totals struct {
	Exact    int64     `json:"exact"`
	Near     int64     `json:"near"`
	Clusters []Cluster `json:"clusters,omitempty"` // the largest, at most ten
}

// IndexConfig shapes an Index.
type IndexConfig struct {
	// MaxPages is how many pages that repeat no other are remembered, up to 2³⁰: each takes
	// about 70 bytes and its URL. Beyond it the oldest are forgotten, and what repeats one
	// of them counts as new. Zero means 1,000,000.
	MaxPages int
	// MaxBytes bounds the URLs of these pages, in bytes. Zero means 128 for each page.
	MaxBytes int
	// Bits is in how many bits near pages may differ, at most 3. Zero means that only exact
	// repetitions are found.
	Bits int
}

// Index remembers pages by fingerprint. Two fingerprints that differ in three of 64 bits
// have one of their four quarters in common, so those of each quarter are chained together,
// and the body's hash makes a fifth chain. Build it with NewIndex.
type Index struct {
	cfg IndexConfig

	mu     sync.Mutex // guards what follows
	heads  [chains][]uint32
	pages  []page // a ring: that of number n is at n modulo its length
	oldest uint32 // number of the first page that is remembered; the first of all is 1
	next   uint32 // number of the next page
	bytes  int    // of URLs
	totals Totals
}

const (
	chains    = 5
	heads     = 1 << 16
	maxBits   = 3
	maxStored = 1 << 30
	// maxWalk bounds how many pages of a chain are compared: of a million spread evenly there
	// are 15 in each. What lies deeper in one that is crowded is not found again.
	maxWalk = 512
	// maxClusters bounds the list of the largest.
	maxClusters = 10
)

// page is a page that repeats no other.
type page struct {
	url         string
	body        uint64
	sim         uint64         // zero for none
	before      [chains]uint32 // the page before in each chain, by number; zero for none
	exact, near int32
}

// NewIndex builds an Index. The error names the field that is wrong.
func NewIndex(cfg IndexConfig) (*Index, error) {
	if cfg.MaxPages == 0 {
		cfg.MaxPages = 1_000_000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 128 * cfg.MaxPages
	}
	switch {
	case cfg.MaxPages < 0 || cfg.MaxPages > maxStored:
		return nil, fmt.Errorf("neardup: MaxPages is %d: give it 1 to %d", cfg.MaxPages, maxStored)
	case cfg.Bits < 0 || cfg.Bits > maxBits:
		return nil, fmt.Errorf("neardup: Bits is %d: give it 0 to %d, as a fourth would take more chains", cfg.Bits, maxBits)
	case cfg.MaxBytes < 0:
		return nil, errors.New("neardup: MaxBytes is below zero: give it a number of bytes")
	}
	x := &Index{cfg: cfg, oldest: 1, next: 1}
	for i := range x.heads {
		x.heads[i] = make([]uint32, heads)
	}
	return x, nil
}

// Add tells of a page whose body has that hash, and whose fingerprint may be zero for none.
// It remembers the page if it repeats none.
func (x *Index) Add(url string, body, sim uint64) Match {
	x.mu.Lock()
	defer x.mu.Unlock()
	keys := chainKeys(body, sim)
	p, kind := x.findLocked(keys, body, sim)
	if p == nil {
		x.storeLocked(keys, page{url: url, body: body, sim: sim})
		return Match{}
	}
	if kind == Exact {
		p.exact++
		x.totals.Exact++
	} else {
		p.near++
		x.totals.Near++
	}
	x.rankLocked(p)
	return Match{Kind: kind, Of: p.url}
}

// Near reports whether near repetitions are looked for, and so fingerprints are of use.
func (x *Index) Near() bool { return x.cfg.Bits > 0 }

// chainKeys is where a page stands: the quarters of its fingerprint, and a part of the
// body's hash.
func chainKeys(body, sim uint64) (k [chains]uint16) {
	for i := range 4 {
		k[i] = uint16(sim >> (16 * i))
	}
	k[4] = uint16(body)
	return k
}

// findLocked is the page that another one repeats. The exact one goes before a near one,
// and of near ones the oldest.
func (x *Index) findLocked(keys [chains]uint16, body, sim uint64) (best *page, kind Kind) {
	for p := range x.chainLocked(4, keys[4]) {
		if p.body == body {
			return p, Exact
		}
	}
	if sim == 0 || x.cfg.Bits == 0 {
		return nil, None
	}
	first := x.next
	for c := range chains - 1 {
		for p, n := range x.chainLocked(c, keys[c]) {
			if n < first && p.sim != 0 && Distance(p.sim, sim) <= x.cfg.Bits {
				best, kind, first = p, Near, n
			}
		}
	}
	return best, kind
}

// chainLocked goes over the pages of a chain, the newest first, with their numbers.
func (x *Index) chainLocked(c int, key uint16) func(yield func(*page, uint32) bool) {
	return func(yield func(*page, uint32) bool) {
		n := x.heads[c][key]
		for range maxWalk {
			if n < x.oldest { // zero, or forgotten, and so are all before it
				return
			}
			p := &x.pages[int(n)%x.cfg.MaxPages]
			if !yield(p, n) {
				return
			}
			n = p.before[c]
		}
	}
}

// storeLocked remembers a page, and forgets as many old ones as that takes.
func (x *Index) storeLocked(keys [chains]uint16, p page) {
	if x.next == 1<<32-1 { // numbers are used up: begin anew
		x.forgetLocked()
		clear(p.before[:])
	}
	if int(x.next)%x.cfg.MaxPages >= len(x.pages) { // the ring grows as pages come
		x.pages = append(x.pages, make([]page, min(max(len(x.pages), 1024), x.cfg.MaxPages-len(x.pages)))...)
	}
	for x.next-x.oldest >= uint32(x.cfg.MaxPages) || x.next > x.oldest && x.bytes+len(p.url) > x.cfg.MaxBytes {
		old := &x.pages[int(x.oldest)%x.cfg.MaxPages]
		x.bytes -= len(old.url)
		*old = page{}
		x.oldest++
	}
	x.bytes += len(p.url)
	for c, key := range keys {
		p.before[c], x.heads[c][key] = x.heads[c][key], x.next
	}
	p.url = strings.Clone(p.url) // or it would hold the whole of a larger text
	x.pages[int(x.next)%x.cfg.MaxPages] = p
	x.next++
}

// forgetLocked begins anew.
func (x *Index) forgetLocked() {
	for c := range x.heads {
		clear(x.heads[c])
	}
	clear(x.pages)
	x.oldest, x.next, x.bytes = 1, 1, 0
}

// rankLocked keeps the list of the largest clusters.
func (x *Index) rankLocked(p *page) {
	list := x.totals.Clusters
	size := int64(p.exact) + int64(p.near)
	at := slices.IndexFunc(list, func(c Cluster) bool { return c.URL == p.url })
	switch {
	case at >= 0:
	case len(list) < maxClusters:
		list = append(list, Cluster{URL: p.url})
		at = len(list) - 1
	case list[len(list)-1].Exact+list[len(list)-1].Near < size:
		at = len(list) - 1
		list[at].URL = p.url
	default:
		return
	}
	list[at].Exact, list[at].Near = int64(p.exact), int64(p.near)
	for ; at > 0 && list[at-1].Exact+list[at-1].Near < size; at-- {
		list[at-1], list[at] = list[at], list[at-1]
	}
	x.totals.Clusters = list
}

// Totals is what was found so far. The slice is the caller's.
func (x *Index) Totals() Totals {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.totals
	t.Clusters = slices.Clone(t.Clusters)
	return t
}

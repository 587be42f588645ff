package neardup

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// Kind is how a page repeats another one.
type Kind uint8

// The kinds.
const (
	None  Kind = iota // it does not
	Exact             // byte by byte
	Near              // in nearly all it says
)

func (k Kind) String() string { return [...]string{"", "exact", "near"}[k] }

// Match is the result for a page.
type Match struct {
	Kind Kind
	// Of is the URL of the first page. A page equal to one that is near the first counts as near.
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

// Index holds pages by fingerprint. Fingerprints that differ in three bits have one of four quarters in common, so
// there is a chain for each quarter, and a fifth for the hash of the body. Build it with NewIndex.
type Index struct {
	nearBits, maxPages, maxBytes int // never change

	mu     sync.Mutex // guards what follows
	heads  [chains][]uint32
	pages  []page // a ring: that of number n is at n modulo its length
	oldest uint32 // number of the first page that is remembered; the first of all is 1
	next   uint32 // number of the next page
	bytes  int    // of URLs
	totals Totals
}

const (
	chains = 5
	heads  = 1 << 16
	// maxWalk bounds the pages of a chain that are compared; of a million there are 15 in each.
	maxWalk     = 512
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

// NewIndex builds an Index in which near pages differ in at most so many bits, up to 3; with zero only exact ones are
// found. It holds a million pages that repeat no other, about 70 bytes and the URL each, at 128 MB of URLs; the
// oldest are evicted.
func NewIndex(nearBits int) *Index {
	x := &Index{nearBits: nearBits, maxPages: 1_000_000, maxBytes: 128_000_000, oldest: 1, next: 1}
	for i := range x.heads {
		x.heads[i] = make([]uint32, heads)
	}
	return x
}

// Add looks up a page by the hash of its body and its fingerprint (zero: none), and stores it if it repeats none.
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

// Near reports whether fingerprints are used.
func (x *Index) Near() bool { return x.nearBits > 0 }

func chainKeys(body, sim uint64) (k [chains]uint16) {
	for i := range 4 {
		k[i] = uint16(sim >> (16 * i))
	}
	k[4] = uint16(body)
	return k
}

// findLocked is the page that another one repeats: an exact one, or the oldest near one.
func (x *Index) findLocked(keys [chains]uint16, body, sim uint64) (best *page, kind Kind) {
	for p := range x.chainLocked(4, keys[4]) {
		if p.body == body {
			return p, Exact
		}
	}
	if sim == 0 || x.nearBits == 0 {
		return nil, None
	}
	first := x.next
	for c := range chains - 1 {
		for p, n := range x.chainLocked(c, keys[c]) {
			if n < first && p.sim != 0 && Distance(p.sim, sim) <= x.nearBits {
				best, kind, first = p, Near, n
			}
		}
	}
	return best, kind
}

// chainLocked yields the pages of a chain with their numbers, the newest first.
func (x *Index) chainLocked(c int, key uint16) func(yield func(*page, uint32) bool) {
	return func(yield func(*page, uint32) bool) {
		n := x.heads[c][key]
		for range maxWalk {
			if n < x.oldest { // zero, or forgotten, and so are all before it
				return
			}
			p := &x.pages[int(n)%x.maxPages]
			if !yield(p, n) {
				return
			}
			n = p.before[c]
		}
	}
}

func (x *Index) storeLocked(keys [chains]uint16, p page) {
	if x.next == math.MaxUint32 { // the numbers of pages are used up
		return
	}
	if int(x.next)%x.maxPages >= len(x.pages) { // the ring grows as pages come
		x.pages = append(x.pages, make([]page, min(max(len(x.pages), 1024), x.maxPages-len(x.pages)))...)
	}
	for x.next-x.oldest >= uint32(x.maxPages) || x.next > x.oldest && x.bytes+len(p.url) > x.maxBytes {
		old := &x.pages[int(x.oldest)%x.maxPages]
		x.bytes -= len(old.url)
		*old = page{}
		x.oldest++
	}
	x.bytes += len(p.url)
	for c, key := range keys {
		p.before[c], x.heads[c][key] = x.heads[c][key], x.next
	}
	p.url = strings.Clone(p.url) // not to retain a larger string
	x.pages[int(x.next)%x.maxPages] = p
	x.next++
}

// rankLocked keeps the largest clusters.
func (x *Index) rankLocked(p *page) {
	list := x.totals.Clusters
	at := slices.IndexFunc(list, func(c Cluster) bool { return c.URL == p.url })
	if at < 0 {
		list, at = append(list, Cluster{URL: p.url}), len(list)
	}
	list[at].Exact, list[at].Near = int64(p.exact), int64(p.near)
	slices.SortStableFunc(list, func(a, b Cluster) int { return cmp.Compare(b.Exact+b.Near, a.Exact+a.Near) })
	x.totals.Clusters = list[:min(len(list), maxClusters)]
}

// Totals is a copy of what was found so far.
func (x *Index) Totals() Totals {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.totals
	t.Clusters = slices.Clone(t.Clusters)
	return t
}

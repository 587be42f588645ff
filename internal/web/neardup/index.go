package neardup

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// Kind says how a page repeats another one.
type Kind uint8

// The kinds.
const (
	None  Kind = iota // it repeats none
	Exact             // byte by byte
	Near              // in nearly all of its text
)

func (k Kind) String() string { return [...]string{"", "exact", "near"}[k] }

// Match says which page a page repeats, and how.
type Match struct {
	Kind Kind
	// Of is the URL of the first page of its cluster. A page that equals a near-duplicate of the first counts as near.
	Of string
}

// Cluster is a page together with those that repeat it.
type Cluster struct {
	URL   string `json:"url"`
	Exact int64  `json:"exact"` // pages that are the same byte by byte
	Near  int64  `json:"near"`  // other pages with nearly the same text
}

// Totals has the counts of an Index.
type Totals struct {
	Exact    int64     `json:"exact"`
	Near     int64     `json:"near"`
	Clusters []Cluster `json:"clusters,omitempty"` // the largest, at most ten
}

// Index holds pages by fingerprint. Two fingerprints that differ in at most three bits are equal in at least one of
// their four quarters. So the pages with equal first quarters form a chain, and likewise for the other quarters, and
// for the hash of the body. Build it with NewIndex.
type Index struct {
	nearBits, maxPages, maxBytes int // never change

	mu     sync.Mutex // guards what follows
	heads  [chains][]uint32
	pages  []page // a ring: the page of number n is at n modulo the length
	oldest uint32 // number of the oldest page in the ring; numbers begin at 1
	next   uint32 // number of the next page
	bytes  int    // total length of the URLs
	totals Totals
}

const (
	chains = 5
	heads  = 1 << 16
	// maxWalk bounds how many pages of a chain are compared; with a million pages there are 15 in each.
	maxWalk     = 512
	maxClusters = 10
)

// page is a page that repeats no other.
type page struct {
	url         string
	body        uint64
	sim         uint64         // zero if it has none
	before      [chains]uint32 // number of the page before it in each chain; zero if there is none
	exact, near int32
}

// NewIndex returns an Index in which the fingerprints of near pages differ in at most nearBits bits, up to 3; with zero
// only exact repetitions are found. It holds a million pages that repeat no other, with about 70 bytes and the URL for
// each, and at most 128 MB of URLs; the oldest are evicted.
func NewIndex(nearBits int) *Index {
	x := &Index{nearBits: nearBits, maxPages: 1_000_000, maxBytes: 128_000_000, oldest: 1, next: 1}
	for i := range x.heads {
		x.heads[i] = make([]uint32, heads)
	}
	return x
}

// Add looks up a page by the hash of its body and its fingerprint (zero means that it has none), and stores it if it
// repeats no other.
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

// Near reports whether the index finds near-duplicates.
func (x *Index) Near() bool { return x.nearBits > 0 }

func chainKeys(body, sim uint64) (k [chains]uint16) {
	for i := range 4 {
		k[i] = uint16(sim >> (16 * i))
	}
	k[4] = uint16(body)
	return k
}

// findLocked returns the page that a page repeats: one with the same body or, if there is none, the oldest near one.
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
			if n < x.oldest { // the end of the chain, or a page that was evicted, as are all before it
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
	if x.next == math.MaxUint32 { // no numbers are left
		return
	}
	if int(x.next)%x.maxPages >= len(x.pages) { // the ring grows until it has maxPages
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
	p.url = strings.Clone(p.url) // a copy, so that a larger string is not kept in memory
	x.pages[int(x.next)%x.maxPages] = p
	x.next++
}

// rankLocked updates the list of the largest clusters.
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

// Totals returns a copy of the counts so far.
func (x *Index) Totals() Totals {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.totals
	t.Clusters = slices.Clone(t.Clusters)
	return t
}

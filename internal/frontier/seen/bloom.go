package seen

import "math/bits"

const (
	// bitsPerFP makes a filter wrong for one in 240: fewer reads in vain than that do not
	// show beside the reads for what is in the run.
	bitsPerFP = 12
	// lineWords makes the part of a filter that one fingerprint touches a cache line, and
	// so a question about an absent one a single miss of the cache. One bit is set in each
	// of its words: 8 is the whole number next to the best, 12·ln 2 = 8.3.
	lineWords = 8
	// golden is 2⁶⁴ divided by the golden ratio (Knuth, TAOCP 3, 6.4): the upper bits of a
	// product with it depend on all bits of the other factor.
	golden = 0x9e3779b97f4a7c15
)

// bloom is a filter of the fingerprints of one run, in cache lines.
type bloom []uint64

// bloomWords is the length of the filter of n fingerprints.
func bloomWords(n int64) int64 { return lineWords * (n*bitsPerFP/(64*lineWords) + 1) }

// line is the cache line for fp, and in its lower 48 bits which bit of each word. Lines are
// in the order of the fingerprints, so that a sorted run fills them one after the other.
func (b bloom) line(fp uint64) (*[lineWords]uint64, uint64) {
	i, _ := bits.Mul64(fp, uint64(len(b)/lineWords))
	return (*[lineWords]uint64)(b[i*lineWords:]), fp * golden >> 16
}

func (b bloom) add(fp uint64) {
	line, h := b.line(fp)
	for i := range line {
		line[i] |= 1 << (h & 63)
		h >>= 6
	}
}

// has reports whether fp may be in the run; if not it is not. It looks at all eight words,
// since a branch after each would be mispredicted every other time.
func (b bloom) has(fp uint64) bool {
	line, h := b.line(fp)
	all := uint64(1)
	for _, word := range line {
		all &= word >> (h & 63)
		h >>= 6
	}
	return all == 1
}

// Package neardup finds pages with equal or nearly equal text.
//
// A [Reader] hashes the text of a page into a [Text]. Package trap counts how many of its runs of
// three words are new. [Text.SimHash] is a fingerprint of 64 bits of which similar pages differ in
// few (Charikar 2002); an [Index] finds the first page whose fingerprint differs in at most so
// many bits, or whose body is equal.
//
// The text is that of shown elements, in any encoding, without decoding entities or running
// scripts. A word is a run of letters and digits; in scripts without spaces each character is one.
// ASCII case does not count. Words that begin with a digit are numbers and kept apart: dates,
// counters and durations differ on pages that are otherwise equal.
//
// The fingerprint is over the distinct pairs of words, without numbers and the order of elements.
// With three bits (Manku, Jain and Das Sarma 2007) pages are near if at most one word in a hundred
// differs; many near short pages are missed. Pages below [MinWords] words have no fingerprint.
//
// A Reader and its Text belong to one goroutine. An Index is safe for concurrent use.
package neardup

import "math/bits"

// MinWords is the shortest text with a fingerprint: below it one word changes a dozen bits.
const MinWords = 32

// MaxRead bounds what is read of a page, in bytes: pages differ before that.
const MaxRead = 64 << 10

// Text is the text of a page as hashes, valid until its Reader reads the next page.
type Text struct {
	// Pairs are the words with the one before in their element, so that the order of elements
	// does not matter. Repetitions are kept.
	Pairs   []uint64
	Runs    []uint64 // the same words with the two before
	Numbers []uint64 // the words that begin with a digit
	Images  []uint64 // the src of img, source, video and iframe elements, without queries
	// Heading is the first text of the first h1, within the page's body.
	Heading []byte

	kinds uint64 // a bit for each word, by its hash
}

// Different is about how many different words there are, without numbers: never more than 64,
// and up to a dozen rarely more than one too few.
func (t *Text) Different() int { return bits.OnesCount64(t.kinds) }

// SimHash is the fingerprint, zero for fewer than MinWords words. Each pair counts once.
func (t *Text) SimHash() uint64 {
	if len(t.Pairs) < MinWords {
		return 0
	}
	var a accumulator
	var had [hadBits / 64]uint64
	for _, h := range t.Pairs {
		at, bit := h%hadBits/64, uint64(1)<<(h%64)
		if had[at]&bit == 0 {
			had[at] |= bit
			a.add(h)
		}
	}
	return max(a.majority(), 1)
}

// hadBits is the size of the filter of pairs: of a thousand, one in a hundred is lost.
const hadBits = 1 << 16

// Distance is the number of bits in which two fingerprints differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }

// accumulator counts for each of 64 bits how many hashes had it set. Bit i of all 64 counters is
// one word, so that adding a hash takes as many steps as carries go far.
type accumulator struct {
	planes [planes]uint64
	n      uint32
}

// planes is room for all pairs in MaxRead bytes.
const planes = 16

func (a *accumulator) add(h uint64) {
	a.n++
	for i := 0; h != 0 && i < planes; i++ {
		a.planes[i], h = a.planes[i]^h, a.planes[i]&h
	}
}

// majority has the bits that most hashes had. It compares all counters with half at once, from
// the highest bit down.
func (a *accumulator) majority() (m uint64) {
	half := a.n / 2
	equal, above := ^uint64(0), uint64(0)
	for i := planes - 1; i >= 0; i-- {
		if half>>i&1 == 1 {
			equal &= a.planes[i]
		} else {
			above |= equal & a.planes[i]
			equal &^= a.planes[i]
		}
	}
	return above
}

// Package neardup tells pages that say the same.
//
// A [Reader] goes over the bytes of a page once and leaves what it reads as hashes: its
// [Text]. From that come two things. The novelty of a page, which package trap judges, is
// how many of its runs of three words no page before it had. Its fingerprint, [Text.SimHash], is
// 64 bits of which pages that differ in little differ in few (Charikar 2002); an [Index]
// finds the first page whose fingerprint is at most so many bits away, or whose body is the
// same byte by byte.
//
// # What is read
//
// The text of the elements that are shown, whatever their encoding, as it stands there:
// entities are not replaced, and what scripts or styles would change is not known. A word
// is a run of letters and digits of any alphabet; of scripts that put no space between
// words each character is one. Case does not count among the letters of ASCII. Words that
// begin with a digit are numbers, which are kept apart: the date, the counter and the time that
// a page took to make differ on pages that are else the same.
//
// # How near is near
//
// The fingerprint is over the pairs of words, each once, so numbers do not count in it, nor does the
// order of elements. With three bits (Manku, Jain and Das Sarma 2007) pages are near when one
// word in a hundred differs or less: of short pages it misses most. Of pages below [MinWords]
// words no fingerprint is made, as there chance would do it. Pages whose words differ in
// numbers alone, as tables of figures, are near.
//
// A Reader and what it read belong to one goroutine. An Index is safe for concurrent use.
package neardup

import "math/bits"

// MinWords is the shortest text that has a fingerprint. Below it a single word more or less
// changes a tenth of the bits, and a dozen bits decide by chance.
const MinWords = 32

// MaxRead bounds what is read of a page, in bytes. What makes pages differ comes earlier,
// and a page longer than that would cost as much as several.
const MaxRead = 64 << 10

// Text is what a page reads, as hashes. It is valid until its Reader reads the next page.
type Text struct {
	// Pairs are the words of each element with the one before, the first one with nothing
	// before it. So it does not matter in which order the rows of a list stand. Repetitions
	// are there as often as they are read.
	Pairs []uint64
	// Runs are the same words with the two before.
	Runs []uint64
	// Numbers are the words that begin with a digit.
	Numbers []uint64
	// Images are what img, source, video and iframe elements show, without queries.
	Images []uint64
	// Count is the number of words and numbers.
	Count int
	// Heading is the first text of the first h1, within the page's body.
	Heading []byte

	kinds uint64 // a bit for each word, by its hash
}

// Different is about how many different words there are, numbers aside: up to a dozen it is
// seldom more than one too few, and it is never more than 64.
func (t *Text) Different() int { return bits.OnesCount64(t.kinds) }

// SimHash is the fingerprint of the text; zero if it has fewer words than MinWords.
func (t *Text) SimHash() uint64 {
	if len(t.Pairs) < MinWords {
		return 0
	}
	var a accumulator
	var had [hadBits / 64]uint64
	for _, h := range t.Pairs {
		// Each pair counts once: what a page repeats says little of what it is about.
		at, bit := h%hadBits/64, uint64(1)<<(h%64)
		if had[at]&bit == 0 {
			had[at] |= bit
			a.add(h)
		}
	}
	return max(a.majority(), 1)
}

// hadBits is what a fingerprint notes in which pairs there were: of the usual thousand one
// in a hundred is taken for another.
const hadBits = 1 << 16

// Distance is in how many bits two fingerprints differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }

// accumulator counts for each of 64 bits how many hashes had it set. The counters stand
// upright: bit i of all 64 of them is one word, so that a hash is added to all at once, in
// as many steps as carries go far. Adding bit by bit takes six times as long.
type accumulator struct {
	planes [planes]uint64
	n      uint32
}

// planes is room for every run of words in MaxRead bytes: 2¹⁶ is more than half of them.
const planes = 16

func (a *accumulator) add(h uint64) {
	a.n++
	for i := 0; h != 0 && i < planes; i++ {
		a.planes[i], h = a.planes[i]^h, a.planes[i]&h
	}
}

// majority has those bits set that most of the hashes had.
func (a *accumulator) majority() (m uint64) {
	half := a.n / 2
	// Compares all counters with half at once, from the highest bit down.
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

// Package neardup finds pages with equal or nearly equal text.
//
// A [Reader] hashes the text of a page into a [Text]. Package trap counts how many of its runs of three words are
// new. [Text.SimHash] is a fingerprint of 64 bits of which similar pages differ in few (Charikar 2002); an [Index]
// finds the first page whose fingerprint differs in at most so many bits, or whose body is equal.
//
// The text is that of shown elements, in any encoding, without decoding entities or running scripts. A word is a run
// of letters and digits; in scripts without spaces each character is one. ASCII case does not count. Words that begin
// with a digit are numbers and kept apart: dates, counters and durations differ on pages that are otherwise equal.
//
// The fingerprint is over the distinct pairs of words, without numbers and the order of elements. With three bits
// (Manku, Jain and Das Sarma 2007) pages are near if at most one word in a hundred differs; many near short pages are
// missed. Pages below [MinWords] words have no fingerprint.
//
// A Reader and its Text belong to one goroutine. An Index is safe for concurrent use.
package neardup

import (
	"bytes"
	"math/bits"

	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
)

// MinWords is the number of words from which a text has a fingerprint: in a shorter one a single word changes a dozen
// bits.
const MinWords = 32

// MaxRead is how much of a page is read, in bytes: pages that differ do so before that.
const MaxRead = 64 << 10

// Text is the text of a page as hashes. It is valid until its Reader reads the next page.
type Text struct {
	// Pairs has a hash of each word with the word before it in the same element, so that the order of elements does not
	// matter. Repetitions are kept.
	Pairs   []uint64
	Runs    []uint64 // of the same words with the two words before
	Numbers []uint64 // the words that begin with a digit
	Images  []uint64 // of the src of img, source, video and iframe elements, without queries
	// Heading is the first text of the first h1, within the page's body.
	Heading []byte

	kinds uint64 // one bit set for each word, by its hash
}

// Different estimates how many different words there are, without numbers. It is never more than 64 and, up to a dozen,
// rarely more than one too low.
func (t *Text) Different() int { return bits.OnesCount64(t.kinds) }

// SimHash returns the fingerprint, or zero if there are fewer than MinWords words. Each distinct pair counts once.
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

// hadBits is the size of the filter of pairs already counted: of a thousand pairs, it loses one in a hundred.
const hadBits = 1 << 16

// Distance returns the number of bits in which two fingerprints differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }

// accumulator counts, for each of 64 bits, in how many hashes it was set. Bit i of all 64 counters is stored in one
// word, so that adding a hash takes as many steps as its carries go.
type accumulator struct {
	planes [planes]uint64
	n      uint32
}

// planes is the number of bits of a counter: enough for all pairs in MaxRead bytes.
const planes = 16

func (a *accumulator) add(h uint64) {
	a.n++
	for i := 0; h != 0 && i < planes; i++ {
		a.planes[i], h = a.planes[i]^h, a.planes[i]&h
	}
}

// majority returns the bits that most hashes had set. It compares all counters with half the number of hashes at once,
// from the highest bit down.
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

// Reader reads pages into its [Text], with memory that it reuses. The zero Reader is ready.
type Reader struct {
	text Text

	before  [2]uint64 // the two words before in the same element; zero means none
	heading bool      // the next text is the heading
}

// maxKept bounds how many hashes of each list a Reader keeps memory for from page to page.
const maxKept = 1 << 15

// wordSteps is what a word, with its pair and run, takes from the budget.
const wordSteps = 3

// Read reads the first MaxRead bytes of a page, as far as the budget allows. The page may be any bytes.
func (r *Reader) Read(page []byte, budget *effort.Budget) *Text {
	t := &r.text
	*t = Text{Pairs: kept(t.Pairs), Runs: kept(t.Runs), Numbers: kept(t.Numbers), Images: kept(t.Images)}
	r.before, r.heading = [2]uint64{}, false
	page = page[:min(len(page), MaxRead)]
	for i, on := 0, budget.SpendText(len(page)); on && i < len(page); {
		switch class := classes[page[i]]; class {
		case letter, digit:
			i, on = r.word(page, i), budget.Spend(wordSteps)
		case high:
			i, on = r.highWord(page, i), budget.Spend(wordSteps)
		case open:
			i, on = r.tag(page, i), budget.Spend(1)
		default:
			i++
		}
	}
	return &r.text
}

func kept(list []uint64) []uint64 {
	if cap(list) > maxKept {
		return nil
	}
	return list[:0]
}

// The classes of bytes.
const (
	other  = iota
	letter // of ASCII
	digit
	high // a byte of a character beyond ASCII
	open // "<"
)

var classes = func() (c [256]uint8) {
	for b := range 256 {
		switch {
		case 'a' <= b|0x20 && b|0x20 <= 'z' && b < 0x80:
			c[b] = letter
		case '0' <= b && b <= '9':
			c[b] = digit
		case b >= 0x80:
			c[b] = high
		}
	}
	c['<'] = open
	return c
}()

// ideographs is the first lead byte in UTF-8 of characters that are words: Chinese, Japanese, Korean.
const ideographs = 0xe3

// FNV-1a, 64 bits.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

// word reads the word at i and returns its end.
func (r *Reader) word(page []byte, i int) int {
	if r.heading {
		r.setHeading(page[i:])
	}
	// What begins with a letter is a name, whatever digits it has.
	h, number := uint64(offset), classes[page[i]] == digit
	for ; i < len(page); i++ {
		c := page[i]
		switch classes[c] {
		case letter:
			c |= 0x20
		case digit:
		case high:
			if c >= ideographs && c < 0xf0 || sign(page[i:]) > 0 {
				r.add(h, number)
				return i
			}
		default:
			r.add(h, number)
			return i
		}
		h = (h ^ uint64(c)) * prime
	}
	r.add(h, number)
	return i
}

// highWord reads a word that begins beyond ASCII.
func (r *Reader) highWord(page []byte, i int) int {
	if n := sign(page[i:]); n > 0 {
		return min(i+n, len(page))
	}
	if c := page[i]; c < ideographs || c >= 0xf0 {
		return r.word(page, i)
	}
	if r.heading {
		r.setHeading(page[i:])
	}
	end := min(i+3, len(page))
	r.add(fnv(page[i:end]), false)
	return end
}

func fnv(s []byte) uint64 {
	h := uint64(offset)
	for _, c := range s {
		h = (h ^ uint64(c)) * prime
	}
	return h
}

// sign returns the length of the sign or space beyond ASCII at the beginning of page (U+0080 to U+00BF, U+2000 to
// U+2FFF), which separates words, or zero if there is none.
func sign(page []byte) int {
	switch page[0] {
	case 0xc2:
		return 2
	case 0xe2:
		return 3
	}
	return 0
}

// add adds a word by its hash.
func (r *Reader) add(h uint64, number bool) {
	t := &r.text
	h = mix(h)
	if number {
		t.Numbers = append(t.Numbers, h)
		return
	}
	t.kinds |= 1 << (h >> 58)
	pair := mix(h ^ r.before[1]*prime)
	t.Pairs = append(t.Pairs, pair)
	t.Runs = append(t.Runs, mix(pair^r.before[0]))
	r.before[0], r.before[1] = r.before[1], h
}

// mix is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

const maxHeading = 256 // bytes

func (r *Reader) setHeading(page []byte) {
	end := bytes.IndexByte(page, '<')
	if end < 0 {
		end = len(page)
	}
	r.text.Heading, r.heading = page[:min(end, maxHeading)], false
}

// tag skips the tag at i, and elements whose text is not shown.
func (r *Reader) tag(page []byte, i int) int {
	rest := page[i+1:]
	if len(rest) == 0 || classes[rest[0]] != letter && rest[0] != '/' && rest[0] != '!' && rest[0] != '?' {
		return i + 1
	}
	r.before = [2]uint64{}
	if bytes.HasPrefix(rest, []byte("!--")) {
		return extract.Through(page, min(i+len("<!--"), len(page)), "-->")
	}
	end := extract.Through(page, i, ">")
	tag := page[i+1 : end]
	name := tag[:extract.TagNameEnd(tag, 0)]
	var lower [len("template")]byte
	if len(name) > len(lower) {
		return end
	}
	for i, c := range name {
		lower[i] = c | 0x20
	}
	switch element := string(lower[:len(name)]); element {
	case "h1":
		r.heading = r.heading || r.text.Heading == nil
	case "img", "source", "video", "iframe":
		r.image(tag)
	case "script", "style", "template":
		return extract.RawTextEnd(page, end, element)
	}
	return end
}

// image adds the src of an element, without its query, which often only defeats caches.
func (r *Reader) image(tag []byte) {
	_, src, ok := bytes.Cut(tag, []byte("src="))
	if !ok {
		return
	}
	src = bytes.Trim(src, `"' `)
	if end := bytes.IndexAny(src, "\"' ?#>"); end >= 0 {
		src = src[:end]
	}
	if len(src) == 0 || bytes.HasPrefix(src, []byte("data:")) {
		return
	}
	r.text.Images = append(r.text.Images, mix(fnv(src)))
}

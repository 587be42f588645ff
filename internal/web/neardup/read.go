package neardup

import (
	"bytes"

	"github.com/treadlight/crawl/internal/web/effort"
)

// Reader reads pages. The zero Reader is ready. It reuses its memory from page to page.
type Reader struct {
	text Text

	before  [2]uint64 // the words before, in the same element; zero for none
	heading bool      // the next text is the heading
}

// maxKept bounds each list that is kept from page to page, in hashes. Few pages have more.
const maxKept = 1 << 15

// wordSteps is what a word costs: reading it, and what is made of its pair and its run later.
const wordSteps = 3

// Read reads the first MaxRead bytes of a page, or as much as the budget lets it. Any bytes are a
// page.
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

// ideographs is the lead byte, in UTF-8, from which on characters are words: those of
// Chinese, Japanese and Korean.
const ideographs = 0xe3

// FNV-1a, 64 bits wide: words are short, and it takes them byte by byte.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

// word reads the word at i, and returns where it ends.
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
				r.take(h, number)
				return i
			}
		default:
			r.take(h, number)
			return i
		}
		h = (h ^ uint64(c)) * prime
	}
	r.take(h, number)
	return i
}

// highWord reads a word that begins beyond ASCII: one character of a script without spaces
// or a run of letters.
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
	h := uint64(offset)
	for _, c := range page[i:end] {
		h = (h ^ uint64(c)) * prime
	}
	r.take(h, false)
	return end
}

// sign is the length of the sign or space beyond ASCII that a text begins with: one of
// U+0080 to U+00BF or of U+2000 to U+2FFF, which parts words. Zero: it is something else.
func sign(page []byte) int {
	switch page[0] {
	case 0xc2:
		return 2
	case 0xe2:
		return 3
	}
	return 0
}

// take takes in a word by its hash.
func (r *Reader) take(h uint64, number bool) {
	t := &r.text
	t.Count++
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

// mix spreads a hash over all 64 bits (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// maxHeading bounds the heading, in bytes.
const maxHeading = 256

func (r *Reader) setHeading(page []byte) {
	end := bytes.IndexByte(page, '<')
	if end < 0 {
		end = len(page)
	}
	r.text.Heading, r.heading = page[:min(end, maxHeading)], false
}

// tag steps over the tag at i, and over all of an element whose text is not shown.
func (r *Reader) tag(page []byte, i int) int {
	rest := page[i+1:]
	if len(rest) == 0 || classes[rest[0]] != letter && rest[0] != '/' && rest[0] != '!' && rest[0] != '?' {
		return i + 1
	}
	r.before = [2]uint64{}
	if bytes.HasPrefix(rest, []byte("!--")) {
		return after(page, i+4, "-->")
	}
	end := after(page, i, ">")
	tag := page[i+1 : end]
	switch name := tag[:nameEnd(tag)]; len(name) {
	case len("h1"):
		r.heading = r.heading || r.text.Heading == nil && is(name, "h1")
	case len("img"):
		r.image(tag, name, "img")
	case len("style"), len("script"), len("template"):
		for _, silent := range [...]string{"script", "style", "template", "video"} {
			if !is(name, silent) {
				continue
			}
			if silent == "video" {
				r.image(tag, name, silent)
				break
			}
			return closing(page, end, silent)
		}
		r.image(tag, name, "source")
		r.image(tag, name, "iframe")
	}
	return end
}

// nameEnd is where the name of a tag ends.
func nameEnd(tag []byte) int {
	for i, c := range tag {
		if classes[c] != letter && classes[c] != digit {
			return i
		}
	}
	return len(tag)
}

// is compares a name with one in lower case.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c|0x20 != lower[i]|0x20 {
			return false
		}
	}
	return true
}

// after is the index behind the next mark, or the end of the page.
func after(page []byte, i int, mark string) int {
	if i >= len(page) {
		return len(page)
	}
	n := bytes.Index(page[i:], []byte(mark))
	if n < 0 {
		return len(page)
	}
	return i + n + len(mark)
}

// closing is where the end tag of an element begins, or the end of the page.
func closing(page []byte, i int, name string) int {
	for i < len(page) {
		n := bytes.Index(page[i:], []byte("</"))
		if n < 0 {
			break
		}
		i += n
		if at := i + 2; at+len(name) <= len(page) && is(page[at:at+len(name)], name) {
			return i
		}
		i += 2
	}
	return len(page)
}

// image takes in what an element shows. Queries are left out: many a one is there to get
// past caches, and new each time.
func (r *Reader) image(tag, name []byte, want string) {
	if !is(name, want) {
		return
	}
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
	h := uint64(offset)
	for _, c := range src {
		h = (h ^ uint64(c)) * prime
	}
	r.text.Images = append(r.text.Images, mix(h))
}

// Package chardet guesses the encoding of a text that nothing else tells the encoding of:
// no byte order mark, no header and no word in the page. [Detect] is asked about such pages
// only, a few in a thousand.
//
// Text in UTF-8, in UTF-16 and in ISO-2022-JP is known by its form. All others are told
// apart by what it would cost to write the text in the language that goes with them: a
// model knows which letters a language has beyond ASCII and in which order of frequency,
// and gives each character a price in bits, the usual ones few. The encoding in which the
// text is cheapest is the guess (minimum description length). Letters that stand where the
// language has none, such as a capital within a word, are dear. models.go has the
// languages, single.go and multi.go the reading of bytes.
//
// The guess is windows-1252, which the HTML standard names for pages of western languages,
// unless another one is clearly cheaper: a page with nothing but a copyright sign is the
// same in a dozen encodings. Encodings that the list of the WHATWG has and no model, such as
// windows-1258 and those of the Macintosh, are never guessed: x-mac-cyrillic is hardly told
// from windows-1251, and hardly used.
package chardet

import (
	"bytes"
	"unicode/utf8"
)

// Default is what a text is taken for if nothing says otherwise.
const Default = "windows-1252"

const (
	// maxSample is how many bytes are looked at. A title and a menu alone would do.
	maxSample = 4 << 10
	// margin is by how many bits another encoding must be cheaper than the default. A word
	// in Cyrillic is, and a sign in a line of English is not. With 12 in the place of 5, one
	// in ten short pieces of Central European text is lost, and no western one is won.
	margin = 5
)

// Detect guesses the encoding of text and gives its WHATWG name, in lower case. It takes
// any text and never gives up: of one that no model fits it is [Default].
func Detect(text []byte) string {
	if name := byForm(text); name != "" {
		return name
	}
	sample := sampleOf(text)
	if len(sample) == 0 {
		return "utf-8" // ASCII
	}
	best, cheapest := Default, singleCost(Default, sample)-margin
	for _, name := range singleNames() {
		if c := singleCost(name, sample); c < cheapest {
			best, cheapest = name, c
		}
	}
	for _, m := range multiModels {
		if c := m.cost(sample, cheapest); c < cheapest {
			best, cheapest = m.name, c
		}
	}
	return best
}

// byForm knows encodings that need no language to be known.
func byForm(text []byte) string {
	if bytes.Contains(text, []byte("\x1b$B")) || bytes.Contains(text, []byte("\x1b$@")) {
		if !hasHigh(text) {
			return "iso-2022-jp"
		}
	}
	if name := utf16(text); name != "" {
		return name
	}
	if nearlyUTF8(text) {
		return "utf-8"
	}
	return ""
}

func hasHigh(text []byte) bool {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// utf16 knows UTF-16 without a mark by its zeros: every other byte of markup is one.
func utf16(text []byte) string {
	const enough = 64
	head := text[:min(len(text), enough)]
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	pairs := len(head) / 2
	switch {
	case pairs < 4 || zeros[0] > 0 && zeros[1] > 0:
	case zeros[1] > pairs*3/4:
		return "utf-16le"
	case zeros[0] > pairs*3/4:
		return "utf-16be"
	}
	return ""
}

// nearlyUTF8 is true of UTF-8 with a few bytes that are none, as a page has that was cut
// off, or into which something was pasted. In other encodings, sequences that are UTF-8
// come up by chance only.
func nearlyUTF8(text []byte) bool {
	good, bad := 0, 0
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			text = text[1:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r != utf8.RuneError || n > 1:
			good++
		case !utf8.FullRune(text): // cut off
			return good > 0 && bad*10 <= good
		default:
			bad++
		}
		text = text[n:]
	}
	return good > 0 && bad*10 <= good
}

// sampleOf is the part of a text that is looked at: bytes beyond ASCII and a few of what
// stands on both sides of them. It is empty if the text is all ASCII.
func sampleOf(text []byte) (sample []byte) {
	const beside = 2 // a second byte may be ASCII, and the letter after it matters
	kept := 0        // up to here
	for i := 0; i < len(text) && len(sample) < maxSample; i++ {
		if text[i] < utf8.RuneSelf {
			continue
		}
		end := min(len(text), i+1+beside)
		sample = append(sample, text[max(kept, i-beside):end]...)
		kept = end
	}
	return sample
}

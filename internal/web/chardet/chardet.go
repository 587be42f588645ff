// Package chardet guesses the encoding of a text without any declaration of it.
//
// UTF-8, UTF-16 and ISO-2022-JP are recognised by their form. For other encodings a model of each
// language gives every character beyond ASCII a price in bits, by its frequency; the encoding in
// which the text is cheapest wins (minimum description length). Unusual neighbours, such as a
// capital within a word, cost more. models.go has the languages, single.go the encodings with one
// byte per character; those with several are here.
//
// The default is windows-1252, which the HTML standard names for western languages, unless another
// encoding is clearly cheaper. Encodings of the WHATWG list without a model, such as windows-1258
// and those of the Macintosh, are never guessed.
package chardet

import (
	"bytes"
	"maps"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"
)

// Default is the encoding if nothing else fits.
const Default = "windows-1252"

const (
	maxSample = 4 << 10 // bytes
	// margin is by how many bits another encoding must be cheaper than the default. With 12, one
	// in ten short Central European texts is lost, and no western one is won.
	margin = 5
)

// Detect guesses the encoding of any text and returns its WHATWG name, in lower case.
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

// byForm recognises encodings without a language.
func byForm(text []byte) string {
	if (bytes.Contains(text, []byte("\x1b$B")) || bytes.Contains(text, []byte("\x1b$@"))) && len(sampleOf(text)) == 0 {
		return "iso-2022-jp"
	}
	if name := utf16(text); name != "" {
		return name
	}
	if nearlyUTF8(text) {
		return "utf-8"
	}
	return ""
}

// utf16 recognises UTF-16 without a mark: every other byte of markup is zero.
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

// nearlyUTF8 is true of UTF-8 with a few invalid bytes, as of a page that was cut off. In other
// encodings valid sequences are chance.
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

// sampleOf is the bytes beyond ASCII with their neighbours, empty if there are none.
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

// multiModel is an encoding with several bytes per character, and its language.
type multiModel struct {
	name   string
	common []share
	script *unicode.RangeTable // its characters
	any    float64             // the probability of one that is not common
}

// share is characters that make up a part of a text, most frequent first.
type share struct {
	letters string
	part    float64
}

// multiModels are the encodings of East Asia.
var multiModels = []multiModel{
	{"shift_jis", japaneseShares, unicode.Han, 1.2e-4},
	{"euc-jp", japaneseShares, unicode.Han, 1.2e-4},
	{"gbk", []share{{simplified, 0.4}, {wide, 0.12}}, unicode.Han, 1.5e-4},
	{"big5", []share{{traditional, 0.4}, {wide, 0.12}}, unicode.Han, 1.5e-4},
	{"euc-kr", []share{{hangul, 0.6}, {wide, 0.02}}, unicode.Hangul, 3e-4},
}

var japaneseShares = []share{{hiragana, 0.5}, {katakana, 0.08}, {kanji, 0.1}, {wide, 0.1}}

// commons are the probabilities of the common characters by encoding.
var commons = sync.OnceValue(func() map[string]map[rune]float64 {
	all := make(map[string]map[rune]float64, len(multiModels))
	for _, m := range multiModels {
		all[m.name] = map[rune]float64{}
		for _, s := range m.common {
			maps.Copy(all[m.name], zipf(s.letters, s.part))
		}
	}
	return all
})

// cost is the price of a text. It may stop beyond limit.
func (m *multiModel) cost(text []byte, limit float64) (total float64) {
	enc, _ := charset.Lookup(m.name)
	decoded, _, err := transform.Append(enc.NewDecoder(), nil, text)
	if err != nil {
		return math.Inf(1)
	}
	chances := commons()[m.name]
	for i := 0; i < len(decoded) && total <= limit; {
		r, n := utf8.DecodeRune(decoded[i:])
		i += n
		if r >= utf8.RuneSelf {
			total -= math.Log2(m.chance(r, chances))
		}
	}
	return total
}

func (m *multiModel) chance(r rune, chances map[rune]float64) float64 {
	if p, ok := chances[r]; ok {
		return p
	}
	switch {
	case unicode.Is(m.script, r):
		return m.any
	case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Co, r):
		return pNever
	case unicode.In(r, unicode.Hiragana, unicode.Katakana) && m.script == unicode.Han && len(m.common) > 2:
		return m.any
	case r >= 0xff00 && r <= 0xff60: // wide forms of ASCII
		return m.any
	}
	return pOdd
}

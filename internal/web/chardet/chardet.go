// Package chardet guesses the encoding of a text without any declaration of it.
//
// UTF-8, UTF-16 and ISO-2022-JP are recognised by their form. For other encodings a model of each language gives
// every character beyond ASCII a price in bits, by its frequency; the encoding in which the text is cheapest wins
// (minimum description length). Unusual neighbours, such as letters of two scripts, cost more. models.go has the
// languages.
//
// The default is windows-1252, which the HTML standard names for western languages, unless another encoding is
// clearly cheaper. Encodings of the WHATWG list without a model, such as windows-1258 and those of the Macintosh, are
// never guessed.
package chardet

import (
	"bytes"
	"maps"
	"math"
	"strings"
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
	// margin is by how many bits another encoding must be cheaper than the default. With 12, one in ten short Central
	// European texts is lost, and no western one is won.
	margin = 5
)

// Detect guesses the encoding of any text and returns its WHATWG name, in lower case.
func Detect(text []byte) string {
	sample := sampleOf(text)
	if len(sample) == 0 && (bytes.Contains(text, []byte("\x1b$B")) || bytes.Contains(text, []byte("\x1b$@"))) {
		return "iso-2022-jp"
	}
	if name := utf16(text); name != "" {
		return name
	}
	if nearlyUTF8(text) || len(sample) == 0 { // the latter is ASCII
		return "utf-8"
	}
	best, cheapest := Default, math.Inf(1)
	for _, m := range models() {
		gain := 0.0
		if m.name == Default {
			gain = margin
		}
		if cost := m.cost(sample, cheapest+gain) - gain; cost < cheapest {
			best, cheapest = m.name, cost
		}
	}
	return best
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

// nearlyUTF8 is true of UTF-8 with a few invalid bytes, as of a page that was cut off. In other encodings valid
// sequences are chance.
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

type model struct {
	name string
	cost func(text []byte, limit float64) float64
}

// models begin with those of the default.
var models = sync.OnceValue(func() (all []model) {
	for _, c := range charsets {
		for _, l := range c.languages {
			all = append(all, model{c.name, priced(c.name, l).cost})
		}
	}
	for _, m := range eastAsian {
		m.chances = map[rune]float64{}
		for _, s := range m.common {
			maps.Copy(m.chances, zipf(s.letters, s.part))
		}
		all = append(all, model{m.name, m.cost})
	}
	return all
})

// cost is the price of a text. It may stop beyond limit.
func (m multiByte) cost(text []byte, limit float64) (total float64) {
	enc, _ := charset.Lookup(m.name)
	decoded, _, err := transform.Append(enc.NewDecoder(), nil, text)
	if err != nil {
		return math.Inf(1)
	}
	for i := 0; i < len(decoded) && total <= limit; {
		r, n := utf8.DecodeRune(decoded[i:])
		i += n
		if r >= utf8.RuneSelf {
			total -= math.Log2(m.chance(r))
		}
	}
	return total
}

func (m multiByte) chance(r rune) float64 {
	if p, ok := m.chances[r]; ok {
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

// Probabilities; their order matters.
const (
	pLetters = 0.9  // all letters together
	pCapital = 0.05 // a capital in the place of its small letter
	pUsual   = 0.003
	pForeign = 1e-4 // a letter of another language
	pOdd     = 1e-5 // a sign that is hardly written
	pNever   = 1e-7 // a control, or a byte without a meaning
)

// Prices of unusual neighbours, in bits.
const (
	mixed   = 6 // a letter of another script beside one of ASCII
	crowded = 3 // two letters beyond ASCII side by side, where ASCII has most
)

// prices are those of the bytes beyond ASCII in one encoding and language.
type prices struct {
	latin   bool
	bits    [128]float64
	letters [256]bool
}

func priced(name string, l language) *prices {
	p := &prices{latin: l.latin}
	enc, _ := charset.Lookup(name)
	chances := zipf(l.letters, pLetters)
	for i := range p.bits {
		r := utf8.RuneError
		if s, err := enc.NewDecoder().Bytes([]byte{byte(utf8.RuneSelf + i)}); err == nil {
			r, _ = utf8.DecodeRune(s)
		}
		p.bits[i] = -math.Log2(chance(r, chances))
		p.letters[utf8.RuneSelf+i] = unicode.In(r, unicode.L, unicode.M)
	}
	return p
}

// zipf distributes a probability over characters by rank, about as fast as letter frequencies fall.
func zipf(letters string, all float64) map[rune]float64 {
	chances, sum := map[rune]float64{}, 0.0
	n := float64(utf8.RuneCountInString(letters))
	rank := 0.0
	for _, r := range letters {
		chances[r] = math.Exp(-3 * rank / n)
		sum += chances[r]
		rank++
	}
	for r := range chances {
		chances[r] *= all / sum
	}
	return chances
}

// chance is the probability of a character in a language.
func chance(r rune, letters map[rune]float64) float64 {
	if p, ok := letters[r]; ok {
		return p
	}
	if p, ok := letters[unicode.ToLower(r)]; ok && unicode.IsUpper(r) {
		return p * pCapital
	}
	switch {
	case strings.ContainsRune(usual, r):
		return pUsual
	case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Co, r):
		return pNever
	case unicode.IsLetter(r):
		return pForeign
	}
	return pOdd
}

func (p *prices) cost(text []byte, limit float64) (total float64) {
	for i, c := range text {
		if c < utf8.RuneSelf {
			continue
		}
		if total += p.bits[c-utf8.RuneSelf]; total > limit {
			break
		}
		switch {
		case !p.letters[c]:
		case p.latin && i > 0 && p.letters[text[i-1]]:
			total += crowded
		case !p.latin && (i > 0 && isASCIILetter(text[i-1]) || i+1 < len(text) && isASCIILetter(text[i+1])):
			total += mixed
		}
	}
	return total
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

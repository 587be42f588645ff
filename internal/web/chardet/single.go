package chardet

import (
	"math"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// kind is the class of a byte for its neighbours.
type kind uint8

const (
	sign kind = iota
	small
	capital
)

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
	capitalWithin = 5 // a capital after a small letter
	mixed         = 6 // a letter of another script beside one of ASCII
	crowded       = 3 // two letters beyond ASCII side by side, where ASCII has most
)

// prices are those of the bytes beyond ASCII in one encoding and language.
type prices struct {
	latin bool
	bits  [128]float64
	kinds [128]kind
}

// tables are the prices by encoding.
var tables = sync.OnceValue(func() map[string][]prices {
	all := make(map[string][]prices, len(charsets))
	for _, c := range charsets {
		for _, l := range c.languages {
			all[c.name] = append(all[c.name], priced(c.name, l))
		}
	}
	return all
})

// singleNames are the encodings with prices, without the default.
func singleNames() []string {
	names := make([]string, 0, len(charsets)-1)
	for _, c := range charsets[1:] {
		names = append(names, c.name)
	}
	return names
}

func priced(name string, l language) (p prices) {
	enc, _ := charset.Lookup(name)
	p.latin = l.latin
	chances := zipf(l.letters, pLetters)
	for i := range p.bits {
		r := utf8.RuneError
		if s, err := enc.NewDecoder().Bytes([]byte{byte(utf8.RuneSelf + i)}); err == nil {
			r, _ = utf8.DecodeRune(s)
		}
		p.bits[i] = -math.Log2(chance(r, chances))
		switch {
		case unicode.IsUpper(r):
			p.kinds[i] = capital
		case unicode.IsLetter(r), unicode.IsMark(r):
			p.kinds[i] = small
		}
	}
	return p
}

// zipf distributes a probability over characters by rank, about as fast as letter frequencies
// fall.
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

// singleCost is the price of a text in the cheapest language of an encoding.
func singleCost(name string, text []byte) float64 {
	cheapest := math.Inf(1)
	all := tables()[name]
	for i := range all {
		cheapest = min(cheapest, all[i].cost(text, cheapest))
	}
	return cheapest
}

// cost is the price of a text. It may stop beyond limit.
func (p *prices) cost(text []byte, limit float64) (total float64) {
	for i, c := range text {
		if c < utf8.RuneSelf {
			continue
		}
		if total > limit {
			return total
		}
		k := p.kinds[c-utf8.RuneSelf]
		total += p.bits[c-utf8.RuneSelf]
		if k == sign {
			continue
		}
		var before, after byte
		if i > 0 {
			before = text[i-1]
		}
		if i+1 < len(text) {
			after = text[i+1]
		}
		total += p.beside(k, before, after)
	}
	return total
}

// beside is the price of the neighbours of a letter.
func (p *prices) beside(k kind, before, after byte) (bits float64) {
	if k == capital && p.isSmall(before) {
		bits += capitalWithin
	}
	switch {
	case p.latin && before >= utf8.RuneSelf && p.kinds[before-utf8.RuneSelf] != sign:
		bits += crowded
	case !p.latin && (isASCIILetter(before) || isASCIILetter(after)):
		bits += mixed
	}
	return bits
}

func (p *prices) isSmall(c byte) bool {
	if c >= utf8.RuneSelf {
		return p.kinds[c-utf8.RuneSelf] == small
	}
	return c >= 'a' && c <= 'z'
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

package chardet

import (
	"maps"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"
)

// multiModel is an encoding with several bytes for a character, and its language.
type multiModel struct {
	name   string
	common []share
	script *unicode.RangeTable // the characters of which a text has any
	any    float64             // how likely one of them is that is not common
}

// share is characters that make up a part of a text, the first of them the most frequent.
type share struct {
	letters string
	part    float64
}

// multiModels are the encodings of East Asia. What is not common is one of some thousands
// of characters.
var multiModels = []multiModel{
	{"shift_jis", japaneseShares, unicode.Han, 1.2e-4},
	{"euc-jp", japaneseShares, unicode.Han, 1.2e-4},
	{"gbk", []share{{simplified, 0.4}, {wide, 0.12}}, unicode.Han, 1.5e-4},
	{"big5", []share{{traditional, 0.4}, {wide, 0.12}}, unicode.Han, 1.5e-4},
	{"euc-kr", []share{{hangul, 0.6}, {wide, 0.02}}, unicode.Hangul, 3e-4},
}

var japaneseShares = []share{{hiragana, 0.5}, {katakana, 0.08}, {kanji, 0.1}, {wide, 0.1}}

// commons are the chances of the common characters of each of multiModels. They are made
// when the first text is looked at.
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

// cost is what a text costs in the encoding. It may stop when that is beyond limit.
func (m *multiModel) cost(text []byte, limit float64) (total float64) {
	enc, _ := charset.Lookup(m.name)
	decoded, _, err := transform.Append(enc.NewDecoder(), nil, text)
	if err != nil { // decoders replace what they cannot read
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

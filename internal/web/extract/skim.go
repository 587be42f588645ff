package extract

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// skim is [scanner.markupFrom] where neither text nor the attributes of every tag are asked
// for. It steps over tags that mean nothing and are written as nearly all tags are, in fewer
// steps than it takes to read them as the standard has it. What remains is read with care.
func skim(s []byte, i int) int {
	for i < len(s) {
		lt := near(s, i, '<')
		if lt < 0 || lt+1 >= len(s) {
			break
		}
		name, least := lt+1, leastShared
		if s[name] == '/' {
			name, least = name+1, math.MaxInt // its attributes are nothing
		}
		switch {
		case name < len(s) && kinds[s[name]]&letter != 0:
			if i = passOver(s, name, least); i < 0 {
				return lt
			}
		case kinds[s[lt+1]]&mark != 0:
			return lt
		default:
			i = lt + 1
		}
	}
	return len(s)
}

// passOver is where the page goes on behind the tag whose name begins at i; -1 if it can matter,
// is not closed, or has anything in it but attributes without a value and with one in quotes.
// Attributes shorter than least do not matter.
func passOver(s []byte, i, least int) int {
	name := i
	// No name goes on behind that, but one of a tag may hold an equals sign, which is met below.
	i = endOf(s, i, endsKey)
	if tagShapes.has(s[name:i]) {
		return -1
	}
	for i < len(s) {
		switch c := s[i]; {
		case c == '>':
			return i + 1
		case c == '/' || isSpace(c):
			i++
			continue
		case c == '=':
			return -1
		}
		key := i
		i = endOf(s, i, endsKey)
		if i-key >= least && attrShapes.has(s[key:i]) {
			return -1
		}
		if i+1 < len(s) && s[i] == '=' {
			if s[i+1] != '"' && s[i+1] != '\'' {
				return -1
			}
			end := near(s, i+2, s[i+1])
			if end < 0 {
				return -1
			}
			i = end + 1
		}
	}
	return -1
}

// nearWords is how many words of eight bytes near looks at before it calls for the search that
// is made for long stretches.
const nearWords = 4

// near is where the next c from i stands, or -1. What is looked for in a page is most often a
// few bytes away: then the usual search has hardly begun. A word is searched as in H. S. Warren,
// Hacker's Delight, section 6-1: the lowest byte that it finds is one.
func near(s []byte, i int, c byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	want := ones * uint64(c)
	for range nearWords {
		if i+8 > len(s) {
			break
		}
		x := binary.LittleEndian.Uint64(s[i:]) ^ want
		if hit := (x - ones) &^ x & tops; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	if i > len(s) {
		return -1
	}
	n := bytes.IndexByte(s[i:], c)
	if n < 0 {
		return -1
	}
	return i + n
}

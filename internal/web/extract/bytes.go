package extract

// What a byte can be. Bytes are looked up, not compared: a page has many.
const (
	space     = 1 << iota // white space of HTML
	letter                // of ASCII; begins the name of a tag
	digit                 //
	hexDigit              //
	endsName              // ends the name of a tag
	endsKey               // ends the name of an attribute
	endsValue             // ends a value without quotes
	mark                  // begins markup that is no start tag
)

var kinds = func() (t [256]uint8) {
	set := func(chars string, bits uint8) {
		for _, c := range []byte(chars) {
			t[c] |= bits
		}
	}
	const lowers, uppers = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(" \n\t\r\f", space|endsName|endsKey|endsValue)
	set(">", endsName|endsKey|endsValue)
	set("/", endsName|endsKey)
	set("=", endsKey)
	set("/!?", mark)
	set(lowers+uppers, letter)
	set("0123456789", digit|hexDigit)
	set("abcdefABCDEF", hexDigit)
	return t
}()

// isSpace is true of the white space of HTML.
func isSpace(c byte) bool { return kinds[c]&space != 0 }

// skipSpace is the next byte from i that is no white space.
func skipSpace(s []byte, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// endOf is the next byte from i of that kind, or the end of s.
func endOf(s []byte, i int, kind uint8) int {
	for n, c := range s[i:] { // there are no bounds to check
		if kinds[c]&kind != 0 {
			return i + n
		}
	}
	return len(s)
}

// lower is c in lower case if it is an ASCII letter; names in HTML know no others.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

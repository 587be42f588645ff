package fields

import "strings"

// number is the first number in a text, as JSON writes it: "1.234,50 €" is 1234.50. It is
// empty if there is none.
//
// Of a point and a comma, the last one is the decimal point and the other groups digits.
// One that comes more than once groups; so does a comma by itself with three digits behind
// it, while a point by itself is a decimal point: that is how English and programs write.
// Spaces, apostrophes and underscores between digits group.
func number(s string) string {
	start := strings.IndexAny(s, digits)
	if start < 0 {
		return ""
	}
	sign := ""
	for _, minus := range []string{"-", "−"} {
		if strings.HasSuffix(s[:start], minus) && !joined(s[:start-len(minus)]) {
			sign = "-"
		}
	}
	whole, fraction := split(run(s[start:]))
	if start > 0 && s[start-1] == '.' && (start == 1 || !joined(s[:start-1])) && fraction == "" {
		whole, fraction = "0", whole // .5
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if len(whole) > maxNumber {
		return ""
	}
	return sign + whole
}

const (
	digits = "0123456789"
	// maxNumber is longer than any number that is one: card numbers and hashes are texts.
	maxNumber = 40
)

// joined reports whether a text ends in what makes a dash after it a hyphen, as in
// "A-4" and "2020-01".
func joined(s string) bool {
	if s == "" {
		return false
	}
	c := s[len(s)-1]
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// groupers stand between groups of three digits.
var groupers = []string{" ", "\u00a0", "\u202f", "\u2009", "'", "’", "_", ",", "."}

// run is the digits at the beginning of s with what stands between them, spaces and the
// like left out.
func run(s string) string {
	var b strings.Builder
	grouped := false // two years side by side are not, nor is what follows one
	for s != "" {
		if strings.IndexByte(digits, s[0]) >= 0 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		mark := ""
		for _, g := range groupers {
			if rest, ok := strings.CutPrefix(s, g); ok && rest != "" && strings.IndexByte(digits, rest[0]) >= 0 {
				mark = g
			}
		}
		decimal := mark == "," || mark == "."
		if mark == "" || !decimal && (!three(s[len(mark):]) || !grouped && b.Len() > 3) {
			break
		}
		if decimal {
			b.WriteString(mark)
		}
		grouped = true
		s = s[len(mark):]
	}
	return b.String()
}

// three reports whether exactly three digits come.
func three(s string) bool {
	n := 0
	for n < len(s) && strings.IndexByte(digits, s[n]) >= 0 {
		n++
	}
	return n == 3
}

// split finds the decimal point among points and commas.
func split(s string) (whole, fraction string) {
	point, comma := strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ',')
	at := max(point, comma)
	switch {
	case at < 0:
	case point >= 0 && comma >= 0: // the last one
	case strings.Count(s, s[at:at+1]) > 1, comma >= 0 && len(s)-comma-1 == 3:
		at = -1
	}
	clean := func(s string) string { return strings.NewReplacer(".", "", ",", "").Replace(s) }
	if at < 0 {
		return clean(s), ""
	}
	return clean(s[:at]), s[at+1:]
}

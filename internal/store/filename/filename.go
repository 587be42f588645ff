// Package filename makes names of files that every file system accepts.
package filename

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/treadlight/crawl/internal/lazy"
)

var device = lazy.Regexp(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)`)

// IsDevice reports whether Windows takes a name for that of a device, with any extension.
func IsDevice(name string) bool { return device().MatchString(name) }

// Hash returns a hash that tells apart texts for which a name has no room: twelve hex digits.
func Hash(s string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(s))[:12] }

// Fold returns a name as a file system sees it that ignores case and forms of accents.
func Fold(name string) string { return norm.NFC.String(strings.ToLower(strings.ToUpper(name))) }

// Component returns a name of at most most+1 bytes for a component of the path of a URL, with the extension appended.
// Characters that a name cannot have stay percent-escaped, and so does a percent sign. So two components have different
// names, unless they are too long. The name is not empty, is not reserved on Windows, and neither begins nor ends with a
// dot or a blank. Most must be larger than the extension by 14 or more.
func Component(s, ext string, most int) string {
	var b strings.Builder
	text := Unescape(s)
	for i, n := 0, 0; i < len(text); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(text[i:])
		first, last := i == 0, i+n == len(text)
		odd := r == utf8.RuneError && n < 2 || !unicode.IsGraphic(r) || strings.ContainsRune(`<>:"/\|?*%`, r)
		if odd || r == '.' && (first || last && ext == "") || r == ' ' && (first || last) || r == '~' && first {
			for _, c := range []byte(text[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(text[i : i+n])
		}
	}
	name := norm.NFC.String(b.String())
	if name == "" {
		name = "%"
	}
	if len(name)+len(ext) > most {
		cut := most - len(ext) - 13
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = strings.TrimRight(name[:cut], ". ") + "~" + Hash(name)
	}
	if IsDevice(name) {
		name = "_" + name
	}
	return name + ext
}

var escapes = lazy.Regexp(`%[0-9A-Fa-f]{2}`)

// Unescape resolves percent-escapes. What is none stays.
func Unescape(s string) string {
	return escapes().ReplaceAllStringFunc(s, func(e string) string {
		b, _ := hex.DecodeString(e[1:]) // the pattern has matched
		return string(b)
	})
}

package mirror

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// The bounds of names, in bytes: file systems take 255 for a component, some 143; Windows takes 260 for a path, with
// that of the directory.
const (
	maxComponent = 100
	maxPath      = 200
	maxQuery     = 60
)

// nameOf is the file of a URL with that media type, by slashes and relative to the copy. It depends on nothing else. It
// is a name on every file system: no component is empty, reserved on Windows, begins or ends with a dot or a blank, or
// has a byte that is not UTF-8.
func nameOf(u canonical.URL, mediaType string) string {
	p, query, hasQuery := strings.Cut(u.Path(), "?")
	parts := []string{hostName(u.Host())}
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for _, s := range segments[:len(segments)-1] {
		parts = append(parts, component(s, ""))
	}
	last, ext := segments[len(segments)-1], ""
	if last == "" {
		last = "index"
	} else if i := strings.LastIndexByte(last, '.'); i > 0 && isExtension(last[i:]) {
		last, ext = last[:i], last[i:]
	}
	if want := extensionOf(mediaType, ext); want != "" {
		last, ext = last+ext, want
	}
	if hasQuery {
		if len(query) > maxQuery {
			query = fmt.Sprintf("%.24s~%s", query, shortHash(query))
		}
		last += "@" + query
	}
	parts = append(parts, component(last, ext))
	if name := strings.Join(parts, "/"); len(name) <= maxPath {
		return name
	}
	return path.Join(parts[0], "~"+shortHash(strings.Join(parts, "/")), component(last, ext))
}

func isExtension(s string) bool {
	odd := func(r rune) bool { return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') }
	return 1 < len(s) && len(s) <= 12 && !strings.ContainsFunc(s[1:], odd)
}

// shortHash tells texts apart that a name has no room for.
func shortHash(s string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(s))[:12] }

// hostName is the directory of a host. A port is told by a plus, as a colon cannot be.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i] + "+" + host[i+1:]
	}
	return component(strings.Trim(strings.ReplaceAll(host, "]+", "+"), "[]"), "")
}

// component is a part of a URL's path, with the extension, as a part of a file's. What cannot be in a name stays
// percent-escaped, and so does a percent sign, so that no two parts have one name but for their length.
func component(s, ext string) string {
	var b strings.Builder
	text := unescape(s)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n < 2 || !allowed(r) || r == '.' && (i == 0 || i+n == len(text) && ext == "") || r == ' ' && (i == 0 || i+n == len(text)) || r == '~' && i == 0 {
			for _, c := range []byte(text[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	name := norm.NFC.String(b.String())
	if name == "" {
		name = "%"
	}
	if len(name)+len(ext) > maxComponent {
		cut := maxComponent - len(ext) - 13
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = strings.TrimRight(name[:cut], ". ") + "~" + shortHash(name)
	}
	if stem, _, _ := strings.Cut(name, "."); isDevice(stem) {
		name = "_" + name
	}
	return name + ext
}

// unescape undoes percent-escapes.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if hi, lo := hexDigit(s[i+1]), hexDigit(s[i+2]); hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// allowed reports whether a rune can be in a name everywhere, and be seen.
func allowed(r rune) bool {
	switch {
	case r < ' ', r == 0x7f, strings.ContainsRune(`<>:"/\|?*%`, r):
		return false
	case r >= 0x80 && r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xfff0:
		return r >= 0x10000 && r < 0xe0000
	}
	return true
}

// isDevice reports whether Windows takes a name for a device, whatever its extension is.
func isDevice(stem string) bool {
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	rest, ok := strings.CutPrefix(stem, "COM")
	if !ok {
		rest, ok = strings.CutPrefix(stem, "LPT")
	}
	return ok && utf8.RuneCountInString(rest) == 1 && strings.ContainsAny(rest, "0123456789¹²³")
}

// folded is what a file system that knows no case, or one form of accents, makes of a name.
func folded(name string) string { return norm.NFC.String(strings.ToLower(strings.ToUpper(name))) }

// relative is the reference from one file of the copy to another, escaped.
func relative(from, to string) string {
	a, b := strings.Split(from, "/"), strings.Split(to, "/")
	n := 0
	for n < len(a)-1 && n < len(b)-1 && a[n] == b[n] {
		n++
	}
	var out strings.Builder
	for range len(a) - 1 - n {
		out.WriteString("../")
	}
	for i, part := range b[n:] {
		if i > 0 {
			out.WriteByte('/')
		}
		escapePath(&out, part)
	}
	return out.String()
}

// escapePath writes a component of a reference. Only what needs no escape anywhere, in a style sheet or in a srcset, has
// none.
func escapePath(b *strings.Builder, s string) {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~@=+", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(b, "%%%02X", c)
		}
	}
}

package mirror

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
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
	} else if found := extension.FindString(last); len(found) < len(last) {
		last, ext = strings.TrimSuffix(last, found), found
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

var extension = regexp.MustCompile(`\.[0-9A-Za-z]{1,11}$`)

// shortHash tells texts apart that a name has no room for.
func shortHash(s string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(s))[:12] }

// hostName is the directory of a host. A port is told by a plus, as a colon cannot be.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i] + "+" + host[i+1:]
	}
	return component(strings.Trim(strings.ReplaceAll(host, "]+", "+"), "[]"), "")
}

// device matches names that Windows takes for devices, whatever their extension is.
var device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)`)

// component is a part of a URL's path, with the extension, as a part of a file's. What cannot be in a name stays
// percent-escaped, and so does a percent sign, so that no two parts have one name but for their length.
func component(s, ext string) string {
	var b strings.Builder
	text := unescape(s)
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
	if len(name)+len(ext) > maxComponent {
		cut := maxComponent - len(ext) - 13
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = strings.TrimRight(name[:cut], ". ") + "~" + shortHash(name)
	}
	if device.MatchString(name) {
		name = "_" + name
	}
	return name + ext
}

var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescape undoes percent-escapes.
func unescape(s string) string {
	return escapes.ReplaceAllStringFunc(s, func(e string) string {
		b, _ := hex.DecodeString(e[1:]) // it matches
		return string(b)
	})
}

// folded is what a file system that knows no case, or one form of accents, makes of a name.
func folded(name string) string { return norm.NFC.String(strings.ToLower(strings.ToUpper(name))) }

// relative is the reference from one file of the copy to another, escaped.
func relative(from, to string) string {
	ref, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(to))
	if err != nil { // both are relative, and in the copy
		return to
	}
	return escaped.Replace((&url.URL{Path: filepath.ToSlash(ref)}).EscapedPath())
}

// escaped has characters that end a reference in a style sheet or a srcset, or begin one in HTML.
var escaped = strings.NewReplacer("&", "%26", ",", "%2C", "(", "%28", ")", "%29", "'", "%27", ";", "%3B", "!", "%21", "*", "%2A", "$", "%24")

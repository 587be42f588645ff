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

// The bounds of names in bytes. File systems allow 255 in a component, some only 143; Windows allows 260 in a path,
// including its directory.
const (
	maxComponent = 100
	maxPath      = 200
	maxQuery     = 60
)

// nameOf returns the file of a URL with that media type, relative to the copy and with slashes. It depends on nothing
// else. The name is valid on every file system: no component is empty, is reserved on Windows, begins or ends with a
// dot or a blank, or has a byte that is not UTF-8.
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

// shortHash returns a hash that tells apart texts for which a name has no room.
func shortHash(s string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(s))[:12] }

// hostName returns the directory of a host. A plus stands for the colon before a port, which a name cannot have.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i] + "+" + host[i+1:]
	}
	return component(strings.Trim(strings.ReplaceAll(host, "]+", "+"), "[]"), "")
}

// device matches names that Windows takes for devices, with any extension.
var device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)`)

// component returns a component of a file's path for one of a URL's path, with the extension appended. Characters that
// a name cannot have stay percent-escaped, and so does a percent sign. So two components have different names, unless
// they are too long.
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

// unescape resolves percent-escapes.
func unescape(s string) string {
	return escapes.ReplaceAllStringFunc(s, func(e string) string {
		b, _ := hex.DecodeString(e[1:]) // the pattern has matched
		return string(b)
	})
}

// folded returns a name as a file system sees it that ignores case and forms of accents.
func folded(name string) string { return norm.NFC.String(strings.ToLower(strings.ToUpper(name))) }

// relative returns the escaped reference from one file of the copy to another.
func relative(from, to string) string {
	ref, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(to))
	if err != nil { // impossible: both are relative
		return to
	}
	return escaped.Replace((&url.URL{Path: filepath.ToSlash(ref)}).EscapedPath())
}

// escaped escapes characters that end a reference in a style sheet or a srcset, or begin one in HTML.
var escaped = strings.NewReplacer("&", "%26", ",", "%2C", "(", "%28", ")", "%29", "'", "%27", ";", "%3B", "!", "%21", "*", "%2A", "$", "%24")

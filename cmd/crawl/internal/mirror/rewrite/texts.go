package rewrite

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/treadlight/crawl/internal/web/extract"
)

// cssReferences visits those of a style sheet; see [extract.CSSReferences].
func cssReferences(s []byte, visit func(ref string, from, to int)) {
	extract.CSSReferences(s, func(ref []byte, from, to int) { visit(strings.TrimSpace(string(ref)), from, to) })
}

// manifestRole says what the string at a path of a manifest is; the path has no indexes of arrays.
func manifestRole(path string) (Link, place, bool) {
	switch path {
	case "icons.src", "screenshots.src", "shortcuts.icons.src":
		return Link{Role: Part}, inJSON, true
	case "start_url", "shortcuts.url":
		return Link{Role: Page}, inJSON, true
	case "share_target.action", "protocol_handlers.url", "file_handlers.action", "scope", "id":
		return Link{Role: Outside}, inJSON, path != "id" && path != "scope"
	}
	return Link{}, bare, false
}

// importMapRole is that of an import map. Values that end in a slash are places and no files.
func importMapRole(path string) (Link, place, bool) {
	first, _, _ := strings.Cut(path, ".")
	return Link{Role: Part, As: Module}, specifier, first == "imports" || first == "scopes"
}

// maxKey bounds the part of a key that counts; no key that says something is as long.
const maxKey = 64

// json walks through the strings of a JSON document.
func (w *walker) json(s []byte, at int, role func(path string) (Link, place, bool)) {
	d := json.NewDecoder(bytes.NewReader(s))
	var path []string
	var isObject, isKey []bool
	for {
		before := d.InputOffset()
		token, err := d.Token()
		if err != nil || len(isObject) > 100 {
			return
		}
		n := len(isObject)
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				isObject, isKey = append(isObject, v == '{'), append(isKey, v == '{')
				continue
			}
			isObject, isKey = isObject[:n-1], isKey[:n-1]
			if n >= 2 && isObject[n-2] {
				path, isKey[n-2] = path[:len(path)-1], true
			}
			continue
		case string:
			if n > 0 && isObject[n-1] && isKey[n-1] {
				path, isKey[n-1] = append(path, v[:min(len(v), maxKey)]), false
				continue
			}
			to := int(d.InputOffset()) - 1
			from := bytes.IndexByte(s[before:to], '"') + int(before) + 1
			w.jsonString(v, at+from, at+to, strings.Join(path, "."), role)
		}
		if n > 0 && isObject[n-1] {
			path, isKey[n-1] = path[:len(path)-1], true
		}
	}
}

func (w *walker) jsonString(value string, from, to int, path string, role func(string) (Link, place, bool)) {
	l, in, ok := role(path)
	if !ok || in == specifier && !relative(value) {
		return
	}
	if out := w.link(value, l, in); out.edit {
		w.edit(from, to, out.text)
	}
}

// relative reports whether a specifier of a module is a reference to a file, and no name.
func relative(s string) bool {
	return !strings.HasSuffix(s, "/") && (strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || strings.HasPrefix(s, "/") || hasScheme(s))
}

// imports finds what modules import with a constant name, where a statement can begin. What stands in a comment or a
// string may be found too: then a file is asked for in vain, and a name is changed that nobody reads.
var imports = regexp.MustCompile(`(?:^|[;\n}])[ \t]*(?:import|export)(?:[ \t\n]*[\w*{},$ \t\n]*?[ \t\n}*]from)?[ \t\n]*["']([^"'\n\\]+)["']|\bimport\([ \t\n]*["']([^"'\n\\]+)["'][ \t\n]*\)`)

// scripts are other files that a module or a worker names by references to itself, and workers those that a page does.
// Source maps are left alone: no page loads them.
var (
	scripts = regexp.MustCompile(`\bnew URL\(\s*["']([^"'\n\\]+)["']\s*,\s*import\.meta\.url\s*\)|\bimportScripts\(\s*["']([^"'\n\\]+)["']\s*\)`)
	workers = regexp.MustCompile(`\bnew (?:Shared)?Worker\(\s*(?:["']([^"'\n\\]+)["'])`)
)

// maxGuesses bounds what is tried of a script, and maxGuess the length of each.
const (
	maxGuesses = 32
	maxGuess   = 64
)

// guesses finds names of files that a script may put behind the path of its own directory: what it shows is often there.
// Nothing of it is rewritten: it works as it is if the copy has the file.
func (w *walker) guesses(s []byte) {
	for at, n := 0, 0; w.finding && n < maxGuesses; {
		dot := bytes.IndexByte(s[at:], '.')
		if dot < 0 {
			return
		}
		from := at + dot
		at = from + 1
		to := at
		for to < len(s) && to-at < len("woff2") && isName(s[to]) {
			to++
		}
		if to == len(s) || !isQuote(s[to]) || !isShown(s[at:to]) {
			continue
		}
		for from > 0 && to-from < maxGuess && isName(s[from-1]) {
			from--
		}
		if from > 0 && from < at-1 && (isQuote(s[from-1]) || s[from-1] == '}') {
			w.link(string(s[from:to]), Link{Role: Guess}, bare)
			n++
		}
	}
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

func isName(c byte) bool {
	return isLetter(c) || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

func isShown(ext []byte) bool {
	switch string(ext) {
	case "svg", "png", "gif", "jpg", "jpeg", "webp", "avif", "css", "woff", "woff2":
		return true
	}
	return false
}

// module walks through the imports of a script, and what else it says it loads.
func (w *walker) module(s []byte, at int) {
	if bytes.Contains(s, []byte("import")) || bytes.Contains(s, []byte("export")) {
		w.named(s, at, imports, specifier)
		w.named(s, at, scripts, inJSON)
	}
	if w.doc.Kind == HTML || w.doc.Kind == XML {
		w.named(s, at, workers, inJSON)
	}
}

// named handles what is in the groups of a pattern.
func (w *walker) named(s []byte, at int, pattern *regexp.Regexp, in place) {
	for _, m := range pattern.FindAllSubmatchIndex(s, -1) {
		for i := 2; i < len(m); i += 2 {
			if m[i] < 0 {
				continue
			}
			ref := string(s[m[i]:m[i+1]])
			if in == specifier && !relative(ref) {
				continue
			}
			if out := w.link(ref, Link{Role: Part, As: Module}, in); out.edit {
				w.edit(at+m[i], at+m[i+1], out.text)
			}
		}
	}
}

package rewrite

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/treadlight/crawl/internal/lazy"
)

// other walks through a document without markup.
func (w *walker) other(s []byte) {
	switch w.doc.Kind {
	case CSS:
		w.css(s)
	case Manifest:
		w.json(s, manifestRole)
	case Module:
		w.guesses(s)
		w.module(s)
	case Script:
		w.guesses(s)
	}
}

// inManifest has what the strings at paths of a manifest are.
var inManifest = map[string]Role{
	"/icons/src": Part, "/screenshots/src": Part, "/shortcuts/icons/src": Part, "/start_url": Page, "/shortcuts/url": Page,
	"/share_target/action": Outside, "/protocol_handlers/url": Outside, "/file_handlers/action": Outside,
}

// manifestRole returns what the string at a path of a manifest is, and whether it is a link.
func manifestRole(at string) (l Link, in quoting, ok bool) {
	l.Role, ok = inManifest[at]
	return l, plain, ok
}

// importMapRole does the same for an import map. Values that end in a slash name directories, not files.
func importMapRole(at string) (Link, quoting, bool) {
	return Link{Role: Part, As: Module}, specifier, strings.HasPrefix(at, "/imports/") || strings.HasPrefix(at, "/scopes/")
}

// maxLevels bounds how deep a string may be that is a link, and maxMember the part of the name of a member that tells.
const (
	maxLevels = 8
	maxMember = 64
)

// json walks through the strings of a JSON document. Their paths have the names of members, and no indexes of arrays.
func (w *walker) json(s []byte, role func(path string) (Link, quoting, bool)) {
	d := jsontext.NewDecoder(bytes.NewReader(s), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var names [maxLevels + 1]string // of the members around the string
	for {
		before := d.InputOffset()
		token, err := d.ReadToken()
		if err != nil {
			return
		}
		level := d.StackDepth()
		if level > maxLevels {
			continue
		}
		if token.Kind() == '[' {
			names[level] = ""
		}
		if token.Kind() != '"' {
			continue
		}
		if kind, n := d.StackIndex(level); kind == '{' && n%2 != 0 { // the name of a member
			name := token.String()
			names[level] = "/" + strings.ReplaceAll(name[:min(len(name), maxMember)], "/", "~1")
			continue
		}
		ref := []byte(token.String())
		l, in, ok := role(strings.Join(names[:level+1], ""))
		if to := int(d.InputOffset()) - 1; ok && (in != specifier || relative(ref)) {
			w.link(ref, bytes.IndexByte(s[before:to], '"')+int(before)+1, to, l, in)
		}
	}
}

// relative reports whether a specifier of a module is a reference to a file, not a bare name.
func relative(s []byte) bool {
	return !bytes.HasSuffix(s, []byte("/")) && begins().Match(s)
}

var begins = lazy.Regexp(`^(\.{0,2}/|(?i:https?)://)`)

// imports matches what modules import by a constant name, where a statement can begin. It may also match in a comment
// or a string. Then a file is requested in vain, and a text is changed that nobody uses.
var imports = lazy.Regexp(`(?:^|[;\n}])[ \t]*(?:import|export)(?:[ \t\n]*[\w*{},$ \t\n]*?[ \t\n}*]from)?[ \t\n]*["']([^"'\n\\]+)["']|\bimport\([ \t\n]*["']([^"'\n\\]+)["'][ \t\n]*\)`)

// scripts matches other files that a module or a worker names relative to itself, and workers the workers that a page
// starts. Source maps are not matched, since no page loads them.
var (
	scripts = lazy.Regexp(`\bnew URL\(\s*["']([^"'\n\\]+)["']\s*,\s*import\.meta\.url\s*\)|\bimportScripts\(\s*["']([^"'\n\\]+)["']\s*\)`)
	workers = lazy.Regexp(`\bnew (?:Shared)?Worker\(\s*(?:["']([^"'\n\\]+)["'])`)
)

// maxGuesses bounds the guesses per script, and maxGuess the length of each.
const (
	maxGuesses = 32
	maxGuess   = 64
)

// shown are the extensions of files that scripts show, and aName matches the name that ends with one.
var (
	shown = [...]string{".svg", ".png", ".gif", ".jpg", ".jpeg", ".webp", ".avif", ".css", ".woff", ".woff2"}
	aName = lazy.Regexp("[\"'`}]([\\w.-]+)$")
)

// guesses finds names of files that a script may append to the path of its own directory, where such files often are.
// The script is not rewritten: it works if the copy has the file.
func (w *walker) guesses(s []byte) {
	for _, ext := range shown {
		for at := 0; len(w.places.list) < maxGuesses; {
			n := bytes.Index(s[at:], []byte(ext))
			if n < 0 {
				break
			}
			at += n + len(ext)
			if at == len(s) || bytes.IndexByte([]byte("\"'`"), s[at]) < 0 {
				continue
			}
			if m := aName().FindSubmatch(s[max(0, at-maxGuess):at]); m != nil && len(m[1]) > len(ext) {
				w.link(m[1], at, at, Link{Role: Guess}, asked)
			}
		}
	}
}

// module walks through the imports of a script and the other scripts that it names.
func (w *walker) module(s []byte) {
	if bytes.Contains(s, []byte("import")) || bytes.Contains(s, []byte("export")) {
		w.named(s, imports(), specifier)
		w.named(s, scripts(), plain)
	}
	if w.doc.Kind == HTML || w.doc.Kind == XML {
		w.named(s, workers(), plain)
	}
}

// named adds links for the groups of a pattern.
func (w *walker) named(s []byte, pattern *regexp.Regexp, in quoting) {
	for _, m := range pattern.FindAllSubmatchIndex(s, -1) {
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 && (in != specifier || relative(s[m[i]:m[i+1]])) {
				w.link(s[m[i]:m[i+1]], m[i], m[i+1], Link{Role: Part, As: Module}, in)
			}
		}
	}
}

// Package rewrite finds the links of a document and puts others in their places. Both are one walk, so that what is
// rewritten is what was found.
//
// A link is replaced within the bytes of the document; all other bytes stay as they are, whatever the charset. What is
// inserted is ASCII: percent-escaped references, and the few repairs that a copy needs to work where it is:
//
//   - base: its href is emptied, as all links have been resolved
//   - integrity and crossorigin: removed from elements whose file is in the copy, which a browser would refuse
//   - a policy in a meta element (CSP, upgrade-insecure-requests): named so that no browser heeds it
//   - a charset that only the HTTP header told: declared in the file
//
// Comments, and scripts but for what modules and workers import, are left alone.
package rewrite

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/text/encoding"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Kind is what a document is read as.
type Kind uint8

// The kinds. Opaque has no links that can be rewritten.
const (
	Opaque   Kind = iota
	HTML          // also XHTML that is served as HTML
	XML           // XHTML, SVG, browserconfig.xml
	CSS           //
	Manifest      // of a web application
	Module        // a script with imports, or a worker
	Script        // another script, whose bytes stay
)

// Role is what a link is for.
type Role uint8

// The roles.
const (
	Page    Role = iota // leads to another page
	Part                // what the page is made of
	Frame               // a part that is a page
	Guess               // a part by the custom of scripts, such as data-src; left as it is if there is none
	Outside             // meant for the network: the copy has it absolute, and nobody asks for it
)

// Link is a reference of a document.
type Link struct {
	// URL is where it leads, without the fragment.
	URL canonical.URL
	// Fragment is that of the reference, with its "#". Empty: it has none.
	Fragment string
	Role     Role
	// As says what the target is read as where its own media type does not tell, as for a script. Opaque: by its type.
	As Kind
	// NoFollow says that the page asks crawlers to leave it alone.
	NoFollow bool
}

// Document is what is walked.
type Document struct {
	URL  canonical.URL
	Kind Kind
	// Charset is what the HTTP header said. Empty: nothing.
	Charset string
	Body    []byte
	// Memo, if set, is what the rewriting of documents in one directory of the copy and of the host has in common, while
	// local says the same.
	Memo *Memo
	// Skip, if set, reports of a reference that Links need not visit it: one that means the same in every document of
	// the directory.
	Skip func(ref string, r Role) bool
}

// Memo is what became of references, and memory that is used again. The zero value is ready; it is for one goroutine.
type Memo struct {
	outcomes map[memoKey]outcome
	edits    []edit
	attrs    []attribute
	out      []byte
}

// Forget has the next document be in another directory.
func (m *Memo) Forget() { clear(m.outcomes) }

type memoKey struct {
	ref  string
	role Role
	as   Kind
	in   place
}

// outcome is what becomes of a reference.
type outcome struct {
	text string
	edit bool
	had  bool // by the copy
}

// Found is what a walk saw beside links.
type Found struct {
	// Icon says that the page names an icon.
	Icon bool
}

// Links visits the links of d, of which some may come several times.
func Links(d *Document, visit func(Link)) Found {
	w := walker{doc: d, local: func(l Link) (string, bool) { visit(l); return "", false }, finding: true}
	w.run()
	return w.found
}

// Rewrite is the body with links as local says: a reference that is relative to the document and escaped, with its
// fragment; or false for what the copy does not have, which is left, or made, absolute. The body itself is returned if
// nothing changes. With a Memo the result is valid until the next document.
func Rewrite(d *Document, local func(Link) (string, bool)) []byte {
	w := walker{doc: d, local: local}
	if d.Memo == nil {
		return w.run()
	}
	w.edits, w.attrs = d.Memo.edits[:0], d.Memo.attrs
	out := w.run()
	d.Memo.edits, d.Memo.attrs = w.edits, w.attrs
	return out
}

// edit is a change of the body.
type edit struct {
	from, to int
	text     string
}

// walker walks through one document.
type walker struct {
	doc     *Document
	local   func(Link) (string, bool)
	finding bool // nothing is edited
	ahead   bool // it looks for the base or the charset, and at no links
	found   Found

	base     canonical.URL
	based    bool // the page has a base of its own
	enc      encoding.Encoding
	noFollow bool   // for all links of the page
	charset  string // of the header
	head     int    // where a declaration of the charset goes
	declared bool   // the page has one
	label    string // which it is
	foreign  int    // svg and math elements that are open
	nested   int    // documents in attributes

	edits []edit
	attrs []attribute
}

// run walks, and returns the body with its edits.
func (w *walker) run() []byte {
	d := w.doc
	w.base = d.URL
	text, back := w.decode(d.Body)
	switch d.Kind {
	case HTML, XML:
		w.findBase(text)
		w.markup(text)
		w.declare()
	case CSS:
		w.css(text, 0, bare)
		w.declareCSS(text)
	case Manifest:
		w.json(text, 0, manifestRole)
	case Module:
		w.module(text, 0)
		w.guesses(text)
	case Script:
		w.guesses(text)
	}
	if len(w.edits) == 0 || w.finding {
		return d.Body
	}
	if d.Memo == nil {
		return back(w.apply(text, nil))
	}
	d.Memo.out = w.apply(text, d.Memo.out)
	return back(d.Memo.out)
}

// apply is s with the edits, in the memory of into if it is large enough.
func (w *walker) apply(s, into []byte) []byte {
	slices.SortStableFunc(w.edits, func(a, b edit) int { return a.from - b.from })
	size := len(s)
	for _, e := range w.edits {
		size += len(e.text)
	}
	out, at := slices.Grow(into[:0], size), 0
	for _, e := range w.edits {
		if e.from < at { // two edits of one place, which no document asks for
			continue
		}
		out = append(append(out, s[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, s[at:]...)
}

func (w *walker) edit(from, to int, text string) {
	if !w.finding {
		w.edits = append(w.edits, edit{from, to, text})
	}
}

// place is what surrounds a reference, which says how it is written.
type place uint8

const (
	bare      place = iota // style sheets, and what is escaped as a whole later
	attr                   // the value of an attribute: "&" is &amp;
	inSet                  // a srcset, in which commas end a reference
	inJSON                 // a string of JSON, or of a script
	specifier              // the same, of a module: a relative reference begins with a dot
)

// schemes that are no place on the network, the most usual first.
func elsewhere(ref string) bool {
	colon := strings.IndexByte(ref, ':')
	if colon < 0 || strings.ContainsAny(ref[:colon], "/?#") {
		return false
	}
	scheme := ref[:colon]
	return !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https")
}

// link is what becomes of a reference.
func (w *walker) link(ref string, l Link, in place) (out outcome) {
	for ref != "" && ref[0] <= ' ' {
		ref = ref[1:]
	}
	for ref != "" && ref[len(ref)-1] <= ' ' {
		ref = ref[:len(ref)-1]
	}
	if w.ahead || !w.based && (ref == "" || ref[0] == '#') || elsewhere(ref) {
		return out
	}
	l.NoFollow = l.NoFollow || w.noFollow && l.Role == Page
	same := !w.based && w.enc == nil && (w.doc.Memo != nil || w.doc.Skip != nil) && canonical.Portable([]byte(ref))
	if !same {
		return w.resolve(ref, l, in)
	}
	if w.finding {
		if w.doc.Skip == nil || l.NoFollow || !w.doc.Skip(ref, l.Role) {
			w.resolve(ref, l, in)
		}
		return out
	}
	key := memoKey{ref, l.Role, l.As, in}
	out, known := w.doc.Memo.outcomes[key]
	if !known {
		out = w.resolve(ref, l, in)
		w.doc.Memo.keep(key, out)
	}
	return out
}

func (m *Memo) keep(key memoKey, out outcome) {
	if m.outcomes == nil {
		m.outcomes = make(map[memoKey]outcome)
	}
	if len(m.outcomes) < maxMemo {
		m.outcomes[key] = out
	}
}

// maxMemo bounds a Memo.
const maxMemo = 1 << 14

// resolve is link for a reference of which nothing is known.
func (w *walker) resolve(ref string, l Link, in place) (out outcome) {
	path := ref
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		path, l.Fragment = ref[:i], ref[i:]
	}
	if path == "" && l.Role != Page { // of a base: it is the page itself
		return out
	}
	u, err := w.base.Resolve(w.query(path))
	if err != nil {
		return out
	}
	l.URL = u
	if l.Role != Outside {
		if to, ok := w.local(l); ok {
			if in == specifier && !strings.HasPrefix(to, ".") {
				to = "./" + to
			}
			return outcome{written(to, in), true, true}
		}
	}
	if l.Role == Guess || w.finding || hasScheme(path) {
		return out
	}
	return outcome{written(u.String()+Fragment(l.Fragment), in), true, false}
}

// hasScheme reports whether a reference is absolute. "http:x" is not.
func hasScheme(ref string) bool {
	i := strings.Index(ref, "://")
	return i > 0 && (strings.EqualFold(ref[:i], "http") || strings.EqualFold(ref[:i], "https"))
}

// written is a reference as its place wants it. It has no quotes, blanks or brackets.
func written(ref string, in place) string {
	if strings.ContainsAny(ref, "'\"()<> \\`") {
		ref = hard.Replace(ref)
	}
	switch in {
	case attr:
		ref = strings.ReplaceAll(ref, "&", "&amp;")
	case inSet:
		ref = strings.ReplaceAll(ref, ",", "%2C")
	}
	return ref
}

// hard are the characters that end a reference somewhere, as they are escaped.
var hard = strings.NewReplacer("'", "%27", `"`, "%22", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", `\`, "%5C", "`", "%60")

// Fragment is a fragment, with its "#", in ASCII.
func Fragment(f string) string {
	var b strings.Builder
	for i := range len(f) {
		if c := f[i]; c <= ' ' || c >= 0x7f {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"

// css walks through a style sheet or a declaration, which begins at that place of the document.
func (w *walker) css(s []byte, at int, in place) {
	cssReferences(s, func(ref string, from, to int) {
		if ref == "" || ref[0] == '#' {
			return
		}
		if out := w.link(w.text(ref), Link{Role: Part}, in); out.edit {
			w.edit(at+from, at+to, out.text)
		}
	})
}

// whole is a text in an attribute, walked by inner and edited as a whole.
func (w *walker) whole(s string, inner func(v *walker, s []byte)) (string, bool) {
	v := *w
	v.edits, v.attrs = nil, nil
	inner(&v, []byte(s))
	if len(v.edits) == 0 {
		return "", false
	}
	return string(v.apply([]byte(s), nil)), true
}

func hasFold(s []byte, word string) bool {
	return len(s) >= len(word) && bytes.EqualFold(s[:len(word)], []byte(word))
}

// Package rewrite finds what is to be written anew in a document whose copy is to be opened elsewhere, and writes it. A
// document is walked once, by [Read]; [Page.Write] needs only its places and what the copy has.
//
// A place is replaced within the bytes of the document; all other bytes stay as they are, whatever the charset. What is
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
	"encoding/binary"
	"net/url"
	"regexp"
	"slices"
	"strings"

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

	literal // no link: a text that stands there in every copy
	dropped // no link: what goes if the copy has what its element loads
)

// Document is what is read.
type Document struct {
	URL  canonical.URL
	Kind Kind
	// Charset is what the HTTP header said. Empty: nothing.
	Charset string
	Body    []byte
}

// Link is a reference of a document.
type Link struct {
	// Ref is the reference in UTF-8, in the memory of the document.
	Ref  []byte
	Role Role
	// As says what the target is read as where its own media type does not tell, as for a script. Opaque: by its type.
	As Kind
	// NoFollow says that the page asks crawlers to leave it alone.
	NoFollow bool
}

// Places are where a document is written anew, and memory that is used again. The zero value is ready.
type Places struct {
	// Icon says that the page names an icon.
	Icon bool

	body []byte              // whose bytes the places count
	back func([]byte) []byte // from its charset; nil: it is that of the document
	list []place
}

// place is a part of a document.
type place struct {
	Link
	from, to int
	in       quoting
	depth    int // of attributes that it is in: how many times "&" is escaped
	of       int // of dropped: how many places before it are of its element
}

// quoting is what surrounds a reference, which says how it is written.
type quoting uint8

const (
	plain     quoting = iota
	inSet             // a srcset, in which commas end a reference
	specifier         // of a module: a relative reference begins with a dot
	absolute          // in the document: it stays if the copy does not have it
	asked             // it is only asked for
)

// Read finds the places of d, whose body must not change while they are used.
func (p *Places) Read(d *Document) {
	w := walker{doc: d, places: p}
	p.list, p.Icon, p.back = p.list[:0], false, nil
	p.body = w.decode()
	if d.Kind == HTML || d.Kind == XML {
		again := w
		if w.markup(p.body); w.again {
			p.list = p.list[:0]
			again.base = w.base
			w = again
			w.markup(p.body)
		}
	} else {
		w.other(p.body)
	}
	w.declare()
}

// Links yields the links, in their order.
func (p *Places) Links(yield func(Link) bool) {
	for i := range p.list {
		if l := &p.list[i].Link; l.Role < literal && !yield(*l) {
			return
		}
	}
}

// A Writer writes the documents of one directory. The zero Writer is ready; it is for one goroutine.
type Writer struct {
	known map[string]outcome
	had   []bool // for each place: the copy has what the element loads
	edits []edit
	out   []byte
}

// outcome is what becomes of a reference.
type outcome struct {
	local    string // the file of the copy; empty: there is none
	absolute string // empty: it is no reference
}

type edit struct {
	from, to int
	text     string
}

// maxKnown bounds what a Writer remembers.
const maxKnown = 1 << 14

// Forget has the next document be in another directory, or what the copy has be other files.
func (w *Writer) Forget() { clear(w.known) }

// Write is the document with links as local says: a reference from it to the file that a URL has, escaped, with the
// fragment or another one; or false for what the copy does not have, which is left, or made, absolute. The result is valid
// until the next call.
func (w *Writer) Write(of canonical.URL, p *Places, local func(url, fragment string) (string, bool)) []byte {
	w.edits, w.had = w.edits[:0], slices.Grow(w.had[:0], len(p.list))[:len(p.list)]
	for i := range p.list {
		at := &p.list[i]
		w.had[i] = false
		switch at.Role {
		case literal:
			w.edits = append(w.edits, edit{at.from, at.to, string(at.Ref)})
		case dropped:
			if slices.Contains(w.had[i-at.of:i], true) {
				w.edits = append(w.edits, edit{at.from, at.to, ""})
			}
		default:
			o := w.outcome(of, at, local)
			switch {
			case at.in == asked:
			case o.local != "" && at.Role != Outside:
				w.had[i] = at.Role == Part || at.Role == Frame
				w.edits = append(w.edits, edit{at.from, at.to, at.written(o.local)})
			case o.absolute != "" && at.Role != Guess && at.in != absolute:
				w.edits = append(w.edits, edit{at.from, at.to, at.written(o.absolute)})
			}
		}
	}
	out := p.body
	if len(w.edits) > 0 {
		out = w.apply(p.body)
	}
	if p.back != nil {
		return p.back(out)
	}
	return out
}

func (w *Writer) outcome(of canonical.URL, at *place, local func(url, fragment string) (string, bool)) outcome {
	if o, known := w.known[string(at.Ref)]; known {
		return o
	}
	ref, fragment, cut := strings.Cut(string(at.Ref), "#")
	if cut {
		fragment = Fragment("#" + fragment)
	}
	var o outcome
	if u, err := of.Resolve(ref); err == nil && (ref != "" || at.Role == Page) {
		o.absolute = hard.Replace(u.String() + fragment)
		if to, ok := local(u.String(), fragment); ok {
			o.local = hard.Replace(to)
		}
	}
	if canonical.Portable(at.Ref) && len(w.known) < maxKnown {
		if w.known == nil {
			w.known = make(map[string]outcome)
		}
		w.known[string(at.Ref)] = o
	}
	return o
}

// apply is s with the edits.
func (w *Writer) apply(s []byte) []byte {
	byPlace := func(a, b edit) int { return a.from - b.from }
	if !slices.IsSortedFunc(w.edits, byPlace) {
		slices.SortStableFunc(w.edits, byPlace)
	}
	w.out = w.out[:0]
	at := 0
	for _, e := range w.edits {
		if e.from < at { // two edits of one place, which no document asks for
			continue
		}
		w.out = append(append(w.out, s[at:e.from]...), e.text...)
		at = e.to
	}
	w.out = append(w.out, s[at:]...)
	return w.out
}

// written is a reference, which has no quotes, blanks or brackets, as its place wants it.
func (at *place) written(ref string) string {
	switch {
	case at.in == inSet:
		ref = strings.ReplaceAll(ref, ",", "%2C")
	case at.in == specifier && !strings.HasPrefix(ref, ".") && !strings.Contains(ref, "://"):
		ref = "./" + ref
	}
	for range at.depth {
		ref = strings.ReplaceAll(ref, "&", "&amp;")
	}
	return ref
}

// hard are the characters that end a reference somewhere, as they are escaped.
var hard = strings.NewReplacer("'", "%27", `"`, "%22", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", `\`, "%5C", "`", "%60")

var odd = regexp.MustCompile(`[^!-~]+`)

// Fragment is a fragment, with its "#", in ASCII.
func Fragment(f string) string { return odd.ReplaceAllStringFunc(f, url.PathEscape) }

// Append appends the places to dst, for [Places.Load]. Nothing is appended of what has to be read again, as UTF-16.
func (p *Places) Append(dst []byte) []byte {
	if p.back != nil {
		return dst
	}
	dst = append(dst, appended)
	for i := range p.list {
		at, ref := &p.list[i], p.list[i].Ref
		if at.Role < literal && bytes.Equal(ref, p.body[at.from:at.to]) {
			ref = nil
		}
		for _, n := range [...]int{at.from, at.to, int(at.Role), int(at.in), at.depth, at.of, len(ref)} {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		dst = append(dst, ref...)
	}
	return dst
}

// appended begins what Append has made.
const appended = 1

// Load has what Append has made of a document with that body. It is false of what Append has not made.
func (p *Places) Load(body, from []byte) bool {
	p.list, p.body, p.back = p.list[:0], body, nil
	if len(from) == 0 || from[0] != appended {
		return false
	}
	for from = from[1:]; len(from) > 0; {
		var n [7]int
		for i := range n {
			v, size := binary.Uvarint(from)
			if size <= 0 || v > uint64(len(body)+len(from)) {
				return false
			}
			n[i], from = int(v), from[size:]
		}
		at := place{Link: Link{Role: Role(n[2])}, from: n[0], to: n[1], in: quoting(n[3]), depth: n[4], of: n[5]}
		if at.from > at.to || at.to > len(body) || at.of > len(p.list) || n[6] > len(from) {
			return false
		}
		if at.Ref, from = from[:n[6]], from[n[6]:]; n[6] == 0 && at.Role < literal {
			at.Ref = body[at.from:at.to]
		}
		p.list = append(p.list, at)
	}
	return true
}

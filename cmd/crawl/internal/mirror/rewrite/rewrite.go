// Package rewrite finds the places of a document that must differ in a copy of it, and writes the copy. [Places.Read]
// walks through a document once; [Writer.Write] needs only its places, and which files the copy has.
//
// A place is replaced within the bytes of the document. All other bytes stay as they are, whatever the charset.
// Inserted text is ASCII: percent-escaped references, and the few repairs that a copy needs:
//
//   - base: its href is emptied, since all links are resolved
//   - integrity and crossorigin: removed from elements whose file is in the copy, because a browser would refuse the file
//   - a policy in a meta element (CSP, upgrade-insecure-requests): renamed, so that browsers ignore it
//   - a charset that only the HTTP header gave: declared in the file
//
// Comments stay as they are, and so do scripts, except what modules and workers import.
package rewrite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Kind is how a document is read.
type Kind uint8

// The kinds. Opaque has no links that can be rewritten.
const (
	Opaque   Kind = iota
	HTML          // also XHTML that is served as HTML
	XML           // XHTML, SVG, browserconfig.xml
	CSS           //
	Manifest      // of a web application
	Module        // a script with imports, or a worker
	Script        // any other script; it is not changed
)

// Role is what a link is for.
type Role uint8

// The roles.
const (
	Page    Role = iota // leads to another page
	Part                // a part of the page, such as a picture or a style sheet
	Frame               // a part that is a page itself
	Guess               // a part by a convention of scripts, such as data-src; unchanged if the copy does not have it
	Outside             // meant for the network: absolute in the copy, and never requested

	literal // no link: text to insert in every copy
	dropped // no link: to remove if the copy has a file that the element loads
)

// Document is a document to read.
type Document struct {
	URL  canonical.URL
	Kind Kind
	// Charset is that of the HTTP header. Empty means that the header has none.
	Charset string
	Body    []byte
}

// Link is a reference in a document.
type Link struct {
	// Ref is the reference in UTF-8. It may share the memory of the document.
	Ref  []byte
	Role Role
	// As is how the target is read if its own media type does not decide, as for a script. Opaque means by its type.
	As Kind
	// NoFollow says that the page tells crawlers not to follow the link.
	NoFollow bool
}

// Places are the places of a document that must differ in a copy. They reuse their memory for the next document. The
// zero value is ready to use.
type Places struct {
	// Icon reports whether the page names an icon.
	Icon bool

	body []byte              // the text to which from and to of places refer
	back func([]byte) []byte // encodes body in the document's charset; nil if body is the document
	list []place
}

// place is one place of a document. The Ref of a dropped one is that of the link in its element.
type place struct {
	Link
	from, to int
	in       quoting
	depth    int // how many attributes it is nested in, and "&" escaped as often
}

// quoting is the context of a reference, which decides how it is written.
type quoting uint8

const (
	plain     quoting = iota
	inSet             // in a srcset, where a reference does not end with a comma
	specifier         // in a module, where a relative reference begins with a dot
	asked             // only requested, never written

	absolute quoting = 1 << 2 // also: absolute in the document, and unchanged if the copy does not have it
)

// Read finds the places of d. The body of d must not change while the places are used.
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
	if inOrder := func(a, b place) int { return a.from - b.from }; !slices.IsSortedFunc(p.list, inOrder) {
		slices.SortStableFunc(p.list, inOrder)
	}
}

// Links yields the links in their order.
func (p *Places) Links(yield func(Link) bool) {
	for i := range p.list {
		if l := &p.list[i].Link; l.Role < literal && !yield(*l) {
			return
		}
	}
}

// A Writer writes the copies of documents of one directory. The zero Writer is ready to use. It is not safe for
// concurrent use.
type Writer struct {
	known map[string]outcome
	out   []byte
}

// outcome is what a reference without its fragment is replaced with.
type outcome struct {
	local    string // reference to the file in the copy; empty if there is none
	fragment string // to add to local if the reference has none
	absolute string // empty if the reference is invalid
}

// maxKnown bounds the references that a Writer remembers.
const maxKnown = 1 << 14

// Forget prepares the Writer for documents of another directory, or for other files in the copy.
func (w *Writer) Forget() { clear(w.known) }

// Local returns an escaped reference from a document to the file that the copy has of a URL, and the fragment of links
// to it that have none. It returns false if the copy has no such file; then the link becomes absolute.
type Local func(url string) (ref, fragment string, ok bool)

// Write returns the document of URL of, with its links rewritten by local. The result is valid until the next call.
func (w *Writer) Write(of canonical.URL, p *Places, local Local) []byte {
	if n := len(p.body) + len(p.body)/8; cap(w.out) < n {
		w.out = make([]byte, 0, n)
	}
	w.out = w.out[:0]
	end := 0 // of the last place
	for i := range p.list {
		at := &p.list[i]
		if at.in == asked && at.Role != literal || at.from < end { // walks do not find a place twice
			continue
		}
		ref, fragment := cutFragment(at.Ref)
		var o outcome
		if at.Role != literal {
			o = w.outcome(of, ref, at.Role, local)
		}
		before := p.body[end:at.from]
		switch {
		case at.Role == literal:
			w.out = append(append(w.out, before...), at.Ref...)
		case at.Role == dropped && o.local != "":
			w.out = append(w.out, before...)
		case o.local != "" && at.Role < Outside:
			if len(fragment) == 0 {
				fragment = []byte(o.fragment)
			}
			w.out = at.append(append(w.out, before...), o.local, fragment)
		case o.absolute != "" && at.Role != dropped && at.Role != Guess && at.in&absolute == 0:
			w.out = at.append(append(w.out, before...), o.absolute, fragment)
		default:
			continue
		}
		end = at.to
	}
	w.out = append(w.out, p.body[end:]...)
	if p.back != nil {
		return p.back(w.out)
	}
	return w.out
}

// cutFragment cuts a reference before its "#".
func cutFragment(ref []byte) (before, fragment []byte) {
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		return ref[:i], ref[i:]
	}
	return ref, nil
}

func (w *Writer) outcome(of canonical.URL, ref []byte, r Role, local Local) outcome {
	if o, known := w.known[string(ref)]; known {
		return o
	}
	var o outcome
	if u, err := of.ResolveBytes(ref); err == nil && (len(ref) > 0 || r == Page) {
		o.absolute = Escape(u.String())
		if to, fragment, ok := local(u.String()); ok {
			o.local, o.fragment = Escape(to), fragment
		}
	}
	if canonical.Portable(ref) && len(w.known) < maxKnown {
		if w.known == nil {
			w.known = make(map[string]outcome)
		}
		w.known[string(ref)] = o
	}
	return o
}

// append appends a reference, which has no quotes, blanks or brackets, and its fragment as their place requires it.
func (at *place) append(dst []byte, ref string, fragment []byte) []byte {
	from := len(dst)
	dst = appendEscaped(append(dst, ref...), fragment)
	switch in, text := at.in&^absolute, dst[from:]; {
	case in == inSet && bytes.HasSuffix(text, []byte(",")):
		dst = append(dst[:len(dst)-1], "%2C"...)
	case in == specifier && !bytes.HasPrefix(text, []byte(".")) && !bytes.Contains(text, []byte("://")):
		dst = slices.Insert(dst, from, []byte("./")...)
	}
	for n := at.depth; n > 0 && bytes.IndexByte(dst[from:], '&') >= 0; n-- {
		dst = append(dst[:from], bytes.ReplaceAll(dst[from:], []byte("&"), []byte("&amp;"))...)
	}
	return dst
}

// Escape escapes what is not ASCII, and the characters that end a reference in some context.
func Escape(ref string) string { return string(appendEscaped(nil, []byte(ref))) }

func appendEscaped(dst, ref []byte) []byte {
	for _, c := range ref {
		if c < '!' || c > '~' || strings.IndexByte("'\"()<>\\`", c) >= 0 {
			dst = fmt.Appendf(dst, "%%%02X", c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// Append appends an encoding of the places to dst, for [Places.Load]. It appends nothing if the document has to be read
// again, as for UTF-16.
func (p *Places) Append(dst []byte) []byte {
	if p.back != nil {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.list)+1)) // a document without places is not read again either
	for i := range p.list {
		at, ref := &p.list[i], p.list[i].Ref
		if at.Role < literal && bytes.Equal(ref, p.body[at.from:at.to]) {
			ref = nil
		}
		for _, n := range [...]int{at.from, at.to, int(at.Role), int(at.in), at.depth, len(ref)} {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		dst = append(dst, ref...)
	}
	return dst
}

// Load decodes what Append has appended for a document with that body. It returns false if Append has appended nothing,
// or if the encoding is invalid.
func (p *Places) Load(body, from []byte) bool {
	p.list, p.body, p.back = p.list[:0], body, nil
	number, size := binary.Uvarint(from)
	if size <= 0 || number > uint64(len(from)) {
		return false
	}
	p.list = slices.Grow(p.list, int(number))
	for from = from[size:]; len(from) > 0; {
		var n [6]int
		for i := range n {
			v, size := binary.Uvarint(from)
			if size <= 0 || v > uint64(len(body)+len(from)) {
				return false
			}
			n[i], from = int(v), from[size:]
		}
		at := place{Link: Link{Role: Role(n[2])}, from: n[0], to: n[1], in: quoting(n[3]), depth: n[4]}
		if at.from > at.to || at.to > len(body) || n[5] > len(from) {
			return false
		}
		if at.Ref, from = from[:n[5]], from[n[5]:]; n[5] == 0 && at.Role < literal {
			at.Ref = body[at.from:at.to]
		}
		p.list = append(p.list, at)
	}
	return true
}

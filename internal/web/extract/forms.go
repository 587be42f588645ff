package extract

import (
	"bytes"

	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	maxFields  = 64      // of a form; one with more is meant for people
	maxQuery   = 2 << 10 // bytes
	maxSubmits = 8       // buttons of a form
)

type form struct {
	src    source
	doc    canonical.URL
	open   bool
	asks   bool   // it has a password or a file, or is too large
	post   bool   // it is not sent by GET, unless a button changes that
	action []byte // as written, without query and fragment
	query  []byte
	fields int
	// submits has the first button, which the enter key presses, and further buttons with a target of their own.
	submits []submit

	selectName []byte // of the select element being read
	inSelect   bool
	multiple   bool
	chosen     bool   // an option was selected
	first      []byte // the value of the first option
	hasFirst   bool

	words     []byte // the text of an option or textarea being read
	wordsOf   string // "option", "textarea" or empty
	wordsName []byte
	selected  bool // the option is selected
}

type submit struct {
	action []byte
	field  []byte // its own field, encoded; empty without a name
	at     int    // its place in the query
}

// start handles the start tag of a form or a field. HasEnd says that the tag is not self-closing.
func (f *form) start(src source, doc canonical.URL, hasEnd bool) {
	name := string(src.tag())
	if name == "form" && !f.open {
		*f = form{src: src, doc: doc, open: true}
		f.post, _ = f.posts(attrMethod)
		f.action = f.actionOf(attrAction)
		return
	}
	if !f.open || f.has(attrDisabled) && name != "option" {
		return
	}
	switch name {
	case "input":
		f.input()
	case "button":
		if kind := f.attr(attrType); len(kind) == 0 || is(kind, "submit") {
			f.submitButton()
		}
	case "select":
		f.endSelect()
		f.inSelect, f.selectName, f.multiple = true, bytes.Clone(f.attr(attrName)), f.has(attrMultiple)
	case "option":
		f.option()
	case "textarea":
		if hasEnd {
			f.wordsOf, f.wordsName = name, bytes.Clone(f.attr(attrName))
		}
	}
}

func (f *form) attr(a attr) []byte {
	val, _ := f.src.attr(a)
	return val
}

func (f *form) has(a attr) bool { return f.src.has()&(1<<a) != 0 }

// posts reports whether the method in an attribute is not GET, and whether there is such an attribute.
func (f *form) posts(a attr) (post, said bool) {
	method, said := f.src.attr(a)
	return len(method) > 0 && !is(method, "get"), said
}

// actionOf returns the target of a form, without query and fragment.
func (f *form) actionOf(a attr) []byte {
	action, _, _ := bytes.Cut(withoutFragment(f.attr(a)), []byte("?"))
	if len(action) == 0 { // the target is the document then, not the base
		action, _, _ = bytes.Cut([]byte(f.doc.String()), []byte("?"))
	}
	return bytes.Clone(action)
}

// end adds a link for the form, and one for each further target.
func (f *form) end(to *links) {
	f.endSelect()
	if f.open && (f.post || f.asks) && to.opts.Named {
		to.add(mentioned, f.action)
	}
	if f.open && len(f.submits) == 0 && !f.post {
		f.submits = []submit{{action: f.action}}
	}
	for _, s := range f.submits {
		if f.asks || s.action == nil {
			continue
		}
		ref := append(s.action, '?')
		ref = append(ref, f.query[:s.at]...)
		for i, part := range [...][]byte{s.field, f.query[s.at:]} {
			if len(part) > 0 && ref[len(ref)-1] != '?' && (i == 0 || part[0] != '&') {
				ref = append(ref, '&')
			}
			ref = append(ref, part...)
		}
		to.add(toFollow, bytes.TrimSuffix(ref, []byte("?")))
	}
	*f = form{}
}

// input handles an input element by its type.
func (f *form) input() {
	switch kind := AppendLower(nil, f.attr(attrType)); string(kind) {
	case "password", "file":
		f.asks = true
	case "submit":
		f.submitButton()
	case "image": // it sends coordinates instead of its value
		if f.has(attrFormAction) {
			f.submitButton()
		}
	case "reset", "button", "color", "range": // not sent, or with a value that only browsers know
	case "checkbox", "radio":
		if !f.has(attrChecked) {
			return
		}
		value, has := f.src.attr(attrValue)
		if !has {
			value = []byte("on")
		}
		f.add(f.attr(attrName), value)
	default:
		f.add(f.attr(attrName), f.attr(attrValue))
	}
}

// submitButton keeps the first button, and others with a target of their own.
func (f *form) submitButton() {
	own := f.has(attrFormAction)
	if len(f.submits) > 0 && !own || len(f.submits) == maxSubmits {
		return
	}
	s := submit{at: len(f.query)}
	switch post, said := f.posts(attrFormMethod); {
	case post, !said && f.post:
	case own:
		s.action = f.actionOf(attrFormAction)
	default:
		s.action = bytes.Clone(f.action)
	}
	if !is(f.attr(attrType), "image") {
		name, value := f.attr(attrName), f.attr(attrValue)
		if f.asks = f.asks || len(name)+len(value) > maxQuery; !f.asks {
			s.field = appendField(nil, name, value)
		}
	}
	f.submits = append(f.submits, s)
}

func (f *form) option() {
	f.endWords()
	if f.has(attrDisabled) || !f.inSelect {
		return
	}
	f.selected = f.has(attrSelected)
	if value, has := f.src.attr(attrValue); has {
		f.choose(value)
		return
	}
	f.wordsOf = "option"
}

func (f *form) choose(value []byte) {
	if !f.hasFirst {
		f.first, f.hasFirst = bytes.Clone(value), true
	}
	if f.selected && (f.multiple || !f.chosen) {
		f.chosen = true
		f.add(f.selectName, value)
	}
}

func (f *form) endSelect() {
	f.endWords()
	if f.inSelect && !f.chosen && !f.multiple && f.hasFirst {
		f.add(f.selectName, f.first)
	}
	f.inSelect, f.chosen, f.multiple, f.hasFirst, f.first = false, false, false, false, nil
}

func (f *form) endWords() {
	switch f.wordsOf {
	case "option":
		f.choose([]byte(field(f.words)))
	case "textarea":
		f.add(f.wordsName, bytes.TrimPrefix(f.words, []byte("\n"))) // a first line end is for readability only
	}
	f.wordsOf, f.words = "", f.words[:0]
}

// add appends a field with a name to the query, URL standard §5.2. Characters beyond ASCII are kept, and are encoded in
// the encoding of the page later.
func (f *form) add(name, value []byte) {
	if len(name) == 0 {
		return
	}
	if f.fields++; f.fields > maxFields || len(f.query)+len(name)+len(value) > maxQuery {
		f.asks = true
		return
	}
	if len(f.query) > 0 {
		f.query = append(f.query, '&')
	}
	f.query = appendField(f.query, name, value)
}

func appendField(dst, name, value []byte) []byte {
	if len(name) == 0 {
		return dst
	}
	return appendEncoded(append(appendEncoded(dst, name), '='), value)
}

// appendEncoded appends s with its ASCII characters escaped as in forms.
func appendEncoded(dst, s []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range s {
		switch {
		case c == ' ':
			dst = append(dst, '+')
		case c >= 0x80 || kinds[c]&(letter|digit) != 0 || c == '*' || c == '-' || c == '.' || c == '_':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

package extract

import (
	"bytes"
)

const (
	// maxFields bounds the fields of a form, and maxQuery what they come to, in bytes: a
	// form that sends more is for people to fill in.
	maxFields = 64
	maxQuery  = 2 << 10
	// maxSubmits bounds the buttons of a form, each of which can send all of its fields.
	maxSubmits = 8
)

// formState is the form being read, as it would be sent by GET by someone who fills in
// nothing.
type formState struct {
	open   bool
	asks   bool   // for what nobody should be asked by a program: a password, a file
	post   bool   // it is not sent by GET, unless a button says so
	action []byte // as written, without query and fragment
	query  []byte
	fields int
	// submits are the buttons that send it: the first, which the enter key presses, and those
	// that send it elsewhere.
	submits []submit

	selectName []byte // of the select element being read
	inSelect   bool
	multiple   bool
	chosen     bool   // an option was
	first      []byte // the value of the first option
	hasFirst   bool

	words     []byte // the text of an option or textarea being read
	wordsOf   string // which of them, or ""
	wordsName []byte
	selected  bool // the option is
}

// submit is a button that sends a form.
type submit struct {
	action []byte
	field  []byte // its own, encoded; empty without a name
	at     int    // where in the query of the form that belongs
}

// formElement begins a form. Forms do not nest.
func (e *Extractor) formElement() {
	if !e.opts.Forms || e.template > 0 || e.sent.open {
		return
	}
	method := e.attr(attrMethod)
	e.sent = formState{open: true, post: len(method) > 0 && !is(method, "get"), action: e.actionOf(attrAction)}
}

// actionOf is where an attribute sends a form, without query and fragment.
func (e *Extractor) actionOf(a attr) []byte {
	action, _, _ := bytes.Cut(trim(e.attr(a)), []byte("#"))
	action, _, _ = bytes.Cut(action, []byte("?"))
	if len(action) == 0 { // which is the document, not the base
		action, _, _ = bytes.Cut([]byte(e.doc.String()), []byte("?"))
	}
	return bytes.Clone(action)
}

// endForm makes a link of the form, and one of each further place that it can be sent to.
func (e *Extractor) endForm() {
	e.endWords()
	e.endSelect()
	f := &e.sent
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
		e.put(pending{tag: "form", attr: "action", kind: Navigation}, bytes.TrimSuffix(ref, []byte("?")))
	}
	e.sent = formState{}
}

// formField takes an element of a form as it stands.
func (e *Extractor) formField(name []byte) {
	if !e.sent.open || e.template > 0 {
		return
	}
	if _, disabled := e.source.attr(attrDisabled); disabled && string(name) != "option" {
		return
	}
	switch string(name) {
	case "input":
		e.input()
	case "button":
		if kind := e.attr(attrType); len(kind) == 0 || is(kind, "submit") {
			e.submitButton()
		}
	case "select":
		e.endSelect()
		e.sent.inSelect, e.sent.selectName = true, bytes.Clone(e.attr(attrName))
		_, e.sent.multiple = e.source.attr(attrMultiple)
	case "option":
		e.option()
	case "textarea":
		e.sent.wordsOf, e.sent.wordsName = "textarea", bytes.Clone(e.attr(attrName))
	}
}

// input goes by the type of an input element. Most types there are have a text.
func (e *Extractor) input() {
	f := &e.sent
	switch kind := lowered(nil, e.attr(attrType)); string(kind) {
	case "password", "file":
		f.asks = true
	case "submit":
		e.submitButton()
	case "image": // which sends coordinates, not its value
		if _, has := e.source.attr(attrFormAction); has {
			e.submitButton()
		}
	case "reset", "button", "color", "range": // have no value, or one of their own
	case "checkbox", "radio":
		if _, checked := e.source.attr(attrChecked); checked {
			value, has := e.source.attr(attrValue)
			if !has {
				value = []byte("on")
			}
			f.add(e.attr(attrName), value)
		}
	default:
		f.add(e.attr(attrName), e.attr(attrValue))
	}
}

// submitButton takes the first button there is, and others with an action of their own. One
// that sends the form by POST is there for its place alone.
func (e *Extractor) submitButton() {
	f := &e.sent
	_, own := e.source.attr(attrFormAction)
	if len(f.submits) > 0 && !own || len(f.submits) == maxSubmits {
		return
	}
	s := submit{at: len(f.query)}
	method, has := e.source.attr(attrFormMethod)
	switch post := has && len(method) > 0 && !is(method, "get"); {
	case post, !has && f.post:
	case own:
		s.action = e.actionOf(attrFormAction)
	default:
		s.action = bytes.Clone(f.action)
	}
	if !is(e.attr(attrType), "image") {
		name, value := e.attr(attrName), e.attr(attrValue)
		if f.asks = f.asks || len(name)+len(value) > maxQuery; !f.asks {
			s.field = appendField(nil, name, value)
		}
	}
	f.submits = append(f.submits, s)
}

// option takes an option, whose value may be its text.
func (e *Extractor) option() {
	e.endWords()
	f := &e.sent
	if _, disabled := e.source.attr(attrDisabled); disabled || !f.inSelect {
		return
	}
	_, f.selected = e.source.attr(attrSelected)
	if value, has := e.source.attr(attrValue); has {
		e.choose(value)
		return
	}
	f.wordsOf = "option"
}

// choose takes the value of an option.
func (e *Extractor) choose(value []byte) {
	f := &e.sent
	if !f.hasFirst {
		f.first, f.hasFirst = bytes.Clone(value), true
	}
	if f.selected && (f.multiple || !f.chosen) {
		f.chosen = true
		f.add(f.selectName, value)
	}
}

// endSelect ends the select element: without a choice its first option counts.
func (e *Extractor) endSelect() {
	f := &e.sent
	if f.inSelect && !f.chosen && !f.multiple && f.hasFirst {
		f.add(f.selectName, f.first)
	}
	f.inSelect, f.chosen, f.multiple, f.hasFirst, f.first = false, false, false, false, nil
}

// words takes text that an option or a textarea may have for a value.
func (f *formState) takeWords(s []byte) {
	if f.wordsOf != "" && len(f.words)+len(s) <= maxQuery {
		f.words = append(f.words, s...)
	}
}

// endWords ends such text.
func (e *Extractor) endWords() {
	f := &e.sent
	switch f.wordsOf {
	case "option":
		e.choose([]byte(field(f.words)))
	case "textarea":
		f.add(f.wordsName, bytes.TrimPrefix(f.words, []byte("\n"))) // which stands there for looks
	}
	f.wordsOf, f.words = "", f.words[:0]
}

// add appends a field to the query as forms are encoded, URL standard §5.2. A field
// without a name is not sent. Characters beyond ASCII stay as they are, for they are
// sent in the encoding of the page, as those of links.
func (f *formState) add(name, value []byte) {
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

// appendField appends a field, if it has a name.
func appendField(dst, name, value []byte) []byte {
	if len(name) == 0 {
		return dst
	}
	return appendEncoded(append(appendEncoded(dst, name), '='), value)
}

// appendEncoded escapes all of ASCII that does not stand for itself in a form.
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

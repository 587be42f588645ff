package extract

import (
	"bytes"
)

const (
	// maxFields bounds the fields of a form, and maxQuery what they come to, in bytes: a
	// form that sends more is for people to fill in.
	maxFields = 64
	maxQuery  = 2 << 10
)

// formState is the form being read, as it would be sent by GET by someone who fills in
// nothing.
type formState struct {
	open   bool
	asks   bool   // for what nobody should be asked by a program: a password, a file
	action []byte // as written, without query and fragment
	query  []byte
	fields int
	submit bool // a button was taken: the first, as by the enter key

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

// formElement begins a form that is sent by GET. Forms do not nest.
func (e *Extractor) formElement() {
	method := e.attr(attrMethod)
	if !e.opts.Forms || e.template > 0 || e.sent.open || len(method) > 0 && !bytes.EqualFold(trim(method), []byte("get")) {
		return
	}
	action, _, _ := bytes.Cut(trim(e.attr(attrAction)), []byte("#"))
	action, _, _ = bytes.Cut(action, []byte("?"))
	if len(action) == 0 { // which is the document, not the base
		action, _, _ = bytes.Cut([]byte(e.doc.String()), []byte("?"))
	}
	e.sent = formState{open: true, action: bytes.Clone(action)}
}

// endForm makes a link of the form.
func (e *Extractor) endForm() {
	e.endWords()
	e.endSelect()
	f := &e.sent
	if f.open && !f.asks {
		ref := f.action
		if len(f.query) > 0 {
			ref = append(append(ref, '?'), f.query...)
		}
		e.put(pending{tag: "form", attr: "action", kind: Navigation}, ref)
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
	case "image", "reset", "button", "color", "range": // have no value, or one of their own
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

// submitButton takes the first button there is.
func (e *Extractor) submitButton() {
	if f := &e.sent; !f.submit {
		f.submit = true
		f.add(e.attr(attrName), e.attr(attrValue))
	}
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
	f.query = appendEncoded(f.query, name)
	f.query = appendEncoded(append(f.query, '='), value)
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

package extract

import "bytes"

const (
	maxFields  = 64      // of a form; one with more is for people
	maxQuery   = 2 << 10 // bytes
	maxSubmits = 8       // buttons of a form
)

// formState is the form being read, with its default values.
type formState struct {
	open   bool
	asks   bool   // for a password, a file, or too much
	post   bool   // it is not sent by GET, unless a button says so
	action []byte // as written, without query and fragment
	query  []byte
	fields int
	// submits are the first button, which the enter key presses, and those with another target.
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

type submit struct {
	action []byte
	field  []byte // its own, encoded; empty without a name
	at     int    // its place in the query
}

// formElement begins a form. Forms do not nest.
func (e *Extractor) formElement() {
	if !e.opts.Forms || e.template > 0 || e.sent.open {
		return
	}
	method := e.attr(attrMethod)
	e.sent = formState{open: true, post: len(method) > 0 && !is(method, "get"), action: e.actionOf(attrAction)}
}

// actionOf is the target of a form, without query and fragment.
func (e *Extractor) actionOf(a attr) []byte {
	action, _, _ := bytes.Cut(trim(e.attr(a)), []byte("#"))
	action, _, _ = bytes.Cut(action, []byte("?"))
	if len(action) == 0 { // which is the document, not the base
		action, _, _ = bytes.Cut([]byte(e.doc.String()), []byte("?"))
	}
	return bytes.Clone(action)
}

// endForm adds a link for the form, and for each further target.
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

// input handles an input element by its type.
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

// submitButton keeps the first button, and others with an action of their own.
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

// option handles an option, whose value may be its text.
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

// endSelect ends a select element. Without a choice its first option counts.
func (e *Extractor) endSelect() {
	f := &e.sent
	if f.inSelect && !f.chosen && !f.multiple && f.hasFirst {
		f.add(f.selectName, f.first)
	}
	f.inSelect, f.chosen, f.multiple, f.hasFirst, f.first = false, false, false, false, nil
}

func (f *formState) takeWords(s []byte) {
	if f.wordsOf != "" && len(f.words)+len(s) <= maxQuery {
		f.words = append(f.words, s...)
	}
}

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

// add appends a field to the query, URL standard §5.2, if it has a name. Characters beyond ASCII
// stay, to be sent in the encoding of the page.
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

func appendField(dst, name, value []byte) []byte {
	if len(name) == 0 {
		return dst
	}
	return appendEncoded(append(appendEncoded(dst, name), '='), value)
}

// appendEncoded escapes ASCII characters as forms do.
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

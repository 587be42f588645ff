package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Named is values by their names, in order. In JSON it is an object: of a name with List
// the value is an array, of others a text; with Number the values are numbers.
type Named []Values

// Values is what goes by one name.
type Values struct {
	Name   string
	Values []string
	// List says that there may be more than one value. False: the first is the value.
	List bool
	// Number says that values are numbers as JSON writes them; one that is none is written as
	// a text.
	Number bool
}

// MarshalJSON writes what a record has, for those who encode one by reflection.
func (n Named) MarshalJSON() ([]byte, error) { return appendNamed(nil, n), nil }

// UnmarshalJSON reads an object of texts, numbers and arrays of them.
func (n *Named) UnmarshalJSON(data []byte) error {
	*n = nil
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("values by name are no object"), err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return err
		}
		v := Values{Name: fmt.Sprint(name)}
		items, ok := value.([]any)
		if v.List = ok; !ok {
			items = []any{value}
		}
		for _, item := range items {
			switch item := item.(type) {
			case string:
				v.Values = append(v.Values, item)
			case json.Number:
				v.Number = true
				v.Values = append(v.Values, item.String())
			default:
				return fmt.Errorf("%q is %T, neither text nor number", v.Name, item)
			}
		}
		*n = append(*n, v)
	}
	return nil
}

func appendNamed(dst []byte, n Named) []byte {
	dst = append(dst, '{')
	for i := range n {
		v := &n[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, v.Name), ':')
		switch {
		case v.List:
			dst = v.appendList(dst)
		case len(v.Values) == 0:
			dst = append(dst, `""`...)
		default:
			dst = v.append(dst, v.Values[0])
		}
	}
	return append(dst, '}')
}

// appendList appends the values as an array.
func (v *Values) appendList(dst []byte) []byte {
	dst = append(dst, '[')
	for i, s := range v.Values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = v.append(dst, s)
	}
	return append(dst, ']')
}

// append appends one value.
func (v *Values) append(dst []byte, s string) []byte {
	if v.Number && v.isNumber(s) {
		return append(dst, s...)
	}
	return appendString(dst, s)
}

// isNumber reports whether a value is a number as JSON writes it.
func (*Values) isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// named appends values by name, if there are any.
func (o *object) named(name string, n Named) {
	if len(n) > 0 {
		o.name(name)
		o.buf = appendNamed(o.buf, n)
	}
}

// raw appends a list of JSON values as they are. What is no JSON is left out: it would
// spoil the line.
func (o *object) raw(name string, values []json.RawMessage) {
	sep := byte('[')
	for _, v := range values {
		if !json.Valid(v) {
			continue
		}
		if sep == '[' {
			o.name(name)
		}
		o.buf = appendRaw(append(o.buf, sep), v)
		sep = ','
	}
	if sep == ',' {
		o.buf = append(o.buf, ']')
	}
}

// appendRaw appends valid JSON. Line ends between its values become spaces, and within its
// strings the same characters are escaped as in other strings; outside of them, valid JSON
// has none.
func appendRaw(dst, v []byte) []byte {
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		switch {
		case r == '\n' || r == '\r':
			dst = append(dst, ' ')
		case r == utf8.RuneError && n == 1, isTricky(r), r == 0x7f:
			dst = appendEscape(dst, r)
		default:
			dst = append(dst, v[i:i+n]...)
		}
		i += n
	}
	return dst
}

// extracted appends what was read out of a page by way of its tree.
func (o *object) extracted(r *Record) {
	o.named("fields", r.Fields)
	o.text("fields_error", r.FieldsError)
	o.named("properties", r.Properties)
	o.raw("json_ld", r.JSONLD)
	if r.InvalidJSONLD != 0 {
		o.number("json_ld_invalid", int64(r.InvalidJSONLD))
	}
	o.text("main_text", r.MainText)
}

package record

import (
	"bytes"
	"encoding/json"
)

// Extracted is an item that rules of the settings extracted from a page. An [ItemSink] gets it as a pointer.
type Extracted struct {
	// Kind is the name of the rules.
	Kind string
	// Page is the canonical URL of the page.
	Page string
	// Fields are the values found, in the order of the rules.
	Fields Named
	// Whole is the item as JSON, if it has no rules for fields. Nil: see Fields.
	Whole json.RawMessage
	// Tagged says that the JSON has the Kind, as "item", because there are items of several kinds.
	Tagged bool
}

// MarshalJSON is the item as an object: its fields, and the page, unless a field has that name.
func (e *Extracted) MarshalJSON() ([]byte, error) {
	var b []byte
	if whole := bytes.TrimSpace(e.Whole); len(whole) > 1 && whole[0] == '{' {
		b = append(b, bytes.TrimRight(whole[:len(whole)-1], " \t\r\n")...)
	} else {
		var err error
		if b, err = e.Fields.MarshalJSON(); err != nil {
			return nil, err
		}
		if b = b[:len(b)-1]; whole != nil {
			b = appendMember(b, "value", whole)
		}
	}
	var has map[string]json.RawMessage
	if e.Whole != nil {
		_ = json.Unmarshal(e.Whole, &has) // of what is no object there are no members
	}
	for _, f := range e.Fields {
		if has == nil {
			has = map[string]json.RawMessage{}
		}
		has[f.Name] = nil
	}
	for _, own := range [...]struct {
		name, value string
		want        bool
	}{{"page", e.Page, true}, {"item", e.Kind, e.Tagged}} {
		if _, taken := has[own.name]; own.want && !taken {
			text, err := json.Marshal(own.value)
			if err != nil {
				return nil, err
			}
			b = appendMember(b, own.name, text)
		}
	}
	return append(b, '}'), nil
}

// appendMember adds one to an object that is not closed yet.
func appendMember(b []byte, name string, value []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(append(b, '"'), name...), '"', ':')
	return append(b, value...)
}

package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/theory/jsonpath"

	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/record"
)

// maxPath bounds a JSONPath, in bytes, and maxChoices the commas in it, as each may double the values found.
const (
	maxPath    = 1000
	maxChoices = 4
)

// CompileJSON compiles a JSONPath, in which "$." may be left out. It refuses paths that could cost more than a document
// has values: filters, and more than one "..".
func CompileJSON(s string) (*jsonpath.Path, error) {
	full := s
	switch {
	case s == "":
		return nil, errors.New("is empty; write the names on the way to a value with dots between them, or $ for all")
	case s[0] == '[':
		full = "$" + s
	case s[0] != '$':
		full = "$." + s
	}
	path, err := jsonpath.Parse(full)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is no JSONPath: %w; write one such as name, offers[0].price or items[*].title", s, err)
	case len(s) > maxPath || strings.Count(s, ",") > maxChoices || strings.Count(s, "..") > 1 || strings.Contains(s, "?"):
		return nil, fmt.Errorf("%q could cost too much; leave out filters (?), and use .. once and at most %d commas", s, maxChoices)
	}
	return path, nil
}

// ReadJSON decodes a document for rules. It returns false if the text is not JSON or the budget is spent.
func ReadJSON(text []byte, budget *effort.Budget) (value any, ok bool) {
	text = bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff"))
	if len(text) == 0 || !budget.Spend(len(text)/4) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil || d.More() {
		return nil, false
	}
	return value, true
}

// SelectJSON returns the values that a path selects in a value.
func SelectJSON(path *jsonpath.Path, in any, budget *effort.Budget) []any {
	if in == nil || budget.Spent() {
		return nil
	}
	found := path.Select(in)
	budget.Spend(len(found))
	return found
}

func (p *page) json(f *record.Values, c *compiled) {
	for _, v := range SelectJSON(c.json, p.JSON, p.Budget) {
		list, isList := v.([]any)
		if !isList || !c.All {
			list = []any{v}
		}
		for _, v := range list {
			if !p.add(f, c, p.ofJSON(c, v)) {
				return
			}
		}
	}
}

// ofJSON returns a value as the value of a field. Objects and arrays become JSON.
func (p *page) ofJSON(c *compiled, v any) string {
	t := c.Type
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if t == HTML {
			return v
		}
		return p.read(c, v)
	case json.Number:
		if t == Date {
			return p.read(c, string(v))
		}
		if strings.ContainsAny(string(v), "eE") {
			if x, err := v.Float64(); err == nil {
				return strconv.FormatFloat(x, 'f', -1, 64)
			}
		}
		return string(v)
	case bool:
		if t == Number || t == Date {
			return ""
		}
		return strconv.FormatBool(v)
	}
	if t == Number || t == URL || t == Date {
		return ""
	}
	if SizeJSON(v, MaxValue) > MaxValue {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil || !p.Budget.SpendText(len(text)) {
		return ""
	}
	return string(text)
}

// SizeJSON returns about how many bytes a value has as JSON; it stops counting beyond most. A part that occurs in
// several places counts each time, because it is written each time.
func SizeJSON(v any, most int) (n int) {
	switch v := v.(type) {
	case string:
		return len(v) + 2
	case map[string]any:
		n = 2
		for name, part := range v {
			if n += len(name) + 4; n > most {
				break
			}
			n += SizeJSON(part, most-n)
		}
	case []any:
		n = 2
		for _, part := range v {
			if n++; n > most {
				break
			}
			n += SizeJSON(part, most-n)
		}
	default:
		n = 8
	}
	return n
}

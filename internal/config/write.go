package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/jsontext"
)

// document returns the configuration as a file would have it, in the order of the manual. Rules for hosts are written
// in full, so that they mean the same when they are loaded again.
func (c *Config) document(secrets bool) document.Node {
	root := document.Node{Kind: document.Map}
	for _, f := range fields() {
		if f.noStruct {
			continue
		}
		switch section(f.path) { // what comes before these sections
		case "fetch":
			putOnce(&root, hostsPath, func() document.Node { return rulesNode(c.Hosts, secrets) })
		case "extract":
			putOnce(&root, resiliencePath, func() document.Node { return policyTree(c.Resilience) })
		}
		put(&root, f.path, f.node(get(c, f.path), secrets))
	}
	return root
}

func put(root *document.Node, path string, n document.Node) {
	at := root
	if s := section(path); s != "" {
		putOnce(root, s, func() document.Node { return document.Node{Kind: document.Map} })
		at = &root.Keys[len(root.Keys)-1].Value // the rows of a section are adjacent
	}
	at.Keys = append(at.Keys, document.Entry{Key: leaf(path), Value: n})
}

func putOnce(root *document.Node, key string, value func() document.Node) {
	if !slices.ContainsFunc(root.Keys, func(e document.Entry) bool { return e.Key == key }) {
		root.Keys = append(root.Keys, document.Entry{Key: key, Value: value()})
	}
}

func rulesNode(rules []Host, secrets bool) document.Node {
	list := document.Node{Kind: document.List}
	for i := range rules {
		rule := document.Node{Kind: document.Map}
		for _, f := range hostFields() {
			if h := &rules[i]; !h.unset(&f) && !h.needless(&f) {
				put(&rule, f.path, f.node(get(h, f.path), secrets))
			}
		}
		list.Items = append(list.Items, rule)
	}
	return list
}

// node returns a value as a file has it. A value that is neither a number nor a text, such as 10s, is a Scalar: YAML
// writes it without quotes and JSON as a string. Words of a choice are Scalars too, unless YAML 1.1 would read them as
// booleans.
func (f *field) node(v any, secrets bool) document.Node {
	shown := func(text string) document.Node {
		if !secrets {
			text = f.shown(text)
		}
		return document.Node{Kind: document.String, Text: text}
	}
	if items, ok := v.([]string); ok {
		list := document.Node{Kind: document.List}
		for _, item := range items {
			list.Items = append(list.Items, shown(item))
		}
		return list
	}
	n := document.Node{Kind: document.Scalar, Text: f.format(v)}
	switch {
	case f.kind == kindBool:
		n.Kind = document.Bool
	case f.kind == kindInt, f.kind == kindRate, f.kind == kindNumber:
		n.Kind = document.Number
	case f.kind == kindText:
		return shown(n.Text)
	case n.Text == off:
		n.Kind = document.String
	}
	return n
}

func (f *field) plain(v any) string { return flow(f.node(v, false), false) }

func (f *field) shown(text string) string {
	if f.redact != nil {
		return f.redact(text)
	}
	return text
}

// flow formats a node on one line of YAML or, if strict is set, of JSON, where keys and everything but numbers and
// booleans are strings. Texts are quoted as in JSON in both cases, which every YAML reader accepts.
func flow(n document.Node, strict bool) string {
	var parts []string
	for _, e := range n.Keys {
		key := e.Key
		if strict {
			key = quoteJSON(key)
		}
		parts = append(parts, key+": "+flow(e.Value, strict))
	}
	for _, item := range n.Items {
		parts = append(parts, flow(item, strict))
	}
	list := strings.Join(parts, ", ")
	switch {
	case n.Kind == document.Map:
		return "{" + list + "}"
	case n.Kind == document.List:
		return "[" + list + "]"
	case n.Kind == document.String, n.Kind == document.Scalar && strict:
		return quoteJSON(n.Text)
	}
	return n.Text
}

// quoteJSON quotes a string. It leaves <, > and & readable, which are frequent in patterns for URLs.
func quoteJSON(s string) string { return string(jsontext.AppendString(nil, s)) }

// commentColumn is the column where origins begin, so that they are aligned behind most values. After longer values
// they begin later.
const commentColumn = 44

// WriteYAML writes the configuration as a file that [Load] reads back to the same values, with the origin of each value
// as a comment behind it. Credentials are replaced by REDACTED. The error is that of w.
func (l *Loaded) WriteYAML(w io.Writer) error {
	return writeYAML(w, l.Config.document(false), l.Origins)
}

func writeYAML(w io.Writer, root document.Node, origins map[string]Origin) error {
	y := &yamlWriter{w: bufio.NewWriter(w), origins: origins} // Flush returns the first error
	y.group("", "", root)
	return y.w.Flush()
}

// yamlWriter writes the few shapes that the tree has.
type yamlWriter struct {
	w       *bufio.Writer
	origins map[string]Origin
	dash    string // replaces the end of the next indentation
}

func (y *yamlWriter) line(indent, text, path string) {
	s := strings.TrimSuffix(indent, strings.Repeat(" ", len(y.dash))) + y.dash + text
	y.dash = ""
	if o, ok := y.origins[path]; ok {
		s += strings.Repeat(" ", max(commentColumn-utf8.RuneCountInString(s), 1)) + "# " + o.String()
	}
	_, _ = y.w.WriteString(s + "\n")
}

// group writes the keys of a map. A list that is not empty has an origin for each item and none for itself; lists in
// rules and policies are written on one line.
func (y *yamlWriter) group(indent, path string, n document.Node) {
	for _, e := range n.Keys {
		at := document.Join(path, e.Key)
		list := e.Value.Items != nil
		switch {
		case e.Value.Keys != nil:
			y.line(indent, e.Key+":", at)
			y.group(indent+"  ", at, e.Value)
		case list && at == hostsPath:
			y.line(indent, e.Key+":", "")
			for i, rule := range e.Value.Items {
				y.dash = "- "
				y.group(indent+"    ", document.Item(at, i), rule)
			}
		case list && !strings.HasPrefix(at, hostsPath+"[") && !strings.HasPrefix(at, resiliencePath+"."):
			y.line(indent, e.Key+":", "")
			for i, item := range e.Value.Items {
				y.line(indent+"  ", "- "+flow(item, false), document.Item(at, i))
			}
		default:
			y.line(indent, e.Key+": "+flow(e.Value, false), at)
		}
	}
}

// WriteJSON writes one object: "config" is a file that [Load] reads back to the same values, "origins" contains the
// origin of each value by its path, and "warnings" those of Load. Credentials are replaced by REDACTED. The error is
// that of w.
func (l *Loaded) WriteJSON(w io.Writer) error {
	origins := make(map[string]string, len(l.Origins))
	for path, o := range l.Origins {
		origins[path] = o.String()
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{
		"config": json.RawMessage(flow(l.Config.document(false), true)), "origins": origins, "warnings": append([]string{}, l.Warnings...),
	})
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// LogValue returns the configuration on one line, with credentials redacted: a Config that is passed to slog must not
// reveal them.
func (c Config) LogValue() slog.Value { return slog.StringValue(flow(c.document(false), true)) }

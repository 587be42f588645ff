package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/document"
)

// commentColumn is where origins start, so that they stand in one column behind most
// values. Longer values push theirs out.
const commentColumn = 44

// WriteYAML writes the configuration as a file that [Load] reads back to the same
// values, the origin of each behind it as a comment. Credentials are replaced by
// REDACTED. The error is that of w.
func (l *Loaded) WriteYAML(w io.Writer) error {
	y := &yamlWriter{w: bufio.NewWriter(w), origins: l.Origins}
	return y.all(&l.Config)
}

// yamlWriter lays out the few shapes of the tree by hand. The encoder of the yaml
// package would choose its own quoting, and the law that what is written is read back
// the same would rest on choices made elsewhere.
type yamlWriter struct {
	w       *bufio.Writer
	origins map[string]Origin
	secrets bool // are written as they are
}

// plain is the value of a row as it is to be written.
func (y *yamlWriter) plain(f *field, v any) string {
	if y.secrets {
		open := *f
		open.redact = nil
		f = &open
	}
	return f.plain(v)
}

// all writes every setting.
func (y *yamlWriter) all(c *Config) error {
	open := "" // the section whose heading was written last
	for _, f := range fields() {
		if f.noStruct {
			continue
		}
		if s := section(f.path); s != open {
			y.closeSection(open, c)
			y.line("", s+":", "")
			open = s
		}
		y.setting(c, &f)
	}
	return y.w.Flush()
}

// closeSection puts the rules for hosts behind the section they stand in for, and
// policies behind what they are around.
func (y *yamlWriter) closeSection(name string, c *Config) {
	switch name {
	case "ratelimit":
		y.hosts(c.Hosts)
	case "access":
		y.policies(c.Resilience)
	}
}

// line writes one line; the errors of a bufio.Writer are kept until its Flush.
func (y *yamlWriter) line(indent, text, path string) {
	s := indent + text
	if o, ok := y.origins[path]; ok {
		s += strings.Repeat(" ", max(commentColumn-utf8.RuneCountInString(s), 1)) + "# " + o.String()
	}
	_, _ = y.w.WriteString(s + "\n")
}

// setting writes one row. A list that is not empty has an origin for each item and
// none for itself.
func (y *yamlWriter) setting(c *Config, f *field) {
	indent := ""
	if section(f.path) != "" {
		indent = "  "
	}
	items, ok := get(c, f.path).([]string)
	switch {
	case !ok:
		y.line(indent, leaf(f.path)+": "+y.plain(f, get(c, f.path)), f.path)
	case len(items) == 0:
		y.line(indent, leaf(f.path)+": []", f.path)
	default:
		y.line(indent, leaf(f.path)+":", "")
		for i, item := range items {
			y.line(indent, "  - "+y.plain(f, item), document.Item(f.path, i))
		}
	}
}

// hosts writes the rules in full, so that a reader need not look up what a rule left
// out, and so that they mean the same when they are loaded again.
func (y *yamlWriter) hosts(rules []Host) {
	if len(rules) == 0 {
		y.line("", "hosts: []", "hosts")
		return
	}
	y.line("", "hosts:", "")
	for i := range rules {
		indent := "  - " // the first key of a rule carries the dash
		open := ""       // the group whose heading was written last
		for _, f := range hostFields() {
			if rules[i].unset(&f) || rules[i].needless(&f) {
				continue
			}
			if s := section(f.path); s != open {
				y.line(indent, s+":", "")
				open = s
			}
			if open != "" {
				indent = "      "
			}
			y.line(indent, leaf(f.path)+": "+y.inline(&f, get(&rules[i], f.path)), document.Item("hosts", i)+"."+f.path)
			indent = "    "
		}
	}
}

// inline is plain for what may be a list, on one line.
func (y *yamlWriter) inline(f *field, v any) string {
	items, ok := v.([]string)
	if !ok {
		return y.plain(f, v)
	}
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = y.plain(f, item)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// plain writes a value as YAML. Texts are quoted as JSON quotes them, which every
// YAML reader takes; the words of a choice need it only where YAML 1.1 reads a
// boolean.
func (f *field) plain(v any) string {
	text := f.format(v)
	switch f.kind {
	case kindText, kindList:
		return quoteJSON(f.shown(text))
	case kindChoice:
		if text == off {
			return quoteJSON(text)
		}
	}
	return text
}

// shown hides what must not be printed.
func (f *field) shown(text string) string {
	if f.redact != nil {
		return f.redact(text)
	}
	return text
}

// quoteJSON leaves <, > and & readable, which patterns for URLs are full of.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes, a Builder never fails
	return strings.TrimSuffix(b.String(), "\n")
}

// WriteJSON writes one object: "config" is a file that [Load] reads back to the same
// values, "origins" has the origin of each by its path, "warnings" are those of Load.
// Credentials are replaced by REDACTED. The error is that of w.
func (l *Loaded) WriteJSON(w io.Writer) error {
	origins := make(map[string]string, len(l.Origins))
	for path, o := range l.Origins {
		origins[path] = o.String()
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{
		"config": l.Config.tree(), "origins": origins, "warnings": append([]string{}, l.Warnings...),
	})
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// LogValue is the tree for logs, with credentials replaced: a Config handed to slog by
// itself must not give them away.
func (c Config) LogValue() slog.Value { return slog.AnyValue(c.tree()) }

// tree is the configuration in the types of JSON, credentials replaced. Durations and
// sizes are texts, as in a file.
func (c Config) tree() map[string]any {
	root := map[string]any{}
	for _, f := range fields() {
		if !f.noStruct {
			f.putInto(root, get(&c, f.path))
		}
	}
	// Never nil: a list that is empty is written as one, not as null.
	rules, rows := make([]map[string]any, len(c.Hosts)), hostFields()
	for i := range c.Hosts {
		rules[i] = map[string]any{}
		for _, f := range rows {
			if h := &c.Hosts[i]; !h.unset(&f) && !h.needless(&f) {
				f.putInto(rules[i], get(h, f.path))
			}
		}
	}
	root[hostsPath], root[resiliencePath] = rules, policyMap(c.Resilience)
	return root
}

// putInto puts a value at its path, which has a section at most.
func (f *field) putInto(tree map[string]any, v any) {
	if s := section(f.path); s != "" {
		if tree[s] == nil {
			tree[s] = map[string]any{}
		}
		tree = tree[s].(map[string]any)
	}
	tree[leaf(f.path)] = f.jsonValue(v)
}

// jsonValue is a value as JSON writes it. Durations become texts, because a bare number
// would not be read back.
func (f *field) jsonValue(v any) any {
	switch v := v.(type) {
	case []string:
		shown := make([]string, len(v))
		for i := range v {
			shown[i] = f.shown(v[i])
		}
		return shown
	case string:
		return f.shown(v)
	}
	if f.kind == kindDuration || f.kind == kindSize {
		return f.format(v)
	}
	return v
}

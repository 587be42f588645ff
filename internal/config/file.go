package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

func (l loader) loadFile(src Sources) {
	f := &fileWalk{loader: l, name: cmp.Or(src.File, "-")}
	data, err := readFile(src)
	switch {
	case err != nil:
		l.problems = append(l.problems, Problem{Origin: f.origin(0), Text: err.Error(), cause: err})
		return
	case len(data) > fileMax:
		l.report("", f.origin(0), "the file is larger than %s; a configuration is not, was another file meant?", formatSize(fileMax))
		return
	}
	root, err := document.Parse(f.name, data)
	if bad, ok := errors.AsType[*document.SyntaxError](err); ok {
		l.report("", f.origin(bad.Line), "the file %s", bad.Text)
		return
	}
	f.section("", root)
	if f.resilience != nil {
		f.policies(*f.resilience)
	}
	if len(f.items) > 0 {
		var before []written
		for i, text := range f.get(fieldsPath).([]string) {
			if from := f.origins[document.Item(fieldsPath, i)]; from.Source == fromFile {
				before = append(before, written{text, from})
			}
		}
		f.storeList(fieldsPath, append(before, f.items...), f.items[0].from)
	}
}

type fileWalk struct {
	loader
	name  string
	items []written // lines of the rules for items

	resilience *document.Entry // the section of policies; nil means none
}

func (f *fileWalk) origin(line int) Origin {
	return Origin{Source: fromFile, Name: f.name, Line: line}
}

// section reads the settings of a section; an empty path means the whole file. A section without settings is allowed:
// people comment out all lines but the heading.
func (f *fileWalk) section(path string, n document.Node) {
	if n.Kind == document.Null {
		return
	}
	if n.Kind != document.Map {
		subject := ""
		if path == "" {
			subject = "the file "
		}
		f.report(path, f.origin(n.Line), "%sis %s; give settings by their names", subject, n.Kind)
		return
	}
	for i, e := range n.Keys {
		if path == "" && e.Key == resilienceRoot {
			n.Keys[i].Key = resiliencePath
		} else if _, base := tableOf(path); base != "" {
			n.Keys[i].Key = cmp.Or(hostAliases[e.Key], e.Key)
		}
	}
	for _, e := range f.unique(path, n) {
		f.entry(path, e)
	}
}

// entry handles one key. hosts is the only list of groups, and policies have a table of their own, so these names are
// handled here.
func (f *fileWalk) entry(in string, e document.Entry) {
	path := document.Join(in, e.Key)
	switch to := row(path); {
	case to != nil && to.kind == kindList:
		f.list(path, e.Value)
	case to != nil:
		f.scalar(path, e.Value)
	case path == hostsPath:
		f.hosts(e.Value)
	case path == itemsPath:
		f.itemGroup(e.Value)
	case path == resiliencePath:
		f.resilience = &e
	case e.Key != "" && slices.Contains(names(path), path):
		f.section(path, e.Value)
	default:
		f.unknown(in, e.Key, f.origin(e.Line), names(path))
	}
}

// unique reports keys that occur twice, which the formats permit, and returns the first of each.
func (f *fileWalk) unique(prefix string, n document.Node) []document.Entry {
	return n.Unique(func(first, again document.Entry) {
		f.report(document.Join(prefix, document.Clip(again.Key)), f.origin(again.Line), "is set already on line %d; remove one of the two", first.Line)
	})
}

// scalar stores a single value. A name without a value is a mistake and does not mean the default: the file may have
// been cut off there.
func (f *fileWalk) scalar(path string, n document.Node) {
	o, to := f.origin(n.Line), row(path)
	switch {
	case n.Single():
		f.store(path, written{n.Text, o})
	case n.Kind != document.Null:
		f.report(path, o, "is %s; give %s", n.Kind, to.want())
	case to.kind == kindText:
		f.report(path, o, `has no value; write "" for an empty text, or remove the line`)
	default:
		f.report(path, o, "has no value; give %s, or remove the line", to.want())
	}
}

// list stores a list of texts. A single text is a list of one, as with a flag, and a missing value is an empty list, as
// when all its items are commented out.
func (f *fileWalk) list(path string, n document.Node) {
	if n.Single() {
		n = document.Node{Line: n.Line, Kind: document.List, Items: []document.Node{n}}
	}
	if n.Kind == document.Map && path == fieldsPath {
		var ok bool
		if n, ok = f.fieldGroup(n); !ok {
			return
		}
	}
	if n.Kind == document.Map {
		f.report(path, f.origin(n.Line), "is %s; give a list of texts", n.Kind)
		return
	}
	var items []written
	ok := true // a list is stored as a whole or not at all, so that no item changes its number
	for i, item := range n.Items {
		items = append(items, written{item.Text, f.origin(item.Line)})
		if !item.Single() {
			f.report(document.Item(path, i), items[i].from, "is %s; give a text", item.Kind)
			ok = false
		}
	}
	if ok {
		f.storeList(path, items, f.origin(n.Line))
	}
}

// hosts reads the list of rules. It has no flags and no variables, as a list of groups fits into neither. A rule is
// kept even if it is wrong, so that later rules keep their numbers in the file.
func (f *fileWalk) hosts(n document.Node) {
	if n.Kind == document.Null {
		return
	}
	if n.Kind != document.List {
		f.report(hostsPath, f.origin(n.Line), `is %s; give a list, each item with "match: example.com" and what differs there`, n.Kind)
		return
	}
	f.replaceHosts(append([]Host(nil), make([]Host, len(n.Items))...)) // nil if empty, as without a list
	f.origins[hostsPath] = f.origin(n.Line)
	for i, item := range n.Items {
		path := document.Item(hostsPath, i)
		// The line to report a missing match at. A match that exists has a line of its own.
		f.origins[path+".match"] = f.origin(item.Line)
		if item.Kind != document.Map {
			f.report(path, f.origin(item.Line), `is %s; give "match: example.com" and what differs there`, item.Kind)
			f.bad[path+".match"] = true // already reported: the rule has no match
			continue
		}
		f.section(path, item)
	}
}

// unknown reports a key that is no setting: it names its replacement, or the setting that was probably meant.
func (l loader) unknown(prefix, key string, o Origin, known []string) {
	path, hint := document.Join(prefix, document.QuoteKey(key)), "; see crawl config --reference"
	if _, says := retired(path); says != "" {
		l.report(path, o, "%s", says)
		return
	}
	if len(l.problems) < problemsMax {
		if meant := suggest(prefix, key, known); meant != "" {
			hint = "; did you mean " + meant + "?"
		}
	}
	l.report(path, o, "is not a setting%s", hint)
}

// suggest returns the setting that a key in a section was probably meant to be, or "". A key that exists in another
// section or is the name of a flag is preferred to one with a similar spelling.
func suggest(prefix, key string, known []string) string {
	plain := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	if here := document.Join(prefix, plain); here != document.Join(prefix, key) && slices.Contains(known, here) {
		return here
	}
	for _, f := range fields() {
		names := []string{f.path, leaf(f.path), strings.ReplaceAll(f.flag, "-", "_"), strings.ReplaceAll(f.was, "-", "_")}
		if plain != "" && slices.Contains(known, f.path) && slices.Contains(names, plain) {
			return f.path
		}
	}
	if at := section(key); at != "" { // the key is a whole path
		prefix, key = document.Join(prefix, at), leaf(key)
	}
	var near []string // the names in the same section
	for _, path := range known {
		if section(path) == prefix {
			near = append(near, leaf(path))
		}
	}
	if meant := spelling.Nearest(key, near); meant != "" {
		return document.Join(prefix, meant)
	}
	return ""
}

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
	f := &fileWalk{loader: l, name: cmp.Or(src.File, "-"), saved: src.SavedIn != "" && src.Saved == nil, carried: map[string][]written{}}
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
	f.carryOver()
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
	name    string
	saved   bool                 // a crawl wrote the file, perhaps of a version with other settings
	items   []written            // the lines for items
	carried map[string][]written // what retired settings of such a file say, by the paths of their successors

	resilience *document.Entry // the section of policies, nil without
}

func (f *fileWalk) origin(line int) Origin {
	return Origin{Source: fromFile, Name: f.name, Line: line}
}

// section walks the settings of a section, which is the whole file if its path is empty. One without any
// is allowed: people comment out all lines but the heading.
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

// entry sends one key to where it belongs. hosts is the only list of groups and policies
// have a table of their own, and so these are the names handled by hand.
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
		if old := retired(path); old != nil && f.saved {
			f.carry(old, e.Value)
			return
		}
		f.unknown(in, e.Key, f.origin(e.Line), names(path))
	}
}

// unique reports keys that come twice, which the formats leave to the reader, and returns the first of each.
func (f *fileWalk) unique(prefix string, n document.Node) []document.Entry {
	return n.Unique(func(first, again document.Entry) {
		f.report(document.Join(prefix, document.Clip(again.Key)), f.origin(again.Line), "is set already on line %d; remove one of the two", first.Line)
	})
}

// scalar stores a single value. A name with nothing behind it is a mistake and not the
// default: the file may have been cut off there.
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

// list stores a list of texts. One text alone is a list of one, as for a flag, and
// nothing at all is an empty list, as when all its items are commented out.
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
	ok := true // a list is taken whole or not at all, so that no item changes its number
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

// hosts reads the list of rules. It has no flags and no variables: a list of groups fits into neither. A rule is kept
// even if it is wrong, so that later rules have the numbers they have in the file.
func (f *fileWalk) hosts(n document.Node) {
	if n.Kind == document.Null {
		return
	}
	if n.Kind != document.List {
		f.report(hostsPath, f.origin(n.Line), `is %s; give a list, each item with "match: example.com" and what differs there`, n.Kind)
		return
	}
	f.replaceHosts(append([]Host(nil), make([]Host, len(n.Items))...)) // nil if empty, as of no list
	f.origins[hostsPath] = f.origin(n.Line)
	for i, item := range n.Items {
		path := document.Item(hostsPath, i)
		// Where a missing match is missed. A match that is there says its own line.
		f.origins[path+".match"] = f.origin(item.Line)
		if item.Kind != document.Map {
			f.report(path, f.origin(item.Line), `is %s; give "match: example.com" and what differs there`, item.Kind)
			f.bad[path+".match"] = true // said already: there is nothing to match in it
			continue
		}
		f.section(path, item)
	}
}

// unknown reports a key that is no setting: what has taken its place, or the one that was probably meant.
func (l loader) unknown(prefix, key string, o Origin, known []string) {
	path, hint := document.Join(prefix, document.QuoteKey(key)), "; see crawl config --reference"
	if old := retired(path); old != nil {
		l.report(path, o, "%s", old.says())
		return
	}
	if len(l.problems) < problemsMax {
		if meant := suggest(prefix, key, known); meant != "" {
			hint = "; did you mean " + meant + "?"
		}
	}
	l.report(path, o, "is not a setting%s", hint)
}

// suggest names the setting that a key in a section was meant to be, or "". A key that is right in another
// section or is the name of a flag beats one that is merely spelled alike.
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
	if at := section(key); at != "" { // a whole path
		prefix, key = document.Join(prefix, at), leaf(key)
	}
	var near []string // what stands beside it
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

package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

func (l *loader) loadFile(src Sources) {
	f := &fileWalk{loader: l, name: src.File, saved: src.SavedIn != "" && src.Saved == nil, carried: map[string][]document.Node{}}
	if f.name == "" {
		f.name = "-" // a reader without a name
	}
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
	f.section(&l.cfg, "", "", root)
	if f.resilience != nil {
		f.policies(*f.resilience)
	}
	f.carryOver()
}

// fileWalk moves the nodes of one file into the loader.
type fileWalk struct {
	*loader
	name    string
	saved   bool                       // a crawl wrote the file, perhaps of a version with other settings
	carried map[string][]document.Node // what retired settings of such a file say, by the paths of their successors

	resilience *document.Entry // the section of policies, nil without
}

func (f *fileWalk) origin(line int) Origin {
	return Origin{Source: fromFile, Name: f.name, Line: line}
}

// section walks the settings of a section of root, which is the configuration or a rule for hosts; base is
// the path of the rule. A section without any is allowed: people comment out all lines but the heading.
func (f *fileWalk) section(root any, base, section string, n document.Node) {
	path := strings.TrimSuffix(document.Join(base, section), ".")
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
		} else if base != "" {
			n.Keys[i].Key = cmp.Or(hostAliases[e.Key], e.Key)
		}
	}
	for _, e := range f.unique(path, n) {
		f.entry(root, base, section, e)
	}
}

// entry sends one key to where it belongs. hosts is the only list of groups and policies
// have a table of their own, and so these are the names handled by hand.
func (f *fileWalk) entry(root any, base, prefix string, e document.Entry) {
	key := document.Join(prefix, e.Key)
	path, rows := document.Join(base, key), f.rowsOf(root)
	row := find(rows, key)
	switch {
	case row != nil && row.kind == kindList:
		f.list(root, row, path, e.Value)
	case row != nil:
		f.scalar(root, row, path, e)
	case path == hostsPath:
		f.hosts(e.Value)
	case path == resiliencePath:
		f.resilience = &e
	case key != "" && slices.ContainsFunc(rows, func(r field) bool { return section(r.path) == key }):
		f.section(root, base, key, e.Value)
	default:
		if old := retired(path); old != nil && f.saved {
			f.carry(old, e.Value)
			return
		}
		f.unknown(strings.TrimSuffix(document.Join(base, prefix), "."), e.Key, f.origin(e.Line), func() []string { return f.names(base, rows) })
	}
}

// unique reports keys that come twice, which the formats leave to the reader, and
// returns the first of each.
func (f *fileWalk) unique(prefix string, n document.Node) []document.Entry {
	return n.Unique(func(first, again document.Entry) {
		f.report(document.Join(prefix, document.Clip(again.Key)), f.origin(again.Line), "is set already on line %d; remove one of the two", first.Line)
	})
}

// scalar stores a single value. A name with nothing behind it is a mistake and not the
// default: the file may have been cut off there.
func (f *fileWalk) scalar(root any, row *field, path string, e document.Entry) {
	o := f.origin(e.Value.Line)
	switch {
	case e.Value.Single():
		f.store(root, row, path, e.Value.Text, o)
	case e.Value.Kind != document.Null:
		f.report(path, o, "is %s; give %s", e.Value.Kind, row.want())
	case row.kind == kindText:
		f.report(path, o, `has no value; write "" for an empty text, or remove the line`)
	default:
		f.report(path, o, "has no value; give %s, or remove the line", row.want())
	}
}

// list stores a list of texts. One text alone is a list of one, as for a flag, and
// nothing at all is an empty list, as when all its items are commented out.
func (f *fileWalk) list(root any, row *field, path string, n document.Node) {
	if n.Single() {
		n = document.Node{Line: n.Line, Kind: document.List, Items: []document.Node{n}}
	}
	if n.Kind == document.Map && row.path == fieldsPath {
		var ok bool
		if n, ok = f.fieldGroup(n); !ok {
			return
		}
	}
	if n.Kind == document.Map {
		f.report(path, f.origin(n.Line), "is %s; give a list of texts", n.Kind)
		return
	}
	items, origins := make([]string, len(n.Items)), make([]Origin, len(n.Items))
	ok := true // a list is taken whole or not at all, so that no item changes its number
	for i, item := range n.Items {
		items[i], origins[i] = item.Text, f.origin(item.Line)
		if !item.Single() {
			f.report(document.Item(path, i), origins[i], "is %s; give a text", item.Kind)
			ok = false
		}
	}
	if ok {
		f.storeListAt(root, row, path, items, origins, f.origin(n.Line))
	}
}

// hosts reads the list of rules. It has no flags and no variables: a list of groups
// fits into neither.
func (f *fileWalk) hosts(n document.Node) {
	switch n.Kind {
	case document.Null:
		return
	case document.List:
	default:
		f.report("hosts", f.origin(n.Line), `is %s; give a list, each item with "match: example.com" and what differs there`, n.Kind)
		return
	}
	f.replaceHosts(nil)
	f.origins["hosts"] = f.origin(n.Line)
	for i, item := range n.Items {
		f.host(document.Item("hosts", i), item)
	}
}

// host reads one rule. It is kept even if it is wrong, so that later rules have the
// numbers they have in the file.
func (f *fileWalk) host(path string, n document.Node) {
	f.cfg.Hosts = append(f.cfg.Hosts, Host{})
	rule := &f.cfg.Hosts[len(f.cfg.Hosts)-1]
	// Where a missing match is missed. A match that is there says its own line.
	f.origins[path+".match"] = f.origin(n.Line)
	if n.Kind != document.Map {
		f.report(path, f.origin(n.Line), `is %s; give "match: example.com" and what differs there`, n.Kind)
		f.bad[path+".match"] = true // said already: there is nothing to match in it
		return
	}
	f.section(rule, path, "", n)
}

// names are the paths of settings and sections below base. Sections count as names too: a slip in one of
// them hides all that is below it.
func (l *loader) names(base string, rows []field) []string {
	var known []string
	for i := range rows {
		known = append(known, document.Join(base, rows[i].path))
		if s := section(rows[i].path); s != "" {
			known = append(known, document.Join(base, s))
		}
	}
	if base == "" {
		known = append(known, hostsPath, resiliencePath)
	}
	return known
}

// unknown reports a key that is no setting: what has taken its place, or the one that was probably meant.
func (l *loader) unknown(prefix, key string, o Origin, known func() []string) {
	path, hint := document.Join(prefix, document.QuoteKey(key)), "; see crawl config --reference"
	if old := retired(path); old != nil {
		l.report(path, o, "%s", old.says())
		return
	}
	if len(l.problems) < problemsMax {
		if meant := suggest(prefix, key, known()); meant != "" {
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

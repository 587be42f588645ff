package config

import (
	"errors"
	"fmt"
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
	f.known = l.names()
	f.section("", root)
	f.carryOver()
	l.endLayer(fromFile)
}

// fileWalk moves the nodes of one file into the loader.
type fileWalk struct {
	*loader
	name    string
	known   []string                   // paths of settings and sections, for suggestions
	saved   bool                       // a crawl wrote the file, perhaps of a version with other settings
	carried map[string][]document.Node // what retired settings of such a file say, by the paths of their successors
}

func (f *fileWalk) origin(line int) Origin {
	return Origin{Source: fromFile, Name: f.name, Line: line}
}

// section walks the settings below prefix. A section without any is allowed: people
// comment out all lines but the heading.
func (f *fileWalk) section(prefix string, n document.Node) {
	if n.Kind == document.Null {
		return
	}
	if n.Kind != document.Map {
		subject := ""
		if prefix == "" {
			subject = "the file "
		}
		f.report(prefix, f.origin(n.Line), "%sis %s; give settings by their names", subject, n.Kind)
		return
	}
	for i := range n.Keys {
		if prefix == "" && n.Keys[i].Key == resilienceRoot {
			n.Keys[i].Key = resiliencePath
		}
	}
	for _, e := range f.unique(prefix, n) {
		f.entry(prefix, e)
	}
}

// entry sends one key to where it belongs. hosts is the only list of groups and policies
// have a table of their own, and so these are the names handled by hand.
func (f *fileWalk) entry(prefix string, e document.Entry) {
	path := document.Join(prefix, e.Key)
	row := find(f.rows, path)
	switch {
	case row != nil && row.kind == kindList:
		f.list(&f.cfg, row, path, e.Value)
	case row != nil:
		f.scalar(&f.cfg, row, path, e)
	case path == hostsPath:
		f.hosts(e.Value)
	case path == resiliencePath:
		f.policies(e)
	case slices.Contains(f.known, path):
		f.section(path, e.Value)
	default:
		if old := retired(path); old != nil && f.saved {
			f.carry(old, e.Value)
			return
		}
		f.unknown(prefix, e.Key, f.origin(e.Line), f.known)
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
	f.hostKeys(rule, path, "", n)
}

func (f *fileWalk) hostKeys(rule *Host, path, group string, n document.Node) {
	for i := range n.Keys {
		n.Keys[i].Key = hostAlias(n.Keys[i].Key)
	}
	below := strings.TrimSuffix(document.Join(path, group), ".")
	for _, e := range f.unique(below, n) {
		key := document.Join(group, e.Key)
		row := find(f.hostRows, key)
		switch {
		case row != nil && row.kind == kindList:
			f.list(rule, row, document.Join(path, key), e.Value)
		case row != nil:
			f.scalar(rule, row, document.Join(path, key), e)
		case group == "" && (e.Key == capPath || e.Key == quotaPath):
			f.hostGroup(rule, path, e)
		default:
			f.unknown(below, e.Key, f.origin(e.Line), hostPaths(path, f.hostRows))
		}
	}
}

// hostGroup reads a cap of a rule. One without a key is none, as when all its lines are
// commented out.
func (f *fileWalk) hostGroup(rule *Host, path string, e document.Entry) {
	switch e.Value.Kind {
	case document.Null:
	case document.Map:
		f.hostKeys(rule, path, e.Key, e.Value)
	default:
		f.report(document.Join(path, e.Key), f.origin(e.Value.Line), `is %s; give a group such as {permits: 10, per: 1s}`, e.Value.Kind)
	}
}

func hostPaths(path string, rows []field) []string {
	all := paths(rows)
	for i := range all {
		all[i] = fmt.Sprintf("%s.%s", path, all[i])
	}
	return all
}

// names are the paths of settings and sections. Sections count as names too: a slip in one of
// them hides all that is below it.
func (l *loader) names() []string {
	known := append(paths(l.rows), hostsPath, resiliencePath)
	for _, p := range paths(l.rows) {
		if s := section(p); s != "" && !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	return known
}

// unknown reports a key that is no setting: what has taken its place, or the one that was probably meant.
func (l *loader) unknown(prefix, key string, o Origin, known []string) {
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

func paths(rows []field) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].path
	}
	return all
}

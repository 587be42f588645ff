package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// loadFile reads, parses and walks the file. A file that cannot be read or is not of
// its format is one problem; the layers above it are still checked, so that a user
// sees the mistakes in flags at the same time.
func (l *loader) loadFile(src Sources) {
	f := &fileWalk{loader: l, name: src.File}
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
	root, err := parseFile(f.name, data)
	if bad, ok := errors.AsType[*syntaxError](err); ok {
		l.report("", f.origin(bad.line), "the file %s", bad.text)
		return
	}
	// Sections count as names too: a slip in one of them hides all that is below it.
	f.known = append(paths(l.rows), hostsPath, resiliencePath)
	for _, p := range paths(l.rows) {
		if s := section(p); s != "" && !slices.Contains(f.known, s) {
			f.known = append(f.known, s)
		}
	}
	f.section("", root)
	l.endLayer(fromFile)
}

// fileWalk moves the nodes of one file into the loader.
type fileWalk struct {
	*loader
	name  string
	known []string // paths of settings and sections, for suggestions
}

// origin is a place in this file; line 0 is the file as a whole.
func (f *fileWalk) origin(line int) Origin {
	return Origin{Source: fromFile, Name: f.name, Line: line}
}

// section walks the settings below prefix. A section without any is allowed: people
// comment out all lines but the heading.
func (f *fileWalk) section(prefix string, n node) {
	if n.kind == nodeNull {
		return
	}
	if n.kind != nodeMap {
		subject := ""
		if prefix == "" {
			subject = "the file "
		}
		f.report(prefix, f.origin(n.line), "%sis %s; give settings by their names", subject, n.kind)
		return
	}
	for i := range n.keys {
		if prefix == "" && n.keys[i].key == resilienceRoot {
			n.keys[i].key = resiliencePath
		}
	}
	for _, e := range f.unique(prefix, n.keys) {
		f.entry(prefix, e)
	}
}

// entry sends one key to where it belongs. hosts is the only list of groups and policies
// have a table of their own, and so these are the names handled by hand.
func (f *fileWalk) entry(prefix string, e entry) {
	path := join(prefix, e.key)
	row := find(f.rows, path)
	switch {
	case row != nil && row.kind == kindList:
		f.list(&f.cfg, row, path, e.value)
	case row != nil:
		f.scalar(&f.cfg, row, path, e)
	case path == hostsPath:
		f.hosts(e.value)
	case path == resiliencePath:
		f.policies(e)
	case slices.Contains(f.known, path):
		f.section(path, e.value)
	default:
		f.unknown(prefix, e, f.known)
	}
}

// unique reports keys that come twice, which the formats leave to the reader, and
// returns the first of each.
func (f *fileWalk) unique(prefix string, keys []entry) []entry {
	first := make(map[string]int, len(keys))
	return slices.DeleteFunc(slices.Clone(keys), func(e entry) bool {
		line, twice := first[e.key]
		if !twice {
			first[e.key] = e.line
			return false
		}
		f.report(join(prefix, clip(e.key)), f.origin(e.line), "is set already on line %d; remove one of the two", line)
		return true
	})
}

// unknown reports a key that is no setting, with the one that was probably meant. It
// stops guessing when there are too many to be typing errors: each guess compares the
// key with all names.
func (f *fileWalk) unknown(prefix string, e entry, known []string) {
	path, hint := join(prefix, quoteKey(e.key)), "; see crawl config --reference"
	if len(f.problems) < problemsMax {
		if meant := suggest(prefix, e.key, known); meant != "" {
			hint = "; did you mean " + meant + "?"
		}
	}
	f.report(path, f.origin(e.line), "is not a setting%s", hint)
}

// quoteKey keeps a key that is no name from garbling the path it stands in.
func quoteKey(key string) string {
	if key == "" || len(key) > quoteMax || printable(key) != nil {
		return quote(key)
	}
	return key
}

// scalar stores a single value. A name with nothing behind it is a mistake and not the
// default: the file may have been cut off there.
func (f *fileWalk) scalar(root any, row *field, path string, e entry) {
	o := f.origin(e.value.line)
	switch {
	case e.value.kind == nodeScalar:
		f.store(root, row, path, e.value.text, o)
	case e.value.kind != nodeNull:
		f.report(path, o, "is %s; give %s", e.value.kind, row.want())
	case row.kind == kindText:
		f.report(path, o, `has no value; write "" for an empty text, or remove the line`)
	default:
		f.report(path, o, "has no value; give %s, or remove the line", row.want())
	}
}

// list stores a list of texts. One text alone is a list of one, as for a flag, and
// nothing at all is an empty list, as when all its items are commented out.
func (f *fileWalk) list(root any, row *field, path string, n node) {
	if n.kind == nodeScalar {
		n = node{line: n.line, kind: nodeList, items: []node{n}}
	}
	if n.kind == nodeMap && row.path == fieldsPath {
		var ok bool
		if n, ok = f.fieldGroup(n); !ok {
			return
		}
	}
	if n.kind == nodeMap {
		f.report(path, f.origin(n.line), "is %s; give a list of texts", n.kind)
		return
	}
	items, origins := make([]string, len(n.items)), make([]Origin, len(n.items))
	ok := true // a list is taken whole or not at all, so that no item changes its number
	for i, item := range n.items {
		items[i], origins[i] = item.text, f.origin(item.line)
		if item.kind != nodeScalar {
			f.report(itemPath(path, i), origins[i], "is %s; give a text", item.kind)
			ok = false
		}
	}
	if ok {
		f.storeListAt(root, row, path, items, origins, f.origin(n.line))
	}
}

// hosts reads the list of rules. It has no flags and no variables: a list of groups
// fits into neither.
func (f *fileWalk) hosts(n node) {
	switch n.kind {
	case nodeNull:
		return
	case nodeList:
	default:
		f.report("hosts", f.origin(n.line), `is %s; give a list, each item with "match: example.com" and what differs there`, n.kind)
		return
	}
	f.replaceHosts(nil)
	f.origins["hosts"] = f.origin(n.line)
	for i, item := range n.items {
		f.host(itemPath("hosts", i), item)
	}
}

// host reads one rule. It is kept even if it is wrong, so that later rules have the
// numbers they have in the file.
func (f *fileWalk) host(path string, n node) {
	f.cfg.Hosts = append(f.cfg.Hosts, Host{})
	rule := &f.cfg.Hosts[len(f.cfg.Hosts)-1]
	// Where a missing match is missed. A match that is there says its own line.
	f.origins[path+".match"] = f.origin(n.line)
	if n.kind != nodeMap {
		f.report(path, f.origin(n.line), `is %s; give "match: example.com" and what differs there`, n.kind)
		f.bad[path+".match"] = true // said already: there is nothing to match in it
		return
	}
	f.hostKeys(rule, path, "", n)
}

// hostKeys reads the keys of a rule, or of a group in it.
func (f *fileWalk) hostKeys(rule *Host, path, group string, n node) {
	for i := range n.keys {
		n.keys[i].key = hostAlias(n.keys[i].key)
	}
	below := strings.TrimSuffix(join(path, group), ".")
	for _, e := range f.unique(below, n.keys) {
		key := join(group, e.key)
		row := find(f.hostRows, key)
		switch {
		case row != nil && row.kind == kindList:
			f.list(rule, row, join(path, key), e.value)
		case row != nil:
			f.scalar(rule, row, join(path, key), e)
		case group == "" && (e.key == capPath || e.key == quotaPath):
			f.hostGroup(rule, path, e)
		default:
			f.unknown(below, e, hostPaths(path, f.hostRows))
		}
	}
}

// hostGroup reads a cap of a rule. One without a key is none, as when all its lines are
// commented out.
func (f *fileWalk) hostGroup(rule *Host, path string, e entry) {
	switch e.value.kind {
	case nodeNull:
	case nodeMap:
		f.hostKeys(rule, path, e.key, e.value)
	default:
		f.report(join(path, e.key), f.origin(e.value.line), `is %s; give a group such as {permits: 10, per: 1s}`, e.value.kind)
	}
}

// paths lists the paths of rows.
func paths(rows []field) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].path
	}
	return all
}

// hostPaths lists the keys of a rule below its own path.
func hostPaths(path string, rows []field) []string {
	all := paths(rows)
	for i := range all {
		all[i] = fmt.Sprintf("%s.%s", path, all[i])
	}
	return all
}

package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/records/sink"
	pagefields "github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/items"
)

var recordParts = []string{"text", "main-text", "markdown", "metadata", "body", "no-links", "no-digest"}

// Has reports whether records contain a part: text, main-text, markdown, metadata, body, links or digest.
func (o *Output) Has(part string) bool {
	if no := negation + part; slices.Contains(recordParts, no) {
		return !slices.Contains(o.Record, no)
	}
	return slices.Contains(o.Record, part) || part == "markdown" && o.Format == string(sink.Markdown)
}

func mediaPattern(s string) error {
	_, err := fetch.NewFilter([]string{s}, 0)
	return err
}

func (c checker) warnRecord() {
	o := &c.cfg.Output
	spec := sink.Format(o.Format).Spec()
	if spec.Complete {
		return
	}
	var what []string
	if len(c.cfg.Extract.Names()) > 0 && spec.Separator == 0 {
		what = append(what, "fields")
	}
	for _, part := range []string{"text", "main-text", "markdown", "metadata", "body"} {
		if o.Has(part) && (part != "markdown" || spec.Format != sink.Markdown) {
			what = append(what, part)
		}
	}
	if what != nil {
		c.warn("output.record: of pages, %s will not be written, since the format %s has no place for that; give --format jsonl", strings.Join(what, ", "), document.Quote(o.Format))
	}
}

func (c checker) archives() {
	o := &c.cfg.Output
	if o.Format == string(sink.Markdown) && o.Path == "-" {
		c.wrong("output.path", "a tree of Markdown cannot go to standard output%s; give --output with a directory, or use 'crawl read' for single pages",
			c.place("output.format"))
	}
	if o.Format != "warc" {
		return
	}
	if o.Path == "-" {
		c.wrong("output.path", "archives cannot go to standard output%s; give --output with a name that ends in .warc.gz or with a directory, or --warc with one for archives beside the records",
			c.place("output.format"))
	}
	if c.cfg.WARC.Dir != "" {
		c.wrong("warc.dir", "the archives are in output.path already, for output.format is warc%s; give one of --warc and --format warc",
			c.place("output.format"))
	}
}

// endingFormat returns the format that the ending of a file name indicates, and the ending; the format is empty if
// there is none. A list of URLs has the ending .txt, as in the directory of an output.
func endingFormat(path string) (format, ending string) {
	ending = filepath.Ext(strings.TrimSuffix(strings.ToLower(path), ".gz"))
	return string(sink.ByEnding(ending).Format), ending
}

// Compressed reports whether the records are compressed with gzip, according to the name of their file.
func (o *Output) Compressed() bool { return strings.HasSuffix(strings.ToLower(o.Path), ".gz") }

// OneArchive reports whether the records are a single archive, according to the name of their file, and not several in
// a directory.
func (o *Output) OneArchive() bool {
	format, _ := endingFormat(o.Path)
	return o.Format == "warc" && format == "warc"
}

// unwritten are endings of formats that this program does not write. The value is true for a kind of compression, which
// contradicts every format.
var unwritten = map[string]bool{
	".zst": true, ".bz2": true, ".xz": true, ".br": true, ".lz4": true, ".zip": true, ".7z": true, ".tgz": true,
	".tsv": false, ".xml": false, ".yaml": false, ".yml": false, ".html": false, ".parquet": false,
	".db": false, ".sqlite": false, ".xls": false, ".xlsx": false, ".wacz": false, ".cdxj": false,
	".md": false, ".markdown": false,
}

// FileEnding returns the ending of a name that is known as that of a file, such as .jsonl or .zip; "" for another name.
func FileEnding(path string) string {
	format, ending := endingFormat(path)
	if _, foreign := unwritten[ending]; foreign || format != "" {
		return ending
	}
	return ""
}

// ending reports a file whose name indicates another format than the one set. The file of an earlier run is accepted as
// it is.
func (c checker) ending() {
	o := &c.cfg.Output
	path, given := c.origins["output.path"], c.origins["output.format"]
	least := (Origin{Source: fromState}).rank()
	if format, _ := endingFormat(c.cfg.WARC.Dir); format == "warc" && c.origins["warc.dir"].rank() > least {
		c.wrong("warc.dir", "%s is the name of one archive; give that of a directory, or -o %[1]s for one archive and no other records", document.Quote(c.cfg.WARC.Dir))
	}
	if path.rank() <= least {
		return
	}
	format, ending := endingFormat(o.Path)
	compression, foreign := unwritten[ending]
	written, markdown := given.rank() > least, ending == ".md" || ending == ".markdown"
	switch {
	case format != "" && format != o.Format && written && (ending != ".txt" || o.Format == "warc"): // records of any format may be called .txt
		c.report("output.format", given, "%s contradicts the ending %s of %s%s; give --format %s, or another name", document.Quote(o.Format), ending, document.Quote(o.Path), c.place("output.path"), format)
	case format == "" && markdown && !written:
		c.report("output.path", path, "%s: Markdown is a file for each page, in a directory; give --format markdown -o DIR/, or use 'crawl read URL' for single pages", document.Quote(o.Path))
	case markdown && o.Format == string(sink.Markdown):
		c.report("output.path", path, "%s would be a directory, as Markdown is a file for each page; give -o %s/, or -o %s/ for one of that name, or use 'crawl read URL' for single pages",
			document.Quote(o.Path), strings.TrimSuffix(o.Path, filepath.Ext(o.Path)), o.Path)
	case format == "" && foreign && (compression || !written):
		hint := ""
		if ending == ".xml" {
			hint = "; a sitemap may be a list of URLs, .txt"
		}
		c.report("output.path", path, "%s: nothing is written as %s; end the name in %s, with .gz behind that to compress%s", document.Quote(o.Path), ending, sink.EndingList(" or "), hint)
	case o.Compressed() && o.Format == "warc" && !o.OneArchive():
		c.report("output.path", path, "%s is one file; one archive has a name that ends in .warc or .warc.gz, and a directory one without .gz", document.Quote(o.Path))
	case o.OneArchive() && c.cfg.Fleet.Shared() && !HasWorker(o.Path):
		c.report("output.path", path, "%s is one archive, which several processes cannot write together; put {worker} into its name, where each process has its own", document.Quote(o.Path))
	case o.OneArchive() && c.origins["warc.max_size"].Source == fromFlag:
		c.wrong("warc.max_size", "%s is one archive, which is not cut into several; give -o DIR/ --format warc, or leave warc.max_size out", document.Quote(o.Path))
	}
}

// fieldsPath is the list of rules for fields and items. In a file the rules for items are in groups of their own, at
// itemsPath.
const (
	fieldsPath = "extract.fields"
	itemsPath  = "extract.items"
)

// Names returns the names of the fields of pages, each once, in the order of their first rules.
func (e *Extract) Names() []string {
	var names []string
	rules, err := e.Rules()
	if err != nil { // Validate reports what is wrong
		return nil
	}
	for _, r := range rules.Page {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Rules returns the parsed rules of Fields, for pages and for items.
func (e *Extract) Rules() (*items.Rules, error) { return items.Parse(e.Fields) }

func checkRule(s string) error {
	if !items.IsRule(s) {
		_, err := ParseField(s)
		return err
	}
	return cmp.Or(printable(s), onOneLine(items.Check(s)))
}

func (c checker) rules() {
	e := &c.cfg.Extract
	if c.bad[fieldsPath] || slices.ContainsFunc(e.Fields, func(s string) bool { return checkRule(s) != nil }) {
		return // wrong rules are reported one by one
	}
	rules, err := e.Rules()
	spec := sink.Format(c.cfg.Output.Format).Spec()
	switch {
	case err != nil:
		c.wrong(fieldsPath, "%v", onOneLine(err))
	case len(rules.Kinds) == 0:
	case !spec.Lines() || !spec.Complete && spec.Separator == 0:
		c.wrong("output.format", "there is no place for items in %s%s; give -o with a name that ends in .jsonl or .csv, or with a directory", document.Quote(c.cfg.Output.Format), c.place("output.format"))
	case spec.Separator != 0:
		for _, name := range rules.Names() {
			if _, err := rules.Columns(name); err != nil {
				c.wrong(fieldsPath, "%v", err)
			}
		}
	}
}

// itemGroup converts the rules for items by name into lines. Each is a group of item, match, fields and next, or a list
// of such groups.
func (f *fileWalk) itemGroup(n document.Node) {
	if n.Kind != document.Map {
		f.report(itemsPath, f.origin(n.Line), `is %s; give names of items, each with "item: css:.product", fields and what else there is`, n.Kind)
		return
	}
	for _, e := range f.unique(itemsPath, n) {
		groups := []document.Node{e.Value}
		if e.Value.Kind == document.List {
			groups = e.Value.Items
		}
		for _, g := range groups {
			f.oneItem(e.Key, g)
		}
	}
}

func (f *fileWalk) oneItem(name string, n document.Node) {
	path := document.Join(itemsPath, document.QuoteKey(name))
	if n.Kind != document.Map {
		f.report(path, f.origin(n.Line), `is %s; give a group such as {item: css:.product, fields: {price: css:.price}}`, n.Kind)
		return
	}
	parts := map[string]document.Node{}
	for _, e := range f.unique(path, n) {
		switch e.Key {
		case "item", "match", "fields", "next":
			parts[e.Key] = e.Value
		default:
			f.report(document.Join(path, document.QuoteKey(e.Key)), f.origin(e.Line), "is no part of an item; there are item, match, fields and next")
		}
	}
	add := func(text string, line int) {
		if err := checkRule(text); err != nil {
			f.report(path, f.origin(line), "%v", err)
			return
		}
		f.items = append(f.items, written{text, f.origin(line)})
	}
	mark := ""
	if parts["match"].Text != "" {
		mark = " url~" + parts["match"].Text
	}
	if item := parts["item"]; item.Single() {
		add(items.ItemWord+name+"="+item.Text+mark, item.Line)
	} else if _, more := parts["next"]; !more || item.Kind != document.Null {
		f.report(path, f.origin(n.Line), `has no text for item; write css:SELECTOR, xpath:EXPRESSION, json:PATH, schema:TYPE or page`)
		return
	}
	if fields, ok := parts["fields"]; ok {
		list, ok := f.fieldGroup(fields)
		for _, field := range list.Items {
			if ok {
				add(field.Text, field.Line)
			}
		}
	}
	next := []document.Node{parts["next"]}
	if parts["next"].Kind == document.List {
		next = parts["next"].Items
	}
	for _, rule := range next {
		if rule.Kind == document.Null {
			continue
		}
		text := rule.Text
		if !strings.Contains(text, " url~") {
			text += mark
		}
		add(items.NextWord+text, rule.Line)
	}
}

// ParseField parses a rule of [Extract].Fields. The error says what to write, about everything that is wrong at once.
func ParseField(s string) (pagefields.Rule, error) {
	if err := printable(s); err != nil {
		return pagefields.Rule{}, err
	}
	r, err := pagefields.Parse(s)
	return r, cmp.Or(err, onOneLine(r.Check()))
}

func onOneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// fieldGroup converts rules by name into a list. Each value is a rule or a list of rules, and each rule is a line
// without its name, or a group of its parts. It reports false if one of them is no rule.
func (f *fileWalk) fieldGroup(n document.Node) (list document.Node, ok bool) {
	list, ok = document.Node{Line: n.Line, Kind: document.List}, true
	for _, e := range f.unique(fieldsPath, n) {
		rules := []document.Node{e.Value}
		if e.Value.Kind == document.List {
			rules = e.Value.Items
		}
		for _, rule := range rules {
			text, err := fieldText(e.Key, rule)
			if err != nil {
				f.report(document.Join(fieldsPath, document.QuoteKey(e.Key)), f.origin(rule.Line), "%v", err)
				ok = false
			}
			list.Items = append(list.Items, document.Node{Line: rule.Line, Kind: document.String, Text: text})
		}
	}
	return list, ok
}

// fieldText returns a rule as a line, made from its form in a file.
func fieldText(name string, n document.Node) (string, error) {
	switch {
	case n.Single():
		_, err := ParseField(name + "=" + n.Text)
		return name + "=" + n.Text, err
	case n.Kind != document.Map:
		return "", fmt.Errorf(`is %s; give a rule such as "css:.price" or {css: .price, type: number}`, n.Kind)
	}
	r := pagefields.Rule{Name: name}
	texts := map[string]*string{"css": &r.CSS, "xpath": &r.XPath, "json": &r.JSON, "re": &r.RE, "attr": &r.Attr, "match": &r.Match, "type": new(string), "all": new(string)}
	for _, e := range n.Keys {
		to := texts[e.Key]
		switch {
		case to == nil:
			return "", fmt.Errorf("has the part %s; there are %s", document.Quote(e.Key), strings.Join(slices.Sorted(maps.Keys(texts)), ", "))
		case *to != "" || !e.Value.Single():
			return "", fmt.Errorf("has not one text for %s", e.Key)
		}
		*to = strings.Join(strings.Fields(e.Value.Text), " ") // YAML texts may have several lines
	}
	var errType, errAll error
	if *texts["type"] != "" {
		r.Type, errType = pagefields.ParseType(*texts["type"])
	}
	if *texts["all"] != "" {
		r.All, errAll = document.ParseBool(*texts["all"], "true or false for all")
	}
	return r.String(), cmp.Or(errType, errAll, onOneLine(r.Check()))
}

// Package items extracts several records from a page, one for each element of a list or each thing of schema.org, and
// finds the links to the next pages of lists.
//
// The rules are lines, in the order in which a user writes them as flags:
//
//	item [NAME=]css:SELECTOR[ url~REGEXP]    an item for each element; xpath: and json: likewise
//	item [NAME=]schema:TYPE[ url~REGEXP]     for each thing of that type, in JSON-LD or microdata
//	item [NAME=]page[ url~REGEXP]            the page itself is the item
//	FIELD                                    a rule of package fields, evaluated within the item before it
//	next css:SELECTOR[ url~REGEXP]           links to follow; xpath: and json: likewise
//	next param:NAME[=START][+STEP]           the same URL with the next number in a parameter, while there are items
//	next param:NAME=json:PATH                the same URL with a value of the page, such as a cursor
//
// A field before the first item belongs to every item. Without any item it is a field of pages. The lines that follow an
// item apply to the pages that the item is for. Items of the same name, or without a name, are one stream, though their
// rules may differ by page.
//
// [Parse] parses the lines, [Rules.Extractor] makes what a worker uses, and [Extractor.Page] does the work on a page.
package items

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/fields"
)

// The words with which lines begin that are not fields.
const (
	ItemWord = "item "
	NextWord = "next "
)

const (
	maxKinds     = 50
	schemaPrefix = "schema:"
	paramPrefix  = "param:"
	wholePage    = "page"
	urlMark      = " url~"

	// DefaultName is the name of items without a name.
	DefaultName = "item"
	// PageColumn is the field with the URL of the page, unless a rule has that name.
	PageColumn = "page"
)

// Kind has the rules for the items of some pages.
type Kind struct {
	Name   string // the stream of the items
	Schema string // type of the things; empty means Select or Whole
	Select fields.Rule
	Whole  bool // the page itself is the item
	Match  *regexp.Regexp
	Fields []fields.Rule // empty means the whole of a thing or JSON value; for others settle adds text and url
	source string
}

// isPage reports whether a value is the URL of the page because a rule for that name says so, and not because a selector
// has found it.
func (k *Kind) isPage(name, value, page string) bool {
	return value == page && slices.ContainsFunc(k.Fields, func(f fields.Rule) bool { return f.Page && f.Name == name })
}

// Next is a rule for the next page of a list.
type Next struct {
	Match *regexp.Regexp
	Rule  fields.Rule // selects links, or the value of Param
	Param string
	Start int
	Step  int // zero means that Rule selects the value

	source string
}

// Rules has the rules for all kinds of pages. It is immutable.
type Rules struct {
	// Page has the fields of pages, if there are no items.
	Page  []fields.Rule
	Kinds []Kind
	Nexts []Next
}

var itemForm = lazy.Regexp(`^(?:([\pL_][\pL\pN_-]*)=)?(css:|xpath:|json:|schema:|page$)(.*)$`)

// IsRule reports whether a line is a rule of this package, not a field.
func IsRule(line string) bool {
	return strings.HasPrefix(line, ItemWord) || strings.HasPrefix(line, NextWord)
}

// Check returns what is wrong with one line, or nil.
func Check(line string) error {
	switch {
	case strings.HasPrefix(line, ItemWord):
		_, err := parseItem(strings.TrimPrefix(line, ItemWord))
		return err
	case strings.HasPrefix(line, NextWord):
		_, err := parseNext(strings.TrimPrefix(line, NextWord))
		return err
	}
	r, err := fields.Parse(line)
	return cmp.Or(err, r.Check())
}

// Parse parses lines. The error is that of the first invalid line.
func Parse(lines []string) (*Rules, error) {
	r := &Rules{}
	var common []fields.Rule
	var match *regexp.Regexp
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, ItemWord):
			k, err := parseItem(strings.TrimPrefix(line, ItemWord))
			if err != nil {
				return nil, err
			}
			r.Kinds, match = append(r.Kinds, k), k.Match
		case strings.HasPrefix(line, NextWord):
			n, err := parseNext(strings.TrimPrefix(line, NextWord))
			if err != nil {
				return nil, err
			}
			n.Match = cmp.Or(n.Match, match)
			r.Nexts = append(r.Nexts, n)
		default:
			f, err := fields.Parse(line)
			if err = cmp.Or(err, f.Check()); err != nil {
				return nil, err
			}
			if to := len(r.Kinds) - 1; to >= 0 {
				r.Kinds[to].Fields = append(r.Kinds[to].Fields, f)
			} else {
				common = append(common, f)
			}
		}
	}
	if len(r.Kinds) > maxKinds {
		return nil, fmt.Errorf("%d items are more than %d; leave some out", len(r.Kinds), maxKinds)
	}
	if len(r.Kinds) == 0 {
		r.Page = common
	}
	for i := range r.Kinds {
		k := &r.Kinds[i]
		k.Fields = append(k.Fields, common...)
		if err := k.settle(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// settle adds default fields to a kind that has none.
func (k *Kind) settle() error {
	switch {
	case len(k.Fields) > 0 || k.Schema != "" || k.Select.JSON != "":
		return nil
	case k.Whole:
		return fmt.Errorf("the item %q has no fields; give some with --field", k.source)
	}
	for _, line := range []string{"text=css::scope", "url:url=xpath:descendant-or-self::a[@href][1]"} {
		f, err := fields.Parse(line)
		if err != nil {
			return err
		}
		k.Fields = append(k.Fields, f)
	}
	return nil
}

const itemShape = "write css:SELECTOR, xpath:EXPRESSION, json:PATH, schema:TYPE or page, with NAME= before it to name the items"

func parseItem(s string) (k Kind, err error) {
	k.source = s
	text, pattern, matched := strings.Cut(strings.TrimSpace(s), urlMark)
	if matched {
		if k.Match, err = regexp.Compile(pattern); err != nil {
			return k, fmt.Errorf("%q is not a regular expression: %w", pattern, err)
		}
	}
	parts := itemForm().FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return k, fmt.Errorf("%q is no rule for items; %s", s, itemShape)
	}
	name, how, what := parts[1], parts[2], strings.TrimSpace(parts[3])
	switch {
	case how == wholePage:
		k.Whole = true
	case how == schemaPrefix && what == "":
		return k, fmt.Errorf("%q names no type; write one such as schema:Product", s)
	case how == schemaPrefix:
		k.Schema = what
		name = cmp.Or(name, outOfName().ReplaceAllString(what, ""))
	default:
		if k.Select, err = fields.Parse("item=" + how + what); err == nil && k.Select.Attr != "" {
			err = fmt.Errorf("%q ends with an attribute, and an item is an element; leave out @%s", s, k.Select.Attr)
		}
		if err = cmp.Or(err, k.Select.Check()); err != nil {
			return k, err
		}
	}
	k.Name = cmp.Or(name, DefaultName)
	return k, nil
}

// outOfName matches all of a type that is not its name: what comes before it, and what no name has.
var outOfName = lazy.Regexp(`(?s)^.*[/:#]|[^-_0-9A-Za-z]`)

var paramForm = lazy.Regexp(`^([^=+&#?\s]+)(?:=(\d{1,9}))?(?:\+(\d{1,9}))?$`)

const nextShape = "write css:SELECTOR, xpath:EXPRESSION or json:PATH for links, or param:NAME, param:NAME=START+STEP, param:NAME=json:PATH for a parameter of the URL"

func parseNext(s string) (n Next, err error) {
	n.source = s
	text, pattern, matched := strings.Cut(strings.TrimSpace(s), urlMark)
	if matched {
		if n.Match, err = regexp.Compile(pattern); err != nil {
			return n, fmt.Errorf("%q is not a regular expression: %w", pattern, err)
		}
	}
	rest, isParam := strings.CutPrefix(text, paramPrefix)
	if !isParam {
		if n.Rule, err = fields.Parse("next:url:all=" + text); err != nil {
			return n, fmt.Errorf("%q is no rule for links; %s", s, nextShape)
		}
		return n, n.Rule.Check()
	}
	if name, path, ok := strings.Cut(rest, "=json:"); ok && name != "" {
		n.Param = name
		n.Rule, err = fields.Parse("next=json:" + path)
		return n, cmp.Or(err, n.Rule.Check())
	}
	parts := paramForm().FindStringSubmatch(rest)
	if parts == nil {
		return n, fmt.Errorf("%q is no rule for a parameter; %s", s, nextShape)
	}
	n.Param, n.Step = parts[1], 1
	if parts[3] != "" {
		n.Step, _ = strconv.Atoi(parts[3]) // the pattern allows only few digits
	}
	if n.Step == 0 {
		return n, fmt.Errorf("%q has a step of zero; give how much the parameter grows by from page to page", s)
	}
	if n.Start = 0; n.Step == 1 {
		n.Start = 1
	}
	if parts[2] != "" {
		n.Start, _ = strconv.Atoi(parts[2])
	}
	return n, nil
}

// Columns returns the columns of a table of the items with that name: the fields in their order, and the page unless a
// field is that. It returns an error if the fields are not known.
func (r *Rules) Columns(name string) ([]string, error) {
	placed := false // a field is the URL of the page
	for i := range r.Kinds {
		k := &r.Kinds[i]
		if k.Name != name {
			continue
		}
		placed = placed || slices.ContainsFunc(k.Fields, func(f fields.Rule) bool { return f.Page })
		if len(k.Fields) == 0 {
			return nil, fmt.Errorf("a table of items has a column for each field, and %q has none: give fields, such as --field name=json:name; 'crawl try' shows what there is", k.source)
		}
	}
	all := r.Fields()[name]
	if !placed && !slices.Contains(all, PageColumn) {
		all = append(all, PageColumn)
	}
	return all, nil
}

// Fields returns the fields that the items of each name may have, in their order. Items that are taken as a whole have
// none.
func (r *Rules) Fields() map[string][]string {
	all := make(map[string][]string)
	for i := range r.Kinds {
		for _, f := range r.Kinds[i].Fields {
			if name := r.Kinds[i].Name; !slices.Contains(all[name], f.Name) {
				all[name] = append(all[name], f.Name)
			}
		}
	}
	return all
}

// Names returns the names of the streams, without duplicates.
func (r *Rules) Names() (all []string) {
	for i := range r.Kinds {
		if !slices.Contains(all, r.Kinds[i].Name) {
			all = append(all, r.Kinds[i].Name)
		}
	}
	return all
}

// Package fields extracts named values from pages by rules of the user: for each a CSS selector, an XPath expression, a
// JSONPath or a regular expression, and the type of the value.
//
// [Parse] parses a [Rule] from one line. [New] compiles all rules and reports all problems at once. The [Set] is shared;
// each worker has its own [Extractor], because an XPath expression keeps state. If several rules have the same name, the
// first that finds something gives the field.
//
// A value is cut at [MaxValue] bytes, a field at [MaxValues] values, and all fields of a page at [MaxPage] bytes; the
// error of Extractor.Page says what was cut. The work of rules is charged to the budget of the page (package effort),
// because an expression may compare every element with every other one.
package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
)

const (
	// MaxRules bounds the rules.
	MaxRules = 200
	// MaxValue bounds a value, in bytes.
	MaxValue = 64 << 10
	// MaxValues bounds the values of a field.
	MaxValues = 1000
	// MaxPage bounds the values of all fields of a page, in bytes.
	MaxPage = 1 << 20
	maxName = 64 // bytes of the name of a field
)

// Type says how a value is read from what a rule has selected.
type Type uint8

// The types.
const (
	Text   Type = iota // as a reader sees it, with white space collapsed
	HTML               // the element itself, as HTML
	Number             // the first number in the text
	URL                // resolved against the page, canonical
	Date               // in the form of ISO 8601
)

var typeNames = []string{"text", "html", "number", "url", "date"}

func (t Type) String() string { return typeNames[t] }

// ParseType returns the type with that name. Empty means Text.
func ParseType(s string) (Type, error) {
	if s == "" {
		return Text, nil
	}
	if i := slices.Index(typeNames, s); i >= 0 {
		return Type(i), nil //nolint:gosec // the list is short
	}
	return 0, fmt.Errorf("%q is no type of a value; give one of %s", s, strings.Join(typeNames, ", "))
}

// Rule describes a field.
type Rule struct {
	// Name consists of letters, digits, "_" and "-".
	Name string
	// CSS, XPath, JSON or RE selects the values, unless Page is set; exactly one is. JSON is a JSONPath (RFC 9535) for a JSON document.
	// It may omit "$." at the beginning, and has neither filters nor more than one "..". RE is a regular expression for
	// the text that a reader sees. Its value is the first group, if there is one; repeated values count once.
	CSS, XPath, JSON, RE string
	Page                 bool // the value is the URL of the page, and nothing selects it
	// Attr is an attribute of the elements that CSS selects. Empty means the element itself.
	Attr string
	// All selects every value. False selects the first.
	All  bool
	Type Type
	// Match is a regular expression for the URL of the page. Empty matches all pages.
	Match string
}

const (
	pageWord  = "page"
	allWord   = "all"
	matchMark = " url~"
)

// selectorText is one of the texts that select the values of a rule, and the word that begins it in a line.
type selectorText struct {
	key  string
	text *string
}

func (r *Rule) selectors() [4]selectorText {
	return [...]selectorText{{"css", &r.CSS}, {"xpath", &r.XPath}, {"json", &r.JSON}, {"re", &r.RE}}
}

const shape = `write NAME=css:SELECTOR, NAME=css:SELECTOR@ATTRIBUTE, NAME=xpath:EXPRESSION, NAME=json:PATH, NAME=re:REGEXP, or NAME=page for the URL of the page`

// ScopePseudo selects the element within which a rule is evaluated, such as the element of an item.
const ScopePseudo = ":scope"

var (
	nameForm = lazy.Regexp(`^[\pL_][\pL\pN_-]*$`)
	attrForm = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_:.-]*$`)
)

// Parse parses a rule in one line:
//
//	NAME[:TYPE][:all]=css:SELECTOR[@ATTRIBUTE][ url~REGEXP]
//	NAME[:TYPE][:all]=xpath:EXPRESSION[ url~REGEXP]
//	NAME[:TYPE][:all]=json:PATH[ url~REGEXP]
//	NAME[:TYPE][:all]=re:REGEXP[ url~REGEXP]
//	NAME=page[ url~REGEXP]
//
// A SELECTOR that is left out before an ATTRIBUTE means [ScopePseudo].
//
// The error tells the user what to write. [Rule.Check] checks whether the selector can be used.
func Parse(s string) (Rule, error) {
	head, found, ok := strings.Cut(s, "=")
	if !ok {
		return Rule{}, fmt.Errorf("%q has no =; %s", s, shape)
	}
	options := strings.Split(head, ":")
	r := Rule{Name: strings.TrimSpace(options[0])}
	for _, word := range options[1:] {
		if word == allWord {
			r.All = true
			continue
		}
		var err error
		if r.Type, err = ParseType(word); err != nil {
			return r, fmt.Errorf("%w, or %s", err, allWord)
		}
	}
	found, r.Match, _ = strings.Cut(found, matchMark)
	found = strings.TrimSpace(found)
	if found == pageWord {
		r.Page = true
		return r, nil
	}
	key, text, ok := strings.Cut(found, ":")
	selectors := r.selectors()
	i := slices.IndexFunc(selectors[:], func(s selectorText) bool { return ok && s.key == key })
	if i < 0 {
		return r, fmt.Errorf("%q begins with none of css:, xpath:, json: and re:; %s", found, shape)
	}
	*selectors[i].text = strings.TrimSpace(text)
	if at := strings.LastIndexByte(r.CSS, '@'); at >= 0 && attrForm().MatchString(r.CSS[at+1:]) {
		r.CSS, r.Attr = cmp.Or(strings.TrimSpace(r.CSS[:at]), ScopePseudo), r.CSS[at+1:]
	}
	return r, nil
}

// String returns the rule as one line, which [Parse] accepts if the rule passes [Rule.Check].
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Name)
	if r.Type != Text {
		b.WriteString(":" + r.Type.String())
	}
	if r.All {
		b.WriteString(":" + allWord)
	}
	if r.Page {
		b.WriteString("=" + pageWord)
	}
	for _, s := range r.selectors() {
		if *s.text != "" {
			b.WriteString("=" + s.key + ":" + *s.text)
		}
	}
	if r.Attr != "" {
		b.WriteString("@" + r.Attr)
	}
	if r.Match != "" {
		b.WriteString(matchMark + r.Match)
	}
	return b.String()
}

// Problem says what is wrong with one part of a rule.
type Problem struct {
	Key  string // "name", "css", "xpath", "json", "re", "attr", "type" or "match"
	Text string
}

func (p *Problem) Error() string { return p.Key + ": " + p.Text }

func problem(key, format string, args ...any) error {
	return &Problem{Key: key, Text: fmt.Sprintf(format, args...)}
}

// Check returns all problems of the rule, joined.
func (r Rule) Check() error {
	_, err := compile(r)
	return err
}

// checkParts returns the problems of all parts but the selector and the pattern.
func (r *Rule) checkParts() (errs []error) {
	if len(r.Name) > maxName || !nameForm().MatchString(r.Name) {
		errs = append(errs, problem("name", `%q is no name of a field; give up to %d letters, digits, "_" and "-", a letter first`, r.Name, maxName))
	}
	if r.Attr != "" && !attrForm().MatchString(r.Attr) {
		errs = append(errs, problem("attr", "%q is no name of an attribute; give one such as content or href", r.Attr))
	}
	if r.Attr != "" && r.XPath != "" {
		errs = append(errs, problem("attr", "is for css; write the attribute into the expression: %s/@%s", r.XPath, r.Attr))
	}
	if r.Attr != "" && r.JSON != "" {
		errs = append(errs, problem("attr", "is for css; JSON has no attributes"))
	}
	if r.Attr != "" && r.RE != "" {
		errs = append(errs, problem("attr", "is for css; a text has no attributes"))
	}
	if r.RE != "" && r.Type == HTML {
		errs = append(errs, problem("type", "html is for elements, and re finds text; leave it out"))
	}
	if r.Attr != "" && r.Type == HTML {
		errs = append(errs, problem("type", "html is for elements, and an attribute is none; leave out one of the two"))
	}
	for _, s := range r.selectors() {
		if strings.Contains(*s.text, matchMark) {
			errs = append(errs, problem(s.key, "contains %q, which begins the pattern of URLs; leave out the space", matchMark))
		}
	}
	return errs
}

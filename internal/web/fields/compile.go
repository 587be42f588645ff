package fields

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/andybalholm/cascadia"
	"github.com/antchfx/xpath"
	"github.com/theory/jsonpath"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/dom"
)

type compiled struct {
	Rule
	match *regexp.Regexp // nil means every page
	css   *selector
	xpath *xpath.Expr
	json  *jsonpath.Path
	re    *regexp.Regexp
	// perByte is the cost of re, or of the patterns of xpath, in steps for each byte of text.
	perByte int
}

// Set has compiled rules. It is immutable and safe for concurrent use.
type Set struct{ rules []compiled }

// New compiles rules. The error joins all problems, each with the name of its rule.
func New(rules []Rule) (*Set, error) {
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("%d rules are more than %d; leave some out", len(rules), MaxRules)
	}
	s := &Set{}
	var errs []error
	for _, r := range rules {
		c, err := compile(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
			continue
		}
		s.rules = append(s.rules, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func compile(r Rule) (compiled, error) {
	c := compiled{Rule: r}
	errs := r.checkParts()
	given := 0
	if r.Page {
		given++
	}
	for _, s := range r.selectors() {
		if *s.text != "" {
			given++
		}
	}
	var err error
	key := "css"
	switch {
	case given != 1:
		err = errors.New("give one of css, xpath, json and re")
	case r.Page:
	case r.CSS != "":
		c.css, err = compileCSS(r.CSS)
	case r.JSON != "":
		key = "json"
		c.json, err = CompileJSON(r.JSON)
	case r.RE != "":
		key = "re"
		c.re, c.perByte, err = pattern(r.RE)
	default:
		key = "xpath"
		c.xpath, c.perByte, err = compileXPath(r.XPath)
	}
	if err != nil {
		errs = append(errs, problem(key, "%v", err))
	}
	if r.Match != "" {
		if c.match, _, err = pattern(r.Match); err != nil {
			errs = append(errs, problem("match", "%v", err))
		}
	}
	return c, errors.Join(errs...)
}

// pattern compiles a regular expression, and returns its cost per byte of text.
func pattern(s string) (*regexp.Regexp, int, error) {
	steps, err := patternSteps(s)
	if err != nil {
		return nil, 0, err
	}
	re, err := regexp.Compile(s)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		err = fmt.Errorf("%q is not a regular expression (%s: %q); see the syntax of Go's regexp package", s, bad.Code, bad.Expr)
	}
	return re, steps, err
}

// compileCSS also refuses selectors that the library accepts and that never match.
func compileCSS(s string) (*selector, error) {
	group, err := cascadia.ParseGroupWithPseudoElements(strings.ReplaceAll(s, ScopePseudo, ":root")) // it has no :scope
	if err != nil {
		return nil, fmt.Errorf("%q is no CSS selector: %w; %s", s, err, hint(s))
	}
	for _, sel := range group {
		if e := sel.PseudoElement(); e != "" {
			return nil, fmt.Errorf("%q has the pseudo-element ::%s, which is no part of a page; %s", s, e, hint(s))
		}
	}
	sel, err := parseSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be used: %w", s, err)
	}
	return sel, nil
}

func hint(s string) string {
	if strings.HasPrefix(s, "/") {
		return "for XPath write xpath: in its place"
	}
	if strings.Contains(s, "::") {
		return "text is what is taken by itself, and for an attribute write SELECTOR@ATTRIBUTE"
	}
	return "write one such as article h1, .price or a[rel=author]"
}

// compileXPath compiles an expression, and returns the cost of its patterns per byte of text. It evaluates the expression
// once, because the library panics on wrong arguments of functions only then.
func compileXPath(s string) (expr *xpath.Expr, perByte int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q is no XPath expression: %v", s, p)
		}
	}()
	if expr, err = xpath.Compile(s); err != nil {
		return nil, 0, fmt.Errorf("%q is no XPath expression: %w", s, err)
	}
	if perByte, err = callSteps(s); err != nil {
		return nil, 0, fmt.Errorf("%q cannot be used: %w", s, err)
	}
	root := dom.Parse([]byte(`<title>a</title><p id="b" class="c">d<a href="e">f</a>`)).Root
	if it, ok := expr.Evaluate(navigate(root, nil, 0)).(*xpath.NodeIterator); ok {
		for it.MoveNext() {
			continue
		}
	}
	return expr, perByte, nil
}

// Extractor runs a set. It must not be used concurrently.
type Extractor struct{ rules []compiled }

// Extractor returns an Extractor for one worker. For a nil or empty Set it returns nil, which finds nothing.
func (s *Set) Extractor() *Extractor {
	if s == nil || len(s.rules) == 0 {
		return nil
	}
	e := &Extractor{rules: make([]compiled, len(s.rules))}
	for i, c := range s.rules {
		if c.xpath != nil {
			c.xpath = xpath.MustCompile(c.XPath) // New has compiled it before
		}
		e.rules[i] = c
	}
	return e
}

// Wants reports whether any rule is for the page. If not, no tree is needed.
func (e *Extractor) Wants(url string) bool {
	if e == nil {
		return false
	}
	return slices.ContainsFunc(e.rules, func(c compiled) bool { return c.wants(url) })
}

func (c *compiled) wants(url string) bool { return c.match == nil || c.match.MatchString(url) }

// maxProgram bounds the instructions of a regular expression: for each byte of text all of them may run.
const maxProgram = 10_000

// patternSteps returns the cost of a regular expression per byte of text. The error says that the expression is too
// long. An invalid expression costs nothing here; compiling it returns the error.
func patternSteps(pattern string) (steps int, err error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, nil //nolint:nilerr // compiling it says so
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, nil //nolint:nilerr // as above
	}
	if len(prog.Inst) > maxProgram {
		return 0, fmt.Errorf("the regular expression %.60q is %d instructions, more than %d; use smaller repetitions", pattern, len(prog.Inst), maxProgram)
	}
	return 1 + len(prog.Inst)/8, nil
}

// xpathToken splits an expression into quoted texts, names, and single characters.
var xpathToken = lazy.Regexp(`"[^"]*"|'[^']*'|[-\w.:@/\x80-\x{10ffff}]+|\S`)

// maxGrowth bounds the factor by which all calls of replace together may lengthen a text.
const maxGrowth = 1 << 20

// callSteps checks the calls in a valid expression of functions whose arguments after the first must be literals. Taken
// from a page, such arguments could be megabytes each, with a result as long as their product, or patterns of any size.
// It returns the cost of the patterns per byte of text.
func callSteps(expr string) (steps int, err error) {
	type call struct {
		name string
		args [][]string // the tokens of each
	}
	open, name, growth := []call{{}}, "", 1
	for _, token := range xpathToken().FindAllString(expr, -1) {
		top := &open[len(open)-1]
		switch token {
		case "(", "[":
			open = append(open, call{name: name, args: [][]string{nil}})
		case ")", "]":
			if open = open[:max(1, len(open)-1)]; literalArgs[top.name] {
				more, longer, err := literals(top.name, top.args[1:])
				if err != nil {
					return 0, err
				}
				if steps, growth = steps+more, growth*longer; growth > maxGrowth {
					return 0, fmt.Errorf("the calls of replace() could make a text more than %d times as long; use shorter texts, or fewer calls", maxGrowth)
				}
			}
		case ",":
			top.args = append(top.args, nil)
		default:
			if n := len(top.args); n > 0 {
				top.args[n-1] = append(top.args[n-1], token)
			}
		}
		name = token
	}
	return steps * growth, nil
}

var literalArgs = map[string]bool{"matches": true, "replace": true, "string-join": true, "translate": true}

// literals checks the arguments after the first of a call. It returns the cost of its pattern, and the factor by which
// the call may lengthen a text.
func literals(name string, args [][]string) (steps, growth int, err error) {
	growth = 1
	for n, tokens := range args {
		arg := strings.Join(tokens, " ")
		if len(tokens) != 1 || arg[0] != '"' && arg[0] != '\'' {
			return 0, 0, fmt.Errorf("the arguments of %s() behind the first must be texts in quotes, and %q is none", name, arg)
		}
		switch {
		case n == 0 && (name == "matches" || name == "replace"):
			if steps, err = patternSteps(arg[1 : len(arg)-1]); err != nil {
				return 0, 0, err
			}
		case n == 1 && name == "replace": // the replacement may be inserted between any two bytes
			growth = len(arg) - 1
		}
	}
	return steps, growth, nil
}

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

	"github.com/treadlight/crawl/internal/web/dom"
)

type compiled struct {
	Rule
	match *regexp.Regexp // nil: every page
	css   *selector
	xpath *xpath.Expr
	// perByte is what the patterns of xpath may cost for each byte of a text.
	perByte int
}

// Set is compiled rules. It is immutable and safe for concurrent use.
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

// compile compiles a rule. The error joins a [Problem] for each part.
func compile(r Rule) (compiled, error) {
	c := compiled{Rule: r}
	errs := r.checkParts()
	var err error
	switch {
	case (r.CSS == "") == (r.XPath == ""):
		errs = append(errs, problem("css", "give one of css and xpath"))
	case r.CSS != "":
		if c.css, err = compileCSS(r.CSS); err != nil {
			errs = append(errs, problem("css", "%v", err))
		}
	default:
		if c.xpath, err = compileXPath(r.XPath); err != nil {
			errs = append(errs, problem("xpath", "%v", err))
		}
	}
	if r.Match != "" {
		c.match, err = regexp.Compile(r.Match)
		if _, e := patternSteps(r.Match); e != nil {
			errs = append(errs, problem("match", "%v", e))
		}
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			errs = append(errs, problem("match", "%q is not a regular expression (%s: %q); see the syntax of Go's regexp package", r.Match, bad.Code, bad.Expr))
		}
	}
	return c, errors.Join(errs...)
}

// compileCSS also refuses what the library accepts and never matches.
func compileCSS(s string) (*selector, error) {
	group, err := cascadia.ParseGroupWithPseudoElements(s)
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

// compileXPath compiles an expression and runs it once: the library panics on wrong arguments of
// functions only then.
func compileXPath(s string) (expr *xpath.Expr, err error) {
	defer func() {
		if p := recover(); p != nil {
			expr, err = nil, fmt.Errorf("%q is no XPath expression: %v", s, p)
		}
	}()
	if expr, err = xpath.Compile(s); err != nil {
		return nil, fmt.Errorf("%q is no XPath expression: %w", s, err)
	}
	if _, err := callSteps(s); err != nil {
		return nil, fmt.Errorf("%q cannot be used: %w", s, err)
	}
	root := dom.Parse([]byte(`<title>a</title><p id="b" class="c">d<a href="e">f</a>`)).Root
	if it, ok := expr.Evaluate(navigate(root, nil, 0)).(*xpath.NodeIterator); ok {
		for it.MoveNext() {
			continue
		}
	}
	return expr, nil
}

// Extractor runs a set. It must not be used concurrently.
type Extractor struct{ rules []compiled }

// Extractor makes one for a worker. Of a nil or empty Set it is nil, and finds nothing.
func (s *Set) Extractor() *Extractor {
	if s == nil || len(s.rules) == 0 {
		return nil
	}
	e := &Extractor{rules: make([]compiled, len(s.rules))}
	for i, c := range s.rules {
		if c.xpath != nil {
			c.xpath = xpath.MustCompile(c.XPath) // it compiled before
			c.perByte, _ = callSteps(c.XPath)
		}
		e.rules[i] = c
	}
	return e
}

// Wants reports whether any rule is for the page; otherwise no tree is needed.
func (e *Extractor) Wants(url string) bool {
	if e == nil {
		return false
	}
	return slices.ContainsFunc(e.rules, func(c compiled) bool { return c.wants(url) })
}

func (c *compiled) wants(url string) bool { return c.match == nil || c.match.MatchString(url) }

// maxProgram bounds the instructions of a regular expression: each byte of text may run all of
// them.
const maxProgram = 10_000

// patternSteps is the cost of a regular expression per byte of text. The error is for one that
// is too long; an invalid one costs nothing.
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

// literalArgs are the XPath functions whose arguments but the first must be literals: from a
// page they could be megabytes each, of which the result is the product, or a pattern of any
// size.
var literalArgs = regexp.MustCompile(`^(matches|replace|string-join|translate)\s*\(`)

// maxGrowth bounds how much longer the calls of replace may make a text together.
const maxGrowth = 1 << 20

// callSteps checks the arguments of these functions in a valid expression, and returns the cost
// of their patterns per byte of text.
func callSteps(expr string) (steps int, err error) {
	growth := 1
	for i := 0; i < len(expr); i++ {
		if end := quoteEnd(expr, i); end > i {
			i = end
			continue
		}
		if i > 0 && strings.IndexByte("-_.:@/", expr[i-1]) >= 0 || i > 0 && wordByte(expr[i-1]) {
			continue
		}
		call := literalArgs.FindStringSubmatch(expr[i:])
		if call == nil {
			continue
		}
		for n, arg := range arguments(expr[i+len(call[0]):]) {
			if n == 0 {
				continue
			}
			if arg == "" || quoteEnd(arg, 0) != len(arg)-1 {
				return 0, fmt.Errorf("the arguments of %s() behind the first must be texts in quotes, and %q is none", call[1], arg)
			}
			if call[1] == "matches" || call[1] == "replace" && n == 1 {
				n, err := patternSteps(arg[1 : len(arg)-1])
				if err != nil {
					return 0, err
				}
				steps += n
			}
			if call[1] == "replace" && n == 2 { // it may stand between any two bytes
				if growth *= len(arg) - 1; growth > maxGrowth {
					return 0, fmt.Errorf("the calls of replace() could make a text more than %d times as long; use shorter texts, or fewer calls", maxGrowth)
				}
			}
		}
	}
	return steps * growth, nil
}

func wordByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c >= 0x80
}

// quoteEnd is the end of the literal that begins at i, or i.
func quoteEnd(s string, i int) int {
	if s[i] != '"' && s[i] != '\'' {
		return i
	}
	if n := strings.IndexByte(s[i+1:], s[i]); n >= 0 {
		return i + 1 + n
	}
	return i
}

// arguments splits what follows the bracket of a call.
func arguments(s string) (all []string) {
	from, open := 0, 0
	for i := 0; i < len(s); i++ {
		if end := quoteEnd(s, i); end > i {
			i = end
			continue
		}
		switch c := s[i]; {
		case c == '(' || c == '[':
			open++
		case (c == ')' || c == ']') && open > 0:
			open--
		case c == ')':
			return append(all, strings.TrimSpace(s[from:i]))
		case c == ',' && open == 0:
			all = append(all, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return all
}

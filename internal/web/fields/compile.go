package fields

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/andybalholm/cascadia"
	"github.com/antchfx/xpath"

	"github.com/treadlight/crawl/internal/web/dom"
)

// compiled is a rule that can run.
type compiled struct {
	Rule
	match *regexp.Regexp // nil: every page
	css   *selector
	xpath *xpath.Expr
	// perByte is what the patterns of xpath may cost for each byte of a text.
	perByte int
}

// Set is rules that can run. It is not changed any more and safe for concurrent use.
type Set struct{ rules []compiled }

// New compiles rules. The error has everything that is wrong, each with the name of its
// rule in front.
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

// compile makes a rule ready. The error joins a [Problem] for each of its parts.
func compile(r Rule) (compiled, error) {
	c := compiled{Rule: r}
	errs := r.checkParts()
	var err error
	switch {
	case (r.CSS == "") == (r.XPath == ""):
		errs = append(errs, problem("css", "%v", errSelectors))
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

// compileCSS also refuses what the library takes and never matches.
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

// hint is what probably went wrong.
func hint(s string) string {
	if strings.HasPrefix(s, "/") {
		return "for XPath write xpath: in its place"
	}
	if strings.Contains(s, "::") {
		return "text is what is taken by itself, and for an attribute write SELECTOR@ATTRIBUTE"
	}
	return "write one such as article h1, .price or a[rel=author]"
}

// compileXPath compiles an expression and runs it once, because the library finds wrong
// arguments of functions only then, and panics.
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
			continue // what it finds is of no interest, only that it can be asked
		}
	}
	return expr, nil
}

// Extractor runs a set. It must not be used by two goroutines at once.
type Extractor struct{ rules []compiled }

// Extractor makes one for a worker. Of a nil Set it is nil, and finds nothing.
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

// Wants reports whether any rule is for the page, so that others need no tree.
func (e *Extractor) Wants(url string) bool {
	if e == nil {
		return false
	}
	for i := range e.rules {
		if e.rules[i].wants(url) {
			return true
		}
	}
	return false
}

func (c *compiled) wants(url string) bool { return c.match == nil || c.match.MatchString(url) }

// Package conformance keeps docs/reference/conformance.md, the page that lists the suites of the
// standards and how they came out. A test that runs a suite reports to it, and fails where
// the page says something else: the page cannot go out of date. With UPDATE=1 in the
// environment it writes the page instead, which packages must do one after another:
// `make conformance`.
package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// Result is how a suite came out. Every case has passed, or differs, or was not run.
type Result struct {
	Cases, Passed int
	// Differs and NotRun are how many cases do and were not, by the reason why: a sentence
	// that follows a colon.
	Differs, NotRun map[string]int
}

// Suite is what a page says of a suite that does not depend on a run.
type Suite struct {
	Title  string
	Source string // of the cases, and their licence
	Test   string // what runs it: package and test
}

// intro is what the page begins with.
const intro = `# Conformance

The suites that the tests run, and what differs from them on purpose. This page is written by
the tests themselves: each compares its figures with it, so that it cannot go out of date.
` + "`make conformance`" + ` writes it anew. A case that differs has its reason below; if it comes to
pass, its test fails until the reason is gone.

| suite | cases | pass | differ | not run |
|---|--:|--:|--:|--:|
`

// Report compares the result of a suite, by its ID in the list, with the page.
func Report(tb testing.TB, id string, r Result) {
	tb.Helper()
	suite, ok := suites[id]
	if !ok {
		tb.Fatalf("add %q to internal/lab/conformance/suites.go", id)
	}
	if sum := r.Passed + total(r.Differs) + total(r.NotRun); sum != r.Cases || r.Cases == 0 {
		tb.Fatalf("%s: of %d cases %d passed, %d differ, %d were not run", suite.Title, r.Cases, r.Passed, total(r.Differs), total(r.NotRun))
	}
	name := page(tb)
	was, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	parts := parse(string(was))
	parts[suite.Title] = part{suite.row(r), suite.section(r)}
	now := write(parts)
	switch {
	case now == string(was):
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile(name, []byte(now), 0o600); err != nil {
			tb.Fatal(err)
		}
	default:
		tb.Errorf("docs/reference/conformance.md is out of date: `make conformance` writes it anew. It should say:\n%s%s",
			parts[suite.Title].row, parts[suite.Title].section)
	}
}

func total(by map[string]int) (n int) {
	for _, m := range by {
		n += m
	}
	return n
}

// page is where the page is, from the directory of any package.
func page(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(docpage.Root(tb), "docs", "reference", "conformance.md")
}

// part is what the page has of a suite: a row of its table, and a section.
type part struct{ row, section string }

func (s Suite) row(r Result) string {
	anchor := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			return c
		}
		return -1
	}, strings.ToLower(s.Title))
	return fmt.Sprintf("| [%s](#%s) | %d | %d | %d | %d |\n", s.Title, anchor, r.Cases, r.Passed, total(r.Differs), total(r.NotRun))
}

func (s Suite) section(r Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s Run by `%s`.\n", s.Title, s.Source, s.Test)
	for _, of := range []struct {
		what string
		by   map[string]int
	}{{"differ", r.Differs}, {"not run", r.NotRun}} {
		for _, why := range slices.Sorted(maps.Keys(of.by)) {
			fmt.Fprintf(&b, "- %d %s: %s.\n", of.by[why], of.what, strings.TrimSuffix(why, "."))
		}
	}
	return b.String()
}

// parse finds the parts of a page by the titles of their suites.
func parse(text string) map[string]part {
	parts := map[string]part{}
	for _, s := range suites {
		var p part
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "| ["+s.Title+"](") {
				p.row = line
			}
		}
		if _, after, ok := strings.Cut(text, "\n## "+s.Title+"\n"); ok {
			section, _, _ := strings.Cut(after, "\n\n## ")
			p.section = "## " + s.Title + "\n" + strings.TrimSuffix(section, "\n") + "\n"
		}
		parts[s.Title] = p
	}
	return parts
}

// write puts a page together, in the order of titles.
func write(parts map[string]part) string {
	titles := slices.Sorted(maps.Keys(parts))
	var b strings.Builder
	b.WriteString(intro)
	for _, t := range titles {
		b.WriteString(parts[t].row)
	}
	for _, t := range titles {
		if parts[t].section != "" {
			b.WriteString("\n" + parts[t].section)
		}
	}
	return b.String()
}

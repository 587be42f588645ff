// Package conformance keeps the figures of docs/reference/conformance.md, the page that lists
// the suites of the standards and their results. A test that runs a suite reports to it, and
// fails where the page says something else. With UPDATE=1 in the environment it writes the page
// instead, which packages must do one after another: `make conformance`.
package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// Result is the result of a suite. Every case has passed, or differs, or was not run.
type Result struct {
	Cases, Passed int
	// Differs and NotRun are how many cases do and were not, by the reason: a sentence that
	// follows a colon.
	Differs, NotRun map[string]int
}

// Report compares the result of a suite with its section of the page, which begins with the
// suite's ID, <!-- ID -->, below the title.
func Report(tb testing.TB, id string, r Result) {
	tb.Helper()
	if sum := r.Passed + total(r.Differs) + total(r.NotRun); sum != r.Cases || r.Cases == 0 {
		tb.Fatalf("%s: of %d cases %d passed, %d differ, %d were not run", id, r.Cases, r.Passed, total(r.Differs), total(r.NotRun))
	}
	name := page(tb)
	was, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	now, err := r.write(string(was), id)
	switch {
	case err != nil:
		tb.Fatal(err)
	case now == string(was):
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile(name, []byte(now), 0o600); err != nil {
			tb.Fatal(err)
		}
	default:
		tb.Errorf("docs/reference/conformance.md is out of date: `make conformance` writes it anew. %s should have%s and\n%s", id, r.figures(), r.reasons())
	}
}

func total(by map[string]int) (n int) {
	for _, m := range by {
		n += m
	}
	return n
}

func page(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(docpage.Root(tb), "docs", "reference", "conformance.md")
}

// write is the page with the result in the suite's section and in its row of the table.
func (r Result) write(text, id string) (string, error) {
	section := regexp.MustCompile(`(?m)^## (.*)\n\n<!-- ` + regexp.QuoteMeta(id) + ` -->\n[^-#\n].*\n`).FindStringSubmatchIndex(text)
	if section == nil {
		return "", fmt.Errorf("docs/reference/conformance.md has no section with <!-- %s --> and a paragraph: add it", id)
	}
	row := regexp.MustCompile(`(?m)^(\| \[` + regexp.QuoteMeta(text[section[2]:section[3]]) + `\]\([^)]*\)).*\n`)
	head, rest := text[:section[1]], text[section[1]:]
	if !row.MatchString(head) {
		return "", fmt.Errorf("docs/reference/conformance.md has no row for <!-- %s -->: add it", id)
	}
	for strings.HasPrefix(rest, "- ") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return row.ReplaceAllString(head, "${1}"+r.figures()+"\n") + r.reasons() + rest, nil
}

func (r Result) figures() string {
	return fmt.Sprintf(" | %d | %d | %d | %d |", r.Cases, r.Passed, total(r.Differs), total(r.NotRun))
}

func (r Result) reasons() string {
	var b strings.Builder
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

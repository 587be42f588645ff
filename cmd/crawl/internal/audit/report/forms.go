package report

import (
	"embed"
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	plain "text/template"
	"unicode"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Form is a file of the report: its name, and a function that writes it.
type Form struct {
	Name  string
	Write func(*Report, io.Writer) error
}

// Forms are the files that are written into a directory. The last one marks the audit as done.
var Forms = []Form{{"report.html", WriteHTML}, {"findings.csv", WriteCSV}, {"junit.xml", WriteJUnit}, {"audit.json", WriteJSON}}

// WriteJSON writes the whole report.
func WriteJSON(r *Report, w io.Writer) error { return cli.WriteJSON(w, r) }

// WriteCSV writes a line for each finding, the fixed ones last.
func WriteCSV(r *Report, w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"rule", "severity", "state", "url", "about", "detail", "pages", "where"}}
	for _, f := range slices.Concat(r.Findings, r.Fixed) {
		row := []string{f.Rule, string(f.Severity), f.State, f.URL, f.About, f.Detail, strconv.Itoa(f.Pages), strings.Join(f.Where, " ")}
		for i, s := range row {
			if row[i] = cell(s); s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) { // no formula
				row[i] = "'" + row[i]
			}
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}

// cell replaces what commands a program that shows the text, and writes any space as one.
func cell(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r != '\n' && unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		case unicode.Is(unicode.Zs, r):
			return ' '
		}
		return r
	}, s)
}

//go:embed *.html *.xml *.txt *.md
var files embed.FS

var (
	functions = map[string]any{
		"count": cli.Count[int], "size": cli.Size, "plain": cli.Clean, "plural": cli.Plural[int], "join": strings.Join, "lines": lines, "xml": escaped,
		"web":   func(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") },
		"minus": func(a, b int) int { return a - b }, "long": func(n int64) int { return int(n) }, "trim": strings.TrimRight, "cells": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"cut": func(n int, list []string) []string { return list[:min(n, len(list))] },
	}
	page = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("report.html").Funcs(functions).ParseFS(files, "report.html"))
	})
	texts = sync.OnceValue(func() *plain.Template {
		return plain.Must(plain.New("").Funcs(functions).ParseFS(files, "*.xml", "*.txt", "*.md"))
	})
)

// Bounds of the forms for people: findings per rule, as in the templates, and pages per finding.
const (
	htmlFindings = 50
	htmlWhere    = 5
	textWhere    = 3
)

// section is a rule with its findings, and the findings that the HTML page shows.
type section struct {
	Count

	Found, Listed []rules.Finding
	Open          bool
}

// group is the rules of one group, or those of one severity, with their findings.
type group struct {
	Name              string
	N, Rules, Failing int // findings, rules with findings, and rules that fail the audit
	Sections          []section
}

// view is a report as the templates see it.
type view struct {
	*Report

	Dir             string
	Groups          []group // by severity
	Suites          []group // groups of rules, including rules without findings
	Mended          []rules.Finding
	Where           int
	Clean, Failures int // numbers of rules
}

func (r *Report) view(dir string) *view {
	v := &view{Report: r, Dir: dir, Where: htmlWhere, Mended: r.Fixed[:min(len(r.Fixed), htmlFindings)]}
	for _, s := range rules.Severities {
		v.Groups = append(v.Groups, group{Name: string(s)})
	}
	left := r.Findings
	for _, c := range r.Counts {
		s := section{c, left[:c.N], left[:min(c.N, htmlFindings)], c.Severity == rules.Error}
		left = left[c.N:]
		if len(v.Suites) == 0 || v.Suites[len(v.Suites)-1].Name != c.Group {
			v.Suites = append(v.Suites, group{Name: c.Group})
		}
		v.Suites[len(v.Suites)-1].add(s)
		if c.N > 0 {
			v.Groups[slices.Index(rules.Severities, c.Severity)].add(s)
		}
		v.Clean += 1 - min(c.N, 1)
		v.Failures += min(c.Failing, 1)
	}
	return v
}

func (g *group) add(s section) {
	g.Sections = append(g.Sections, s)
	g.N, g.Rules, g.Failing = g.N+s.N, g.Rules+min(s.N, 1), g.Failing+min(s.Failing, 1)
}

// WriteHTML writes one HTML page without scripts that has everything in it.
func WriteHTML(r *Report, w io.Writer) error { return page().Execute(w, r.view("")) }

// WriteJUnit writes a test for each rule. The test fails if the rule has findings that fail the audit.
func WriteJUnit(r *Report, w io.Writer) error {
	return texts().ExecuteTemplate(w, "junit.xml", r.view(""))
}

// WriteText writes a summary for a terminal. dir is the directory of the files; "" means that there are none.
func WriteText(r *Report, w io.Writer, dir string) error {
	return texts().ExecuteTemplate(w, "report.txt", r.view(dir))
}

// escaped escapes text for XML.
func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return strings.ReplaceAll(b.String(), "&#xA;", "\n")
}

// lines returns findings as text, at most most of them.
func lines(list []rules.Finding, most int, indent string) string {
	var b strings.Builder
	for _, f := range list[:min(len(list), most)] {
		b.WriteString(indent + f.URL)
		if f.About != "" && !strings.Contains(f.Detail, f.About) {
			b.WriteString(" " + f.About)
		}
		if f.Detail != "" {
			b.WriteString(": " + f.Detail)
		}
		if f.State == "new" {
			b.WriteString(" (new)")
		}
		b.WriteString("\n")
		for _, page := range f.Where[:min(len(f.Where), textWhere)] {
			b.WriteString(indent + "  on " + page + "\n")
		}
		if more := f.Pages - textWhere; more > 0 {
			fmt.Fprintf(&b, "%s  and %d more\n", indent, more)
		}
	}
	if more := len(list) - most; more > 0 {
		fmt.Fprintf(&b, "%sand %d more\n", indent, more)
	}
	return b.String()
}

// WriteRules writes the table of rules: as JSON, as text, or as Markdown for the documentation.
func WriteRules(w io.Writer, form string) error {
	if form == "json" {
		return cli.WriteJSON(w, rules.Table)
	}
	return texts().ExecuteTemplate(w, "rules."+form, rules.Table)
}

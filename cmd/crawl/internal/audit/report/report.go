// Package report has the result of an audit in all its forms: text for a terminal, a page for a browser, CSV, JSON and
// JUnit. It also has what is new and what is fixed since an older audit, and which findings fail the audit.
package report

import (
	"embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	plain "text/template"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/document/spelling"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// Report is the result of an audit. Its JSON is the file audit.json.
type Report struct {
	Version  int       `json:"version"`
	Seeds    []string  `json:"seeds"`
	Began    time.Time `json:"began"`
	Partial  string    `json:"partial,omitempty"` // why not everything was visited; empty means that it was
	External bool      `json:"external"`          // links to other sites were checked

	Totals  rules.Totals `json:"totals"`
	Counts  []Count      `json:"counts"`
	Failing int          `json:"failing"` // findings that fail the audit
	Against *Against     `json:"against,omitempty"`

	Slowest []rules.Measured `json:"slowest,omitempty"`
	Heavy   []rules.Measured `json:"heaviest,omitempty"`

	Findings []rules.Finding `json:"findings"`
	Fixed    []rules.Finding `json:"fixed,omitempty"`
}

// version is the version of the JSON.
const version = 1

// Count is a rule and how many findings it has.
type Count struct {
	rules.Rule

	N       int `json:"count"`
	New     int `json:"new,omitempty"`
	Failing int `json:"failing,omitempty"`
}

// Against counts the changes since an older audit.
type Against struct {
	Began     time.Time `json:"began"`
	New       int       `json:"new"`
	Remaining int       `json:"remaining"`
	Fixed     int       `json:"fixed"` // no longer found, or not visited
}

// longest is how many of the slowest and heaviest pages the report lists.
const longest = 10

// New returns the report of a site, without findings that skip selects.
func New(s *rules.Site, began time.Time, partial string, skip func(*rules.Finding) bool) *Report {
	r := &Report{Version: version, Seeds: s.Seeds, Began: began.UTC().Truncate(time.Second), Partial: partial, External: s.External, Totals: s.Totals}
	r.Slowest, r.Heavy = s.Extremes(longest)
	r.Findings = s.Check(skip)
	return r
}

// Compare marks each finding as new or remaining against an older audit. It keeps the findings of only that audit as
// fixed.
func (r *Report) Compare(old *Report) {
	gone := make(map[string]bool, len(old.Findings)) // false if the finding is still there
	for i := range old.Findings {
		gone[old.Findings[i].Key()] = true
	}
	r.Against = &Against{Began: old.Began}
	for i := range r.Findings {
		f := &r.Findings[i]
		if _, before := gone[f.Key()]; before {
			gone[f.Key()], f.State = false, "remaining"
			r.Against.Remaining++
		} else {
			f.State = "new"
			r.Against.New++
		}
	}
	for _, f := range old.Findings {
		if gone[f.Key()] {
			f.State = "fixed"
			r.Fixed = append(r.Fixed, f)
		}
	}
	r.Against.Fixed = len(r.Fixed)
}

// Finish counts the findings by rule, and those that fail the audit. It relies on their order, which is that of the
// table.
func (r *Report) Finish(failOn func(*rules.Finding) bool) {
	left := r.Findings
	for i := range rules.Table {
		c := Count{Rule: rules.Table[i]}
		for ; len(left) > 0 && left[0].Rule == c.ID; left = left[1:] {
			if c.N++; left[0].State == "new" {
				c.New++
			}
			if failOn(&left[0]) {
				c.Failing++
			}
		}
		r.Failing += c.Failing
		r.Counts = append(r.Counts, c)
	}
}

// Read reads the JSON file of an audit.
func Read(path string) (*Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var r Report
	if err := json.NewDecoder(file).Decode(&r); err != nil {
		return nil, fmt.Errorf("%s is no audit: %w: give the directory of --output, or the file audit.json in it", path, err)
	}
	if r.Version != version {
		return nil, fmt.Errorf("%s is an audit of version %d, and this program knows %d", path, r.Version, version)
	}
	return &r, nil
}

// Selector parses the values of a flag, and returns whether one of them selects a finding. Each is a rule, RULE=REGEXP
// for URLs, or a severity, which includes more severe ones. If words is true, the words none and new are allowed too;
// with new no finding is selected that the older audit has.
func Selector(list []string, words bool) (func(*rules.Finding) bool, error) {
	var all []func(*rules.Finding) bool
	fresh := false
	for _, word := range list {
		name, pattern, _ := strings.Cut(word, "=")
		url, err := regexp.Compile(pattern)
		least := slices.Index(rules.Severities, rules.Severity(word))
		switch {
		case err != nil:
			return nil, err
		case least >= 0:
			all = append(all, func(f *rules.Finding) bool { return slices.Index(rules.Severities, f.Severity) <= least })
		case words && word == "none":
		case words && word == "new":
			fresh = true
		case rules.Find(name) == nil:
			return nil, unknownRule(name)
		default:
			all = append(all, func(f *rules.Finding) bool { return f.Rule == name && url.MatchString(f.URL) })
		}
	}
	return func(f *rules.Finding) bool {
		return (!fresh || f.State != "remaining") && slices.ContainsFunc(all, func(selects func(*rules.Finding) bool) bool { return selects(f) })
	}, nil
}

func unknownRule(name string) error {
	var names []string
	for _, rule := range rules.Table {
		names = append(names, rule.ID)
	}
	return fmt.Errorf("%q is neither a rule nor a severity%s; --list-rules has all", name, cli.Meant(spelling.Nearest(name, names)))
}

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
	names := []string{"rule", "severity", "state", "url", "about", "detail", "pages", "where"}
	out, err := sink.NewItems(w, sink.ItemsConfig{Config: sink.Config{Format: sink.CSV}, Columns: names})
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(r.Findings, r.Fixed) {
		row := new(record.Extracted)
		for i, text := range []string{f.Rule, string(f.Severity), f.State, f.URL, f.About, f.Detail, strconv.Itoa(f.Pages), strings.Join(f.Where, " ")} {
			row.Fields = append(row.Fields, record.Values{Name: names[i], Values: []string{text}})
		}
		if err := out.WriteItem(nil, record.Item{Value: row}); err != nil {
			return err
		}
	}
	return out.Close()
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

// section is a rule with its findings.
type section struct {
	Count

	Found []rules.Finding
}

// Listed are the findings that the HTML page shows.
func (s section) Listed() []rules.Finding { return s.Found[:min(s.N, htmlFindings)] }

// group is the rules of one group, or those of one severity that have findings.
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
		s := section{c, left[:c.N]}
		left = left[c.N:]
		if n := len(v.Suites); n == 0 || v.Suites[n-1].Name != c.Group {
			v.Suites = append(v.Suites, group{Name: c.Group})
		}
		in := []*group{&v.Suites[len(v.Suites)-1], &v.Groups[slices.Index(rules.Severities, c.Severity)]}
		if c.N == 0 {
			in = in[:1]
			v.Clean++
		}
		for _, g := range in {
			g.Sections = append(g.Sections, s)
			g.N, g.Rules, g.Failing = g.N+c.N, g.Rules+1, g.Failing+min(c.Failing, 1)
		}
		v.Failures += min(c.Failing, 1)
	}
	return v
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

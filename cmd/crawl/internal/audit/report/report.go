// Package report has the result of an audit in all its forms: text for a terminal, a page for a browser, CSV, JSON and
// JUnit. It also has what is new and what is fixed since an older audit, and which findings fail the audit.
package report

import (
	"embed"
	"encoding/json"
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

	Dir    string `json:"-"` // of the files of the report; empty means that there are none
	Failed string `json:"-"` // why there is nothing else, since nothing was visited
}

// version is the version of the JSON.
const version = 1

// Count is a rule and how many findings it has.
type Count struct {
	rules.Rule

	N       int `json:"count"`
	New     int `json:"new,omitempty"`
	Failing int `json:"failing,omitempty"`

	Found []rules.Finding `json:"-"` // a part of those of the report
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
// fixed. A finding about a whole site there is the same as those about its pages here: a rule tells either, by how many
// pages there are.
func (r *Report) Compare(old *Report) {
	gone := make(map[string]bool, len(old.Findings)) // false if the finding is still there
	for i := range old.Findings {
		gone[old.Findings[i].Key()] = true
	}
	r.Against = &Against{Began: old.Began}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.State = "new"
		for _, key := range []string{f.Key(), f.SiteKey()} {
			if _, before := gone[key]; before {
				gone[key], f.State = false, "remaining"
			}
		}
		if f.State == "remaining" {
			r.Against.Remaining++
		}
	}
	for _, f := range old.Findings {
		if gone[f.Key()] {
			f.State = "fixed"
			r.Fixed = append(r.Fixed, f)
		}
	}
	r.Against.New, r.Against.Fixed = len(r.Findings)-r.Against.Remaining, len(r.Fixed)
}

// Finish counts the findings by rule, and those that fail the audit. It relies on their order, which is that of the
// table.
func (r *Report) Finish(failOn func(*rules.Finding) bool) {
	left := r.Findings
	for i := range rules.Table {
		c := Count{Rule: rules.Table[i], Found: left}
		for ; len(left) > 0 && left[0].Rule == c.ID; left = left[1:] {
			if c.N++; left[0].State == "new" {
				c.New++
			}
			if failOn(&left[0]) {
				c.Failing++
			}
		}
		c.Found = c.Found[:c.N]
		r.Failing += c.Failing
		r.Counts = append(r.Counts, c)
	}
}

// Read reads the JSON file of an audit.
func Read(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s is no audit: %w: give the directory of --output, or the file audit.json in it", path, err)
	}
	if r.Version != version {
		return nil, fmt.Errorf("%s is an audit of version %d, and this program knows %d", path, r.Version, version)
	}
	return &r, nil
}

// Selector parses the values of a flag, and returns whether one of them selects a finding. Each is a rule, RULE=REGEXP
// for URLs, or a severity, which includes more severe ones, in --skip less severe ones. --fail-on has the words none and
// new too; with new no finding is selected that the older audit has. The word new alone means new errors.
func Selector(flag string, list []string) (func(*rules.Finding) bool, error) {
	var all []func(*rules.Finding) bool
	known, fresh := make([]string, len(rules.Table)), false
	for i := range rules.Table {
		known[i] = rules.Table[i].ID
	}
	if slices.Equal(list, []string{"new"}) {
		list = []string{"new", string(rules.Error)}
	}
	for _, word := range list {
		name, pattern, _ := strings.Cut(word, "=")
		url, err := regexp.Compile(pattern)
		least := slices.Index(rules.Severities, rules.Severity(word))
		switch {
		case err != nil:
			return nil, cli.Usagef("%s: %w", flag, err)
		case flag == "--fail-on" && (word == "none" || word == "new"):
			fresh = fresh || word == "new"
		case least < 0 && !slices.Contains(known, name):
			return nil, cli.Usagef("%s: %q is neither a rule nor a severity%s; --list-rules has all", flag, name, cli.Meant(spelling.Nearest(name, known)))
		default:
			all = append(all, func(f *rules.Finding) bool {
				is := slices.Index(rules.Severities, f.Severity)
				return f.Rule == name && url.MatchString(f.URL) || least >= 0 && (is == least || (is < least) == (flag != "--skip"))
			})
		}
	}
	return func(f *rules.Finding) bool {
		return (!fresh || f.State != "remaining") && slices.ContainsFunc(all, func(selects func(*rules.Finding) bool) bool { return selects(f) })
	}, nil
}

// Form is a file of the report: its name, and a function that writes it.
type Form struct {
	Name  string
	Write func(*Report, io.Writer) error
}

// Forms are the files that are written into a directory. The HTML page has everything in it and no scripts. JUnit has a
// test for each rule, which fails if the rule has findings that fail the audit. The last file marks the audit as done.
var Forms = []Form{
	{"report.html", func(r *Report, w io.Writer) error { return page().Execute(w, r) }},
	{"findings.csv", WriteCSV},
	JUnit,
	{"audit.json", WriteJSON},
}

// JUnit is the file for CI. It is written too if the crawl failed, so that there is something to show.
var JUnit = Form{"junit.xml", func(r *Report, w io.Writer) error { return texts().ExecuteTemplate(w, "junit.xml", r) }}

// WriteJSON writes the whole report.
func WriteJSON(r *Report, w io.Writer) error { return cli.WriteJSON(w, r) }

// WriteCSV writes a line for each finding, the fixed ones last.
func WriteCSV(r *Report, w io.Writer) error {
	names := []string{"rule", "severity", "state", "url", "about", "detail", "pages", "where"}
	file, err := sink.New(w, sink.Config{Format: sink.CSV, Columns: names})
	if err != nil {
		return err
	}
	out := sink.NewItems(file, sink.ItemsConfig{Columns: names})
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
	own = map[string]any{
		"plain": cli.Clean, "has": strings.Contains, "trim": strings.TrimRight, "cells": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"web": func(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") },
	}
	page = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("report.html").Funcs(cli.Functions()).Funcs(own).ParseFS(files, "report.html"))
	})
	texts = sync.OnceValue(func() *plain.Template {
		return plain.Must(plain.New("").Funcs(cli.Functions()).Funcs(own).ParseFS(files, "*.xml", "*.txt", "*.md"))
	})
)

// Group is the rules of one group or severity.
type Group struct {
	Name              string
	N, Rules, Failing int // findings, rules with findings, and rules that fail the audit
	Counts            []Count
}

// By returns the rules by their group, by severity, or with another word all in one group, for the templates.
func (r *Report) By(what string) (list []Group) {
	for _, c := range r.Counts {
		name := map[string]string{"group": c.Group, "severity": string(c.Severity)}[what]
		i := slices.IndexFunc(list, func(g Group) bool { return g.Name == name })
		if i < 0 {
			i, list = len(list), append(list, Group{Name: name})
		}
		g := &list[i]
		g.Counts = append(g.Counts, c)
		g.N, g.Rules, g.Failing = g.N+c.N, g.Rules+min(c.N, 1), g.Failing+min(c.Failing, 1)
	}
	return list
}

// WriteText writes a summary for a terminal.
func WriteText(r *Report, w io.Writer) error { return texts().ExecuteTemplate(w, "report.txt", r) }

// Lines returns the findings as text, each line with an indent: the first most of them, and where the rest is.
func (c Count) Lines(most int, indent, rest string) (string, error) {
	var b strings.Builder
	err := texts().ExecuteTemplate(&b, "lines", map[string]any{"Found": c.Found, "Most": most, "Indent": indent, "Rest": rest})
	return b.String(), err
}

// WriteRules writes the table of rules as text (txt), or as Markdown for the documentation (md).
func WriteRules(w io.Writer, form string) error {
	return texts().ExecuteTemplate(w, "rules."+form, rules.Table)
}

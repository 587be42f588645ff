// Package report has the result of an audit in all its forms: text for a terminal, a page for a browser, CSV, JSON and
// JUnit. It also has what is new and what is fixed since an older audit, and which findings fail the audit.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/internal/document/spelling"
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
	Slowest []Measured   `json:"slowest,omitempty"`
	Heavy   []Measured   `json:"heaviest,omitempty"`

	Findings []rules.Finding `json:"findings"`
	Fixed    []rules.Finding `json:"fixed,omitempty"`
}

// Measured is a page and a number.
type Measured = rules.Measured

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
func New(s *rules.Site, began time.Time, partial string, skip []Selector) *Report {
	r := &Report{Version: version, Seeds: s.Seeds, Began: began.UTC().Truncate(time.Second), Partial: partial, External: s.External, Totals: s.Totals}
	r.Slowest, r.Heavy = s.Extremes(longest)
	r.Findings = s.Check(func(f *rules.Finding) bool { return selected(skip, f) })
	return r
}

// Compare marks each finding as new or remaining against an older audit. It keeps the findings of only that audit as
// fixed.
func (r *Report) Compare(old *Report) {
	before := make(map[string]bool, len(old.Findings))
	for i := range old.Findings {
		before[old.Findings[i].Key()] = true
	}
	a := &Against{Began: old.Began}
	now := make(map[string]bool, len(r.Findings))
	for i := range r.Findings {
		f := &r.Findings[i]
		now[f.Key()] = true
		if f.State = "new"; before[f.Key()] {
			f.State = "remaining"
			a.Remaining++
		} else {
			a.New++
		}
	}
	for _, f := range old.Findings {
		if !now[f.Key()] {
			f.State = "fixed"
			r.Fixed = append(r.Fixed, f)
		}
	}
	a.Fixed = len(r.Fixed)
	r.Against = a
}

// fails reports whether a finding fails the audit. With the word new in failOn, a finding that the older audit has does
// not.
func fails(failOn []Selector, f *rules.Finding) bool {
	onlyNew := slices.ContainsFunc(failOn, func(s Selector) bool { return s.fresh })
	return (!onlyNew || f.State != "remaining") && selected(failOn, f)
}

// Finish counts the findings by rule, and those that fail the audit. It relies on their order, which is that of the
// table.
func (r *Report) Finish(failOn []Selector) {
	left := r.Findings
	for i := range rules.Table {
		c := Count{Rule: rules.Table[i]}
		for ; len(left) > 0 && left[0].Rule == c.ID; left = left[1:] {
			if c.N++; left[0].State == "new" {
				c.New++
			}
			if fails(failOn, &left[0]) {
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

// Selector selects findings, as a flag says.
type Selector struct {
	severity rules.Severity
	rule     string
	url      *regexp.Regexp
	fresh    bool // the word new: only findings that an older audit does not have
}

// Selectors parses the values of a flag. Each is a rule, RULE=REGEXP for URLs, or a severity, which includes more
// severe ones. If words is true, the words new and none are allowed too.
func Selectors(list []string, words bool) (all []Selector, err error) {
	for _, word := range list {
		var s Selector
		name, pattern, filtered := strings.Cut(word, "=")
		switch {
		case slices.Contains(rules.Severities, rules.Severity(word)):
			s.severity = rules.Severity(word)
		case words && word == "none":
			continue
		case words && word == "new":
			s.fresh = true
		case rules.Find(name) != nil:
			s.rule = name
		default:
			return nil, unknownRule(name)
		}
		if filtered {
			if s.url, err = regexp.Compile(pattern); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

func unknownRule(name string) error {
	var names []string
	for i := range rules.Table {
		names = append(names, rules.Table[i].ID)
	}
	text := fmt.Sprintf("%q is neither a rule nor a severity", name)
	if near := spelling.Nearest(name, names); near != "" {
		text += ": did you mean " + near + "?"
	}
	return errors.New(text + " --list-rules has all")
}

// selected reports whether one of the selectors selects a finding.
func selected(list []Selector, f *rules.Finding) bool {
	return slices.ContainsFunc(list, func(s Selector) bool {
		switch {
		case s.rule != "":
			return s.rule == f.Rule && (s.url == nil || s.url.MatchString(f.URL))
		case s.severity != "":
			return slices.Index(rules.Severities, f.Severity) <= slices.Index(rules.Severities, s.severity)
		}
		return false
	})
}

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
	names := make([]string, len(rules.Table))
	for i := range rules.Table {
		names[i] = rules.Table[i].ID
	}
	text := fmt.Sprintf("%q is neither a rule nor a severity", name)
	if near := spelling.Nearest(name, names); near != "" {
		text += ": did you mean " + near + "?"
	}
	return errors.New(text + " --list-rules has all")
}

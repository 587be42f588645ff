package rules

import (
	"cmp"
	"slices"
)

// Severity says how much a finding matters.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // it works, but not as intended
	Notice  Severity = "notice"  // worth a look
)

// Severities lists all severities, the most severe first.
var Severities = []Severity{Error, Warning, Notice}

// Rule is one kind of problem, and how to find it.
type Rule struct {
	ID       string   `json:"id"`
	Group    string   `json:"group"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	Help     string   `json:"help"` // when it is found, and what is left out
	Mend     string   `json:"mend"`

	query query
}

// Finding is one problem of a site.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	URL      string   `json:"url"`
	// About tells findings of one rule and URL apart. Empty means that there is only one.
	About  string `json:"about,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Where has the first of Pages: pages that link to the URL, or others that the finding is about.
	Where []string `json:"where,omitempty"`
	Pages int      `json:"pages,omitempty"`
	// State compares with an older audit: "new" or "remaining". Empty means that there was no comparison.
	State string `json:"state,omitempty"`
}

// Key identifies a finding across audits. It leaves out the detail, which may be a time or a count.
func (f *Finding) Key() string { return f.Rule + "\n" + f.URL + "\n" + f.About }

// query finds the problems of one rule.
type query func(s *Site, found func(Finding))

// Check applies all rules of the table, and drops findings that skip selects. It returns the findings in the order of
// the table; those of one rule are ordered by how many pages they concern and then by URL.
func (s *Site) Check(skip func(*Finding) bool) (all []Finding) {
	for i := range Table {
		rule, from := &Table[i], len(all)
		rule.query(s, func(f Finding) {
			if f.Rule, f.Severity, f.Pages = rule.ID, rule.Severity, max(f.Pages, len(f.Where)); !skip(&f) {
				all = append(all, f)
			}
		})
		slices.SortStableFunc(all[from:], func(a, b Finding) int {
			return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.URL, b.URL), cmp.Compare(a.About, b.About))
		})
	}
	return all
}

// Find returns the rule with an ID, or nil.
func Find(id string) *Rule {
	if i := slices.IndexFunc(Table, func(r Rule) bool { return r.ID == id }); i >= 0 {
		return &Table[i]
	}
	return nil
}

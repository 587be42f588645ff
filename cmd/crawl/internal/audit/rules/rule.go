package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is how much a finding matters.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // it works otherwise than meant
	Notice  Severity = "notice"  // worth a look
)

// Severities are all, the gravest first.
var Severities = []Severity{Error, Warning, Notice}

// Rule is one thing that can be wrong.
type Rule struct {
	ID       string   `json:"id"`
	Group    string   `json:"group"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	Help     string   `json:"help"` // when it is found, and what is not
	Mend     string   `json:"mend"`

	query query
}

// Finding is one thing that is wrong.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	URL      string   `json:"url"`
	// About tells findings of one rule and URL apart. Empty: there is one.
	About  string `json:"about,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Where are pages that link to it, or others that it is about: the first of Pages.
	Where []string `json:"where,omitempty"`
	Pages int      `json:"pages,omitempty"`
	// State against an older audit: "new" or "remaining". Empty: it was not compared.
	State string `json:"state,omitempty"`
}

// Key is what makes it the same in two audits: not its detail, such as a time or a count.
func (f *Finding) Key() string { return f.Rule + "\n" + f.URL + "\n" + f.About }

// checking is one rule at work.
type checking struct {
	*Site

	rule *Rule
	to   *[]Finding
}

// found notes a finding.
func (c *checking) found(f Finding) {
	f.Rule, f.Severity = c.rule.ID, c.rule.Severity
	f.Pages = max(f.Pages, len(f.Where))
	*c.to = append(*c.to, f)
}

// Check goes through the table, but for what skip leaves out. The findings are in the order of the table, those of a rule by
// how many pages they concern and then by URL.
func (s *Site) Check(skip func(*Finding) bool) []Finding {
	var all []Finding
	for i := range Table {
		from := len(all)
		Table[i].query(&checking{s, &Table[i], &all})
		mine := slices.DeleteFunc(all[from:], func(f Finding) bool { return skip(&f) })
		all = all[:from+len(mine)]
		slices.SortStableFunc(mine, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.URL, b.URL), cmp.Compare(a.About, b.About))
		})
	}
	return all
}

// Find is the rule of an ID; nil if there is none.
func Find(id string) *Rule {
	if i := slices.IndexFunc(Table, func(r Rule) bool { return r.ID == id }); i >= 0 {
		return &Table[i]
	}
	return nil
}

// Markdown is the page of the documentation about all rules.
func Markdown() string {
	var b strings.Builder
	group := ""
	for i := range Table {
		r := &Table[i]
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&b, "\n## %s\n\n| rule | severity | found when | to mend it |\n|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s`: %s | %s | %s | %s |\n", r.ID, r.Title, r.Severity, strings.ReplaceAll(r.Help, "|", `\|`), strings.ReplaceAll(r.Mend, "|", `\|`))
	}
	return b.String()
}

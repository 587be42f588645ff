package report

import (
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// WriteJSON writes all there is.
func WriteJSON(r *Report, w io.Writer) error { return cli.WriteJSON(w, r) }

// WriteCSV writes a line for each finding, those that are mended behind the others.
func WriteCSV(r *Report, w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"rule", "severity", "state", "url", "about", "detail", "pages", "where"}); err != nil {
		return err
	}
	for _, list := range [][]rules.Finding{r.Findings, r.Fixed} {
		for i := range list {
			f := &list[i]
			row := []string{f.Rule, string(f.Severity), f.State, f.URL, f.About, f.Detail, strconv.Itoa(f.Pages), strings.Join(f.Where, " ")}
			for j := range row {
				row[j] = inert(row[j])
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// inert keeps a spreadsheet from taking the text of a page for a formula.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// The parts of a JUnit report that CI systems read.
type (
	suites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Suites   []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	testcase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Failure *failure `xml:"failure,omitempty"`
		Out     string   `xml:"system-out,omitempty"`
	}
	failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// listed bounds the findings of a rule that text forms show.
const listed = 100

// WriteJUnit writes a test for each rule, of which one fails that has findings which fail the audit.
func WriteJUnit(r *Report, w io.Writer) error {
	var all suites
	for i := range r.Counts {
		c := &r.Counts[i]
		if len(all.Suites) == 0 || all.Suites[len(all.Suites)-1].Name != c.Group {
			all.Suites = append(all.Suites, suite{Name: c.Group})
		}
		s := &all.Suites[len(all.Suites)-1]
		t := testcase{Name: c.ID + ": " + c.Title, Class: "audit." + string(c.Severity)}
		text := valid(lines(r.Of(c.ID)))
		switch {
		case c.Failing > 0:
			t.Failure = &failure{Message: cli.Plural(c.N, "finding") + "; " + c.Mend, Text: text}
			s.Failures++
			all.Failures++
		case c.N > 0:
			t.Out = text
		}
		s.Tests++
		all.Tests++
		s.Cases = append(s.Cases, t)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// valid is text without what XML cannot hold.
func valid(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0xFFFE || c == 0xFFFF {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// lines are findings as text.
func lines(list []rules.Finding) string {
	var b strings.Builder
	for i := range list[:min(len(list), listed)] {
		f := &list[i]
		b.WriteString(f.URL)
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
		for _, page := range f.Where[:min(len(f.Where), 3)] {
			b.WriteString("  on " + page + "\n")
		}
		if more := f.Pages - 3; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	if more := len(list) - listed; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}

// perRule bounds the findings of a rule on a terminal.
const perRule = 3

// Text writes a summary for a terminal.
func Text(r *Report, b *strings.Builder, dir string) {
	fmt.Fprintf(b, "%s: %s of %s", strings.Join(r.Seeds, ", "), cli.Plural(r.Totals.Pages, "page"), cli.Plural(r.Totals.URLs, "URL"))
	if r.External {
		fmt.Fprintf(b, ", %s to other sites", cli.Plural(r.Totals.External, "link"))
	}
	b.WriteString("\n")
	if r.Partial != "" {
		fmt.Fprintf(b, "not all was visited: %s\n", r.Partial)
	}
	for _, c := range r.grouped() {
		found := r.Of(c.ID)
		fmt.Fprintf(b, "\n%s %s: %s, %d", c.Severity, c.ID, c.Title, c.N)
		if c.New > 0 {
			fmt.Fprintf(b, " (%d new)", c.New)
		}
		b.WriteString("\n")
		for line := range strings.Lines(lines(found[:min(len(found), perRule)])) {
			b.WriteString("  " + line)
		}
		if more := len(found) - perRule; more > 0 {
			fmt.Fprintf(b, "  and %d more\n", more)
		}
	}
	b.WriteString("\n" + r.sums() + "\n")
	if dir != "" {
		fmt.Fprintf(b, "see %s/report.html; all findings are in findings.csv and audit.json there\n", strings.TrimRight(dir, "/"))
	}
}

// sums are the counts in a line.
func (r *Report) sums() string {
	var parts []string
	for _, s := range rules.Severities {
		parts = append(parts, cli.Plural(r.BySeverity(s), string(s)))
	}
	text := strings.Join(parts, ", ")
	if a := r.Against; a != nil {
		text += fmt.Sprintf("; since %s %d new, %d fixed, %d remaining", a.Began.Format("2006-01-02 15:04"), a.New, a.Fixed, a.Remaining)
	}
	return text
}

// ListRules writes the table of rules.
func ListRules(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, rules.Table)
	}
	var b strings.Builder
	group := ""
	for i := range rules.Table {
		r := &rules.Table[i]
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&b, "%s\n", group)
		}
		fmt.Fprintf(&b, "  %-22s%-9s%s\n", r.ID, r.Severity, r.Title)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

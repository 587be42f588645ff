package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"count": func(n int) string { return cli.Count(n) }, "size": cli.Size,
	"web":   func(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") },
	"plain": cli.Clean, "minus": func(a, b int) int { return a - b }, "long": func(n int64) int { return int(n) },
	"cut": func(n int, list []string) []string { return list[:min(n, len(list))] },
}).Parse(pageText))

// The page is bounded: so many findings of each rule, and so many pages of each finding.
const (
	htmlFindings = 50
	htmlWhere    = 5
)

// section is a rule in the page.
type section struct {
	Count

	Open   bool
	Listed []rules.Finding
	Where  int
}

// WriteHTML writes one page without scripts, with everything in it.
func WriteHTML(r *Report, w io.Writer) error {
	data := struct {
		*Report

		Sections []section
		Groups   []group
		Mended   []rules.Finding
		Where    int
		Clean    int
	}{Report: r, Where: htmlWhere, Mended: r.Fixed[:min(len(r.Fixed), htmlFindings)]}
	for _, c := range r.grouped() {
		found := r.Of(c.ID)
		data.Sections = append(data.Sections, section{Count: c, Open: c.Severity == rules.Error, Listed: found[:min(len(found), htmlFindings)], Where: htmlWhere})
	}
	for _, s := range rules.Severities {
		g := group{Severity: s, N: r.BySeverity(s)}
		for _, c := range r.Counts {
			if c.Severity == s && c.N > 0 {
				g.Rules++
			}
		}
		data.Groups = append(data.Groups, g)
	}
	data.Clean = len(r.Counts) - len(data.Sections)
	return page.Execute(w, data)
}

// group are the findings of a severity.
type group struct {
	Severity rules.Severity
	N, Rules int
}

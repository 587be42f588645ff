package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
)

// Texts of sites reach readers of a report as text and nothing more.
func TestHostileTexts(t *testing.T) {
	control := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]`)
	var list []rules.Finding
	for _, s := range []string{
		`=HYPERLINK("http://x")`, "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", `"><script>alert(1)</script>`, `' onmouseover=alert(1) '`,
		"a\x00b\x1b[31m\x0b", "]]>&amp;", "\xff\xfe", "javascript:alert(1)", "line\nbreak",
	} {
		list = append(list, rules.Finding{Rule: "broken-link", Severity: rules.Error, URL: s, About: s, Detail: s, Where: []string{s}, Pages: 1})
	}
	r := &Report{Version: version, Seeds: []string{`<b>"`}, Began: time.Unix(0, 0), Findings: list}
	r.Compare(&Report{Findings: list[:1]})
	r.Finish(func(*rules.Finding) bool { return false })
	for _, form := range Forms {
		var out bytes.Buffer
		require.NoError(t, form.Write(r, &out), form.Name)
		require.False(t, control.Match(out.Bytes()), form.Name)
		switch form.Name {
		case "report.html":
			require.NotContains(t, out.String(), "<script")
			require.NotContains(t, out.String(), `href="javascript`)
			require.NotRegexp(t, `<[a-z]+ [^>]*onmouseover`, out.String())
			require.NotContains(t, out.String(), `<b>"`)
		case "findings.csv":
			rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
			require.NoError(t, err)
			require.Len(t, rows, len(list)+1)
			for _, row := range rows {
				for _, cell := range row {
					require.NotRegexp(t, `^[=+\-@\t\r]`, cell)
				}
			}
		case "junit.xml":
			var err error
			for d := xml.NewDecoder(&out); err == nil; {
				_, err = d.Token()
			}
			require.True(t, errors.Is(err, io.EOF), err)
		}
	}
}

// A rule that reports a site as a whole reports its pages if there are fewer of them: that is the same problem.
func TestCompareSiteWithPages(t *testing.T) {
	const rule = "header-csp"
	site := rules.Finding{Rule: rule, URL: "http://a.test/", About: "site"}
	other := rules.Finding{Rule: rule, URL: "http://b.test/x"}
	pages := []rules.Finding{{Rule: rule, URL: "http://a.test/"}, {Rule: rule, URL: "http://a.test/1"}, other, {Rule: "lang-missing", URL: "http://a.test/1"}}
	states := func(list []rules.Finding) (states []string) {
		for _, f := range list {
			states = append(states, f.State)
		}
		return states
	}
	r := &Report{Findings: pages}
	r.Compare(&Report{Findings: []rules.Finding{site}})
	require.Equal(t, []string{"remaining", "remaining", "new", "new"}, states(r.Findings))
	require.Empty(t, r.Fixed)
	require.Equal(t, Against{New: 2, Remaining: 2}, *r.Against)

	// That all pages have it is more than what was known of some.
	r = &Report{Findings: []rules.Finding{site}}
	r.Compare(&Report{Findings: []rules.Finding{pages[1]}})
	require.Equal(t, []string{"new"}, states(r.Findings))
	require.Len(t, r.Fixed, 1)
}

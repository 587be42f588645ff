package sitemap_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

func parseURL(t testing.TB, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

// The cases are in testdata/conformance/sitemap.
func TestConformance(t *testing.T) {
	archive, err := txtar.ParseFile("../../../testdata/conformance/sitemap/cases.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archive.Files)
	passed, all := 0, 0
	for i := 0; i+1 < len(archive.Files); i += 2 {
		doc, want := archive.Files[i], archive.Files[i+1]
		name, isWant := strings.CutSuffix(want.Name, ".want")
		require.True(t, isWant && strings.HasPrefix(doc.Name, name+"."), "%s has no .want behind it", doc.Name)
		all++
		ok := t.Run(name, func(t *testing.T) {
			got := read(t, doc.Name, doc.Data)
			head, entries, _ := strings.Cut(string(want.Data), "\n")
			gotHead, gotEntries, _ := strings.Cut(got, "\n")
			var n int
			var format string
			_, err := fmt.Sscanf(head, "%s %d", &format, &n)
			require.NoError(t, err)
			said := strings.TrimSpace(strings.TrimPrefix(head, fmt.Sprintf("%s %d", format, n)))
			require.True(t, strings.HasPrefix(gotHead, fmt.Sprintf("%s %d ", format, n)) && strings.Contains(gotHead, said),
				"%s, want %s", gotHead, head)
			require.Equal(t, entries, gotEntries)
		})
		if ok {
			passed++
		}
	}
	if !t.Failed() {
		conformance.Report(t, "sitemaps", conformance.Result{Cases: all, Passed: passed})
	}
}

func read(t testing.TB, name string, body []byte) string {
	t.Helper()
	var b strings.Builder
	sum := sitemap.Read(sitemap.Document{
		Body: body, Base: parseURL(t, "https://www.example.com/dir/"+name), List: true,
	}, func(e sitemap.Entry) bool {
		at, freq := "-", "-"
		if !e.LastMod.IsZero() {
			at = e.LastMod.UTC().Format(time.RFC3339Nano)
		}
		if e.ChangeFreq != "" {
			freq = e.ChangeFreq
		}
		fmt.Fprintf(&b, "%s %v %g %s %s\n", relNames[e.Rel], e.URL, e.Priority, at, freq)
		return true
	})
	return fmt.Sprintf("%v %d %s\n%s", sum.Format, sum.Problems, sum.Problem, b.String())
}

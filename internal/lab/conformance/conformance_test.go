package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// Every section of the page has an ID, a paragraph and figures that add up, and there are no
// other rows.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page(t))
	require.NoError(t, err)
	sections := strings.Split(string(text), "\n## ")[1:]
	require.Len(t, sections, strings.Count(string(text), "\n| ["))
	for _, section := range sections {
		title, rest, _ := strings.Cut(section, "\n")
		require.Regexp(t, `^\n<!-- [a-z0-9-]+ -->\n[^-].*`+"Run by `go test .*`\\.\n", rest, title)
		_, row, found := strings.Cut(string(text), "\n| ["+title+"](")
		require.True(t, found, "%s has no row", title)
		var anchor string
		var all, passed, differ, not int
		_, err := fmt.Sscanf(row, "%s | %d | %d | %d | %d |", &anchor, &all, &passed, &differ, &not)
		require.NoError(t, err, "%s has never been run: `make conformance`", title)
		require.Equal(t, all, passed+differ+not, title)
	}
}

type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

// A page that says something else fails the test of the suite, and UPDATE mends it.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "docs", "reference"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "pkg"), 0o700))
	t.Chdir(filepath.Join(dir, "pkg"))
	t.Setenv("UPDATE", "")
	report := func(r Result) bool {
		f := &failing{TB: t}
		Report(f, "rfc9309", r)
		return !f.failed
	}
	good := Result{Cases: 10, Passed: 7, Differs: map[string]int{"it is so": 1, "it is other": 1}, NotRun: map[string]int{"not ours.": 1}}
	name := filepath.Join(dir, "docs", "reference", "conformance.md")
	require.NoError(t, os.WriteFile(name, []byte("| [A suite](#a-suite) |\n| [B](#b) | 1 |\n\n## A suite\n\n<!-- rfc9309 -->\nBy hand.\n- 3 differ: before.\n\n## B\n"), 0o600))
	require.False(t, report(good), "the page has no figures")
	t.Setenv("UPDATE", "1")
	require.True(t, report(good))
	t.Setenv("UPDATE", "")
	require.True(t, report(good))
	for _, r := range []Result{
		{Cases: 11, Passed: 8, Differs: good.Differs, NotRun: good.NotRun},
		{Cases: 10, Passed: 10},
		{Cases: 10, Passed: 7, Differs: map[string]int{"it is so": 2}, NotRun: good.NotRun},
	} {
		require.False(t, report(r))
	}
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "| [A suite](#a-suite) | 10 | 7 | 2 | 1 |\n| [B](#b) | 1 |\n\n## A suite\n\n<!-- rfc9309 -->\nBy hand.\n"+
		"- 1 differ: it is other.\n- 1 differ: it is so.\n- 1 not run: not ours.\n\n## B\n", string(text))
}

// Whatever cases lie in the tree, it is written beside them where they come from and under which
// licence.
func TestLicences(t *testing.T) {
	dir := filepath.Join(docpage.Root(t), "testdata", "conformance")
	text, err := os.ReadFile(filepath.Join(dir, "LICENSES.md"))
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		if !strings.HasPrefix(name, "LICENSE") {
			require.Contains(t, string(text), "\n| `"+name+"` | ")
		}
	}
}

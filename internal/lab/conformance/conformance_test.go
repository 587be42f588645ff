package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// The page has every suite of the list, and nothing else.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page(t))
	require.NoError(t, err)
	parts := parse(string(text))
	for id, s := range suites {
		require.NotEmpty(t, parts[s.Title].row, "%s has never been run: `make conformance`", id)
		require.NotEmpty(t, parts[s.Title].section, id)
		require.Contains(t, parts[s.Title].section, s.Source)
	}
	require.Equal(t, write(parts), string(text), "the page has more than the suites: `make conformance` writes it anew")
}

// failing notes that a test has failed, and what it said.
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
	require.False(t, report(good), "there is no page")
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
	text, err := os.ReadFile(filepath.Join(dir, "docs", "reference", "conformance.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), " | 10 | 7 | 2 | 1 |\n")
	require.Contains(t, string(text), "- 1 differ: it is so.\n- 1 not run: not ours.\n")
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

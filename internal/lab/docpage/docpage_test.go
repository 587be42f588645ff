package docpage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

// A page that says something else fails the test, and UPDATE mends it and nothing around it.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "docs", "page.md")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "docs"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "some", "package"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o600))
	const before, after = "# Title\n<!-- facts: generated, see `make docs` -->\n", "<!-- end of facts -->\nmore\n"
	require.NoError(t, os.WriteFile(page, []byte(before+"old\n"+after), 0o600))
	t.Chdir(filepath.Join(dir, "some", "package"))
	failed := func(want string) bool {
		f := &failing{TB: t}
		Check(f, "docs/page.md", "facts", want)
		return f.failed
	}
	t.Setenv("UPDATE", "")
	require.False(t, failed("old"))
	require.True(t, failed("new"))
	require.Equal(t, before+"old\n"+after, Read(t, "docs/page.md"))
	t.Setenv("UPDATE", "1")
	require.False(t, failed("new\nlines\n\n"))
	require.Equal(t, before+"new\nlines\n"+after, Read(t, "docs/page.md"))
	t.Setenv("UPDATE", "")
	require.False(t, failed("new\nlines"))
}

func TestFirstDifference(t *testing.T) {
	line, a, b := firstDifference("a\nb\nc", "a\nx\nc")
	require.Equal(t, []any{2, "b", "x"}, []any{line, a, b})
	line, a, b = firstDifference("a", "a\nmore")
	require.Equal(t, []any{2, "", "more"}, []any{line, a, b})
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
)

// Each command has a page with all that its help has, and a formatter has nothing to say
// about it.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out, errs bytes.Buffer
	require.Equal(t, cli.CodeDone, run(t.Context(), []string{"man", dir}, cli.Streams{Out: &out, Err: &errs}), errs.String())
	names := strings.Fields(out.String())
	require.Contains(t, names, "crawl.1")
	require.Contains(t, names, "crawl-report.1")
	require.NotContains(t, names, "crawl-man.1", "which is for those who package")
	for _, name := range names {
		page, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(page, []byte(`.TH "CRAWL`)))
		require.Contains(t, string(page), "\n.SH NAME\ncrawl")
		for line := range strings.Lines(string(page)) {
			require.NotRegexp(t, `^'`, line, "it would be a request")
		}
		if groff, err := exec.LookPath("groff"); err == nil {
			cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z", filepath.Join(dir, name))
			said, err := cmd.CombinedOutput()
			require.NoError(t, err)
			require.Empty(t, string(said), name)
		}
	}
	first, err := os.ReadFile(filepath.Join(dir, "crawl.1"))
	require.NoError(t, err)
	require.Contains(t, string(first), ".SS Politeness\n")
	require.Contains(t, string(first), `\-\-max\-rate`)
	require.Contains(t, string(first), "EXIT STATUS")

	require.Equal(t, cli.CodeUsage, run(t.Context(), []string{"man"}, cli.Streams{Out: &out, Err: &errs}))
	require.Equal(t, cli.CodeIO, run(t.Context(), []string{"man", filepath.Join(dir, "crawl.1")}, cli.Streams{Out: &out, Err: &errs}))
}

func TestEscapeRoff(t *testing.T) {
	for s, want := range map[string]string{
		"a-b": `a\-b`, `\.pdf$`: `\e.pdf$`, ".TH": `\&.TH`, "a\n'quote'": "a\n\\&'quote'", "": "",
	} {
		require.Equal(t, want, flags.EscapeRoff(s))
	}
}

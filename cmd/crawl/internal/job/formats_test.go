package job

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/filekind"
	"github.com/treadlight/crawl/internal/records/sink"
)

// A file of each format is told as what it is, a worker goes on behind its records, and the page
// on records names the format.
func TestEveryFormat(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/records.md")
	require.NoError(t, err)
	for _, spec := range sink.Formats() {
		require.Contains(t, string(page), "| `"+string(spec.Format)+"` |")
		require.Contains(t, string(page), "`"+spec.Ending()+"`")
		if !spec.Lines() {
			continue
		}
		path := filepath.Join(t.TempDir(), "records"+spec.Ending())
		w, err := sink.Open(path, sink.Config{Format: spec.Format})
		require.NoError(t, err)
		require.NoError(t, w.Write(&sink.Record{URL: "http://a.test/", Kind: "page", Status: 200}))
		require.NoError(t, w.Close())
		require.Equal(t, spec.Kind, filekind.Of(path), spec.Format)
		how, whole, behind, err := goingOn(path)
		require.NoError(t, err)
		require.Zero(t, behind)
		require.Equal(t, sink.Resume, how)
		require.Equal(t, w.Position(), whole)
	}
}

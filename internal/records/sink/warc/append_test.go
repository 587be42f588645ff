package warc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
)

// A process is killed in the middle of its last file, and comes back without knowing how
// far it was: what was whole stays, what was not is gone, and what it writes then is there.
func TestGoOnBehindWhatIsCut(t *testing.T) {
	whole := t.TempDir()
	w := open(t, whole, Config{MaxSize: 2500})
	for i := range 4 {
		require.NoError(t, w.Write(numbered(i)))
	}
	require.NoError(t, w.Flush())
	last := filepath.Base(w.now.path(w.dir))
	require.NoError(t, w.abandon())
	text, err := os.ReadFile(filepath.Join(whole, last))
	require.NoError(t, err)
	kept := answersIn(t, whole)
	require.Len(t, kept, 4)
	var ends []int64 // of exchanges in the last file
	for _, rec := range requireRecords(t, filepath.Join(whole, last)) {
		if rec.Get("WARC-Type") == typeMetadata {
			ends = append(ends, rec.end)
		}
	}
	require.NotEmpty(t, ends)
	before := len(kept) - len(ends)
	require.Positive(t, before, "there is a file before it")

	dir := filepath.Join(t.TempDir(), "w1")
	cuts := []int{0, 1, len(text)} // each costs some writes to a disk
	for _, end := range ends {
		cuts = append(cuts, int(end)-1, min(int(end)+1, len(text)))
	}
	for cut := 100; cut < len(text); cut += 1 + len(text)/8 {
		cuts = append(cuts, cut)
	}
	for _, cut := range cuts {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		require.NoError(t, os.Truncate(filepath.Join(dir, last), int64(cut)))
		want := before
		var end int64
		for _, at := range ends {
			if at <= int64(cut) {
				want, end = want+1, at
			}
		}
		w := open(t, dir, Config{MaxSize: 2500, Existing: sink.Append})
		if want > before {
			require.Equal(t, int64(cut)-end, w.Cut(), cut)
		}
		require.NoError(t, w.Write(numbered(9)))
		require.NoError(t, w.Close())
		require.Equal(t, append(append([]string{}, kept[:want]...), numbered(9).URL), answersIn(t, dir), cut)
		for _, name := range names(t, dir) {
			require.NotContains(t, name, openEnding)
		}
	}
}

// What is complete is gone on behind in a file of its own, and so is nothing.
func TestGoOnBehindWhatIsComplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w1")
	for i := range 3 {
		w := open(t, dir, Config{Existing: sink.Append})
		require.Zero(t, w.Cut())
		require.NoError(t, w.Write(numbered(i)))
		require.NoError(t, w.Close())
		require.Equal(t, numberedURLs(i+1), answersIn(t, dir))
		require.Len(t, names(t, dir), 2*(i+1), "archives and their indexes")
	}
	foreign := filepath.Join(dir, "treadlight-20990101000000-00009.warc.gz")
	require.NoError(t, os.WriteFile(foreign, []byte("dear diary"), 0o600))
	_, err := Open(dir, Config{Existing: sink.Append})
	require.ErrorContains(t, err, "cannot be gone on behind")
	require.FileExists(t, foreign)
}

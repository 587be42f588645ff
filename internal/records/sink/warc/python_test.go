package warc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// golden is what warcio and cdxj-indexer have made of the archive that archived writes.
const golden = "../../../../testdata/conformance/warc/index.cdxj"

// archived writes an archive of difficult exchanges, at URLs whose keys are difficult too.
func archived(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	w := open(t, dir, Config{Info: []Field{{"software", "Treadlight"}}})
	records := difficult()
	for i, uri := range []string{
		"https://www2.example.com/a//b/", "https://example.com/c%2Fd", "https://example.com/?b=%26a=1",
		"https://example.com/?b=1&PHPSESSID=0123456789abcdef0123456789abcdef", "https://user@example.com:8443/x",
		"https://[2001:db8::1]:8443/x", "http://127.0.0.1:8080/%7Euser/Ä?q=ü", "http://xn--bcher-kva.example/?A=1&a-b=2&a",
	} {
		records = append(records, answered(uri, fmt.Sprint("page ", i)))
	}
	for _, r := range records {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
	return filepath.Join(dir, "treadlight-20261122120000-00001.warc.gz")
}

// indexed are the entries of an index by key and time. Their lengths and offsets are left out
// if whole is false: they change with the identifiers of records.
func indexed(t *testing.T, text string, whole bool) map[string]entry {
	t.Helper()
	all := map[string]entry{}
	for l := range strings.Lines(text) {
		key, _, _ := strings.Cut(l, "{")
		e := parseLine(t, l)
		e.Digest = strings.TrimPrefix(e.Digest, "sha1:") // pywb itself writes it without
		if !whole {
			e.Length, e.Offset, e.Filename = "", "", ""
		}
		require.NotContains(t, all, key)
		all[key] = e
	}
	return all
}

// wrongDigests splits the lines of read.py: the URLs of records whose digest is wrong to
// warcio, and the index.
func wrongDigests(text string) (wrong []string, index string) {
	for l := range strings.Lines(text) {
		if uri, ok := strings.CutPrefix(l, "bad "); ok {
			wrong = append(wrong, strings.TrimSpace(uri))
		} else {
			index += l
		}
	}
	return wrong, index
}

// chunkedOnly are the records that warcio finds wrong: it digests the chunks as well, where
// WARC/1.1 has the payload without its transfer coding.
var chunkedOnly = []string{"http://a.test:8080/chunked"}

// Our index is the one that pywb's indexer makes, and the digests are right to warcio.
func TestIndexConforms(t *testing.T) {
	text, err := os.ReadFile(golden)
	require.NoError(t, err)
	wrong, theirs := wrongDigests(string(text))
	mine, err := os.ReadFile(strings.TrimSuffix(archived(t), ".warc.gz") + ".cdxj")
	require.NoError(t, err)
	want, got := indexed(t, theirs, false), indexed(t, string(mine), false)
	require.Equal(t, want, got)
	require.Equal(t, chunkedOnly, wrong)
	conformance.Report(t, "warc", conformance.Result{
		Cases: 2 * len(want), Passed: 2*len(want) - len(wrong),
		Differs: map[string]int{"warcio takes the framing of chunks for a part of the payload, and its digest for wrong; WARC/1.1 has the payload without a transfer coding": len(wrong)},
	})
}

// Where Python has warcio and cdxj-indexer, they read what we write, and say what they have said.
func TestPythonReadsIt(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import warcio, cdxj_indexer").Run(); err != nil {
		t.Skipf("NOT RUN: Python has no warcio and cdxj_indexer: `pip install warcio cdxj-indexer` installs them")
	}
	path := archived(t)
	script, err := filepath.Abs("testdata/read.py")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "python3", "-W", "ignore", script, path).Output()
	require.NoError(t, err)
	wrong, theirs := wrongDigests(string(out))
	mine, err := os.ReadFile(strings.TrimSuffix(path, ".warc.gz") + ".cdxj")
	require.NoError(t, err)
	require.Equal(t, indexed(t, theirs, true), indexed(t, string(mine), true))
	require.Equal(t, chunkedOnly, wrong)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(golden, out, 0o600))
	}
	kept, err := os.ReadFile(golden)
	require.NoError(t, err)
	_, before := wrongDigests(string(kept))
	require.Equal(t, indexed(t, before, false), indexed(t, theirs, false))
}

package crawl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/record"
)

// A program writes records as the command does, and goes on with a file.
func TestRecordsOfAProgram(t *testing.T) {
	o, url := fast(site{"/": "<title>a</title><h1>1</h1>", "/b": "<title>b</title>"}, t)
	o.Extract.Fields = []string{"n=css:h1"}
	lines := func(name string, seeds ...string) string {
		path := filepath.Join(t.TempDir(), name)
		var at *record.Position
		for _, seed := range seeds {
			w, err := crawl.Records(path, at, "n")
			require.NoError(t, err)
			o.Sinks = []record.Sink{w}
			run(t, o, seed)
			require.NoError(t, w.Close())
			position := w.Mark()
			at = &position
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, url+"/\n"+url+"/b\n", lines("a.txt", url, url+"/b"))
	require.Regexp(t, `^url,kind,.*,field_n\nhttp.*,1\nhttp.*,b,.*,\n$`, lines("a.csv", url, url+"/b"))
	require.Regexp(t, `^{"url":.*"fields":{"n":"1"}.*}\n{"url".*\n$`, lines("a.jsonl", url, url+"/b"))
	require.True(t, strings.HasPrefix(lines("a.JSONL.gz", url), "\x1f\x8b"))
	for _, name := range []string{"a.warc", "a", "a.xlsx", "a.gz"} {
		_, err := crawl.Records(filepath.Join(t.TempDir(), name), nil)
		require.ErrorContains(t, err, "says no format of records")
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	require.NoError(t, os.WriteFile(path, []byte("x\n"), 0o600))
	_, err := crawl.Records(path, nil)
	require.ErrorContains(t, err, "remove it, choose another file")
}

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// archivedURLs is the URL of each answer in a directory of archives, or in one. Every file there
// must be complete, a whole gzip file, and have its index unless it is the one.
func archivedURLs(t *testing.T, dir string) (urls []string) {
	t.Helper()
	if filepath.Ext(dir) == ".gz" {
		text, err := os.ReadFile(dir)
		require.NoError(t, err)
		return answersOf(t, text)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		base, archive := strings.CutSuffix(e.Name(), ".warc.gz")
		if !archive {
			require.True(t, strings.HasSuffix(e.Name(), ".cdxj"), "%s was left", e.Name())
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		gz, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, gz)
		require.NoError(t, err, e.Name())
		index, err := os.ReadFile(filepath.Join(dir, base+".cdxj"))
		require.NoError(t, err)
		answers := answersOf(t, text)
		require.Equal(t, len(answers), bytes.Count(index, []byte("\n")), "the index of %s", e.Name())
		urls = append(urls, answers...)
	}
	return urls
}

// answersOf is the URL of each answer in an archive.
func answersOf(t *testing.T, archive []byte) (urls []string) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(archive))
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return urls
		}
		require.NoError(t, err)
		if kind := rec.Get("WARC-Type"); kind == "response" || kind == "revisit" {
			urls = append(urls, rec.Get("WARC-Target-URI"))
		}
	}
}

package integration_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// answersIn is the URL of each response in the archives of a directory, in the order in which
// they were written, and the blocks of the first record.
func answersIn(t *testing.T, dir string) (urls []string, info string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	require.NoError(t, err)
	for _, path := range files {
		f, err := os.Open(path)
		require.NoError(t, err)
		r := warc.NewReader(f)
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			switch rec.Get("WARC-Type") {
			case "warcinfo":
				text, err := io.ReadAll(rec.Block)
				require.NoError(t, err)
				info += string(text)
			case "response", "revisit":
				urls = append(urls, rec.Get("WARC-Target-URI"))
			}
		}
		require.NoError(t, f.Close())
	}
	return urls, info
}

// What a crawl is let in by is not handed on with its archives, whatever the field is called.
func TestArchivesOpenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("SECRET_OF_TEST", "hunter2-env")
		var mu sync.Mutex
		got := http.Header{}
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got = r.Header.Clone()
			mu.Unlock()
			w.Header().Set("Content-Type", "text/html")
		})})
		dir := t.TempDir()
		cfg := assembly.DefaultConfig()
		cfg.Fetch.Headers = []string{"X-Plain: plain", "X-Odd: ${SECRET_OF_TEST}", "X-Api-Key: hunter2-key"}
		cfg.Hosts = []config.Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Headers: []string{"X-Site: hunter2-site"}, Auth: "reader:hunter2"}}
		archive, err := crawl.OpenArchive(crawl.ArchiveConfig{Dir: dir, Settings: cfg.Settings})
		require.NoError(t, err)
		cfg.Archives = []crawl.Sink{archive}
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context(), "http://a.test/"))
		require.NoError(t, archive.Close())
		require.Equal(t, []string{"plain", "hunter2-env", "hunter2-key", "hunter2-site", "Basic cmVhZGVyOmh1bnRlcjI="}, []string{
			got.Get("X-Plain"), got.Get("X-Odd"), got.Get("X-Api-Key"), got.Get("X-Site"), got.Get("Authorization"),
		})

		files, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
		require.NoError(t, err)
		f, err := os.Open(files[0])
		require.NoError(t, err)
		gz, err := gzip.NewReader(f)
		require.NoError(t, err)
		text, err := io.ReadAll(gz)
		require.NoError(t, errors.Join(err, f.Close()))
		require.Contains(t, string(text), "X-Plain: plain\r\n")
		require.Contains(t, string(text), "X-Odd: xxx\r\n")
		require.NotContains(t, string(text), "hunter2")
		require.NotContains(t, string(text), "cmVhZGVyOmh1bnRlcjI=")
	})
}

// A program archives its crawl, stops, and goes on where the state has the archives.
func TestArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(12)})
		dir, archives := filepath.Join(t.TempDir(), "state"), t.TempDir()
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.MaxPages, cfg.Sitemaps.Enabled = dir, 5, false
		cfg.Fetch.Contact, cfg.Fetch.Headers = "https://example.com/bot", []string{"Authorization: Basic c2VjcmV0"}
		archive, err := crawl.OpenArchive(crawl.ArchiveConfig{Dir: archives, Settings: cfg.Settings, Version: "1.2"})
		require.NoError(t, err)
		cfg.Archives = []crawl.Sink{archive}
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context(), "http://a.test/"))
		// It is not closed, as if the process had been killed, and something stands behind it.
		files, err := filepath.Glob(filepath.Join(archives, "*.open"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString("half a record")
		require.NoError(t, errors.Join(err, f.Close()))

		st, err := assembly.OpenState(assembly.StateConfig{Dir: dir})
		require.NoError(t, err)
		cfg = st.Config()
		cfg.MaxPages = 0
		at := st.Position(archives)
		require.EqualValues(t, 6, at.Records, "5 pages and robots.txt")
		again, err := crawl.OpenArchive(crawl.ArchiveConfig{Dir: archives, Settings: cfg.Settings, Resume: &at})
		require.NoError(t, err)
		cfg.Archives = []crawl.Sink{again}
		c, err = newOver(cfg, net.DialContext)
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context()))
		require.NoError(t, again.Close())
		_ = archive.Close() // nothing more comes of it

		urls, info := answersIn(t, archives)
		seen := map[string]int{}
		for _, u := range urls {
			seen[u]++
		}
		require.Equal(t, 2, seen["http://a.test/robots.txt"], "each run asks for it")
		delete(seen, "http://a.test/robots.txt")
		require.Len(t, seen, 13)
		for u, n := range seen {
			require.Equal(t, 1, n, u)
		}
		require.Contains(t, info, "software: Treadlight/1.2 (https://github.com/treadlight/crawl)\r\n")
		require.Contains(t, info, "http-header-user-agent: Treadlight/1.2 (+https://example.com/bot)\r\n")
		require.Contains(t, info, "robots: obey\r\noperator: https://example.com/bot\r\n")
		require.Contains(t, info, "setting: max_pages: 5\r\n")
		require.NotContains(t, info, "c2VjcmV0", "a secret")
		require.NotContains(t, info, dir, "a name of a file here")
	})
}

func TestArchiveOfAnotherCrawl(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "treadlight-20260101000000-00001.warc.gz"), nil, 0o600))
	cfg := crawl.ArchiveConfig{Dir: dir, Settings: assembly.DefaultConfig().Settings}
	_, err := crawl.OpenArchive(cfg)
	require.ErrorContains(t, err, "holds archives")
	cfg.Settings.Output.Overwrite = true
	archive, err := crawl.OpenArchive(cfg)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	cfg.Settings.WARC.Prefix = strings.Repeat("x", 65)
	archive, err = crawl.OpenArchive(cfg)
	require.Error(t, err)
	require.True(t, archive == nil, fmt.Sprint(archive))
}

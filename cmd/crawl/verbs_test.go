//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/record"
)

// Every command that asks hosts tells them its version, as a crawl does.
func TestVerbsTellTheirVersion(t *testing.T) {
	var mu sync.Mutex
	var agents []string
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		agents = append(agents, r.UserAgent())
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<h1>A page</h1><p>" + strings.Repeat("It has some words to read. ", 20)))
	}))
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-q"}, {"read"}, {"try"}, {"plan"}, {"doctor"}, {"audit", "--fail-on", "none"}, {"mirror", "-o", dir + "/copy"}, {"watch", "--once", dir + "/state"},
	} {
		agents = nil
		crawls(t, 0, append(args, "--contact", "a@b.test", url)...)
		require.NotEmpty(t, agents, args)
		for _, agent := range agents {
			require.Equal(t, "Treadlight/"+cli.Version()+" (+a@b.test)", agent, args)
		}
	}
}

// Interrupted before anything is done, both ways to run end alike, with what there is and the exit code.
func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	simulated := func(args ...string) (out, errs string) {
		var stdout, stderr bytes.Buffer
		code := run(ctx, append([]string{"simulate", "S1a"}, args...), cli.Streams{Out: &stdout, Err: &stderr})
		require.Equal(t, cli.CodeInterrupted, code)
		return stdout.String(), stderr.String()
	}
	out, errs := simulated()
	require.Empty(t, out)
	require.Contains(t, errs, "interrupted: 0 of 3 runs done\n")
	out, errs = simulated("--trace")
	require.Equal(t, "S1a under steer, seed 1: nginx 10/s, burst 20, 429\n\n", out)
	require.Contains(t, errs, "interrupted: the run was 0.0s long and would have been 15m00s\n")
	out, _ = simulated("--trace", "--format", "json")
	var doc struct {
		Interrupted bool
		Result      *struct{}
		Moments     []struct{}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.True(t, doc.Interrupted)
	require.Nil(t, doc.Result)
	require.NotNil(t, doc.Moments, "null would be no list")
}

// table is a sink that stores records in a database, so that its position is not an offset in a file.
type table struct{ rows int64 }

func (s *table) Write(*record.Record) error { s.rows++; return nil }
func (*table) Flush() error                 { return nil }
func (*table) Sync() error                  { return nil }
func (*table) Close() error                 { return nil }
func (s *table) Mark() record.Position {
	return record.Position{Path: "postgres://db/pages", Bytes: s.rows, Records: s.rows}
}

// A state that a program keeps with the package crawl belongs to that program: the command resumes no such crawl, and
// 'crawl check' checks what it can.
func TestStateOfAProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c, err := crawl.New(crawl.Options{
		Fetcher: crawltest.Numbered(9), StateDir: dir, MaxPages: 3, Sinks: []record.Sink{new(table)},
		Politeness: crawl.PolitenessOptions{Strategy: "off"},
	})
	require.NoError(t, err)
	require.NoError(t, c.Run(t.Context(), "http://site.example"))
	for _, verb := range []string{"resume", "again"} {
		_, stderr := crawls(t, cli.CodeUsage, verb, dir)
		require.Contains(t, stderr, "is the state of a program that uses the package crawl")
	}
	stdout, stderr := crawls(t, cli.CodeDone, "check", dir)
	require.Contains(t, stdout+stderr, "its sinks are those of a program")
}

//go:build unix

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/record"
)

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
	command := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		return code, out.String()
	}
	for _, verb := range []string{"resume", "again"} {
		code, out := command(verb, dir)
		require.Equal(t, cli.CodeUsage, code, out)
		require.Contains(t, out, "is the state of a program that uses the package crawl")
	}
	code, out := command("check", dir)
	require.Zero(t, code, out)
	require.Contains(t, out, "its sinks are those of a program")
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// A state that cannot be opened yet does not keep the time of a crawl, or an interrupt, from ending
// it, and is as it was.
func TestEndsThoughTheStateIsNotOpen(t *testing.T) {
	site, dir := serveBusySite(t, false), t.TempDir()
	site.calm.Store(true)
	state, records := filepath.Join(dir, "state"), filepath.Join(dir, "records")
	c := begin(t, []string{"--strategy", "off", "--no-robots", "--no-sitemaps", "--state", state, "-o", records, "--max-pages", "5", site.url + "/"})
	require.Zero(t, c.wait(t), "%s", c.text())
	for _, verb := range []string{"resume", "again"} {
		for _, way := range []string{"max-time", "interrupt"} {
			db, err := sqlitedb.Open(filepath.Join(state, "state.db"), sqlitedb.Config{})
			require.NoError(t, err)
			// Nobody else gets in: others wait for five seconds, and fail.
			require.NoError(t, db.Exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE meta SET value = value"))
			args, want := []string{verb, state, "-v"}, cli.CodeInterrupted
			if way == "max-time" {
				args, want = append(args, "--max-time", "1s"), cli.CodeLimit
			}
			c := begin(t, args)
			c.until(t, regexp.MustCompile("opening the state"))
			if way == "interrupt" {
				require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
			}
			require.Equal(t, want, c.wait(t), "%s", c.text())
			require.Contains(t, c.text(), "before the crawl has begun")
			require.Contains(t, c.text(), "crawl resume "+state)
			require.NoError(t, db.Exec("ROLLBACK"))
			require.NoError(t, db.Close())
		}
	}
	c = begin(t, []string{"resume", state, "--max-pages", "0"})
	require.Zero(t, c.wait(t), "%s", c.text())
	text, err := os.ReadFile(records)
	require.NoError(t, err)
	require.Equal(t, site.all(), sorted(recordedURLs(t, "jsonl", text)))
}

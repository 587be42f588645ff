package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// ownDisk is a directory for a file system of its own, which scripts mount.
func ownDisk(t *testing.T) (dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no file system of one's own here: %s", strings.TrimSpace(string(out)))
	}
	return t.TempDir()
}

// answer is what a command of a script ended with, and printed.
type answer struct {
	code int
	out  string
}

// onDisk runs a script that may mount something. Each of its commands `run PROGRAM ARGS...` has
// an answer.
func onDisk(t *testing.T, script string) (all []answer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-c", `set -e
run() { code=0; "$@" >"$LOG" 2>&1 </dev/null || code=$?; printf '\n== %d\n' $code; cat "$LOG"; }
`+script)
	cmd.Env = append(os.Environ(), "GORACE="+race, "LOG="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, part := range strings.Split(string(out), "\n== ")[1:] {
		first, rest, _ := strings.Cut(part, "\n")
		code, err := strconv.Atoi(first)
		require.NoError(t, err)
		all = append(all, answer{code, rest})
	}
	return all
}

// wholeRecords is how many records a failed write says are safe.
func wholeRecords(t *testing.T, said string) int {
	t.Helper()
	m := regexp.MustCompile(`no space left on device; it has (\d+) whole records? `).FindStringSubmatch(said)
	require.NotNil(t, m, said)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// A full disk ends a crawl that is not kept with the reason and what to do; what was written is
// whole.
func TestFullDiskWithoutState(t *testing.T) {
	disk, site := ownDisk(t), serveKillSite(t)
	for _, name := range []string{"out.jsonl", "out.csv", "out.jsonl.gz", "one.warc.gz", "one.warc"} {
		t.Run(name, func(t *testing.T) {
			saved := filepath.Join(t.TempDir(), name)
			got := onDisk(t, fmt.Sprintf("mount -t tmpfs -o size=8k tmpfs %[1]s\nrun crawl -q --strategy off -o %[1]s/%[2]s %[3]s\ncp %[1]s/%[2]s %[4]s",
				disk, name, strings.Join(site.seeds, " "), saved))
			require.Equal(t, cli.CodeIO, got[0].code, got[0].out)
			require.Contains(t, got[0].out, "; free some room there, then begin anew with --overwrite (a crawl with --state DIR goes on where it was)\n")
			n := wholeRecords(t, got[0].out)
			text, err := os.ReadFile(saved)
			require.NoError(t, err)
			if strings.HasSuffix(name, ".jsonl.gz") {
				r, err := gzip.NewReader(bytes.NewReader(text))
				if n > 0 {
					require.NoError(t, err)
					text, err = io.ReadAll(r)
					require.NoError(t, err)
				}
			}
			if strings.Contains(name, ".warc") {
				require.Len(t, answersOf(t, text), n)
				return
			}
			format := strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(name, ".gz")), ".")
			require.Len(t, recordedURLs(t, format, text), n)
		})
	}
}

// A kept crawl whose records are on a disk that is full says how to go on, and goes on from
// there with nothing lost and nothing twice.
func TestFullDiskOfRecords(t *testing.T) {
	for _, name := range []string{"out.jsonl", "out.csv", "one.warc.gz"} {
		t.Run(name, func(t *testing.T) {
			disk, site, dir := ownDisk(t), serveKillSite(t), t.TempDir()
			state, saved := filepath.Join(dir, "state"), filepath.Join(dir, name)
			got := onDisk(t, fmt.Sprintf(`mount -t tmpfs -o size=8k tmpfs %[1]s
run crawl -q --strategy off -o %[1]s/%[2]s --state %[3]s %[4]s
mount -o remount,size=64m %[1]s
run crawl resume %[3]s -q
cp %[1]s/%[2]s %[5]s`, disk, name, state, strings.Join(site.seeds, " "), saved))
			require.Equal(t, cli.CodeIO, got[0].code, got[0].out)
			wholeRecords(t, got[0].out)
			require.Contains(t, got[0].out, "; free some room there, then go on with 'crawl resume "+state+"'\n")
			require.Equal(t, cli.CodeDone, got[1].code, got[1].out)
			text, err := os.ReadFile(saved)
			require.NoError(t, err)
			if name == "one.warc.gz" {
				urls := answersOf(t, text)
				pages := urls[:0]
				for _, u := range urls {
					if !strings.HasSuffix(u, "/robots.txt") && !strings.HasSuffix(u, "/sitemap.xml") {
						pages = append(pages, u)
					}
				}
				site.requireURLs(t, pages)
				return
			}
			site.requireURLs(t, recordedURLs(t, strings.TrimPrefix(filepath.Ext(name), "."), text))
		})
	}
}

// What only reads does so where there is no room for the files that SQLite makes beside its own.
func TestFullDiskIsRead(t *testing.T) {
	disk, site := ownDisk(t), serveKillSite(t)
	got := onDisk(t, fmt.Sprintf(`mount -t tmpfs -o size=4m tmpfs %[1]s
cd %[1]s
run crawl -q --strategy off --max-pages 3 -o site/ %[2]s
dd if=/dev/zero of=fill bs=1k 2>/dev/null || true
run crawl report site
run crawl check site
run crawl again site
run crawl report site
rm fill
run crawl resume site -q --max-pages 4`, disk, site.seeds[0]))
	require.Equal(t, answer{cli.CodeDone, ""}, got[0])
	for _, i := range []int{1, 2, 4} {
		require.Equal(t, cli.CodeDone, got[i].code, got[i].out)
	}
	require.Contains(t, got[1].out, "3 pages")
	require.Equal(t, cli.CodeIO, got[3].code, got[3].out)
	require.Contains(t, got[3].out, "there is no room for it: free some on its disk")
	require.Equal(t, cli.CodeDone, got[5].code, got[5].out)
}

// Where nothing can be written each command says so before it asks for anything, and what only
// reads works.
func TestReadOnlyPlace(t *testing.T) {
	disk, site := ownDisk(t), serveKillSite(t)
	const writable = "read-only file system: make the place writable for this user, or name another\n"
	script := fmt.Sprintf("mount -t tmpfs -o size=64m tmpfs %[1]s\ncd %[1]s\nrun crawl -q --strategy off --max-pages 3 -o site/ %[2]s\ncp -r site killed\nprintf something >killed/state.db-wal\nmount -o remount,ro %[1]s\n", disk, site.seeds[0])
	crawl := "crawl -q --rate 1000 --max-rate 1000 --max-pages 2 " + site.seeds[0] + " "
	cases := []struct {
		command string
		code    int
		said    string
	}{
		{crawl + "-o new.jsonl", cli.CodeIO, writable},
		{crawl + "-o new/", cli.CodeIO, writable},
		{crawl + "-o one.warc.gz", cli.CodeIO, writable},
		{crawl + "--warc archive", cli.CodeIO, writable},
		{crawl + "--stats stats.json", cli.CodeIO, writable},
		{crawl + "--set output.events=events.jsonl", cli.CodeIO, writable},
		{crawl + "--state state", cli.CodeIO, "read-only file system: name a directory that can be made\n"},
		{crawl + "--set log.level=warn --remember hosts.jsonl -o /dev/null", cli.CodeDone, "what was learned of hosts could not be kept: later crawls learn it again, unless the file can be written by then"},
		{"crawl resume site", cli.CodeIO, "make it and its directory writable for this user\n"},
		{"crawl report site", cli.CodeDone, "3 pages"},
		{"crawl check site", cli.CodeDone, "nothing is wrong"},
		{"crawl report killed", cli.CodeIO, "make it and its directory readable and writable for this user, or copy it, with its -wal, to where they are"},
		{"crawl explain --offline --state site " + site.seeds[0], cli.CodeDone, "in: it is a seed"},
	}
	for _, c := range cases {
		script += "run " + c.command + "\n"
	}
	got := onDisk(t, script)
	require.Equal(t, cli.CodeDone, got[0].code, got[0].out)
	for i, c := range cases {
		require.Equal(t, c.code, got[i+1].code, "%s: %s", c.command, got[i+1].out)
		require.Contains(t, got[i+1].out, c.said, c.command)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var kills = flag.Int("kills", 20, "how many crawls TestKill ends in each way")

// A crawl that is ended at any instant and resumed, again and again, ends with the records
// of one that never was: each of its URLs once, in files that can be read.

// pagesOfHost is what each of the hosts of a killSite has.
const pagesOfHost = 120

// killSite is three hosts whose pages link to each other so that all are found, and some of
// which fail or move.
func killSite(t *testing.T) (seeds []string, want map[string]bool) {
	t.Helper()
	want = make(map[string]bool)
	for range 3 {
		s := httptest.NewServer(http.HandlerFunc(servePage))
		t.Cleanup(s.Close)
		seeds = append(seeds, s.URL+"/0")
		reach(s.URL, 0, want)
	}
	return seeds, want
}

// reach adds the pages that links lead to from one.
func reach(base string, n int, found map[string]bool) {
	u := fmt.Sprintf("%s/%d", base, n)
	if found[u] {
		return
	}
	found[u] = true
	for _, next := range linksOf(n) {
		reach(base, next, found)
	}
}

// moved reports whether a page is a redirect to the one before it.
func moved(n int) bool { return n%17 == 16 }

// linksOf is where a page leads.
func linksOf(n int) (next []int) {
	if moved(n) {
		return []int{n - 1}
	}
	for _, to := range []int{2*n + 1, 2*n + 2, n / 2, n + 1} {
		if to < pagesOfHost {
			next = append(next, to)
		}
	}
	return next
}

func servePage(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n >= pagesOfHost {
		http.NotFound(w, r)
		return
	}
	time.Sleep(3 * time.Millisecond) // so that a crawl lasts long enough to be killed in the middle
	if moved(n) {
		http.Redirect(w, r, fmt.Sprintf("/%d", linksOf(n)[0]), http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	for _, next := range linksOf(n) {
		fmt.Fprintf(w, "<a href=/%d>%d</a>", next, next)
	}
}

// crawlOf is the first command of a crawl into dir, and resumeOf each that follows.
func crawlOf(dir string, seeds []string) []string {
	return append([]string{"crawl", "-o", dir + "/", "--strategy", "off", "--no-robots", "--concurrency", "4", "--progress", "none"}, seeds...)
}

func resumeOf(dir string) []string { return []string{"crawl", "resume", dir, "--progress", "none"} }

// unbegun is what `crawl resume` says of a crawl that was ended before its first seed was
// safe: its first command is to be given again.
var unbegun = regexp.MustCompile("holds no crawl|begin it again as it was")

// goOn runs the command of a crawl with run: the first one if there is nothing to resume.
func goOn(dir string, seeds []string, run func(args []string) (code int, out string)) (code int, out string) {
	if _, err := os.Stat(dir); err == nil {
		if code, out = run(resumeOf(dir)); code != exitIO || !unbegun.MatchString(out) {
			return code, out
		}
	}
	return run(crawlOf(dir, seeds))
}

// requireRecords fails the test unless the records are those of the whole crawl, each once.
func requireRecords(t *testing.T, dir string, want map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "records.jsonl"))
	require.NoError(t, err)
	got := make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var rec struct{ URL string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &rec), "%q", lines.Text())
		require.False(t, got[rec.URL], "two records of %s", rec.URL)
		got[rec.URL] = true
	}
	require.NoError(t, lines.Err())
	require.Equal(t, want, got)
}

// finishCrawl resumes until the crawl is done.
func finishCrawl(t *testing.T, dir string, seeds []string) {
	t.Helper()
	code, out := goOn(dir, seeds, func(args []string) (int, string) {
		return ran(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
	})
	require.Zero(t, code, "%s", out)
}

// ran is the exit code of a command, -1 if a signal ended it, and what it printed.
func ran(t *testing.T, cmd *exec.Cmd) (code int, out string) {
	t.Helper()
	text, err := cmd.CombinedOutput()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	return cmd.ProcessState.ExitCode(), string(text)
}

// killed runs a command and sends it a signal after a while, however far it is.
func killed(t *testing.T, sig syscall.Signal, after time.Duration, args []string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), after)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(sig) }
	return ran(t, cmd)
}

func TestKill(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			for trial := range *kills {
				t.Run(fmt.Sprint(trial), func(t *testing.T) {
					t.Parallel()
					rnd := rand.New(rand.NewPCG(uint64(trial), uint64(sig)))
					seeds, want := killSite(t)
					dir := filepath.Join(t.TempDir(), "site")
					for range 1 + rnd.IntN(5) {
						code, out := goOn(dir, seeds, func(args []string) (int, string) {
							return killed(t, sig, time.Duration(rnd.Int64N(int64(700*time.Millisecond))), args)
						})
						// Before the crawl listens, any signal ends it like the hardest.
						require.Contains(t, []int{exitDone, exitInterrupted, -1}, code, "%s", out)
					}
					finishCrawl(t, dir, seeds)
					requireRecords(t, dir, want)
				})
			}
		})
	}
}

// The system calls by which a state and its sinks reach the disk. At each of them a crawl
// is killed: between the write, the commit and the acknowledgement of a record.
var diskCalls = []string{"pwrite64", "write", "fsync,fdatasync", "ftruncate", "rename,renameat,renameat2"}

// requireStrace skips the test where there is no strace, or it may not trace.
func requireStrace(t *testing.T) {
	t.Helper()
	err := exec.CommandContext(t.Context(), "strace", "-qq", "-o", os.DevNull, "true").Run()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("strace: %v: `make servers` installs it", err)
	default:
		t.Skipf("NOT RUN: strace: %v: `make servers` installs it", err)
	}
}

// inject runs a command under strace with a fault at system calls, and returns its exit
// code, -1 for a signal, and what it printed.
func inject(t *testing.T, calls, fault string, args []string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	trace := []string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + fault}
	return ran(t, exec.CommandContext(ctx, "strace", append(trace, args...)...))
}

func TestKillAtSystemCalls(t *testing.T) {
	requireStrace(t)
	for _, calls := range diskCalls {
		t.Run(calls, func(t *testing.T) {
			for trial := range max(1, *kills/len(diskCalls)) {
				t.Run(fmt.Sprint(trial), func(t *testing.T) {
					t.Parallel()
					rnd := rand.New(rand.NewPCG(uint64(trial), uint64(len(calls))))
					seeds, want := killSite(t)
					dir := filepath.Join(t.TempDir(), "site")
					for range 1 + rnd.IntN(3) {
						// Early calls make the files; later ones fill them.
						nth := 1 + rnd.IntN([]int{10, 60, 400}[rnd.IntN(3)])
						goOn(dir, seeds, func(args []string) (int, string) {
							return inject(t, calls, fmt.Sprintf("signal=KILL:when=%d", nth), args)
						})
					}
					finishCrawl(t, dir, seeds)
					requireRecords(t, dir, want)
				})
			}
		})
	}
}

// What the disk refuses ends the crawl with its reason, and what was committed goes on.
func TestDiskFaults(t *testing.T) {
	requireStrace(t)
	for _, errno := range []string{"ENOSPC", "EIO", "EROFS"} {
		for _, calls := range []string{"pwrite64", "fsync,fdatasync"} {
			t.Run(errno+" of "+calls, func(t *testing.T) {
				t.Parallel()
				seeds, want := killSite(t)
				dir := filepath.Join(t.TempDir(), "site")
				rnd := rand.New(rand.NewPCG(uint64(len(calls)), 1))
				first := 3 + rnd.IntN(20) // there are enough of them
				if calls != "pwrite64" {
					first = 2 // a commit asks once, and a short crawl commits a few times
				}
				code, out := inject(t, calls, fmt.Sprintf("error=%s:when=%d+", errno, first), crawlOf(dir, seeds))
				require.Equal(t, exitIO, code, "%s", out)
				require.Contains(t, out, dir, "the file is not named")
				require.NotContains(t, out, "panic")
				finishCrawl(t, dir, seeds)
				requireRecords(t, dir, want)
			})
		}
	}
}

// A disk that is full ends the crawl, and when there is room it goes on.
func TestFullDisk(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no file system of one's own here: %s", strings.TrimSpace(string(out)))
	}
	seeds, want := killSite(t)
	dir := t.TempDir()
	script := fmt.Sprintf(`
mount -t tmpfs -o size=%s tmpfs %[2]s
%[3]s
code=$?
[ $code = %[4]d ] || { echo "the crawl on a full disk ended with $code"; exit 1; }
mount -o remount,size=64m %[2]s
%[5]s || exit 1
cp -r %[2]s/site %[6]s`,
		"400k", dir, strings.Join(crawlOf(dir+"/site", seeds), " "), exitIO, strings.Join(resumeOf(dir+"/site"), " "), t.TempDir())
	kept := script[strings.LastIndex(script, " ")+1:]
	out, err := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "there is no room")
	requireRecords(t, filepath.Join(kept, "site"), want)
}

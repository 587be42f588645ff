package growth_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/bench/process"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// inFlight is how many requests a crawl has under way, as in package peers.
const inFlight = 16

// served is a site that is being served, by a process of its own, whose processor time is
// nobody's.
type served struct {
	site
	port int
}

// start serves a site until the test ends.
func start(t *testing.T, s site) *served {
	t.Helper()
	config, err := json.Marshal(s)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), siteVar+"="+string(config))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, cmd.Wait())
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	port, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return &served{s, port}
}

// seed is the URL of page n.
func (s *served) seed(n int64) string { return string(s.url(nil, n, s.port)) }

// report tells what the server has seen, and has it look for a first request anew.
func (s *served) report(t *testing.T) (r report) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/report", s.port))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&r))
	return r
}

// crawler is the program that is measured, and how long it may take.
type crawler struct {
	path  string
	limit time.Duration
}

// begin starts it in a directory.
func (c crawler) begin(t *testing.T, dir string, args ...string) *process.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.limit)
	t.Cleanup(cancel)
	n := strconv.Itoa(inFlight)
	cmd := exec.Command(c.path, append(args, "--concurrency", n, "--set", "per_host_max="+n, "--set", "log.level=warn", "--progress", "none")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CRAWL_FRONTIER_MAX_URLS="+strconv.Itoa(mostURLs))
	p, err := process.Start(ctx, cmd)
	require.NoError(t, err)
	return p
}

// mostURLs has room for what the largest crawl here finds, which the default has just not.
const mostURLs = 20_000_000

// run runs it to its end.
func (c crawler) run(t *testing.T, dir string, fine int, args ...string) process.Usage {
	t.Helper()
	u, err := c.begin(t, dir, args...).Wait(fine)
	require.NoError(t, err)
	return u
}

// kept is what a crawl has on disk.
type kept struct {
	database, seen         int64 // bytes
	known, queued, visited int64 // URLs
}

// look reads the state of a crawl that has ended.
func look(t *testing.T, dir string) (k kept) {
	t.Helper()
	k.seen = size(t, filepath.Join(dir, "seen"))
	for _, name := range []string{"state.db", "state.db-wal"} {
		k.database += size(t, filepath.Join(dir, name))
	}
	db, err := sqlitedb.Open(filepath.Join(dir, "state.db"), sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	for query, v := range map[string]*int64{
		`SELECT count(*) FROM urls`:   &k.known,
		`SELECT count(*) FROM queue`:  &k.queued,
		`SELECT count(*) FROM visits`: &k.visited,
	} {
		*v, err = db.QueryInt(query)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	return k
}

// size is the bytes of what is at a path; zero if nothing is.
func size(t *testing.T, path string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return n
}

// records counts the records of a file, and how many different URLs they are of.
func records(t *testing.T, path string) (all, different int) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	seen := make(map[string]bool)
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			require.Empty(t, line, "half a record")
			return all, len(seen)
		}
		require.NoError(t, err)
		var rec struct{ URL string }
		require.NoError(t, json.Unmarshal(line, &rec))
		all++
		seen[rec.URL] = true
	}
}

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// roundSite is a killSite whose pages have versions, and of which some are others, gone or
// new in the second round.
type roundSite struct {
	killSite
	second  atomic.Bool
	changes map[string]string // of the second round, by URL: status and change
	whole   atomic.Int64      // bodies that were sent without need in the second round
}

// newPages is how many pages there are more of in the second round.
const newPages = 5

func serveRounds(t *testing.T) *roundSite {
	t.Helper()
	site := &roundSite{killSite: killSite{want: make(map[string]bool)}, changes: make(map[string]string)}
	for range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			site.note("http://" + r.Host + r.URL.Path)
			site.page(w, r)
		}))
		t.Cleanup(s.Close)
		site.seeds = append(site.seeds, s.URL+"/0")
		reach(s.URL, 0, site.want)
		for n := range pagesOfHost + newPages {
			if u := fmt.Sprintf("%s/%d", s.URL, n); site.want[u] || n >= pagesOfHost {
				site.changes[u] = site.changeOf(n)
			}
		}
	}
	return site
}

// changeOf is what the second round is to find at a page.
func (s *roundSite) changeOf(n int) string {
	switch {
	case n >= pagesOfHost:
		return "200 new"
	case moved(n):
		return "302 unchanged"
	case n%10 == 7:
		return "404 gone"
	case n%3 == 0:
		return "200 changed"
	}
	return "304 unchanged"
}

func (s *roundSite) page(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[1:])
	change := s.changeOf(n)
	if err != nil || !s.second.Load() && n >= pagesOfHost || s.second.Load() && change == "404 gone" {
		http.NotFound(w, r)
		return
	}
	if moved(n) && n < pagesOfHost {
		servePage(w, r)
		return
	}
	tag := `"1"`
	if s.second.Load() && change == "200 changed" {
		tag = `"2"`
	}
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		time.Sleep(3 * time.Millisecond)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if s.second.Load() && change == "304 unchanged" {
		s.whole.Add(1)
	}
	if n >= pagesOfHost {
		w.Header().Set("Content-Type", "text/html")
		return
	}
	fmt.Fprintf(w, "<!doctype html>version %s", tag)
	servePage(w, r)
	for i := range newPages {
		if s.second.Load() && n == 0 {
			fmt.Fprintf(w, "<a href=/%d>new</a>", pagesOfHost+i)
		}
	}
}

// beginRound has the site know what the second round has visited, and reports whether there
// is one.
func (s *roundSite) beginRound(t *testing.T, dir string) (begun bool) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	db, err := sqlitedb.Open(filepath.Join(copied, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	round, err := db.QueryInt("SELECT max(round) FROM rounds")
	require.NoError(t, err)
	urls, err := db.QueryText("SELECT coalesce(group_concat(u.url, char(10)), '') FROM visits v JOIN urls u ON u.id = v.url WHERE v.round = 2")
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = make(map[string]bool)
	for u := range strings.SplitSeq(urls, "\n") {
		s.acked[u] = true
	}
	return round == 2
}

// goOnAgain runs the command that begins the second round, or goes on with it.
func (s *roundSite) goOnAgain(t *testing.T, k kept, run func(args []string) (code int, out string)) (code int, out string) {
	t.Helper()
	verb := "again"
	if s.beginRound(t, k.dir) {
		verb = "resume"
	}
	return run([]string{k.command(), verb, k.dir, "--progress", "none"})
}

// changesIn is what records say of changes; each must be whole, and of a URL of its own.
func changesIn(t *testing.T, format string, text []byte) map[string]string {
	t.Helper()
	changes := make(map[string]string)
	note := func(u, status, change string) {
		require.NotContains(t, changes, u, "two records")
		changes[u] = status + " " + change
	}
	if format == "csv" {
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		require.NoError(t, err)
		column := make(map[string]int)
		for i, name := range rows[0] {
			column[name] = i
		}
		for _, row := range rows[1:] {
			note(row[column["url"]], row[column["status"]], row[column["change"]])
		}
		return changes
	}
	for line := range bytes.Lines(text) {
		var rec struct {
			URL    string
			Status int
			Change string
		}
		require.NoError(t, json.Unmarshal(line, &rec), "%q", line)
		note(rec.URL, strconv.Itoa(rec.Status), rec.Change)
	}
	return changes
}

// A second round that is killed at random instants, and resumed, has the records of one that
// never was, in a file of their own; and what has not changed is never sent.
func TestKillAgain(t *testing.T) {
	for trial := range *kills {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(trial), 9))
			site, k := serveRounds(t), kept{dir: filepath.Join(t.TempDir(), "site"), format: []string{"jsonl", "csv"}[trial%2]}
			k.records, k.program = filepath.Join(k.dir, "records."+k.format), shipped(t, trial)
			plain := func(args []string) (int, string) {
				return ran(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
			}
			code, out := plain(append(k.first(site.seeds), "--no-sitemaps"))
			require.Zero(t, code, "%s", out)
			first, err := os.ReadFile(k.records)
			require.NoError(t, err)

			site.second.Store(true)
			sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[rnd.IntN(2)]
			for range 1 + rnd.IntN(4) {
				code, out = site.goOnAgain(t, k, func(args []string) (int, string) {
					when, after := site.after(1+rnd.IntN(120)), deadline
					if rnd.IntN(2) == 0 {
						when, after = nil, time.Duration(rnd.Int64N(int64(500*time.Millisecond)))
					}
					return killed(t, sig, when, after, args)
				})
				require.Contains(t, []int{cli.CodeDone, cli.CodeInterrupted, -1}, code, "%s", out)
				if code == cli.CodeDone {
					break
				}
			}
			code, out = site.goOnAgain(t, k, plain)
			require.Zero(t, code, "%s", out)

			same, err := os.ReadFile(k.records)
			require.NoError(t, err)
			require.Equal(t, string(first), string(same), "the records of the first round are as they were")
			text, err := os.ReadFile(job.RoundPath(k.records, 2))
			require.NoError(t, err)
			got := changesIn(t, k.format, text)
			for u, want := range site.changes { // one by one, for a message that can be read
				require.Equal(t, want, got[u], u)
			}
			require.Len(t, got, len(site.changes))
			require.Zero(t, site.whole.Load(), "pages that have not changed were sent")
			site.mu.Lock()
			defer site.mu.Unlock()
			require.Empty(t, site.again, "asked for again")
		})
	}
}

package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	_ "github.com/treadlight/crawl/sqlite"
)

// faulty is a site of forty pages, each of which links to one that is gone. requests counts the requests.
type faulty struct {
	requests atomic.Int64
	hold     atomic.Pointer[func(n int64, r *http.Request)]
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := f.requests.Add(1)
	if hold := f.hold.Load(); hold != nil {
		(*hold)(n, r)
	}
	var i int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil && r.URL.Path != "/" || strings.Contains(r.URL.Path, "gone") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<html lang="en"><title>Page %d</title><h1>Page %d</h1><a href="/%d">next</a> <a href="/gone/%d">gone</a>`, i, i, (i+1)%40, i)
}

// auditOf runs an audit into a directory.
func auditOf(ctx context.Context, dir, url string) error { return Run(ctx, configOf(dir, url)) }

func configOf(dir, url string) Config {
	var o crawl.Options
	o.Politeness.Strategy, o.Scope.Resources = "off", true
	return Config{
		Options: o, Seeds: []string{url}, Dir: dir, Quiet: true, FailOn: []string{"error"}, Out: io.Discard,
		Term: cli.NewTerminal(io.Discard, nil, "none"), Log: slog.New(slog.DiscardHandler),
	}
}

// findings returns the findings of an audit without what differs from run to run.
func findings(t *testing.T, dir string) (list []string) {
	t.Helper()
	r, err := report.Read(filepath.Join(dir, "audit.json"))
	require.NoError(t, err)
	for i := range r.Findings {
		if f := &r.Findings[i]; !strings.HasPrefix(f.Rule, "slow-") {
			list = append(list, fmt.Sprint(f.Rule, f.URL, f.About, f.Pages, f.Where))
		}
	}
	require.NotEmpty(t, list)
	return list
}

// TestMain lets a test run an audit in a process of its own, so that it can be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AUDIT_DIR"); dir != "" {
		os.Exit(cli.CodeOf(auditOf(context.Background(), dir, os.Getenv("AUDIT_URL"))))
	}
	os.Exit(m.Run())
}

// The same command continues an audit that was killed, with the findings of an uninterrupted one.
func TestKilledAuditGoesOn(t *testing.T) {
	site := new(faulty)
	server := httptest.NewServer(site)
	defer server.Close()
	whole, killed := t.TempDir(), t.TempDir()
	require.Equal(t, cli.CodeFindings, cli.CodeOf(auditOf(t.Context(), whole, server.URL)))

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AUDIT_DIR="+killed, "AUDIT_URL="+server.URL)
	at, over := make(chan struct{}), make(chan struct{})
	began := site.requests.Load()
	hold := func(n int64, _ *http.Request) {
		if n == began+30 {
			close(at)
		}
		if n >= began+30 {
			<-over
		}
	}
	site.hold.Store(&hold)
	require.NoError(t, cmd.Start())
	<-at
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	site.hold.Store(nil)
	close(over)
	require.NoFileExists(t, filepath.Join(killed, "audit.json"))
	other := auditOf(t.Context(), killed, server.URL+"/5")
	require.Equal(t, cli.CodeUsage, cli.CodeOf(other))
	require.ErrorContains(t, other, "has an audit of "+server.URL+"/ that was interrupted")

	require.Equal(t, cli.CodeFindings, cli.CodeOf(auditOf(t.Context(), killed, server.URL)))
	require.Equal(t, findings(t, whole), findings(t, killed))

	// An audit that was killed while it wrote its report writes it on the same command, without a request.
	require.NoError(t, os.Remove(filepath.Join(killed, "audit.json")))
	before := site.requests.Load()
	require.Equal(t, cli.CodeFindings, cli.CodeOf(auditOf(t.Context(), killed, server.URL)))
	require.Equal(t, before, site.requests.Load())
	require.Equal(t, findings(t, whole), findings(t, killed))

	// An audit that is done is not overwritten by mistake.
	require.Equal(t, cli.CodeIO, cli.CodeOf(auditOf(t.Context(), killed, server.URL)))
}

// noticed closes first when something is logged. It has one writer.
type noticed struct {
	text  strings.Builder
	first chan struct{}
}

func (n *noticed) Write(p []byte) (int, error) {
	if n.text.Len() == 0 {
		close(n.first)
	}
	return n.text.Write(p)
}

// An audit that replaces the one it is compared with leaves that one until it is done. If it is interrupted, it is
// continued without --overwrite and begun anew with it, and compared in either case.
func TestInterruptedReplacement(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself there")
	}
	site := new(faulty)
	server := httptest.NewServer(site)
	defer server.Close()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link") // the same directory by another path
	require.NoError(t, os.Symlink(dir, link))
	require.Equal(t, cli.CodeFindings, cli.CodeOf(auditOf(t.Context(), dir, server.URL)))
	before, whole := findings(t, dir), site.requests.Load()

	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	cfg := configOf(dir, server.URL)
	cfg.Against = link
	for _, overwrite := range []bool{false, true} {
		log := &noticed{first: make(chan struct{})} // of the signal
		hold := func(_ int64, r *http.Request) {
			if r.URL.Path == "/5" {
				_ = self.Signal(os.Interrupt)
				<-log.first
			}
		}
		site.hold.Store(&hold)
		site.requests.Store(0)
		cfg.Options.Output.Overwrite, cfg.Log = true, slog.New(slog.NewTextHandler(log, nil))
		require.Equal(t, cli.CodeInterrupted, cli.CodeOf(Run(t.Context(), cfg)))
		require.Contains(t, log.text.String(), "go on with it by the same command without --overwrite")
		require.Equal(t, before, findings(t, dir))

		site.hold.Store(nil)
		cfg.Options.Output.Overwrite, cfg.Log = overwrite, slog.New(slog.DiscardHandler)
		require.Equal(t, cli.CodeFindings, cli.CodeOf(Run(t.Context(), cfg)))
		require.Equal(t, before, findings(t, dir))
		r, err := report.Read(filepath.Join(dir, jsonFile))
		require.NoError(t, err)
		require.NotNil(t, r.Against)
		require.Zero(t, r.Against.New+r.Against.Fixed)
		// An audit that goes on repeats robots.txt and what was under way; one that begins anew repeats ten pages at least.
		require.Equal(t, overwrite, site.requests.Load() > whole+5, "requests of both runs: %d, of a whole audit: %d", site.requests.Load(), whole)
		require.NoDirExists(t, filepath.Join(dir, nextDir))

		cfg.Options.Output.Overwrite = false
		require.Equal(t, cli.CodeIO, cli.CodeOf(Run(t.Context(), cfg)), "the audit is done")
	}
}

// An audit that was killed after it made the state, and before its crawl began, is begun anew by the same command.
func TestAuditKilledBeforeItBegan(t *testing.T) {
	server := httptest.NewServer(new(faulty))
	defer server.Close()
	state, dir := t.TempDir(), t.TempDir()
	c, err := crawl.New(crawl.Options{StateDir: state})
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "state"), os.DirFS(state)))
	require.NoError(t, c.Close())
	require.FileExists(t, filepath.Join(dir, "state", "state.db"))
	require.Equal(t, cli.CodeFindings, cli.CodeOf(auditOf(t.Context(), dir, server.URL)))
}

// On a day without a single page an audit has no result, and the next one begins anew, whatever the site answers and
// whatever the audits before have left.
func TestAuditThatObtainedNothing(t *testing.T) {
	for what, status := range map[string]int{"/robots.txt": http.StatusServiceUnavailable, "/": http.StatusInternalServerError} {
		t.Run(what, func(t *testing.T) {
			site := new(faulty)
			var down atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case down.Load() && r.URL.Path == what:
					w.WriteHeader(status)
				case down.Load() && r.URL.Path == "/robots.txt":
					_, _ = io.WriteString(w, "User-agent: *\n")
				default:
					site.ServeHTTP(w, r)
				}
			}))
			defer server.Close()
			dir := t.TempDir()
			audit := func(overwrite bool) error {
				cfg := configOf(dir, server.URL)
				cfg.Options.MaxBlocked, cfg.Options.Politeness.Retries, cfg.Options.Output.Overwrite = -1, -1, overwrite
				return Run(t.Context(), cfg)
			}
			require.Equal(t, cli.CodeFindings, cli.CodeOf(audit(false)))
			want := findings(t, dir)
			for _, overwrite := range []bool{true, false} {
				down.Store(true)
				for range 2 {
					require.Contains(t, []int{cli.CodeNothing, cli.CodeBlocked}, cli.CodeOf(audit(true)))
					there, err := os.ReadDir(dir)
					require.NoError(t, err)
					require.Len(t, there, 1)
					require.Equal(t, "junit.xml", there[0].Name())
				}
				down.Store(false)
				require.Equal(t, cli.CodeFindings, cli.CodeOf(audit(overwrite)))
				require.Equal(t, want, findings(t, dir))
			}
		})
	}
}

// Successful responses of other sites are reused for a day, others never. Without External they are counted.
func TestKnownAnswers(t *testing.T) {
	asked := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		if r.URL.Path != "/good" {
			http.NotFound(w, r)
		}
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<html lang="en"><title>x</title><a href="%[1]s/good">a</a> <a href="%[1]s/bad">b</a>`, other.URL)
	}))
	defer server.Close()
	run := func(dir, against string, external bool) (list []string) {
		cfg := configOf(dir, server.URL)
		cfg.Options = crawl.Options{Fetch: crawl.FetchOptions{AllowPrivate: true}}
		cfg.Options.Politeness.Hosts = []crawl.HostOptions{{Match: "127.0.0.1", InitialRPS: 1000, MaxRPS: 1000}}
		cfg.Against, cfg.External, cfg.FailOn = against, external, []string{"none"}
		require.NoError(t, Run(t.Context(), cfg))
		for len(asked) > 0 {
			list = append(list, <-asked)
		}
		return list
	}
	first, second := t.TempDir(), t.TempDir()
	require.ElementsMatch(t, []string{"GET /robots.txt", "HEAD /good", "HEAD /bad", "GET /bad"}, run(first, "", true))
	require.ElementsMatch(t, []string{"GET /robots.txt", "HEAD /bad", "GET /bad"}, run(second, first, true))
	require.Equal(t, findings(t, first), findings(t, second))
	text, err := os.ReadFile(filepath.Join(second, "findings.csv"))
	require.NoError(t, err)
	require.Contains(t, string(text), "external-broken,error,remaining,"+other.URL+"/bad,")

	third := t.TempDir()
	require.Empty(t, run(third, "", false))
	for dir, left := range map[string]int{second: 0, third: 2} {
		r, err := report.Read(filepath.Join(dir, jsonFile))
		require.NoError(t, err)
		require.Equal(t, left, r.Totals.NotChecked)
		var text strings.Builder
		require.NoError(t, report.WriteText(r, &text))
		require.Equal(t, left > 0, strings.Contains(text.String(), "\nnot checked: 2 links to other sites; --external checks them"))
	}
}

// A link in facts is decoded as it was. Any line is read or refused.
func FuzzFacts(f *testing.F) {
	f.Add("x#y", []byte(`{"url":"u","links":"AAAA","html":{"IDs":"AAAAAA"}}`))
	f.Add("", []byte(`{"links":[""]}`))
	f.Fuzz(func(t *testing.T, fragment string, raw []byte) {
		_ = json.Unmarshal(raw, new(facts.Page)) // an error, never a panic
		facts.ParseLink(string(raw))
		kind, url, back := facts.ParseLink(facts.Link(facts.Anchor, "http://a.test/p", fragment))
		require.Equal(t, []any{facts.Anchor, "http://a.test/p", fragment}, []any{kind, url, back})
	})
}

package peers_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/bench/process"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What to compare. The defaults are for `make test`: they show that every contender
// finds its way and is measured.
var (
	rounds  = flag.Int("peers.rounds", 1, "how often each contender crawls the site")
	names   = flag.String("peers.names", quick, "contenders, by comma; empty means all")
	limit   = flag.Duration("peers.timeout", 2*time.Minute, "how long one crawl may take; longer counts as failed")
	site    = flag.String("peers.site", "python", "python (526 pages of Debian 12) or boost (3,805)")
	secure  = flag.Bool("peers.tls", false, "whether the site is served over TLS, and compressed for who accepts that")
	csvFile = flag.String("peers.csv", "", "file to which each crawl appends a line; empty means none")
	outFile = flag.String("peers.out", "", "file for the table, beside standard output; empty means none")
)

// quick is who crawls the small site in a second or two. The others take up to a minute.
const quick = "crawl off,crawl steer,crawl disk,fetch,tokens,wget2"

// documentation is a site: a directory of a Debian package, and where it begins.
type documentation struct {
	dirs []string // the first that is there
	page string
}

func sites() map[string]documentation {
	return map[string]documentation{
		"python": {[]string{"/usr/share/doc/python3-doc/html", "/usr/share/doc/python3/html"}, "/index.html"},
		"boost":  {[]string{"/usr/share/doc/libboost-doc/doc"}, "/html/index.html"},
	}
}

// TestPeers prints a table: a row per contender. It fails when our own do not run, not
// for a figure: those are for people to read.
func TestPeers(t *testing.T) {
	doc, known := sites()[*site]
	require.True(t, known, "-peers.site %q is not known", *site)
	root := doc.find(t)
	crawl := build(t, "../../cmd/crawl")
	all := pick(t, contenders(t, crawl, build(t, "contender")), *names)
	arena := &arena{root: root, page: doc.page, list: filepath.Join(t.TempDir(), "list")}
	arena.explore(t, crawl)

	results := make([]result, len(all))
	for i, c := range all {
		results[i] = result{contender: c}
	}
	for round := range *rounds {
		for i := range all {
			r := &results[(i+round)%len(all)]
			if r.missing == "" {
				t.Run(fmt.Sprintf("%d/%s", round+1, r.name), func(t *testing.T) { r.add(t, round, arena) })
			}
		}
	}
	text := fmt.Sprintf("%s, %d rounds, %d in flight, %s\n\n%s", *site, *rounds, inFlight, time.Now().UTC().Format(time.DateOnly), table(results))
	_, err := fmt.Fprint(os.Stdout, "\n", text)
	require.NoError(t, err)
	if *outFile != "" {
		require.NoError(t, os.WriteFile(*outFile, []byte(text), 0o644))
	}
}

func (d documentation) find(t *testing.T) string {
	t.Helper()
	for _, dir := range d.dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
	}
	realserver.Need(t, "the documentation in "+d.dirs[0])
	return ""
}

// pick returns the contenders that a flag names, in its order, and all without any.
func pick(t *testing.T, all []contender, names string) []contender {
	t.Helper()
	if names == "" {
		return all
	}
	var picked []contender
	for n := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(c contender) bool { return c.name == n })
		require.GreaterOrEqual(t, i, 0, "%q is no contender", n)
		picked = append(picked, all[i])
	}
	return picked
}

// arena is what all contenders have in common.
type arena struct {
	root, page string // the site
	list       string // file with the paths that a crawl of it asks for
	pages      int    // how many of them are pages
}

// explore crawls the site once, unmeasured: for the list of what there is to ask for,
// and so that no contender is the first to have the files read from the disk.
func (a *arena) explore(t *testing.T, crawl string) {
	t.Helper()
	c := contender{program: crawl, args: func(k task) []string {
		return []string{k.seed, "--strategy", "off", "--quiet", "--output", os.DevNull}
	}}
	_, hits, err := a.run(t, c)
	require.NoError(t, err)
	a.pages = pages(hits)
	require.Greater(t, a.pages, 500, "pages of the site")
	var list strings.Builder
	for _, uri := range asked(hits) {
		list.WriteString(uri + "\n")
	}
	require.NoError(t, os.WriteFile(a.list, []byte(list.String()), 0o644))
}

// run lets a contender crawl the site, on a server that nobody else uses.
func (a *arena) run(t *testing.T, c contender) (process.Usage, []realserver.Hit, error) {
	t.Helper()
	k := task{list: a.list, dir: t.TempDir()}
	var server *realserver.Server
	if *secure {
		var http string
		http, k.origin, k.ca = overTLS(t, a.root)
		server = realserver.Nginx(t, a.root, http, "")
	} else {
		server = realserver.Nginx(t, a.root, "", "")
		k.origin = server.URL
	}
	k.seed = k.origin + a.page
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	u, err := process.Run(ctx, c.command(k), c.fine...)
	server.Stop()
	if c.keeps != "" && err == nil {
		var kept os.FileInfo
		if kept, err = os.Stat(filepath.Join(k.dir, c.keeps)); err == nil && kept.Size() < int64(a.pages) {
			err = fmt.Errorf("%s has %d bytes, less than one per page", c.keeps, kept.Size())
		}
	}
	return u, server.Hits(), err
}

// asked lists the different things that were asked for, in the order of the first time.
func asked(hits []realserver.Hit) (uris []string) {
	seen := make(map[string]bool)
	for _, h := range hits {
		if h.URI != "/robots.txt" && h.URI != "" && !seen[h.URI] {
			seen[h.URI] = true
			uris = append(uris, h.URI)
		}
	}
	return uris
}

// pages counts the different pages among the hits: HTML by its name, because a log has
// no media types.
func pages(hits []realserver.Hit) int {
	seen := make(map[string]bool)
	for _, h := range hits {
		path, _, _ := strings.Cut(h.URI, "?") // a file is the same page with a query
		switch {
		case h.Status != 200:
		case strings.HasSuffix(path, "/"), strings.HasSuffix(path, ".html"), strings.HasSuffix(path, ".htm"):
			seen[path] = true
		}
	}
	return len(seen)
}

// add is one crawl of one contender. Its failure is told in the table, where it is a
// peer's; where it is ours it fails the test.
func (r *result) add(t *testing.T, round int, a *arena) {
	u, hits, err := a.run(t, r.contender)
	s := sample{round: round, Usage: u, pages: pages(hits), requests: len(hits)}
	if err != nil {
		r.failure = err.Error()
		require.True(t, r.foreign, "%s: %v", r.name, err)
		t.Logf("FAILED: %s: %v", r.name, err)
		return
	}
	if !r.foreign {
		require.GreaterOrEqual(t, s.pages, a.pages, "%s saw less of the site", r.name)
	}
	t.Logf("%s: %d pages, %d requests, %v of processor, %v, %d MB", r.name, s.pages, s.requests, u.CPU, u.Wall.Round(time.Millisecond), u.Peak>>20)
	r.samples = append(r.samples, s)
	s.record(t, r.name)
}

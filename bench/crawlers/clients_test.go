package crawlers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/bench/process"
)

// installed lists the clients that can run here and says aloud which cannot. Each peer is as its own documentation has
// it for the job; docs/benchmarks.md says where.
func installed(t *testing.T) []client {
	t.Helper()
	clients := []client{{name: "knows"}}
	if *binaries == "" {
		clients = append(clients, client{name: "steer", crawl: ours("steer")}, client{name: "aimd", crawl: ours("aimd")})
	} else {
		for word := range strings.SplitSeq(*binaries, ",") {
			name, path, ok := strings.Cut(word, "=")
			require.True(t, ok, "%q is not NAME=PATH", word)
			clients = append(clients, client{name: name, crawl: program(name, path)})
		}
	}
	has := func(path string) func() bool { return func() bool { _, err := exec.LookPath(path); return err == nil } }
	for _, p := range []struct {
		program string
		here    func() bool
		how     string
		clients []client
	}{
		{"scrapy", has("scrapy"), "apt-get install python3-scrapy", []client{
			{name: "autothrottle-1", crawl: scrapy("AUTOTHROTTLE_ENABLED=true", "AUTOTHROTTLE_TARGET_CONCURRENCY=1")},
			{name: "autothrottle-2", crawl: scrapy("AUTOTHROTTLE_ENABLED=true", "AUTOTHROTTLE_TARGET_CONCURRENCY=2")},
			{name: "scrapy", crawl: scrapy()},
		}},
		{"wget2", has("wget2"), "apt-get install wget2", []client{
			{name: "wget2", crawl: peer("wget2", "-q", "--no-config", "--no-hsts", "--delete-after", "-i", "LIST")},
			{name: "wget2-wait", crawl: peer("wget2", "-q", "--no-config", "--no-hsts", "--delete-after", "--wait=1", "--random-wait", "-i", "LIST")},
		}},
		{"crawlee", crawlee, "npm ci --prefix bench/peers/crawlee", []client{
			{name: "crawlee", crawl: peer("node", crawleeJS, "list", "LIST")},
			{name: "crawlee-250", crawl: peer("node", crawleeJS, "list", "LIST", "250")},
		}},
		{"go", has("go"), "it builds colly", []client{{name: "colly", crawl: colly}}},
	} {
		if !p.here() {
			_, err := fmt.Fprintf(os.Stdout, "MISSING: %s, and so its columns: %s\n", p.program, p.how)
			require.NoError(t, err)
			continue
		}
		clients = append(clients, p.clients...)
	}
	return clients
}

// ceiling is the most per second that our crawl may ask for: out of the way, because the
// limit is to be found, not known.
const ceiling = 500

// ours crawls with everything as it comes, but for what would hide the strategy.
func ours(strategy string) func(*testing.T, string, time.Duration) {
	return func(t *testing.T, page string, d time.Duration) {
		cfg := crawl.Options{}
		cfg.Politeness.Strategy = strategy
		cfg.Politeness.MaxRPS = ceiling
		cfg.Politeness.IgnoreRobots = true // as Scrapy does it by default
		cfg.MaxTime = d
		c, err := crawl.New(cfg)
		require.NoError(t, err)
		require.NoError(t, c.RunSeq(t.Context(), func(yield func(string) bool) {
			// It takes what it gets and keeps it in memory: more than can be asked for
			// would be weight, less would run dry.
			for n := range int(ceiling * (d + time.Second).Seconds()) {
				if !yield(page + strconv.Itoa(n)) {
					return
				}
			}
		}))
		// MaxTime counts from a moment before the one from which ElapsedSeconds does.
		require.Greater(t, c.Snapshot().ElapsedSeconds, .95*d.Seconds(), "it ended early")
	}
}

// crawlee tells whether what its program needs is here.
func crawlee() bool {
	_, err := os.Stat("../peers/crawlee/node_modules")
	return err == nil
}

// program crawls with a program of ours.
func program(name, path string) func(*testing.T, string, time.Duration) {
	return func(t *testing.T, page string, d time.Duration) {
		t.Helper()
		cmd := exec.Command(path, "--strategy", strings.TrimRight(name, "0123456789"), "--max-rate", strconv.Itoa(ceiling),
			"--rate", "1", "--no-robots", "--no-sitemaps", "--max-time", d.String(), "-q", "-o", os.DevNull, "-i", list(t, page, d))
		said, err := cmd.CombinedOutput()
		require.Equal(t, 10, cmd.ProcessState.ExitCode(), "%v: %s", err, said) // ended by --max-time
	}
}

// list writes a file with more URLs than a peer can ask for in that time.
func list(t *testing.T, page string, d time.Duration) string {
	t.Helper()
	var text strings.Builder
	for n := range int(ceiling * (d + time.Second).Seconds()) {
		text.WriteString(page + strconv.Itoa(n) + "\n")
	}
	path := filepath.Join(t.TempDir(), "list")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// scrapy crawls with Scrapy's defaults, written out where they matter, and the settings
// that are the column's own.
func scrapy(settings ...string) func(*testing.T, string, time.Duration) {
	args := []string{"runspider", "SPIDER", "-a", "page=PAGE"}
	for _, s := range append([]string{
		"ROBOTSTXT_OBEY=false", "DOWNLOAD_DELAY=0", "CONCURRENT_REQUESTS_PER_DOMAIN=8", "RETRY_ENABLED=true",
		"TELNETCONSOLE_ENABLED=false", // a port that nobody asked for
		"LOG_LEVEL=CRITICAL",          // a line per page is work of its own
	}, settings...) {
		args = append(args, "-s", s)
	}
	return peer("scrapy", args...)
}

// crawleeJS is the program that peers have for Crawlee.
const crawleeJS = "CRAWLEE"

// colly crawls with colly's queue, two requests at a time, as its documentation shows it.
func colly(t *testing.T, page string, d time.Duration) {
	path, err := process.Build(t.Context(), "../peers/contender", t.TempDir())
	require.NoError(t, err)
	peer(path, "colly-list", "-in-flight", "2", "-list", "LIST")(t, page, d)
}

// starting is what a peer may need before its first request. What it asks for after its time is not counted.
const starting = 10 * time.Second

// peer runs another program for that long, and as long as it may take to start. In its words LIST, PAGE, SPIDER and
// CRAWLEE are filled in. One that ends early has given up, which the log shows as nothing used.
func peer(program string, words ...string) func(*testing.T, string, time.Duration) {
	return func(t *testing.T, page string, d time.Duration) {
		t.Helper()
		here, err := os.Getwd()
		require.NoError(t, err)
		args := slices.Clone(words)
		for i, w := range args {
			switch w {
			case "LIST":
				args[i] = list(t, page, d)
			case "page=PAGE":
				args[i] = "page=" + page
			case "SPIDER":
				args[i] = filepath.Join(here, "spider.py")
			case crawleeJS:
				args[i] = filepath.Join(here, "../peers/crawlee/crawl.js")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), d+starting)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "PYTHONDONTWRITEBYTECODE=1", "no_proxy=127.0.0.1")
		said, err := cmd.CombinedOutput()
		if ctx.Err() == nil {
			t.Logf("it ended by itself: %v: %s", err, said)
		}
	}
}

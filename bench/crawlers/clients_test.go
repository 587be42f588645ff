package crawlers_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
)

// installed lists the clients that can run here and says aloud which cannot.
func installed(t *testing.T) []client {
	t.Helper()
	clients := []client{
		{name: "steer", crawl: ours("steer")},
		{name: "aimd", crawl: ours("aimd")},
	}
	path, err := exec.LookPath("scrapy")
	if err != nil {
		_, err = fmt.Fprintln(os.Stdout, "MISSING: scrapy, and so its columns; apt-get install python3-scrapy brings it on Debian and Ubuntu")
		require.NoError(t, err)
		return clients
	}
	return append(
		clients,
		client{name: "autothrottle-1", crawl: scrapy(path, "AUTOTHROTTLE_ENABLED=true", "AUTOTHROTTLE_TARGET_CONCURRENCY=1")},
		client{name: "autothrottle-2", crawl: scrapy(path, "AUTOTHROTTLE_ENABLED=true", "AUTOTHROTTLE_TARGET_CONCURRENCY=2")},
		client{name: "scrapy", crawl: scrapy(path)},
	)
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
		require.GreaterOrEqual(t, c.Snapshot().ElapsedSeconds, d.Seconds(), "it ended early")
	}
}

// orderly is how long Scrapy has beyond its time. It waits for the requests it holds,
// which AutoThrottle's first delays make a minute of; they would not be counted.
const orderly = time.Second

// scrapy crawls with Scrapy's defaults, written out where they matter, and the settings
// that are the column's own.
func scrapy(path string, settings ...string) func(*testing.T, string, time.Duration) {
	settings = append([]string{
		"ROBOTSTXT_OBEY=false", "DOWNLOAD_DELAY=0", "CONCURRENT_REQUESTS_PER_DOMAIN=8", "RETRY_ENABLED=true",
		"TELNETCONSOLE_ENABLED=false", // a port that nobody asked for
		"LOG_LEVEL=ERROR",             // a line per page is work of its own
	}, settings...)
	return func(t *testing.T, page string, d time.Duration) {
		spider, err := filepath.Abs("spider.py")
		require.NoError(t, err)
		args := []string{"runspider", spider, "-a", "page=" + page}
		// It is ended from here; on its own it ends too, should this test not live to do it.
		for _, s := range append(settings, fmt.Sprintf("CLOSESPIDER_TIMEOUT=%.0f", (d+orderly).Seconds())) {
			args = append(args, "-s", s)
		}
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "no_proxy=127.0.0.1")
		runFor(t, cmd, d)
	}
}

// runFor starts a program, waits until it says "begun", and ends it that long after,
// or a little later. One that ended by itself before its time fails the test.
func runFor(t *testing.T, cmd *exec.Cmd, d time.Duration) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill() // fails only if it has ended by now
		_ = cmd.Wait()         // killed is how most of them end
	}()

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait() // so that all it said is there
		require.NoError(t, err, "it did not begin: %s", said.String())
	}
	require.Equal(t, "begun\n", line)
	begun := time.Now()
	gone := make(chan struct{})
	go func() {
		_, _ = out.Read(make([]byte, 1)) // it says nothing more: this is its end
		close(gone)
	}()
	select {
	case <-gone:
		require.GreaterOrEqual(t, time.Since(begun), d, "it ended early")
	case <-time.After(d + orderly):
		_ = cmd.Process.Kill() // as above
		<-gone
	}
}

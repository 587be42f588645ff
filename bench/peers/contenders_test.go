package peers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/bench/process"
)

// inFlight is how many requests every contender has under way.
const inFlight = 16

// task is what a contender is given.
type task struct {
	origin, seed string // no slash at the end of the origin
	list         string // file with the paths that a crawl asks for
	dir          string // its own, empty at first
	ca           string // file with the certificate of the site; empty if it has none
}

// contender is a crawler under comparison.
type contender struct {
	name string
	note string // what a reader of the table should know
	// program is what runs; if it is empty, missing says why.
	program, missing string
	args             func(task) []string
	fine             []int  // exit codes that are no failure, beside 0
	foreign          bool   // not built here: whether it works is not our affair
	keeps            string // file that it must leave in its directory, or it did not do what it is about
}

// yardsticks names the contenders that all are set beside: the fastest peer, what the
// same in Go costs at least, and our own crawl without what its other forms have.
func yardsticks() []string { return []string{"wget2", "tokens", "crawl off"} }

// contenders lists all of them, given the paths of our two programs. An entry is all that
// another one takes.
func contenders(t *testing.T, crawl, bare string) []contender {
	t.Helper()
	n := fmt.Sprint(inFlight)
	common := []string{"--concurrency", n, "--set", "per_host_max=" + n, "--quiet", "--output", os.DevNull}
	ours := func(flags ...string) func(task) []string {
		return func(k task) []string { return append(append([]string{k.seed}, common...), flags...) }
	}
	loop := func(verb string) func(task) []string {
		return func(k task) []string {
			return []string{verb, "-in-flight", n, "-list", k.list, "-origin", k.origin}
		}
	}
	rate := highest(t, crawl)
	disk := having(t, crawl, "--state", contender{
		name: "crawl disk", note: "no engine, frontier on disk", keeps: "state/state.db",
		args: func(k task) []string {
			return append(ours("--strategy", "off")(k), "--state", filepath.Join(k.dir, "state"))
		},
	})
	return []contender{
		{name: "crawl off", program: crawl, note: "no engine, frontier in memory", args: ours("--strategy", "off")},
		{name: "crawl plain", program: crawl, note: "no engine, and no digest of the pages, like wget2", args: ours("--strategy", "off", "--record", "no-digest")},
		{name: "crawl steer", program: crawl, note: "engine on, " + rate + " per second allowed", args: ours("--rate", rate, "--max-rate", rate)},
		disk,
		{name: "fetch", program: bare, note: "net/http over a known list, nothing parsed", args: loop("fetch")},
		{name: "tokens", program: bare, note: "the same, and x/net/html's tokenizer", args: loop("tokens")},
		{name: "colly", program: bare, note: "as a library, asynchronous", args: func(k task) []string {
			return []string{"colly", "-in-flight", n, k.seed}
		}},
		installed("wget2", "--delete-after, which writes nothing", wget2, 8), // 8: the server refused something
		crawlee(),
		installed("httrack", "-p0, which writes nothing", httrack),
		installed("scrapy", "LinkExtractor, no items", scrapy(t)),
	}
}

// highest is the highest rate that our crawl can be given. What counts is that it is out
// of reach: 10,000 per second is not quite, and then each request waits for its turn.
func highest(t *testing.T, crawl string) string {
	t.Helper()
	for _, rate := range []string{"1000000", "10000"} {
		if exec.Command(crawl, "config", "--rate", rate, "--max-rate", rate).Run() == nil {
			return rate
		}
	}
	t.Fatal("crawl takes no rate of 10,000 per second")
	return ""
}

// build compiles the program in a directory, each in the module it belongs to, and
// returns its path.
func build(t *testing.T, dir string) string {
	t.Helper()
	path, err := process.Build(t.Context(), dir, t.TempDir())
	require.NoError(t, err)
	return path
}

// having completes a contender that is our crawl with a flag it may not have yet.
func having(t *testing.T, crawl, flag string, c contender) contender {
	t.Helper()
	help, err := exec.Command(crawl, "--help").Output()
	require.NoError(t, err)
	if strings.Contains(string(help), flag+" ") {
		c.program = crawl
	} else {
		c.missing = "this crawl has no " + flag
	}
	return c
}

// crawlee is a contender of npm.
func crawlee() contender {
	c := contender{name: "crawlee", note: "CheerioCrawler, no items", foreign: true}
	program, err := filepath.Abs("crawlee/crawl.js")
	if err == nil {
		_, err = os.Stat("crawlee/node_modules")
	}
	if err == nil {
		c.program, err = exec.LookPath("node")
	}
	if err != nil {
		c.missing = "`npm ci --prefix bench/peers/crawlee` brings it"
	}
	c.args = func(k task) []string { return []string{program, "follow", k.seed, fmt.Sprint(inFlight)} }
	return c
}

// installed is a contender of the distribution.
func installed(name, note string, args func(task) []string, fine ...int) contender {
	c := contender{name: name, note: note, args: args, fine: fine, foreign: true}
	path, err := exec.LookPath(name)
	if err != nil {
		c.missing = "not installed; `make bench-speed` brings it on Debian and Ubuntu"
	}
	c.program = path
	return c
}

// wget2 asks for images, styles and scripts too, unless it is told not to look at them.
func wget2(k task) []string {
	return []string{
		"--ca-certificate=" + k.ca, // empty means those of the system
		"--quiet", "--no-config", "--no-hsts", "--recursive", "--level=inf", "--delete-after",
		"--ignore-tags=img,link,script", fmt.Sprintf("--max-threads=%d", inFlight), k.seed,
	}
}

// httrack counts bytes and connections per second, and limits both unless told not to.
func httrack(k task) []string {
	return []string{
		k.seed, "-O", filepath.Join(k.dir, "mirror"), "-q", fmt.Sprintf("-c%d", inFlight),
		"-%c10000", "-%!", "-A0", "-s2", "-%v0", "-p0",
	}
}

func scrapy(t *testing.T) func(task) []string {
	t.Helper()
	spider, err := filepath.Abs("spider.py")
	require.NoError(t, err)
	return func(k task) []string {
		args := []string{"runspider", spider, "-a", "seed=" + k.seed}
		for _, s := range []string{
			"ROBOTSTXT_OBEY=true", fmt.Sprintf("CONCURRENT_REQUESTS=%d", inFlight),
			fmt.Sprintf("CONCURRENT_REQUESTS_PER_DOMAIN=%d", inFlight), "DOWNLOAD_DELAY=0",
			"TELNETCONSOLE_ENABLED=false", // a port that nobody asked for
			"LOG_LEVEL=ERROR",             // a line per page is work of its own
		} {
			args = append(args, "-s", s)
		}
		return args
	}
}

// command readies a contender. It finds no proxy and no settings but its own.
func (c contender) command(k task) *exec.Cmd {
	cmd := exec.Command(c.program, c.args(k)...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "HOME="+k.dir, "PYTHONDONTWRITEBYTECODE=1", "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	if k.ca != "" {
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+k.ca, "NODE_EXTRA_CA_CERTS="+k.ca)
	}
	return cmd
}

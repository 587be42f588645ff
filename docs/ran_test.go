package docs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// ranBy are the tests that run the commands of a page, all of them or all that are consoles.
var ranBy = map[string]string{
	"README.md":                        "TestReadmesExamplesRun",
	"docs/tutorial/first-crawl.md":     "TestTutorialRuns",
	"docs/how-to/audit.md":             "TestAuditPageRuns",
	"docs/how-to/plan-a-crawl.md":      "TestPlanPageRuns",
	"docs/how-to/render-javascript.md": "TestRenderPageRuns",
	"docs/how-to/watch-for-changes.md": "TestWatchPageRuns",
	"docs/how-to/login.md":             "TestPagesOfItemsAndLogins of cmd/crawl",
	"docs/explanation/politeness.md":   "TestPlotsOfThePages",
	"docs/explanation/controller.md":   "TestPlotsOfThePages",
}

// notRun are beginnings of commands that no test of a page runs, and why.
var notRun = map[string]map[string]string{
	"docs/README.md": {
		"crawl demo": "it takes as long as people watch it; testdata/script/demo.txtar runs it",
		"crawl docs": "it serves until it is interrupted; TestSearchOfTheSite runs it",
	},
	"docs/how-to/access.md": {
		"crawl ": "hosts, certificates, proxies and passwords of a reader; TestJobsOfTheIndexRun goes through a proxy and gives cookies",
	},
	"docs/how-to/configure.md": {"crawl config --config bad.yaml": "it fails; testdata/script/config.txtar has such files"},
	"docs/how-to/fleet.md":     {"crawl ": "it needs Redis; the tests of fleets of cmd/crawl run such jobs"},
	"docs/how-to/items.md":     {"crawl ": "TestPagesOfItemsAndLogins runs the consoles, testdata/script/items.txtar json: and schema:"},
	"docs/how-to/mirror.md":    {"crawl mirror -o docs --serve": "it serves until it is interrupted; TestServe of the verb does so"},
	"docs/how-to/monitor.md":   {"crawl demo": "it is what a screen shows"},
	"docs/how-to/report.md":    {"crawl report site": "it needs a crawl before; TestTutorialRuns and TestReadmesExamplesRun have one"},
	"docs/how-to/simulate.md":  {"crawl simulate  ": "all scenarios take a minute; the tests of internal/lab/simulate run them"},
	"docs/how-to/test-site.md": {"crawl testsite": "it serves until it is interrupted; TestRealisticLimiters crawls that site"},
	"docs/reference/commands.md": {
		"crawl ": "the examples of the help; TestManualsCommandsHaveTheirFlags reads them",
	},
}

var (
	fenced  = regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```$")
	command = regexp.MustCompile(`(?m)^(?:\$ )?((?:[A-Z_]+=\S+ )?crawl (?:.*\\\n)*.*)$`)
	place   = regexp.MustCompile(`(?i)https?://(?:example\.com|shop\.example|127\.0\.\d\.1:\d+)`)
)

// commandsToRun are the commands of a page that are left to the test below.
func commandsToRun(t *testing.T, page string) (lines []string) {
	t.Helper()
	if ranBy[page] != "" {
		return nil
	}
	for _, block := range fenced.FindAllStringSubmatch(docpage.Read(t, page), -1) {
	next:
		for _, m := range command.FindAllStringSubmatch(block[1], -1) {
			for beginning := range notRun[page] {
				if strings.HasPrefix(m[1], beginning) {
					continue next
				}
			}
			lines = append(lines, strings.TrimSuffix(strings.TrimSpace(m[1]), "&"))
		}
	}
	return lines
}

// Every command of a page that no other test runs, and of which no list says why, does its work.
func TestEveryCommandOfThePagesRuns(t *testing.T) {
	c := newTerminal(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/news/") || strings.HasPrefix(r.URL.Path, "/blog/") {
			r.URL.Path = "/docs/" + r.URL.Path[6:]
		}
		jobsSite(w, r)
	}))
	defer site.Close()
	ran := 0
	for _, page := range docpage.Pages(t) {
		c.dir = t.TempDir()
		for name, text := range map[string]string{"seeds.txt": site.URL + "/docs/\n", "site.yaml": "depth: 1\n"} {
			require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
		}
		for _, line := range commandsToRun(t, page) {
			ran++
			var env []string
			if !strings.Contains(line, "rate") && !strings.Contains(line, "--remember") {
				env = append(env, "CRAWL_RATELIMIT_STRATEGY=off")
			}
			c.run(place.ReplaceAllString(line, site.URL), env...)
		}
	}
	require.Greater(t, ran, 30)
}

// The lists name tests that there are, and commands that pages have.
func TestListsOfCommandsAreTrue(t *testing.T) {
	sources := ""
	for _, pattern := range []string{"*_test.go", "../cmd/crawl/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text := readFile(t, file)
			sources += string(text)
		}
	}
	for page, test := range ranBy {
		name, _, _ := strings.Cut(test, " ")
		require.True(t, strings.Contains(sources, "\nfunc "+name+"(t *testing.T) {"), "%s: there is no %s", page, name)
	}
	for page, reasons := range notRun {
		text := docpage.Read(t, page)
		for beginning := range reasons {
			require.Contains(t, text, beginning, page)
		}
	}
}

package docs_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// patience bounds what the commands of a page take together.
const patience = 5 * time.Minute

// program builds the command into a directory of its own, and returns that directory.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "crawl"), "../cmd/crawl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// terminal runs command lines in an empty directory, with the built command and without any settings of the developer.
type terminal struct {
	t        *testing.T
	ctx      context.Context
	bin, dir string
}

// newTerminal builds the command. The test runs beside others from here on, and is skipped if short ones are wanted.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds the command")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &terminal{t, ctx, program(t), t.TempDir()}
}

func (c *terminal) command(line string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, "sh", "-c", line)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + c.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + c.dir}
	return cmd
}

// run runs a command line, which must succeed, with further variables. It returns what was printed.
func (c *terminal) run(line string, env ...string) string {
	c.t.Helper()
	cmd := c.command(line)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s:\n%s", line, out)
	return string(out)
}

// file returns what is in a file of the directory.
func (c *terminal) file(name string) string {
	c.t.Helper()
	return string(readFile(c.t, filepath.Join(c.dir, filepath.FromSlash(name))))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// freePort is a port at which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

var typed = regexp.MustCompile(`(?m)^\$ (.+)$`)

// Whoever follows the tutorial to the letter sees each command succeed and print what the page
// shows of the words that do not depend on time.
func TestTutorialRuns(t *testing.T) {
	c := newTerminal(t)
	text := strings.NewReplacer("8080", freePort(t), "8091", freePort(t)).Replace(docpage.Read(t, "docs/tutorial/first-crawl.md"))
	steps := blocks(text, "console")
	require.Greater(t, len(steps), 8)

	first := typed.FindStringSubmatch(steps[0])
	require.NotNil(t, first)
	require.Contains(t, first[1], "crawl testsite")
	site := c.command("exec " + first[1])
	out, err := site.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, site.Start())
	printed := bufio.NewReader(out)
	address, err := printed.ReadString('\n') // once it listens
	require.NoError(t, err)
	require.Contains(t, steps[0], address)
	for _, step := range steps[1:] {
		said := ""
		for _, line := range typed.FindAllStringSubmatch(step, -1) {
			out := c.run(line[1])
			require.NotContains(t, out, "warn: ", line[1])
			said += out
		}
		for _, word := range []string{
			"see details with:", "40 with those of earlier runs", "\n40\n", "state   ", "visited   ", `{"heading":"jacket forest, host-1 0"}`,
			"\n0 errors, 0 warnings, 5 notices\n", "archives:          archive", "HTTP/1.1 200 OK", "<h1>jacket forest, host-1 0</h1>",
		} {
			if strings.Contains(step, word) {
				require.Contains(t, said, word, step)
			}
		}
	}
	require.NoError(t, site.Process.Signal(syscall.SIGTERM))
	report, err := io.ReadAll(printed)
	require.NoError(t, err)
	require.NoError(t, site.Wait())
	require.Regexp(t, `host-1 +\d+ +\d+ +[1-9]\d* +0 `, string(report), "it refuses, and nothing comes inside a Retry-After")
}

// The examples of the README run as they are, but for the name of the site.
func TestReadmesExamplesRun(t *testing.T) {
	c := newTerminal(t)
	site, err := testsite.New(testsite.Config{Hosts: []testsite.Host{{Name: "example", Pages: 8}}})
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	served := make(chan error, 1)
	serving, stop := context.WithCancel(c.ctx)
	go func() { served <- site.Run(serving) }()
	defer func() {
		stop()
		require.NoError(t, <-served)
	}()
	_, examples, found := strings.Cut(docpage.Read(t, "README.md"), "## Five examples")
	require.True(t, found)
	lines := strings.NewReplacer("https://example.com/", site.URLs()[0], "8091", freePort(t)).Replace(blocks(examples, "sh")[0])
	ran := 0
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		ran++
		c.run(line)
	}
	require.GreaterOrEqual(t, ran, 5)
	for _, name := range []string{"pages.jsonl", "items.csv", "site/records.jsonl", "site/records-2.jsonl", "archived.jsonl", "report.html"} {
		require.NotEmpty(t, c.file(name), name)
	}
}

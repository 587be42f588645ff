package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// pane is a terminal of tmux with a shell in it.
type pane struct {
	t      *testing.T
	socket string
}

// openPane opens one of that size. Without tmux the test is skipped, or fails in CI.
func openPane(t *testing.T, columns, rows int, env ...string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("tmux: %v: `make servers` installs it", err)
		}
		t.Skipf("NOT RUN: THE LIVE VIEW IS NOT TESTED ON A TERMINAL: tmux: %v: `make servers` installs it", err)
	}
	dir, err := os.MkdirTemp("", "tmux") // the name of a socket may not be as long as that of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := &pane{t, filepath.Join(dir, "s")}
	cmd := []string{"-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows)}
	for _, kv := range append([]string{"HOME=" + dir, "ENV=", "PS1==> ", "LC_ALL=C.UTF-8", "GORACE=" + race}, env...) {
		cmd = append(cmd, "-e", kv)
	}
	p.tmux(append(cmd, "sh", "-i")...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", p.socket, "kill-server").Run() }) // it may have ended
	p.until(`^=>$`)
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", p.socket}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(p.t, err, "tmux %q: %s", args, errs.String())
	return string(out)
}

// press sends keys by their names in tmux, and types what is no name.
func (p *pane) press(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

// screen is what a person sees, and history what went by as well, with long lines whole.
func (p *pane) screen() string { p.t.Helper(); return p.tmux("capture-pane", "-p") }

func (p *pane) history() string { p.t.Helper(); return p.tmux("capture-pane", "-p", "-J", "-S", "-") }

// until waits until the screen shows all of the patterns at once.
func (p *pane) until(patterns ...string) string {
	p.t.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		screen, missing := p.screen(), ""
		for _, re := range patterns {
			if !regexp.MustCompile("(?m)" + re).MatchString(screen) {
				missing = re
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(end) {
			require.Failf(p.t, "the screen has not come to it", "%q is missing in\n%s", missing, screen)
		}
	}
}

// elapsed is how long a crawl has taken that is paused, by the head of its view.
func (p *pane) elapsed() time.Duration {
	p.t.Helper()
	text := regexp.MustCompile(`paused  (\S+s)`).FindStringSubmatch(p.until(`paused  \S+s$`))[1]
	d, err := time.ParseDuration(text)
	require.NoError(p.t, err)
	return d
}

// serveSite serves made-up hosts with more pages than a test asks for.
func serveSite(t *testing.T, hosts int) *testsite.Site {
	t.Helper()
	site, err := testsite.New(testsite.Uniform(hosts, 5000, 0))
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- site.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return site
}

// The live view on a real terminal: it shows, obeys its keys, fits whatever size the screen
// takes, goes when it should and leaves everything behind it as it was.
func TestLiveViewOnATerminal(t *testing.T) {
	t.Parallel()
	site := serveSite(t, 3)
	p := openPane(t, 100, 30)
	out := filepath.Join(t.TempDir(), "out")
	p.press("crawl -o "+out+"/ --contact me@example.com --rate 10 "+strings.Join(site.URLs(), " "), "Enter")
	screen := p.until(`^crawl http://127\S+ and 2 more +running  \S+s$`, `^pages +\d+  \d+\.\d/s .*[▁▂▃▄▅▆▇█]`,
		`^queue +[\d,]+ queued`, `^host +state +URLs`, `^127\.\S+ +(asking|waiting) `, `at most 10/s`, `^q stop  p pause`)
	require.NotContains(t, screen, "=>", "the screen is the view's alone")

	// Paused, the site hears nothing more, for as long as the clock takes to go on by two
	// seconds.
	p.press("p")
	p.until(`paused  \S+s$`, ` 0 in flight`, `an order was carried out  order=pause who=keyboard$`, `p resume`)
	for began := p.elapsed(); p.elapsed() == began; { // these figures may be from before the order
		time.Sleep(20 * time.Millisecond)
	}
	p.until(` 0 in flight`)
	asked := site.Report().Total.Requests
	for began := p.elapsed(); p.elapsed() < began+2*time.Second; {
		time.Sleep(20 * time.Millisecond)
	}
	require.Equal(t, asked, site.Report().Total.Requests)

	// A small screen has a small view, and the help fits as well.
	p.tmux("resize-window", "-x", "40", "-y", "10")
	screen = p.until(`^crawl http://127\S+… +paused  \S+s$`, `^pages +\d+`, `^host +rate/s`, `^q stop  p resume  tab next`)
	require.Equal(t, 10, strings.Count(screen, "\n"))
	for line := range strings.Lines(screen) {
		require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), 40)
	}
	p.press("?")
	p.until(`^p, space +pause the crawl`, `^\? back`)
	p.press("Escape")
	p.until(`^pages `)
	p.tmux("resize-window", "-x", "100", "-y", "30")

	p.press("p")
	p.until(`running  \S+s$`, `order=resume`)
	p.press("Tab")
	// A busy machine may slow answers down, which is trouble of a kind.
	p.until(`^hosts +\d.*\n\s*^hosts in trouble$`)
	p.press("Tab")
	p.until(`^messages$`, `order=resume`)
	p.press("Tab", "s")
	p.until(`^busiest hosts, by queue$`)

	// Suspended, the screen is the shell's, and the messages of before are on it.
	p.press("C-z")
	p.until(`Stopped`, `an order was carried out  order=pause`, `^=>$`)
	p.press("clear", "Enter")
	p.press("fg", "Enter")
	p.until(`running  \S+s$`, `^busiest hosts`)
	require.Greater(t, site.Report().Total.Requests, asked)

	p.press("q")
	p.until(`^interrupted \(asked to stop\)`, `^ +resume.* crawl resume `, `^=>$`)
	p.press("echo code=$?", "Enter")
	p.until(`^code=11$`)
	p.press("clear", "Enter")
	p.press("stty -a", "Enter")
	p.until(`[^-]icanon`, `[^-]isig`, `[^-]echo\b`)
}

// Asked twice, the crawl ends at once and the terminal is whole; where the output is to be
// read as it comes, and where the terminal is dumb, there is no view.
func TestNoLiveView(t *testing.T) {
	t.Parallel()
	site := serveSite(t, 1)
	p := openPane(t, 80, 24, "CRAWL_STATS_INTERVAL=100ms")
	crawl := "crawl --contact me@example.com --rate 10 --max-pages 12 "
	for name, c := range map[string]struct{ command, want string }{
		"records on the screen": {crawl + site.URLs()[0], `"url":"http`},
		"a pipe":                {crawl + site.URLs()[0] + " | cat", `"url":"http`},
		"a dumb terminal":       {"TERM=dumb " + crawl + "-o /dev/null " + site.URLs()[0], `progress  state=running`},
		"plain":                 {crawl + "--progress plain -o /dev/null " + site.URLs()[0], `progress  state=running`},
		"one line":              {crawl + "--progress tty -o /dev/null " + site.URLs()[0], `limit \(max_pages`},
		"for machines":          {crawl + "--set log.format=json -o /dev/null " + site.URLs()[0], `"msg":"the crawl ended"`},
		"every step":            {crawl + "-v -o /dev/null " + site.URLs()[0], `debug: `},
	} {
		p.press("clear", "Enter")
		p.until(`\A=>$`)
		p.press(c.command+"; echo ended", "Enter")
		p.until(`^ended$`)
		require.Regexp(t, c.want, p.history(), name)
		require.NotContains(t, p.history(), "busiest hosts", name)
		p.tmux("clear-history")
	}
}

// The second q gives up what is under way, as a second Ctrl-C does.
func TestLiveViewGivesUp(t *testing.T) {
	t.Parallel()
	site, err := testsite.New(testsite.Uniform(1, 100, 10*time.Minute)) // whoever asks waits
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- site.Run(ctx) }()
	defer func() {
		stop()
		<-served // it says that clients were cut off
	}()
	p := openPane(t, 80, 24)
	p.press("crawl --contact me@example.com -o /dev/null --set grace=10m --timeout 1h "+site.URLs()[0], "Enter")
	p.until(` 1 in flight`)
	p.press("q")
	p.until(`stopping  \S+s$`, `^q give up what is under way`)
	given := regexp.MustCompile(`giving up what is under way|interrupted twice`)
	for end := time.Now().Add(deadline); !given.MatchString(p.screen()); {
		require.True(t, time.Now().Before(end), p.screen())
		time.Sleep(time.Second) // one that comes too soon after another is a key that is held down
		p.press("q")
		// A third one would end the process at once, without a report.
		for wait := time.Now().Add(20 * time.Second); time.Now().Before(wait) && !given.MatchString(p.screen()); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	p.until(`interrupted twice`)
	p.press("clear", "Enter")
	p.press("stty -a", "Enter")
	p.until(`[^-]icanon`, `[^-]echo\b`)
}

// Who closes the terminal ends the crawl in order: what it has done can be gone on with.
func TestTerminalIsClosed(t *testing.T) {
	t.Parallel()
	site := serveSite(t, 1)
	p := openPane(t, 80, 24)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(script, []byte("trap : HUP\ncrawl --contact me@example.com --rate 10 -o "+out+"/ "+site.URLs()[0]+"\necho $? >"+dir+"/code.tmp\nmv "+dir+"/code.tmp "+dir+"/code\n"), 0o644))
	p.press("sh "+script, "Enter")
	p.until(`^pages +[1-9]`)
	p.tmux("kill-server")
	var code []byte
	for end := time.Now().Add(deadline); code == nil; time.Sleep(20 * time.Millisecond) {
		code, _ = os.ReadFile(filepath.Join(dir, "code"))
		require.True(t, time.Now().Before(end), "the crawl has not ended")
	}
	require.Equal(t, "11\n", string(code), "it was asked to stop, and that nobody reads the report is no trouble")
	said, err := exec.CommandContext(t.Context(), "crawl", "resume", out, "--max-pages", "1").CombinedOutput()
	require.Contains(t, string(said), "limit (max_pages 1 reached)", err)
}

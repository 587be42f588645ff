package crawl_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl"
	_ "github.com/treadlight/crawl/console"
	"github.com/treadlight/crawl/record"
	_ "github.com/treadlight/crawl/redis"
	_ "github.com/treadlight/crawl/sqlite"
	_ "github.com/treadlight/crawl/traces"
)

// A loop that takes its time, follows links, adds seeds and is left: the page that it holds is under way.
func TestLoop(t *testing.T) {
	cfg, url := fast(site{"/": "one", "/two": "two", "/three": "three", "/four": "four"}, t)
	c := must(crawl.New(cfg))
	var got []string
	for p, err := range c.Crawl(t.Context(), url) {
		require.NoError(t, err)
		switch got = append(got, p.URL.Path); len(got) {
		case 1:
			require.True(t, p.Follow("/two").OK())
		case 2:
			require.NoError(t, c.AddSeed(url+"/three"))
		}
		if len(got) == 3 {
			p.Follow("/four")
			break
		}
	}
	require.Equal(t, []string{"/", "/two", "/three"}, got)
	require.Equal(t, "interrupted", c.Snapshot().State)
}

// What the body of a loop has done with a page counts once it has ended, by break too, and not if it ended by a panic: the
// page is then left to the next run, as are those that waited for the loop.
func TestLoopsThatEnd(t *testing.T) {
	pages := site{"/": ""}
	var want []string
	for i := range 40 {
		pages["/"] += fmt.Sprintf("<a href=/%d>x</a>", i)
		pages[fmt.Sprint("/", i)] = fmt.Sprintf("<h1>Book %d</h1>", i)
		want = append(want, fmt.Sprintf(`{"title":"Book %d","on":"/%d"}`, i, i))
	}
	cfg, url := fast(pages, t)
	dir := t.TempDir()
	path := filepath.Join(dir, "books.jsonl")
	cfg.StateDir = filepath.Join(dir, "state")
	looked := make(map[string]int)
	loop := func(o crawl.Options, at *record.Position, end func(), seeds ...string) {
		books := must(crawl.Items[book](path, at))
		defer books.Close()
		o.Sinks = []record.Sink{books}
		n := 0
		loopOver(t.Context(), o, func(p *crawl.Page) bool {
			looked[p.URL.Path]++
			if n++; n == 10 && end != nil {
				end()
				return false
			}
			return true
		}, seeds...)
	}
	again := func(end func()) {
		state := must(crawl.OpenState(crawl.StateConfig{Dir: cfg.StateDir}))
		at := state.Position(path)
		loop(state.Options(), &at, end)
	}
	require.PanicsWithValue(t, "mine", func() { loop(cfg, nil, func() { panic("mine") }, url) })
	again(func() {})
	killed(t, cfg.StateDir, path)
	again(nil)
	require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(string(must(os.ReadFile(path)))), "\n"))
	twice := 0
	for path, n := range looked {
		if require.LessOrEqual(t, n, 2, path); n == 2 {
			twice++
		}
	}
	require.Positive(t, twice, "the page of the panic")
	require.LessOrEqual(t, twice, 10, "what the loop has not seen waits for the next one")
}

func loopOver(ctx context.Context, o crawl.Options, more func(*crawl.Page) bool, seeds ...string) {
	for p, err := range must(crawl.New(o)).Crawl(ctx, seeds...) {
		if err != nil {
			panic(err)
		}
		if title := p.First("h1").Text(); title != "" {
			if err := p.Emit(book{title, p.URL.Path}); err != nil {
				panic(err)
			}
		}
		if !more(p) {
			break
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// killedVariable has the test binary be a program that goes on with a crawl until it is killed: by a state and a file.
const killedVariable = "CRAWL_TEST_KILLED"

func toBeKilled(paths string) {
	dir, path, _ := strings.Cut(paths, "\n")
	state := must(crawl.OpenState(crawl.StateConfig{Dir: dir}))
	at := state.Position(path)
	o := state.Options()
	o.Sinks = []record.Sink{must(crawl.Items[book](path, &at))}
	n := 0
	loopOver(context.Background(), o, func(*crawl.Page) bool {
		if n++; n == 10 {
			fmt.Println("ten pages")
			_, _ = io.ReadAll(os.Stdin) // until it is killed
		}
		return true
	})
}

func killed(t *testing.T, state, items string) {
	t.Helper()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), killedVariable+"="+state+"\n"+items)
	in := must(program.StdinPipe())
	defer in.Close()
	out := must(program.StdoutPipe())
	require.NoError(t, program.Start())
	require.Equal(t, "ten pages\n", must(bufio.NewReader(out).ReadString('\n')))
	require.NoError(t, program.Process.Kill())
	require.Error(t, program.Wait())
}

// A loop has each page, those with which OnPage has failed and the last one too.
func TestLoopBehindOnPage(t *testing.T) {
	cfg, url := fast(site{"/": "<a href=/bad>x</a><a href=/last>x</a>", "/bad": "bad", "/last": "last"}, t)
	cfg.Concurrency, cfg.Grace = 1, -1
	var told atomic.Int64
	cfg.OnError = func(crawl.Failure) { told.Add(1) }
	cfg.OnPage = func(_ context.Context, p *crawl.Page) error {
		switch p.URL.Path {
		case "/bad":
			p.Follow("/never")
			return errors.New("it is bad")
		case "/last":
			return crawl.ErrStop
		}
		return nil
	}
	c := must(crawl.New(cfg))
	got := make(map[string]string)
	for p, err := range c.Crawl(t.Context(), url) {
		require.NoError(t, err)
		got[p.URL.Path] = fmt.Sprint(p.Text(), " ", p.Err)
	}
	require.Equal(t, map[string]string{"/": "xx <nil>", "/bad": "bad it is bad", "/last": "last <nil>"}, got)
	require.Equal(t, int64(1), told.Load())
}

func TestErrStop(t *testing.T) {
	cfg, url := fast(site{"/": "<a href=/a>a</a>", "/a": "<a href=/b>b</a>"}, t)
	n := 0
	cfg.OnPage = func(context.Context, *crawl.Page) error {
		n++
		return fmt.Errorf("enough: %w", crawl.ErrStop)
	}
	c := run(t, cfg, url)
	require.Equal(t, 1, n)
	require.Equal(t, int64(1), c.Snapshot().Records)
}

func TestMain(m *testing.M) {
	if paths := os.Getenv(killedVariable); paths != "" {
		toBeKilled(paths)
		return
	}
	goleak.VerifyTestMain(m)
}

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// update has golden files written anew.
var update = flag.Bool("update", false, "write what the commands print into the golden files")

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"crawl": func() {
		wrongClock()
		main()
	}})
}

// TestScript drives the real binary: each file of testdata/script is a terminal session.
// Its own commands, beside those of testscript:
//
//	exits CODE PROGRAM ARGS...   runs a program that must end with this code
//	start NAME PROGRAM ARGS...   runs one in the background; with -silent its input never
//	                             ends, with -stuck nobody reads its output
//	until NAME REGEXP            waits until it has printed that
//	signal NAME SIGNAL...        sends INT, TERM, HUP or USR1
//	finish NAME CODE             waits for its end; NAME.out and NAME.err are what it printed
//	site NAME ARGS...            starts `crawl testsite ARGS...`; $NAME is its first URL,
//	                             NAME.seeds a file of all
//	dead NAME                    $NAME is a URL at which nobody listens
//	scrub FILE TO                copies without what differs between runs
//	urls FILE TO                 the URLs of a file of records, sorted; none may be there twice
//	console NAME ENV             waits until it can be steered; $ENV is where, ADDRESS:PORT
//	order NAME ORDER             gives it an order, which it must carry out
//	future DIR                   makes the state in DIR one of a version to come
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "../../testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			// Nothing of the developer's own settings may reach the scripts.
			for _, kv := range os.Environ() {
				if strings.HasPrefix(kv, "CRAWL_") {
					t.Fatalf("unset %s: the scripts set what they need", kv)
				}
			}
			env.Setenv("TERM", "dumb")
			env.Setenv("GORACE", race)
			env.Values[background{}] = map[string]*process{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "start": cmdStart, "until": cmdUntil, "signal": cmdSignal, "finish": cmdFinish,
			"site": cmdSite, "dead": cmdDead, "scrub": cmdScrub, "urls": cmdURLs, "future": cmdFuture,
			"console": cmdConsole, "order": cmdOrder,
		},
	})
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(ts, err); fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	how := plain
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		how = plumbing(args[0])
		args = args[1:]
	}
	if neg || len(args) < 2 || how != plain && how != silent && how != stuck {
		ts.Fatalf("usage: start [-silent|-stuck] NAME PROGRAM ARGS...")
	}
	start(ts, how, args[0], args[1:])
}

func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until NAME REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	p := named(ts, args[0])
	if !p.until(re) {
		ts.Fatalf("%s ended before it printed %q:\n%s%s", args[0], args[1], p.out.String(), p.err.String())
	}
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME INT|TERM|HUP|USR1")
	}
	ts.Check(named(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func cmdFinish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: finish NAME CODE")
	}
	finish(ts, args[0], args[1])
}

var serving = regexp.MustCompile(`serving (\d+) hosts?;`)

func cmdSite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: site NAME ARGS...")
	}
	p := start(ts, plain, args[0], append([]string{"crawl", "testsite"}, args[1:]...))
	if !p.until(serving) {
		ts.Fatalf("the site ended: %s", p.err.String())
	}
	hosts := serving.FindStringSubmatch(p.err.String())[1]
	// The URLs were written before the message, but come by another way.
	list := regexp.MustCompile(`^(?:http\S+\n){` + hosts + `}`)
	if !p.until(list) {
		ts.Fatalf("the site ended: %s", p.err.String())
	}
	seeds := list.FindString(p.out.String() + p.err.String()) // with --json they are on standard error
	first, _, _ := strings.Cut(seeds, "\n")
	ts.Setenv(args[0], first)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".seeds"), []byte(seeds), 0o644))
}

// cmdDead takes a port that was just free. Nobody else is given it soon: the system
// hands ports out in turn.
func cmdDead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: dead NAME")
	}
	ln, err := net.Listen("tcp", "127.0.3.1:0")
	ts.Check(err)
	ts.Setenv(args[0], "http://"+ln.Addr().String()+"/")
	ts.Check(ln.Close())
}

// scrubs are what differs between two runs of the same crawl.
var scrubs = []struct {
	what *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`\b127\.0\.(\d+\.\d+):\d+`), `127.0.$1:PORT`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), `TIME`},
	{regexp.MustCompile(`in \d+(\.\d+)?s( \([\d.]+/s\))?`), `in SECONDS`},
	{regexp.MustCompile(`,\d+(\.\d+)?,(127\.0\.\d+\.\d+:PORT,)`), `,MS,$2`}, // of a CSV line
	{regexp.MustCompile(`"timings_ms":\{[^}]*\}`), `"timings_ms":{}`},
	{regexp.MustCompile(`"elapsed_seconds":[\d.e-]+`), `"elapsed_seconds":N`},
}

func cmdScrub(ts *testscript.TestScript, neg bool, args []string) {
	sorted := len(args) > 0 && args[0] == "-sort"
	if sorted {
		args = args[1:]
	}
	if neg || len(args) != 2 {
		ts.Fatalf("usage: scrub [-sort] FILE TO")
	}
	text := ts.ReadFile(args[0])
	for _, s := range scrubs {
		text = s.what.ReplaceAllString(text, s.to)
	}
	if sorted { // records come in the order of the answers
		lines := strings.SplitAfter(text, "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

func cmdURLs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: urls FILE TO")
	}
	var urls []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var r struct{ URL string }
		ts.Check(json.Unmarshal([]byte(line), &r))
		urls = append(urls, r.URL)
	}
	slices.Sort(urls)
	if once := slices.Compact(slices.Clone(urls)); len(once) < len(urls) {
		ts.Fatalf("%s has %d records of %d URLs", args[0], len(urls), len(once))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(urls, "\n")+"\n"), 0o644))
}

func cmdFuture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: future DIR")
	}
	db, err := sqlitedb.Open(filepath.Join(ts.MkAbs(args[0]), "state.db"), sqlitedb.Config{})
	ts.Check(err)
	ts.Check(db.Exec("PRAGMA user_version = 9999"))
	ts.Check(db.Close())
}

// race keeps a binary with the race detector from waiting a second at its end for
// reports of other threads; ours waits for its goroutines itself.
const race = "atexit_sleep_ms=0"

// deadline bounds what a script waits for: far more than any needs on a busy machine.
const deadline = 5 * time.Minute

func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

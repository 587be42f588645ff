package main

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

var steering = regexp.MustCompile(`the crawl can be seen and steered  url=(http://(\S+)/)`)

// consoleOf waits until a crawl can be steered, and is where.
func consoleOf(ts *testscript.TestScript, name string) (url, addr string) {
	p := named(ts, name)
	if !p.until(steering) {
		ts.Fatalf("%s ended: %s", name, p.err.String())
	}
	found := steering.FindStringSubmatch(p.err.String())
	return found[1], found[2]
}

func cmdConsole(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: console NAME ENV")
	}
	_, addr := consoleOf(ts, args[0])
	ts.Setenv(args[1], addr)
}

func cmdOrder(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: order NAME ORDER")
	}
	url, _ := consoleOf(ts, args[0])
	res, err := http.Post(url+"api/"+args[1], "application/json", strings.NewReader("{}"))
	ts.Check(err)
	ts.Check(res.Body.Close())
	if res.StatusCode != http.StatusOK {
		ts.Fatalf("%s answered %s", url, res.Status)
	}
}

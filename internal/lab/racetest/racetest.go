// Package racetest lets tests take a sample of their cases under the race detector, where a
// long computation of one goroutine is some twenty times as slow and has no races. `make test`
// runs such a test whole, without the detector, if WHOLE in the Makefile lists it; [Sample]
// fails a test that is not listed.
package racetest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// Sample reports whether tb should take a sample of its cases, and logs it.
func Sample(tb testing.TB) bool {
	tb.Helper()
	if !Enabled {
		return false
	}
	name, _, _ := strings.Cut(tb.Name(), "/")
	if !listed(tb, name) {
		tb.Fatalf("add %s to WHOLE in the Makefile: without it nothing runs all of its cases", name)
	}
	tb.Log("a sample, because of the race detector; `make test` runs all cases without it")
	return true
}

var whole = regexp.MustCompile(`(?m)^WHOLE +:= (.*)$`)

func listed(tb testing.TB, name string) bool {
	tb.Helper()
	list := whole.FindStringSubmatch(docpage.Read(tb, "Makefile"))
	return list != nil && strings.Contains(" "+list[1]+" ", " "+name+" ")
}

// Package racetest keeps tests from paying for the race detector where it has nothing to
// find. A long computation of one goroutine is some twenty times as slow under it, and no
// case of a table after the first tells it anything new: there a test takes a sample, and
// `make test` runs it whole once more without the detector. Which tests these are is
// listed in the Makefile, as WHOLE, and [Sample] fails a test that is not among them: no
// case is left out of both.
package racetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Sample reports whether tb is to take a sample of its cases, which it says in the log.
func Sample(tb testing.TB) bool {
	tb.Helper()
	if !Enabled {
		return false
	}
	name, _, _ := strings.Cut(tb.Name(), "/")
	if !listed(tb, name) {
		tb.Fatalf("add %s to WHOLE in the Makefile: without it nothing runs all of its cases", name)
	}
	tb.Log("A SAMPLE, because of the race detector; `make test` runs all of it without")
	return true
}

var whole = regexp.MustCompile(`(?m)^WHOLE +:= (.*)$`)

// listed reports whether the Makefile at the root of the module runs a test whole.
func listed(tb testing.TB, name string) bool {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "Makefile"))
		if err == nil {
			list := whole.FindSubmatch(text)
			return list != nil && strings.Contains(" "+string(list[1])+" ", " "+name+" ")
		}
		if dir == filepath.Dir(dir) {
			tb.Fatalf("there is no Makefile: %v", err)
		}
	}
}

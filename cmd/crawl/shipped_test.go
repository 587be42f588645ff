package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
)

// suite is all the tests of this package, which clear away what they have built.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn) // a directory for temporary files
	}
	return code
}

// builtIn is where buildShipped has put the command.
var builtIn string

// buildShipped builds the command without the race detector, as it is shipped.
var buildShipped = sync.OnceValues(func() (program string, err error) {
	if builtIn, err = os.MkdirTemp("", "crawl"); err != nil {
		return "", err
	}
	program = filepath.Join(builtIn, "crawl")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
})

// shipped is the command that a trial kills. The race detector makes a crawl several times
// as slow and has its say in one trial of five; the others kill what users have, which is
// where more instants differ. Without it the command under test is that already.
func shipped(t *testing.T, trial int) string {
	t.Helper()
	if !racetest.Enabled || trial%5 == 0 {
		return ""
	}
	program, err := buildShipped()
	require.NoError(t, err)
	return program
}

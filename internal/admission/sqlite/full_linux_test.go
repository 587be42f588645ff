package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/sqlite"
)

// report is what a process says that came to the end of what it may write.
type report struct {
	Granted, After int64 // before the end, and when it could write again
	Failures       []string
}

// takeUntilFull has the kernel refuse to write beyond a size of a file, as a disk does
// that is full: in the midst of a row, a page or a commit.
func takeUntilFull(r *sqlite.Repository) error {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	limited := before
	limited.Cur = 100_000 // in the midst of a page of the log
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		return err
	}
	var rep report
	for i := 0; len(rep.Failures) < 3; i++ {
		if _, err := r.Take(context.Background(), fmt.Sprint(i%3), []admission.Plan{wide}, 1); err != nil {
			rep.Failures = append(rep.Failures, err.Error())
			continue
		}
		rep.Granted++
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	for i := range 9 {
		if _, err := r.Take(context.Background(), fmt.Sprint(i%3), []admission.Plan{wide}, 1); err != nil {
			return err
		}
		rep.After++
	}
	return json.NewEncoder(os.Stdout).Encode(rep)
}

// A disk that fills up while decisions are written makes errors of them, and neither
// loses a count that was told nor charges for one that was not.
func TestDiskFillsUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	p := start(t, "full", path)
	var rep report
	require.NoError(t, json.Unmarshal([]byte(p.line(t)), &rep))
	require.NoError(t, p.cmd.Wait())
	require.Positive(t, rep.Granted)
	for _, failure := range rep.Failures {
		require.Contains(t, failure, path)
		require.Contains(t, failure, "nothing was charged")
	}
	r := open(t, sqlite.Config{Path: path})
	charged := int64(0)
	for i := range 3 {
		charged += wide.Capacity - take(t, r, fmt.Sprint(i), 0, wide).Remaining
	}
	require.Equal(t, rep.Granted+rep.After, charged)
}

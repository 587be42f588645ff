package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Two processes with archives are restarted in turn, as an operator does who has a new
// version, and once one is killed: each goes on in its own files, and all ends right.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	archives := filepath.Join(f.dir, "archives")
	f.args = append([]string{"--warc", archives}, f.args...)
	pages := int64(f.site.Report().Total.URLs)
	procs := []*fleetProcess{f.start("w1"), f.start("w2")}
	indexes := func() []string {
		found, err := filepath.Glob(filepath.Join(archives, "w[12]", "*.cdxj"))
		require.NoError(t, err)
		return found
	}
	var complete []string
	for _, share := range []float64{0.2, 0.4} {
		f.served(int64(share * float64(pages)))
		i := f.owner(procs) // one without hosts has no archives
		require.NoError(t, procs[i].cmd.Process.Signal(syscall.SIGTERM))
		<-procs[i].done
		require.Equal(t, cli.CodeInterrupted, procs[i].cmd.ProcessState.ExitCode(), &procs[i].err)
		complete = append(complete, indexes()...)
		require.NotEmpty(t, complete)
		procs[i] = f.start(procs[i].name)
	}
	f.served(int64(0.6 * float64(pages)))
	f.kill(procs[0])
	procs[0] = f.start("w1")

	// Nobody else may write under that name.
	second, err := exec.Command("crawl", append([]string{"--set", "fleet.worker=w2"}, f.args...)...).CombinedOutput()
	if f.site.Report().Total.Distinct < pages { // or it has ended meanwhile
		require.ErrorContains(t, err, "exit status 3", string(second))
		require.Contains(t, string(second), "another process called w2 is writing")
	}
	f.finish(procs...)
	f.require()

	open, err := filepath.Glob(filepath.Join(archives, "*", "*.open"))
	require.NoError(t, err)
	require.Empty(t, open, "all archives are complete")
	require.Subset(t, indexes(), complete, "those that were complete stay")
	captured := make(map[string]bool)
	for _, path := range indexes() {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			key, _, _ := strings.Cut(line, " ")
			captured[key] = true
		}
	}
	require.GreaterOrEqual(t, len(captured), f.site.Report().Total.URLs, "every page is archived")
}

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// A process without URLs may be begun before the one that has them: it waits, and says so.
func TestJoinBeforeTheSeeds(t *testing.T) {
	t.Parallel()
	site, err := testsite.New(testsite.Uniform(2, 5, 0))
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- site.Run(serving) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-served) })
	srv, dir := redistest.Redis.Start(t), t.TempDir()
	start := func(name string, args ...string) (*exec.Cmd, *os.File) {
		cmd := exec.Command("crawl", append([]string{
			"--redis", "redis://" + srv.Addr, "--job", "j", "--set", "fleet.lease=1s", "-o", dir + "/", "--set", "fleet.worker=" + name,
			"--contact", "a@b.test", "--rate", "50", "--max-rate", "50", "--progress", "none",
		}, args...)...)
		said, err := os.Create(filepath.Join(dir, name+".log")) //nolint:gosec // of the test
		require.NoError(t, err)
		cmd.Stderr, cmd.Env = said, append(os.Environ(), "GORACE="+race)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = said.Close() })
		return cmd, said
	}
	says := func(said *os.File, want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(said.Name())
			return err == nil && bytes.Contains(text, []byte(want))
		}, redistest.Patience, 5*time.Millisecond, want)
	}

	joiner, log := start("joiner")
	says(log, "the job does not exist yet: waiting until a process brings it URLs")
	impatient, log := start("impatient")
	says(log, "waiting until")
	require.NoError(t, impatient.Process.Signal(syscall.SIGTERM))
	require.ErrorContains(t, impatient.Wait(), "exit status 11")

	seeder, _ := start("seeder", site.URLs()...)
	require.NoError(t, joiner.Wait())
	require.NoError(t, seeder.Wait())
	require.EqualValues(t, site.Report().Total.URLs, site.Report().Total.Distinct)

	late, log := start("late")
	require.NoError(t, late.Wait())
	says(log, "the job is complete: there is nothing left to do")
	again, log := start("again", site.URLs()...)
	require.NoError(t, again.Wait())
	says(log, "the job is complete: only URLs that are new to it")
	left, err := filepath.Glob(filepath.Join(dir, "records-*"))
	require.NoError(t, err)
	require.NotContains(t, strings.Join(left, " "), "late", "who has nothing to do makes no files")
}

package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := New(Config{Path: path, Clock: clocktest.NewFake(now)})
	require.NoError(t, err)
	return f
}

func save(t *testing.T, f *File, hosts ...ratelimit.HostMemory) {
	t.Helper()
	require.NoError(t, f.Save(t.Context(), slices.Values(hosts)))
}

func load(t *testing.T, f *File) []ratelimit.HostMemory {
	t.Helper()
	hosts, damage, err := f.Load()
	require.NoError(t, err)
	require.Zero(t, damage)
	return hosts
}

// requireOnly fails the test unless the directory has these files and no other.
func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func TestNewNamesTheField(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "memory: Path is empty: name a file"},
		{Config{Path: "x", MaxHosts: -1}, "memory: MaxHosts = -1: want 1 or more"},
		{Config{Path: "x", MaxWait: -1}, "memory: MaxWait = -1ns: want a duration above zero"},
	} {
		_, err := New(tc.cfg)
		require.EqualError(t, err, tc.want)
	}
}

func TestSaveMerges(t *testing.T) {
	dir := t.TempDir()
	f := newFile(t, filepath.Join(dir, "hosts"))
	require.Empty(t, load(t, f), "of a file that does not exist")
	save(t, f, host("a.test", time.Hour, 1), host("b.test", 2*time.Hour, 1))
	save(t, f, host("a.test", 2*time.Hour, 9), host("c.test", 0, 3), host("gone.test", 24*time.Hour, 3), host("No name", 0, 1))
	want := []ratelimit.HostMemory{host("c.test", 0, 3), host("a.test", time.Hour, 1), host("b.test", 2*time.Hour, 1)}
	require.Equal(t, want, load(t, f))
	f.cfg.Clock.(*clocktest.Fake).Advance(23 * time.Hour)
	save(t, f)
	require.Equal(t, want[:1], load(t, f), "what is a day old drops out")
	requireOnly(t, dir, "hosts")
}

func TestSaveKeepsTheLatestUsed(t *testing.T) {
	f := newFile(t, filepath.Join(t.TempDir(), "hosts"))
	f.cfg.MaxHosts = 2
	for i := range 10 {
		save(t, f, host(fmt.Sprintf("%d.test", i), time.Duration(i*7%10)*time.Minute, 1))
	}
	require.Equal(t, []ratelimit.HostMemory{host("0.test", 0, 1), host("3.test", time.Minute, 1)}, load(t, f))
}

func TestModeAndLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "hosts"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	mode := func() fs.FileMode {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		return info.Mode()
	}
	save(t, newFile(t, path), host("a.test", 0, 1))
	require.Equal(t, fs.FileMode(0o600), mode(), "of a new file")
	require.NoError(t, os.Chmod(path, 0o640))
	save(t, newFile(t, link), host("b.test", 0, 1))
	require.Equal(t, fs.FileMode(0o640), mode(), "of an old one, through a link")
	require.Len(t, load(t, newFile(t, path)), 2)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type(), "the link was replaced")
}

// The old file stays and nothing else is left, wherever the writing ends.
func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	whole := text(t, host("a.test", 0, 1), host("b.test", 0, 2))
	full := errors.New("no space left on device")
	for n := range len(whole) {
		dir := t.TempDir()
		path := filepath.Join(dir, "hosts")
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
		err := replace(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, whole[:n]) // into a file in a test's directory
			return full
		})
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, path)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "old", string(data))
		requireOnly(t, dir, "hosts")
	}
}

// A kill leaves the old file, and what the temporary one had by then, which nobody reads.
func TestKilledWriteLeavesTheOldFile(t *testing.T) {
	const victim = "MEMORY_TEST_KILLED_WHILE_WRITING"
	if path := os.Getenv(victim); path != "" {
		_ = replace(path, func(w io.Writer) error { // never returns
			_, _ = io.WriteString(w, head+`{"host":"b.te`)
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		})
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hosts")
	f := newFile(t, path)
	save(t, f, host("a.test", 0, 1))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), victim+"="+path)
	require.Error(t, child.Run(), "it was not killed")
	left, err := filepath.Glob(path + ".*.tmp")
	require.NoError(t, err)
	require.Len(t, left, 1, "it was not writing")
	require.Equal(t, []ratelimit.HostMemory{host("a.test", 0, 1)}, load(t, f))
	save(t, f, host("c.test", 0, 1))
	require.Len(t, load(t, f), 2)
}

func TestForeignFilesStay(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pages.jsonl")
	const pages = `{"url":"https://a.test/"}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(pages), 0o644))
	f := newFile(t, path)
	_, _, err := f.Load()
	require.EqualError(t, err, "read "+path+": it is no memory of hosts: name another file, or one that does not exist yet")
	err = f.Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1)}))
	_, foreign := errors.AsType[*FormatError](err)
	require.True(t, foreign)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, pages, string(data))
	requireOnly(t, dir, "pages.jsonl")
}

func TestPathsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	_, _, err := newFile(t, dir).Load()
	require.EqualError(t, err, dir+" is no regular file: name one, or one that does not exist yet")
	nowhere := newFile(t, filepath.Join(dir, "nowhere", "hosts"))
	_, _, err = nowhere.Load()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "make the directory first")
	err = nowhere.Save(t.Context(), slices.Values([]ratelimit.HostMemory{}))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Crawls that write at the same time lose nothing of each other's: reading and renaming
// are one step.
func TestWritersTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) { // in which waiting for the lock takes no time
		const writers, saves = 8, 5
		var wg sync.WaitGroup
		for w := range writers {
			f, err := New(Config{Path: path}) // its own, as in a process of its own
			require.NoError(t, err)
			wg.Go(func() {
				for i := range saves {
					m := ratelimit.HostMemory{Domain: fmt.Sprintf("%d-%d.test", w, i), LastUsed: time.Now(), Learned: ratelimit.Learned{Rate: 1}}
					if err := f.Save(t.Context(), slices.Values([]ratelimit.HostMemory{m})); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		f, err := New(Config{Path: path})
		require.NoError(t, err)
		require.Len(t, load(t, f), writers*saves)
	})
}

// Who cannot have the lock, for its time or for the crawl's end, saves without it.
func TestSaveDoesWithoutTheLock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		defer lock(t.Context(), clock.System(), dir)()
		f, err := New(Config{Path: filepath.Join(dir, "hosts")})
		require.NoError(t, err)
		begun := time.Now()
		m := ratelimit.HostMemory{Domain: "a.test", LastUsed: begun, Learned: ratelimit.Learned{Rate: 1}}
		save(t, f, m)
		require.Equal(t, 5*time.Second, time.Since(begun))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		m.Domain = "b.test"
		require.NoError(t, f.Save(over, slices.Values([]ratelimit.HostMemory{m})))
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.Len(t, load(t, f), 2)
	})
}

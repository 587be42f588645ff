package atomicfile_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/store/atomicfile"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestReplaceKeepsThePermissionsAndTheLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plans.yaml")
	require.NoError(t, atomicfile.Replace(path, 0o600, text("one")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "of a new file")

	require.NoError(t, os.Chmod(path, 0o640))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, atomicfile.Replace(link, 0o666, text("two")))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link is still one")
}

// What the mask of the user forbids is known by a file that os.WriteFile makes.
func TestReplaceMakesNewFilesAsTheMaskAllows(t *testing.T) {
	dir := t.TempDir()
	plain, path := filepath.Join(dir, "plain"), filepath.Join(dir, "report.html")
	require.NoError(t, os.WriteFile(plain, nil, 0o666)) //nolint:gosec // the point
	require.NoError(t, atomicfile.Replace(path, 0o666, text("one")))
	want, err := os.Stat(plain)
	require.NoError(t, err)
	got, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, want.Mode(), got.Mode())

	require.NoError(t, os.Chmod(path, 0o666)) //nolint:gosec // more than most masks allow
	require.NoError(t, atomicfile.Replace(path, 0o600, text("two")))
	got, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o666), got.Mode().Perm())
}

// As root a rename would put a file in the place of /dev/null.
func TestReplaceWritesToWhatIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	// A socket cannot be opened, which is an error like any other, and it is still there.
	require.Error(t, atomicfile.Replace(path, 0o600, text("one")))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSocket)
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, names, 1)

	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	name := fmt.Sprintf("/dev/fd/%d", w.Fd())
	if _, err := os.Stat(name); err != nil {
		w.Close()
		t.Skip("no names of open files here: ", err)
	}
	require.NoError(t, atomicfile.Replace(name, 0o600, text("one")))
	require.NoError(t, w.Close())
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
}

func TestReplaceThatFailsLeavesTheOldFileAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plans.yaml")
	require.NoError(t, atomicfile.Replace(path, 0o600, text("one")))
	full := errors.New("no space left")
	err := atomicfile.Replace(path, 0o600, func(w io.Writer) error {
		return errors.Join(text("half of tw")(w), full)
	})
	require.ErrorIs(t, err, full)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)

	require.ErrorIs(t, atomicfile.Replace(filepath.Join(dir, "none", "plans.yaml"), 0o600, text("one")), os.ErrNotExist)
}

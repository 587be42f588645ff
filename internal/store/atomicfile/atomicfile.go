// Package atomicfile writes a file as a whole or not at all, even if the process is killed or the power fails. It
// writes a temporary file beside it and renames that.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Replace replaces the file at path by what content writes. The new file has the permissions of the old one; without an
// old file it has perm as far as the umask permits. If path is a symbolic link, its target is replaced. On failure the
// old file stays; only a kill leaves a temporary file, whose name ends in .tmp. Of concurrent calls for the same path
// the later rename prevails.
//
// A device or a pipe, such as /dev/null, is written to and never replaced.
func Replace(path string, perm fs.FileMode, content func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	old, missing := os.Stat(path)
	if missing == nil && !old.Mode().IsRegular() {
		return writeTo(path, content)
	}
	if missing == nil {
		perm = old.Mode().Perm()
	}
	tmp, err := create(path, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = tmp.Close(), os.Remove(tmp.Name()) // nothing more can be done
		}
	}()
	if missing == nil { // the old file may have permissions that the umask denies to new ones
		if err := tmp.Chmod(perm); err != nil {
			return err
		}
	}
	if err := content(tmp); err != nil {
		return err
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	SyncDir(filepath.Dir(path))
	return nil
}

// triesMax is how many names are tried for a temporary file, as many as os.CreateTemp tries.
const triesMax = 10_000

// create is like os.CreateTemp beside path, except for the permissions: os.CreateTemp always uses 0600, and the umask
// cannot be read without changing it.
func create(path string, perm fs.FileMode) (*os.File, error) {
	for try := 0; ; try++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", path, rand.Uint32()), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) || try >= triesMax {
			return f, err
		}
	}
}

// writeTo writes to a device or a pipe.
func writeTo(path string, content func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

// SyncDir makes changes of names in a directory survive a power failure, if the file system supports that and the
// directory is readable; otherwise it does nothing.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_, _ = d.Sync(), d.Close()
	}
}

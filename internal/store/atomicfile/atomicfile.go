// Package atomicfile writes a file whole or not at all, by way of a temporary file beside it and a rename, also across
// a kill or a power failure.
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

// Replace puts what content writes in the place of the file at path, with its permissions, or else those of perm
// within the umask. Behind a symbolic link the file is replaced. On failure the old file stays; only a kill leaves a
// file whose name ends in .tmp. Of concurrent calls for one path the later rename counts.
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
			_, _ = tmp.Close(), os.Remove(tmp.Name()) // there is nothing more to be done about it
		}
	}()
	if missing == nil { // the old file may have had what the mask forbids new ones
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

// create is os.CreateTemp beside path, but for the permissions: those are always 0600 there,
// and the mask of the user cannot be asked for without changing it.
func create(path string, perm fs.FileMode) (*os.File, error) {
	for try := 0; ; try++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", path, rand.Uint32()), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) || try >= triesMax {
			return f, err
		}
	}
}

// writeTo writes to what is no file.
func writeTo(path string, content func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

// SyncDir makes changes of names in a directory outlast a power failure, where the file system can and the directory
// is readable; otherwise it does nothing.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_, _ = d.Sync(), d.Close()
	}
}

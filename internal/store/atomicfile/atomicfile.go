// Package atomicfile writes a file whole or not at all. What is written comes into a
// temporary file beside the old one and takes its place in one step, so that whoever reads
// the name sees the one or the other, also after a kill or a power failure.
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

// Replace puts what content writes in the place of the file at path, with its permissions, or if there was none with
// those of perm that the user's mask allows, as os.WriteFile does. Behind a symbolic link the file is replaced and not
// the link. If it fails the old file stays and nothing else is left; only a kill in the middle leaves a file whose
// name ends in .tmp. Of two calls at a time for one path the later rename counts.
//
// What is there and is no file, a device or a pipe, is written to and never replaced: to
// put a file in the place of /dev/null would break the machine.
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

// SyncDir makes the names in a directory outlast a power failure: a file that was made or
// renamed there, or is gone. Some file systems cannot, and a directory may be one to write in
// but not to read; what stands then is what stood before, so that it is no error.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_, _ = d.Sync(), d.Close()
	}
}

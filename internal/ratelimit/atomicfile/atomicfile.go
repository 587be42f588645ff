// Package atomicfile writes a file whole or not at all. What is written comes into a
// temporary file beside the old one and takes its place in one step, so that whoever reads
// the name sees the one or the other, also after a kill or a power failure.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace puts what content writes in the place of the file at path, with its permissions,
// or those of the owner alone if there was none. Behind a symbolic link the file is
// replaced and not the link. If it fails the old file stays and nothing else is left; only
// a kill in the middle leaves a file whose name ends in .tmp. Of two calls at a time for
// one path the later rename counts.
//
// What is there and is no file, a device or a pipe, is written to and never replaced: to
// put a file in the place of /dev/null would break the machine.
func Replace(path string, content func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeTo(path, content)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // of mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = tmp.Close(), os.Remove(tmp.Name()) // there is nothing more to be done about it
		}
	}()
	if info, err := os.Stat(path); err == nil {
		if err := tmp.Chmod(info.Mode().Perm()); err != nil {
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

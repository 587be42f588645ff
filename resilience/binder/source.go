package binder

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Source gives the document as it is now. It is called by one goroutine at a time, and may
// return what it returned before; what it returns must not be changed afterwards.
type Source func(ctx context.Context) ([]byte, error)

// racy is for how long after its last change a file is read again although it looks
// unchanged: a second change within the granularity of a file system's clock, which is two
// seconds at the coarsest (FAT), would not show.
const racy = 2 * time.Second

// File is the document in a file, which is read when its size, its time of change or the
// file behind the name is another one.
func File(path string) Source {
	f := &file{path: path, clk: clock.System()}
	return f.load
}

type file struct {
	path string
	clk  clock.Clock
	last os.FileInfo // of data; nil if it has to be read again
	data []byte
}

func (f *file) load(context.Context) ([]byte, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		f.last = nil
		return nil, err
	}
	if f.last != nil && os.SameFile(f.last, info) && f.last.Size() == info.Size() && f.last.ModTime().Equal(info.ModTime()) {
		return f.data, nil
	}
	f.last = nil
	if f.data, err = f.read(info); err != nil {
		return nil, err
	}
	// A change that comes while we read is later than info, and shows the next time.
	if age := f.clk.Now().Sub(info.ModTime()); age > racy {
		f.last = info
	}
	return f.data, nil
}

// read reads one byte more than a document may have, which Load then says.
func (f *file) read(info os.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() { // a pipe would block, a directory gives a worse message
		return nil, fmt.Errorf("%s is not a regular file", f.path)
	}
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer opened.Close() //nolint:errcheck // nothing was written
	return io.ReadAll(io.LimitReader(opened, DocumentMax+1))
}

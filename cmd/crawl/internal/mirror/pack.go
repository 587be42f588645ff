package mirror

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// pack is the file with the bytes of pages as they came, one behind the other. What is written there is not changed:
// a page that has changed is added, and repack leaves out what no entry has. It is safe for concurrent use.
type pack struct {
	f *os.File

	mu  sync.Mutex
	end int64
}

func packName(dir string, n int) string {
	return filepath.Join(dir, stateDir, fmt.Sprintf("pages-%d.pack", n))
}

func openPack(name string) (*pack, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &pack{f: f, end: info.Size()}, nil
}

// add writes a page, and returns where it is.
func (p *pack) add(body []byte) (at int64, err error) {
	p.mu.Lock()
	at = p.end
	p.end += int64(len(body))
	p.mu.Unlock()
	_, err = p.f.WriteAt(body, at)
	return at, err
}

// errLost means that the bytes of a page are not those that came, as after a power cut.
var errLost = errors.New("the page as it came is damaged: it is fetched again by the next run")

// read is the page of an entry, as it came, in the memory of into if that is large enough.
func (p *pack) read(e *entry, into []byte) ([]byte, error) {
	body := slices.Grow(into[:0], int(e.Size))[:e.Size]
	if _, err := p.f.ReadAt(body, e.At); err != nil || xxhash.Sum64(body) != e.Sum {
		return nil, errors.Join(errLost, err)
	}
	return body, nil
}

// repack moves the pages to a file without gaps if half of this one is not needed. The journal that has the new places
// is written after it, and before the old file goes.
func (m *Mirror) repack() error {
	x := m.index
	var used int64
	for e := range x.files() {
		if e.packed() {
			used += e.Size
		}
	}
	if m.pack.end < 1<<20 || used > m.pack.end/2 {
		return nil
	}
	next := x.head.Pack + 1
	name := packName(m.o.Dir, next)
	if err := os.RemoveAll(name); err != nil { // of a run that was killed here
		return err
	}
	to, err := openPack(name)
	if err != nil {
		return err
	}
	for e := range x.files() {
		if !e.packed() {
			continue
		}
		moved := *e
		body, err := m.pack.read(e, nil)
		if err == nil {
			moved.At, err = to.add(body)
		} else if errors.Is(err, errLost) {
			moved.forget()
			err = nil
		}
		if err != nil {
			return errors.Join(err, to.f.Close())
		}
		x.mu.Lock()
		x.set(&moved)
		x.mu.Unlock()
	}
	old := m.pack.f
	x.head.Pack, m.pack = next, to
	if err := to.f.Sync(); err != nil {
		return err
	}
	if err := errors.Join(x.compact(), old.Close()); err != nil {
		return err
	}
	return os.Remove(old.Name())
}

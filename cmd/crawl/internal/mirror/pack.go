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
// a page that has changed is added, and repack leaves out what no entry has. Behind a page that came in this run are its
// places. It is safe for concurrent use.
type pack struct {
	f *os.File

	mu  sync.Mutex
	end int64
}

func openPack(dir string, n int) (*pack, error) {
	f, err := os.OpenFile(filepath.Join(dir, stateDir, fmt.Sprintf("pages-%d.pack", n)), os.O_RDWR|os.O_CREATE, 0o600)
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

// read is the page of an entry, as it came, and its places, if they are there, in the memory of into if that is large
// enough.
func (p *pack) read(e *entry, into []byte) (body, places []byte, err error) {
	size := int(e.Size) + e.places
	all := slices.Grow(into[:0], size)[:size]
	if _, err := p.f.ReadAt(all, e.At); err != nil || xxhash.Sum64(all[:e.Size]) != e.Sum {
		return nil, nil, errors.Join(errLost, err)
	}
	return all[:e.Size], all[e.Size:], nil
}

// repack moves the pages to a file without gaps if half of this one is not needed. The journal that has the new places
// is written after it, and before the old file goes.
func (m *Mirror) repack() error {
	x := m.index
	pages := slices.DeleteFunc(x.all(), func(e *entry) bool { return e.File == "" || !e.packed() })
	var used int64
	for _, e := range pages {
		used += e.Size + int64(e.places)
	}
	if m.pack.end < 1<<20 || used > m.pack.end/2 {
		return nil
	}
	to, err := openPack(m.o.Dir, x.head.Pack+1)
	if err == nil {
		to.end, err = 0, to.f.Truncate(0) // of a run that was killed here
	}
	for _, e := range pages {
		moved := *e
		body, _, lost := m.pack.read(e, nil)
		if moved.places = 0; lost != nil {
			moved.forget()
		} else if err == nil {
			moved.At, err = to.add(body)
		}
		if err != nil {
			return err
		}
		x.mu.Lock()
		x.set(&moved)
		x.mu.Unlock()
	}
	old := m.pack.f
	x.head.Pack, m.pack = x.head.Pack+1, to
	if err = to.f.Sync(); err == nil {
		err = errors.Join(x.compact(), old.Close())
	}
	if err != nil {
		return err
	}
	return os.Remove(old.Name())
}

package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// pack is the file with the received bytes of documents, one after another. Bytes in it are never changed: a new
// version of a document is appended, and repack leaves out what no entry uses. A document received in this run is
// followed by its places. It is safe for concurrent use.
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

// add appends a document and returns its offset.
func (p *pack) add(body []byte) (at int64, err error) {
	p.mu.Lock()
	at = p.end
	p.end += int64(len(body))
	p.mu.Unlock()
	_, err = p.f.WriteAt(body, at)
	return at, err
}

// read returns the received bytes of an entry, and its places if the pack has them. Both are in the memory of into, if
// that is large enough. Whole is false if the bytes are not those that were received, as after a power failure.
func (p *pack) read(e *entry, into []byte) (body, places []byte, whole bool) {
	size := int(e.Size) + e.places
	all := slices.Grow(into[:0], size)[:size]
	_, err := p.f.ReadAt(all, e.At)
	return all[:e.Size], all[e.Size:], err == nil && xxhash.Sum64(all[:e.Size]) == e.Sum
}

// repack moves the documents to a file without gaps if less than half of this one is in use. It writes the journal with
// the new offsets after the new file, and removes the old file last.
func (m *Mirror) repack() error {
	x, old := m.index, m.pack
	pages := slices.DeleteFunc(x.all(), func(e *entry) bool { return e.File == "" || !e.packed() })
	var used int64
	for _, e := range pages {
		used += e.Size + int64(e.places)
	}
	if old.end < 1<<20 || used > old.end/2 {
		return nil
	}
	to, err := openPack(m.o.Dir, x.head.Pack+1)
	if err != nil {
		return err
	}
	to.end = 0
	moved := make([]entry, len(pages))
	err = to.f.Truncate(0) // a killed run may have left it
	for i, e := range pages {
		moved[i] = *e
		body, _, whole := old.read(e, nil)
		if moved[i].places = 0; !whole {
			moved[i].forget()
		} else if err == nil {
			moved[i].At, err = to.add(body)
		}
	}
	if err = cmp.Or(err, to.f.Sync()); err != nil {
		return errors.Join(err, to.f.Close())
	}
	for i := range moved {
		x.set(&moved[i])
	}
	x.head.Pack, m.pack = x.head.Pack+1, to
	if err := errors.Join(x.compact(), old.f.Close()); err != nil {
		return err
	}
	return os.Remove(old.f.Name())
}

package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// pack is the file with the received bytes of documents, one after another. Bytes in it are never changed: a new
// version of a document is appended, and compact leaves out what no entry uses. A document received in this run is
// followed by its places. It is safe for concurrent use.
type pack struct {
	f   *os.File
	end atomic.Int64
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
	p := &pack{f: f}
	p.end.Store(info.Size())
	return p, nil
}

// add appends a document and returns its offset.
func (p *pack) add(body []byte) (at int64, err error) {
	at = p.end.Add(int64(len(body))) - int64(len(body))
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

// compact writes the journal without outdated lines. If less than half of the pack is in use, it moves the documents to a
// file without gaps before, and removes the old file last. After an error the journal still names the old file.
func (m *Mirror) compact() error {
	x, old := m.index, m.pack
	pages := slices.DeleteFunc(x.all(), func(e *entry) bool { return e.File == "" || !e.packed() })
	var used int64
	for _, e := range pages {
		used += e.Size + int64(e.places)
	}
	if end := old.end.Load(); end < 1<<20 || used > end/2 {
		return x.compact()
	}
	to, err := openPack(m.o.Dir, x.head.Pack+1)
	if err != nil {
		return err
	}
	to.end.Store(0)
	err = to.f.Truncate(0) // a killed run may have left it
	for _, e := range pages {
		if err != nil {
			break
		}
		now := *e
		body, _, whole := old.read(e, nil)
		if now.places = 0; !whole {
			now.forget()
		} else {
			now.At, err = to.add(body)
		}
		x.set(&now)
	}
	if err = cmp.Or(err, to.f.Sync()); err != nil {
		return errors.Join(err, to.f.Close(), os.Remove(to.f.Name())) // the disk may be full
	}
	x.head.Pack, m.pack = x.head.Pack+1, to
	if err := errors.Join(x.compact(), old.f.Close()); err != nil {
		return err
	}
	return os.Remove(old.f.Name())
}

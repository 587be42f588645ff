package seen

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// chunkSize is what is read or written at a time beside the blocks: large enough that the
// system call does not show.
const chunkSize = 256 << 10

// writer writes a run, the fingerprints of which come in ascending order.
type writer struct {
	run
	d    folder
	out  *bufio.Writer
	done int64  // fingerprints
	prev uint64 // the latest of them
	buf  [blockSize]byte
}

// Write is the one way to the file.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.d.before("write", w.f.Name()); err != nil {
		return 0, err
	}
	return w.f.Write(p)
}

// writeRun makes a run of the fingerprints that fill adds to the writer: as many as the
// header says. When it returns the run is there for good, or there is nothing.
func writeRun(d folder, h header, fill func(*writer) error) (*run, error) {
	path := d.file(h.span)
	tmp := path + tmpSuffix
	w, err := writeTmp(d, h, tmp, fill)
	if err == nil {
		err = d.rename(tmp, path)
	}
	if err == nil {
		w.f, err = os.Open(path)
	}
	if err == nil {
		if err = d.sync(); err == nil {
			r := w.run // without the buffers
			return &r, nil
		}
		_ = w.f.Close() // the error of before says more
	}
	_, _ = d.remove(tmp), d.remove(path) // likewise
	return nil, err
}

// writeTmp writes the file and closes it.
func writeTmp(d folder, h header, tmp string, fill func(*writer) error) (*writer, error) {
	if err := d.before("create", tmp); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	w := newWriter(d, h, f)
	err = w.write(fill)
	if err == nil {
		err = d.before("sync", tmp)
	}
	if err == nil {
		err = f.Sync()
	}
	return w, errors.Join(err, f.Close())
}

func newWriter(d folder, h header, f *os.File) *writer {
	w := &writer{d: d, run: run{
		header: h, f: f,
		firsts: make([]uint64, 0, h.blocks()),
		filter: make(bloom, bloomWords(h.count)),
	}}
	w.out = bufio.NewWriterSize(w, chunkSize)
	return w
}

// write is the file from its first byte to its last.
func (w *writer) write(fill func(*writer) error) error {
	head := w.encode()
	w.seed = checksum(0, head)
	if _, err := w.out.Write(head); err != nil {
		return err
	}
	if err := fill(w); err != nil {
		return err
	}
	if w.done != w.count {
		return fmt.Errorf("%w: %d fingerprints where %d should be", ErrDamaged, w.done, w.count)
	}
	sum, err := w.words(w.firsts, w.seed)
	if err != nil {
		return err
	}
	if sum, err = w.words(w.filter, sum); err != nil {
		return err
	}
	if _, err := w.out.Write(binary.LittleEndian.AppendUint32(nil, sum)); err != nil {
		return err
	}
	return w.out.Flush()
}

// add is the next fingerprint. A block is written when it is full, or when it is the last.
func (w *writer) add(fp uint64) error {
	if fp < w.prev || w.done == w.count {
		return fmt.Errorf("%w: fingerprint %d of %d is out of order", ErrDamaged, w.done+1, w.count)
	}
	i := w.done % perBlock
	if i == 0 {
		w.firsts = append(w.firsts, fp)
	}
	binary.LittleEndian.PutUint64(w.buf[8*i:], fp)
	w.filter.add(fp)
	w.prev = fp
	w.done++
	if i < perBlock-1 && w.done < w.count {
		return nil
	}
	return w.writeBlock()
}

func (w *writer) writeBlock() error {
	body := w.buf[:blockSize-sumSize]
	sum := checksum(w.seed^uint32(len(w.firsts)-1), body)
	binary.LittleEndian.PutUint32(w.buf[len(body):], sum)
	_, err := w.out.Write(w.buf[:])
	clear(body)
	return err
}

// words writes numbers and continues the checksum over them.
func (w *writer) words(words []uint64, sum uint32) (uint32, error) {
	var b []byte
	for len(words) > 0 {
		n := min(len(words), perBlock)
		b = b[:0]
		for _, v := range words[:n] {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		if _, err := w.out.Write(b); err != nil {
			return 0, err
		}
		sum = checksum(sum, b)
		words = words[n:]
	}
	return sum, nil
}

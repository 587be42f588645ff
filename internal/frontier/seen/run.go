package seen

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
)

// run is a file of sorted fingerprints. It never changes.
type run struct {
	header
	f      *os.File
	seed   uint32 // of the checksums of blocks
	firsts []uint64
	filter bloom
}

// openRun opens the file of a span and checks everything but its blocks. The error is
// ErrDamaged if the file is not what it should be, or not there.
func openRun(d folder, s span, check uint64) (*run, error) {
	f, err := os.Open(d.file(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	r, err := readRun(f)
	if err == nil && (r.check != check || r.span != s) {
		err = fmt.Errorf("%w: the run of another crawl or place", ErrDamaged)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	return r, nil
}

// readRun reads header, index and filter of a file.
func readRun(f *os.File) (*run, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, blockSize)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, unreadable(err)
	}
	h, err := decodeHeader(head, info.Size())
	if err != nil {
		return nil, err
	}
	r := &run{header: h, f: f, seed: checksum(0, head)}
	return r, r.readTail()
}

// readTail reads what follows the blocks.
func (r *run) readTail() error {
	r.firsts = make([]uint64, r.blocks())
	r.filter = make(bloom, bloomWords(r.count))
	in := io.NewSectionReader(r.f, blockSize*(1+r.blocks()), r.tailSize())
	sum, err := readWords(in, r.firsts, r.seed)
	if err != nil {
		return err
	}
	if sum, err = readWords(in, r.filter, sum); err != nil {
		return err
	}
	want := make([]byte, sumSize)
	if _, err := io.ReadFull(in, want); err != nil {
		return unreadable(err)
	}
	if binary.LittleEndian.Uint32(want) != sum {
		return fmt.Errorf("%w: index and filter", ErrDamaged)
	}
	return nil
}

// readWords fills to and continues the checksum. It goes through a small buffer, since a
// filter may be as large as memory allows.
func readWords(in io.Reader, to []uint64, sum uint32) (uint32, error) {
	buf := make([]byte, chunkSize)
	for len(to) > 0 {
		part := buf[:min(len(buf), 8*len(to))]
		if _, err := io.ReadFull(in, part); err != nil {
			return 0, unreadable(err)
		}
		sum = checksum(sum, part)
		decodeWords(to[:len(part)/8], part)
		to = to[len(part)/8:]
	}
	return sum, nil
}

// unreadable makes ErrDamaged of an error of reading: what cannot be read has to be made
// anew like what is wrong.
func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// decodeWords fills to with numbers from b, and returns it.
func decodeWords(to []uint64, b []byte) []uint64 {
	for i := range to {
		to[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return to
}

// has looks for a fingerprint. It reads at most one block, into buf.
func (r *run) has(fp uint64, buf *[blockSize]byte) (bool, error) {
	if !r.filter.has(fp) {
		return false, nil
	}
	i := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > fp }) - 1
	if i < 0 {
		return false, nil
	}
	if _, err := r.f.ReadAt(buf[:], blockSize*(1+int64(i))); err != nil {
		return false, fmt.Errorf("read %s: %w", r.f.Name(), unreadable(err))
	}
	if err := r.verify(int64(i), buf[:]); err != nil {
		return false, err
	}
	return blockHas(buf[:8*r.inBlock(int64(i))], fp), nil
}

// verify checks that b is the i-th block.
func (r *run) verify(i int64, b []byte) error {
	if binary.LittleEndian.Uint32(b[blockSize-sumSize:]) == checksum(r.seed^uint32(i), b[:blockSize-sumSize]) {
		return nil
	}
	return fmt.Errorf("%w: block %d of %s", ErrDamaged, i, r.f.Name())
}

// blockHas searches the sorted fingerprints of a block.
func blockHas(b []byte, fp uint64) bool {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	i, found := sort.Find(len(b)/8, func(i int) int { return cmp.Compare(fp, at(i)) })
	return found && at(i) == fp
}

// ram is the memory that a run holds, in bytes.
func (r *run) ram() int64 { return 8 * int64(len(r.firsts)+len(r.filter)) }

// cursor goes through the fingerprints of a run in order.
type cursor struct {
	r     *run
	block int64 // the next to be read
	buf   [blockSize]byte
	fps   []uint64 // left of the block
	words [perBlock]uint64
}

// value is the present fingerprint of a cursor that is not at its end.
func (c *cursor) value() uint64 { return c.fps[0] }

// next goes to the next fingerprint, the first at first, and reports whether there is one.
func (c *cursor) next() (bool, error) {
	if len(c.fps) > 1 {
		c.fps = c.fps[1:]
		return true, nil
	}
	if c.block == c.r.blocks() {
		return false, nil
	}
	if _, err := c.r.f.ReadAt(c.buf[:], blockSize*(1+c.block)); err != nil {
		return false, fmt.Errorf("read %s: %w", c.r.f.Name(), unreadable(err))
	}
	if err := c.r.verify(c.block, c.buf[:]); err != nil {
		return false, err
	}
	c.fps = decodeWords(c.words[:c.r.inBlock(c.block)], c.buf[:])
	c.block++
	return true, nil
}

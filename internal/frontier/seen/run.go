package seen

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"slices"
	"sort"
)

// A run, all numbers little-endian:
//
//	header   4096 bytes: magic, version, key check, after, last, count, zeros, checksum
//	blocks   4096 bytes each: 511 fingerprints ascending, zeros, checksum
//	index    8 bytes per block: its first fingerprint
//	filter   8 bytes per word
//	checksum 4 bytes, of index and filter
//
// The length of each part follows from the count. The checksums of blocks and of the end start from that of the
// header, and those of blocks from their number too, so that a block of another run or place is as wrong as one with
// a flipped bit.
const (
	magic   = "TLseen\r\n" // of which a transfer as text would spoil the end
	version = 1

	blockSize = 4096 // the page of nearly every file system and of the page cache
	sumSize   = 4
	perBlock  = (blockSize - sumSize) / 8
	chunkSize = 256 << 10 // of what is read or written at a time beside the blocks
)

type header struct {
	check uint64 // stands for the fingerprint key
	span
	count int64 // fingerprints
}

// keyCheck tells one fingerprint key from another without telling the key.
func keyCheck(key uint64) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("treadlight seen index "), key))
	return binary.LittleEndian.Uint64(sum[:])
}

func checksum(seed uint32, p []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), p)
}

func (h header) blocks() int64 { return (h.count + perBlock - 1) / perBlock }

func (h header) inBlock(i int64) int { return int(min(perBlock, h.count-i*perBlock)) }

func (h header) tailSize() int64 { return 8*(h.blocks()+bloomWords(h.count)) + sumSize }

func (h header) size() int64 { return blockSize*(1+h.blocks()) + h.tailSize() }

func (h header) encode() []byte {
	b := append(make([]byte, 0, blockSize), magic...)
	for _, v := range []uint64{version, h.check, uint64(h.after), uint64(h.last), uint64(h.count)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, make([]byte, blockSize-sumSize-len(b))...)
	return binary.LittleEndian.AppendUint32(b, checksum(0, b))
}

// decodeHeader reads the block of a header from a file of a given length. Whatever it accepts has a sensible count,
// so that nobody reserves memory for a lie.
func decodeHeader(b []byte, size int64) (header, error) {
	if !bytes.HasPrefix(b, []byte(magic)) || binary.LittleEndian.Uint32(b[blockSize-sumSize:]) != checksum(0, b[:blockSize-sumSize]) {
		return header{}, fmt.Errorf("%w: no run", ErrDamaged)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(magic)+8*i:]) }
	if v := field(0); v != version {
		return header{}, fmt.Errorf("%w: version %d, want %d", ErrDamaged, v, version)
	}
	h := header{field(1), span{int64(field(2)), int64(field(3))}, int64(field(4))}
	if h.after < 0 || h.last <= h.after || h.count < 1 || h.count > size/8 || h.size() != size {
		return header{}, fmt.Errorf("%w: %d bytes do not hold %d fingerprints", ErrDamaged, size, h.count)
	}
	return h, nil
}

type run struct {
	header
	f      *os.File
	seed   uint32 // of the checksums of blocks
	firsts []uint64
	filter bloom
}

func (r *run) ram() int64 { return 8 * int64(len(r.firsts)+len(r.filter)) }

// writeRun makes a run of the fingerprints that fill hands to add: ascending, and as many as the header says. When it
// returns the run is there for good, or there is nothing.
func writeRun(d folder, h header, fill func(add func(uint64) error) error) (*run, error) {
	path := d.file(h.span)
	tmp := path + tmpSuffix
	r := &run{header: h, firsts: make([]uint64, 0, h.blocks()), filter: make(bloom, bloomWords(h.count))}
	err := d.create(tmp, func(f io.Writer) error {
		out := bufio.NewWriterSize(f, chunkSize)
		return cmp.Or(r.write(out, fill), out.Flush())
	})
	if err == nil {
		err = d.rename(tmp, path)
	}
	if err == nil {
		r.f, err = os.Open(path)
	}
	if err == nil {
		if err = d.sync(); err == nil {
			return r, nil
		}
		_ = r.f.Close() // the error of before says more
	}
	_, _ = d.remove(tmp), d.remove(path) // likewise
	return nil, err
}

// write is the file from its first byte to its last.
func (r *run) write(out io.Writer, fill func(add func(uint64) error) error) error {
	head := r.encode()
	r.seed = checksum(0, head)
	if _, err := out.Write(head); err != nil {
		return err
	}
	var buf [blockSize]byte
	var done int64
	var last uint64
	err := fill(func(fp uint64) error {
		if fp < last || done == r.count {
			return fmt.Errorf("%w: fingerprint %d of %d is out of order", ErrDamaged, done+1, r.count)
		}
		i := done % perBlock
		if i == 0 {
			r.firsts = append(r.firsts, fp)
		}
		binary.LittleEndian.PutUint64(buf[8*i:], fp)
		r.filter.add(fp)
		last = fp
		if done++; i < perBlock-1 && done < r.count {
			return nil
		}
		body := buf[:blockSize-sumSize]
		binary.LittleEndian.PutUint32(buf[len(body):], r.blockSum(int64(len(r.firsts)-1), body))
		_, err := out.Write(buf[:])
		clear(body)
		return err
	})
	if err == nil && done != r.count {
		err = fmt.Errorf("%w: %d fingerprints where %d should be", ErrDamaged, done, r.count)
	}
	if err != nil {
		return err
	}
	sum := r.seed
	for _, words := range [][]uint64{r.firsts, r.filter} {
		if sum, err = writeWords(out, words, sum); err != nil {
			return err
		}
	}
	_, err = out.Write(binary.LittleEndian.AppendUint32(nil, sum))
	return err
}

func (r *run) blockSum(i int64, body []byte) uint32 { return checksum(r.seed^uint32(i), body) }

func writeWords(out io.Writer, words []uint64, sum uint32) (uint32, error) {
	var b []byte
	for part := range slices.Chunk(words, perBlock) {
		b, _ = binary.Append(b[:0], binary.LittleEndian, part) // which knows numbers
		if _, err := out.Write(b); err != nil {
			return 0, err
		}
		sum = checksum(sum, b)
	}
	return sum, nil
}

// openRun opens the file of a span and checks everything but its blocks. The error is ErrDamaged if the file is not
// what it should be, or not there.
func openRun(d folder, s span, check uint64) (*run, error) {
	f, err := os.Open(d.file(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable(err)
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
	r := &run{header: h, f: f, seed: checksum(0, head), firsts: make([]uint64, h.blocks()), filter: make(bloom, bloomWords(h.count))}
	in := io.NewSectionReader(f, blockSize*(1+h.blocks()), h.tailSize())
	sum := r.seed
	for _, words := range [][]uint64{r.firsts, r.filter} {
		if sum, err = readWords(in, words, sum); err != nil {
			return nil, err
		}
	}
	var want [sumSize]byte
	if _, err := io.ReadFull(in, want[:]); err != nil {
		return nil, unreadable(err)
	}
	if binary.LittleEndian.Uint32(want[:]) != sum {
		return nil, fmt.Errorf("%w: index and filter", ErrDamaged)
	}
	return r, nil
}

// readWords fills to and continues the checksum. It goes through a small buffer, since a filter may be as large as
// memory allows.
func readWords(in io.Reader, to []uint64, sum uint32) (uint32, error) {
	buf := make([]byte, chunkSize)
	for words := range slices.Chunk(to, chunkSize/8) {
		part := buf[:8*len(words)]
		if _, err := io.ReadFull(in, part); err != nil {
			return 0, unreadable(err)
		}
		sum = checksum(sum, part)
		decodeWords(words, part)
	}
	return sum, nil
}

// unreadable makes ErrDamaged of an error of reading: what cannot be read has to be made anew like what is wrong.
func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// decodeWords fills to with numbers from b, and returns it.
func decodeWords(to []uint64, b []byte) []uint64 {
	_, _ = binary.Decode(b, binary.LittleEndian, to) // b is long enough
	return to
}

func (r *run) read(i int64, buf *[blockSize]byte) ([]byte, error) {
	if _, err := r.f.ReadAt(buf[:], blockSize*(1+i)); err != nil {
		return nil, fmt.Errorf("read %s: %w", r.f.Name(), unreadable(err))
	}
	if binary.LittleEndian.Uint32(buf[blockSize-sumSize:]) != r.blockSum(i, buf[:blockSize-sumSize]) {
		return nil, fmt.Errorf("%w: block %d of %s", ErrDamaged, i, r.f.Name())
	}
	return buf[:8*r.inBlock(i)], nil
}

// has looks for a fingerprint that the filter lets pass. It reads one block at most, into buf.
func (r *run) has(fp uint64, buf *[blockSize]byte) (bool, error) {
	i := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > fp }) - 1
	if i < 0 {
		return false, nil
	}
	b, err := r.read(int64(i), buf)
	if err != nil {
		return false, err
	}
	_, found := sort.Find(len(b)/8, func(i int) int { return cmp.Compare(fp, binary.LittleEndian.Uint64(b[8*i:])) })
	return found, nil
}

type cursor struct {
	r     *run
	block int64    // the next to be read
	fps   []uint64 // left of the block; the first is the present one
	buf   [blockSize]byte
	words [perBlock]uint64
}

func (c *cursor) next() (bool, error) {
	if len(c.fps) > 1 {
		c.fps = c.fps[1:]
		return true, nil
	}
	if c.block == c.r.blocks() {
		return false, nil
	}
	b, err := c.r.read(c.block, &c.buf)
	if err != nil {
		return false, err
	}
	c.fps = decodeWords(c.words[:len(b)/8], b)
	c.block++
	return true, nil
}

const (
	// fanIn runs are merged at a time.
	fanIn = 4
	// maxRuns bounds the open files and what a question costs while merging is behind.
	maxRuns = 64
)

// pickMerge returns the first of fanIn neighbours of one tier to merge, the earliest, or -1. A tier spans a factor of
// four. Only neighbours are merged, so that a run covers one span.
func pickMerge(counts []int64) int {
	tier := func(n int64) int { return bits.Len64(uint64(n)) / 2 }
	for i := range len(counts) - fanIn + 1 {
		alike := 1
		for alike < fanIn && tier(counts[i+alike]) == tier(counts[i]) {
			alike++
		}
		if alike == fanIn {
			return i
		}
	}
	return -1
}

// mergeRuns writes one run that covers what neighbours cover. It calls between every few thousand fingerprints, and
// ends with its error.
func mergeRuns(d folder, inputs []*run, between func() error) (*run, error) {
	h := header{check: inputs[0].check, span: span{inputs[0].after, inputs[len(inputs)-1].last}}
	live := make([]*cursor, len(inputs))
	for i, r := range inputs {
		h.count += r.count
		live[i] = &cursor{r: r}
		if _, err := live[i].next(); err != nil { // no run is empty
			return nil, err
		}
	}
	const often = 1 << 13 // fingerprints, well below a millisecond
	return writeRun(d, h, func(add func(uint64) error) error {
		for n := 0; len(live) > 0; n++ {
			if n%often == 0 {
				if err := between(); err != nil {
					return err
				}
			}
			least := 0
			for i, c := range live {
				if c.fps[0] < live[least].fps[0] {
					least = i
				}
			}
			if err := add(live[least].fps[0]); err != nil {
				return err
			}
			more, err := live[least].next()
			if err != nil {
				return err
			}
			if !more {
				live = append(live[:least], live[least+1:]...)
			}
		}
		return nil
	})
}

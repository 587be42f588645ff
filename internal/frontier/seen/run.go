package seen

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// A run, all numbers little-endian:
//
//	header  4096 bytes: magic, version, key check, last, count, zeros, checksum
//	blocks  4096 bytes each: 511 fingerprints ascending, zeros, checksum
//
// The checksums of blocks start from that in the header and the number of the block, so that a block of another run or
// place is as wrong as one with a flipped bit.
const (
	magic   = "TLseen\r\n" // its end would be changed by a transfer as text
	version = 3

	blockSize = 4096 // the page of nearly every file system and of the page cache
	sumSize   = 4
	perBlock  = (blockSize - sumSize) / 8
	chunkSize = 256 << 10 // how much is written at a time

	runSuffix = ".run"
	tmpSuffix = ".tmp" // as package atomicfile uses it
)

type header struct {
	check uint64 // stands for the fingerprint key
	last  int64  // the run covers the rows up to this ID
	count int64  // number of fingerprints
}

// keyCheck returns a number that distinguishes one fingerprint key from another without revealing the key.
func keyCheck(key uint64) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("treadlight seen index "), key))
	return binary.LittleEndian.Uint64(sum[:])
}

func checksum(seed uint32, p []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), p)
}

func (h header) blocks() int64 { return (h.count + perBlock - 1) / perBlock }

func (h header) inBlock(i int64) int { return int(min(perBlock, h.count-i*perBlock)) }

func (h header) size() int64 { return blockSize * (1 + h.blocks()) }

func (h header) encode() []byte {
	b := append(make([]byte, 0, blockSize), magic...)
	for _, v := range []uint64{version, h.check, uint64(h.last), uint64(h.count)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, make([]byte, blockSize-sumSize-len(b))...)
	return binary.LittleEndian.AppendUint32(b, checksum(0, b))
}

// decodeHeader decodes the header of a file of the given length. It accepts only a count that fits the length, so that
// no memory is reserved for a false one.
func decodeHeader(b []byte, size int64) (header, error) {
	if !bytes.HasPrefix(b, []byte(magic)) || binary.LittleEndian.Uint32(b[blockSize-sumSize:]) != checksum(0, b[:blockSize-sumSize]) {
		return header{}, fmt.Errorf("%w: no run", ErrDamaged)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(magic)+8*i:]) }
	if v := field(0); v != version {
		return header{}, fmt.Errorf("%w: version %d, want %d", ErrDamaged, v, version)
	}
	h := header{field(1), int64(field(2)), int64(field(3))}
	if h.last < 1 || h.count < 1 || h.count > size/8 || h.size() != size {
		return header{}, fmt.Errorf("%w: %d bytes do not hold %d fingerprints", ErrDamaged, size, h.count)
	}
	return h, nil
}

// run is an immutable file of sorted fingerprints, with a filter and the first fingerprint of each block in memory.
type run struct {
	header
	path   string
	f      *os.File
	seed   uint32 // checksum in the header. That of a whole header, with its checksum, would be the same for all runs
	firsts []uint64
	filter bloom
}

func newRun(dir string, h header) *run {
	return &run{
		header: h, path: filepath.Join(dir, fmt.Sprintf("%016x%s", h.last, runSuffix)),
		seed:   binary.LittleEndian.Uint32(h.encode()[blockSize-sumSize:]),
		firsts: make([]uint64, 0, h.blocks()), filter: make(bloom, bloomWords(h.count)),
	}
}

func (r *run) ram() int64 { return 8 * int64(cap(r.firsts)+len(r.filter)) }

// note adds a fingerprint to what is in memory; fingerprints must come in the order of the file. first says that it
// begins a block.
func (r *run) note(fp uint64, first bool) {
	if first {
		r.firsts = append(r.firsts, fp)
	}
	r.filter.add(fp)
}

// runWriter writes the blocks of a run. Fingerprints must be added in ascending order.
type runWriter struct {
	*run
	out io.Writer
	buf [blockSize]byte
	n   int // number of fingerprints in buf
}

func (w *runWriter) add(fp uint64) error {
	binary.LittleEndian.PutUint64(w.buf[8*w.n:], fp)
	w.note(fp, w.n == 0)
	if w.n++; w.n < perBlock {
		return nil
	}
	return w.flush()
}

func (w *runWriter) flush() error {
	if w.n == 0 {
		return nil
	}
	body := w.buf[:blockSize-sumSize]
	binary.LittleEndian.PutUint32(w.buf[len(body):], w.blockSum(int64(len(w.firsts)-1), body))
	_, err := w.out.Write(w.buf[:])
	clear(body)
	w.n = 0
	return err
}

// writeRun makes a run of an old one, which may be nil, and of sorted fingerprints that are not in it. When it returns,
// the run is durable on disk, or there is none. It ends early with the error of ctx.
func writeRun(ctx context.Context, dir string, h header, old *run, fps []uint64) (*run, error) {
	r := newRun(dir, h)
	err := atomicfile.Replace(r.path, 0o600, func(f io.Writer) error {
		out := bufio.NewWriterSize(f, chunkSize)
		if _, err := out.Write(h.encode()); err != nil {
			return err
		}
		return cmp.Or(r.merge(ctx, out, old, fps), out.Flush())
	})
	if err == nil {
		r.f, err = os.Open(r.path)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *run) merge(ctx context.Context, out io.Writer, old *run, fps []uint64) error {
	w := &runWriter{run: r, out: out}
	if old != nil {
		var buf [blockSize]byte
		for i := range old.blocks() {
			b, err := old.read(i, &buf)
			if err = cmp.Or(ctx.Err(), err); err != nil {
				return err
			}
			for ; len(b) > 0; b = b[8:] {
				fp := binary.LittleEndian.Uint64(b)
				for ; len(fps) > 0 && fps[0] < fp; fps = fps[1:] {
					if err := w.add(fps[0]); err != nil {
						return err
					}
				}
				if err := w.add(fp); err != nil {
					return err
				}
			}
		}
	}
	for _, fp := range fps {
		if err := w.add(fp); err != nil {
			return err
		}
	}
	return w.flush()
}

func (r *run) blockSum(i int64, body []byte) uint32 { return checksum(r.seed^uint32(i), body) }

// openRun opens a run and reads all of it. The error is ErrDamaged if the file is not an undamaged run of that key and
// place.
func openRun(path string, check uint64) (*run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := readRun(f, check)
	if err != nil {
		_ = f.Close() // the file was only read
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return r, nil
}

func readRun(f *os.File, check uint64) (*run, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var buf [blockSize]byte
	if _, err := f.ReadAt(buf[:], 0); err != nil {
		return nil, unreadable(err)
	}
	h, err := decodeHeader(buf[:], info.Size())
	if err != nil {
		return nil, err
	}
	r := newRun(filepath.Dir(f.Name()), h)
	if h.check != check || r.path != f.Name() {
		return nil, fmt.Errorf("%w: the run of another crawl or place", ErrDamaged)
	}
	r.f = f
	var before uint64
	for i := range h.blocks() {
		b, err := r.read(i, &buf)
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(b); at += 8 {
			fp := binary.LittleEndian.Uint64(b[at:])
			if fp < before {
				return nil, fmt.Errorf("%w: the fingerprints are not in order in block %d", ErrDamaged, i)
			}
			before = fp
			r.note(fp, at == 0)
		}
	}
	return r, nil
}

// unreadable marks an error of reading as ErrDamaged: a run that cannot be read has to be made anew, like a wrong one.
func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

func (r *run) read(i int64, buf *[blockSize]byte) ([]byte, error) {
	if _, err := r.f.ReadAt(buf[:], blockSize*(1+i)); err != nil {
		return nil, fmt.Errorf("read %s: %w", r.path, unreadable(err))
	}
	if binary.LittleEndian.Uint32(buf[blockSize-sumSize:]) != r.blockSum(i, buf[:blockSize-sumSize]) {
		return nil, fmt.Errorf("%w: block %d of %s", ErrDamaged, i, r.path)
	}
	return buf[:8*r.inBlock(i)], nil
}

// has looks up a fingerprint that the filter lets pass. It reads one block at most, into buf.
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

// remove closes a run that nobody reads any more, and deletes its file. If that fails, the next load deletes it.
func (r *run) remove() { _, _ = r.f.Close(), os.Remove(r.path) }

// load opens the run with the most rows among those without rows beyond last. It removes all other files that are ours
// by their names: those left by a killed process, damaged ones and those of another version. It returns nil if no run
// is left.
func load(dir string, check uint64, last int64) (found *run, err error) {
	entries, err := os.ReadDir(dir)
	slices.Reverse(entries) // the order of names is that of the last rows
	removed := false
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		whole := strings.HasSuffix(name, runSuffix)
		part := strings.Contains(name, runSuffix) && strings.HasSuffix(name, tmpSuffix)
		if !whole && !part {
			continue
		}
		if whole && found == nil {
			r, err := openRun(path, check)
			if err == nil && r.last <= last {
				found = r
				continue
			}
			if err == nil {
				_ = r.f.Close() // the run has rows that the database lacks, as after a power cut
			} else if !errors.Is(err, ErrDamaged) {
				return nil, err
			}
		}
		removed = true
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			if found != nil {
				_ = found.f.Close()
			}
			return nil, err
		}
	}
	if removed { // otherwise a removed run could reappear, and count rows as seen whose IDs were assigned again
		atomicfile.SyncDir(dir)
	}
	return found, err
}

package seen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

var (
	// ErrDamaged is what Has returns, from then on, when a run is not what was written. Close removes the index then.
	ErrDamaged = errors.New("the index of fingerprints is damaged: resume the crawl, and it is made anew")
	// ErrClosed is what an index returns after Close.
	ErrClosed = errors.New("seen: the index is closed")
)

const (
	defaultMemtable = 1 << 19 // 8 MB
	// A memtable holds a memtableShare of what the run has, so that a fingerprint is written some nine times on the way to
	// 30 million, and memtableMost times Config.MemtableFPs at most.
	memtableShare, memtableMost = 8, 8
	// minRecent is 256 KB: the links that a site repeats on every page, of some hundred sites at a time. maxRecent is
	// 8 MB.
	minRecent, maxRecent = 1 << 15, 1 << 20
)

// Config says whose index it is, and how much memory it may take.
type Config struct {
	Key         uint64 // of the fingerprints; an index made with another is dropped; zero is a key
	MemtableFPs int    // fingerprints in memory, at least, before they are written; zero means 524288
}

// memtable is a set of the rows up to an ID. One that is sealed does not change any more.
type memtable struct {
	Set
	last int64
}

// view is what there is beside the active memtable. It is replaced, never changed.
type view struct {
	run    *run      // nil for none
	sealed *memtable // with the rows behind it; nil for none
}

// Index is a set of fingerprints on disk. It is made by [Open].
type Index struct {
	cfg    Config
	dir    string
	life   context.Context // ends with Close
	stop   context.CancelFunc
	worker sync.WaitGroup // one that writes, or none

	// The owner's goroutine alone uses these.
	active *memtable
	recent []uint64 // found in the run not long ago, by its lower bits; a power of two
	block  [blockSize]byte

	fail   atomic.Pointer[error] // why no answer is right any more; nil: they are
	memory atomic.Int64          // bytes of the active memtable
	now    atomic.Pointer[view]  // changed with mu held; the present run is open for who holds it for reading

	mu        sync.RWMutex // guards what follows
	committed int64
	writing   bool // the worker has the sealed memtable
}

// Open opens the index of a database whose largest committed ID is last in a directory, making both if need be. A run
// that is damaged or of another key is dropped without an error, as is one of a database that had more rows, and Mark
// says what is left. It reads all of the run: a tenth of a second for ten million. An error names the path at fault.
func Open(dir string, last int64, cfg Config) (*Index, error) {
	cfg.MemtableFPs = cmp.Or(cfg.MemtableFPs, defaultMemtable)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("%w: move it away, and the index is made anew", err)
		}
		return nil, fmt.Errorf("seen: %w", err)
	}
	r, err := load(dir, keyCheck(cfg.Key), last)
	if err != nil {
		return nil, fmt.Errorf("seen: %w", err)
	}
	x := &Index{cfg: cfg, dir: dir}
	x.now.Store(&view{run: r})
	x.committed = x.Mark() // nothing uncommitted was ever written
	x.active = &memtable{last: x.committed}
	x.recent = make([]uint64, recentFor(x.count()))
	x.life, x.stop = context.WithCancel(context.Background())
	return x, nil
}

// recentFor is how many slots are worth their memory among n fingerprints: one for each, as long as that is not much.
// A slot saves a read of 4 KiB each time that its fingerprint comes again.
func recentFor(n int64) int {
	slots := minRecent
	for int64(slots) < n && slots < maxRecent {
		slots *= 2
	}
	return slots
}

// Has reports whether fp was added. It may read a block of 4 KiB. The error is ErrDamaged, that of writing the run, or
// ErrClosed, and stays.
func (x *Index) Has(fp uint64) (found bool, err error) {
	if fail := x.fail.Load(); fail != nil {
		return false, *fail
	}
	slot := &x.recent[fp&uint64(len(x.recent)-1)]
	if fp != 0 && *slot == fp || x.active.Has(fp) { // nothing ever leaves the set
		return true, nil
	}
	found, err = x.lookup(fp)
	if err != nil {
		x.end(err)
	} else if found {
		*slot = fp
	}
	return found, err
}

func (x *Index) lookup(fp uint64) (found bool, err error) {
	v := x.now.Load()
	if v.sealed != nil && v.sealed.Has(fp) {
		return true, nil
	}
	if v.run == nil || !v.run.filter.has(fp) {
		return false, nil
	}
	x.mu.RLock()
	if x.now.Load() != v { // its file may be closed by now
		x.mu.RUnlock()
		return x.lookup(fp)
	}
	defer x.mu.RUnlock()
	return v.run.has(fp, &x.block)
}

// Add adds a fingerprint that Has did not find, under the ID of its row. An ID not above Mark and all before is an
// error. Its other errors are those of Has.
func (x *Index) Add(fp uint64, id int64) error {
	if fail := x.fail.Load(); fail != nil {
		return *fail
	}
	if id <= x.active.last {
		return fmt.Errorf("seen: ID %d after ID %d: add them in ascending order, above Mark", id, x.active.last)
	}
	if x.active.Len() >= x.cfg.MemtableFPs {
		x.seal()
	}
	x.active.Set.Add(fp)
	x.active.last = id
	if b := x.active.bytes(); b != x.memory.Load() { // which is cheaper than to store it
		x.memory.Store(b)
	}
	return nil
}

// seal has the active memtable written and begins another, unless it is to grow yet: for the size of the run, or while
// the one before it has not been written.
func (x *Index) seal() {
	v := x.now.Load()
	if v.sealed != nil || v.run != nil && int64(x.active.Len()) < min(v.run.count/memtableShare, int64(memtableMost*x.cfg.MemtableFPs)) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now.Store(&view{v.run, x.active})
	x.active = &memtable{Set: Set{slots: make([]uint64, len(x.active.slots))}, last: x.active.last}
	x.writeLocked()
	if n := recentFor(x.count()); n > len(x.recent) {
		x.recent = make([]uint64, n) // what it knew is found again
	}
}

// Committed tells that the rows up to an ID are committed in the database, so that they may count as seen after a
// crash as well. A lower ID than before changes nothing. It does not wait for anything.
func (x *Index) Committed(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.committed = max(x.committed, id)
	x.writeLocked()
}

// writeLocked has the sealed memtable written, if there is one of committed rows.
func (x *Index) writeLocked() {
	v := x.now.Load()
	if x.fail.Load() == nil && !x.writing && v.sealed != nil && v.sealed.last <= x.committed {
		x.writing = true
		x.worker.Go(func() { x.write(v) })
	}
}

// write puts a run with the sealed memtable in the place of the present one.
func (x *Index) write(v *view) {
	fps := v.sealed.sorted()
	h := header{keyCheck(x.cfg.Key), v.sealed.last, int64(len(fps))}
	if v.run != nil {
		h.count += v.run.count
	}
	r, err := writeRun(x.life, x.dir, h, v.run, fps)
	if err != nil {
		if x.life.Err() == nil { // or that was us
			x.end(fmt.Errorf("seen: write a run: %w", err))
		}
		return
	}
	x.mu.Lock()
	x.now.Store(&view{run: r})
	x.writing = false
	x.mu.Unlock()
	if v.run != nil {
		v.run.remove()
	}
}

// Mark is the ID up to which all fingerprints are in the run on disk: those above it have to be added again after Open.
// It is zero if there is none, and never above what is committed.
func (x *Index) Mark() int64 {
	if r := x.now.Load().run; r != nil {
		return r.last
	}
	return 0
}

func (x *Index) count() int64 {
	n := int64(x.active.Len())
	v := x.now.Load()
	if v.sealed != nil {
		n += int64(v.sealed.Len())
	}
	if v.run != nil {
		n += v.run.count
	}
	return n
}

// Bytes is what the index holds in memory, beside at most 8 MB for what was found lately and what a write takes for its
// time, and on disk, beside what is being written.
func (x *Index) Bytes() (ram, disk int64) {
	ram = x.memory.Load()
	v := x.now.Load()
	if v.sealed != nil {
		ram += v.sealed.bytes()
	}
	if v.run != nil {
		ram, disk = ram+v.run.ram(), v.run.size()
	}
	return ram, disk
}

// Close has the worker give up, and closes the file. What is in memory only is not written: it is above Mark. A damaged
// index is removed, and made anew after the next Open. A second Close does nothing.
func (x *Index) Close() (err error) {
	closed := ErrClosed
	x.mu.Lock() // so that no further worker starts
	fail := x.fail.Swap(&closed)
	x.mu.Unlock()
	if fail != nil && errors.Is(*fail, ErrClosed) {
		return nil
	}
	x.stop()
	x.worker.Wait()
	if r := x.now.Swap(&view{}).run; r != nil {
		_ = r.f.Close() // it is synced, or was only read
	}
	if fail != nil && errors.Is(*fail, ErrDamaged) {
		_, err = load(x.dir, 0, 0)
	}
	return err
}

func (x *Index) end(err error) { x.fail.CompareAndSwap(nil, &err) }

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
	// ErrDamaged is the error of Has when a run is not what was written, then and ever after. Close removes the run in
	// that case.
	ErrDamaged = errors.New("the index of fingerprints is damaged: resume the crawl, and it is made anew")
	// ErrClosed is the error of Has and Add after Close.
	ErrClosed = errors.New("seen: the index is closed")
)

const (
	defaultMemtable = 1 << 19 // 8 MB
	// A memtable holds 1/memtableShare as many fingerprints as the run, so that a fingerprint is written some nine
	// times while the set grows to 30 million, but at most memtableMost times Config.MemtableFPs.
	memtableShare, memtableMost = 8, 8
	// minRecent slots take 256 KB: enough for the links that a site repeats on every page, of some hundred sites at a
	// time. maxRecent slots take 8 MB.
	minRecent, maxRecent = 1 << 15, 1 << 20
)

// Config says which fingerprints an index holds and how much memory it may take.
type Config struct {
	Key         uint64 // key of the fingerprints; an index made with another key is dropped. Zero is a valid key
	MemtableFPs int    // least number of fingerprints in memory before they are written; zero means 524288
}

// memtable is the set of the fingerprints of rows up to an ID. A sealed memtable does not change any more.
type memtable struct {
	Set
	last int64
}

// view is everything beside the active memtable. A view is never changed, only replaced.
type view struct {
	run    *run      // nil means none
	sealed *memtable // the rows behind those of the run; nil means none
}

// Index is a set of fingerprints on disk. Make it with [Open].
type Index struct {
	cfg    Config
	dir    string
	life   context.Context // ends at Close
	stop   context.CancelFunc
	worker sync.WaitGroup // the goroutine that writes a run, if any

	// Only the owner's goroutine uses these.
	active *memtable
	recent []uint64 // fingerprints found in the run lately, each at the index of its low bits; a power of two
	block  [blockSize]byte

	fail   atomic.Pointer[error] // why the index does not work any more; nil means that it works
	memory atomic.Int64          // size of the active memtable in bytes
	now    atomic.Pointer[view]  // changed with mu held; who holds mu for reading may read the present run's file

	mu        sync.RWMutex // guards what follows
	committed int64
	writing   bool // the worker is writing the sealed memtable
}

// Open opens the index in a directory, and makes both if they do not exist. last is the largest committed ID of the
// database. Open drops without an error a run that is damaged, of another key, or of a database that had more rows;
// Mark says what is left. It reads the whole run, which takes a tenth of a second for ten million fingerprints. An
// error names the path at fault.
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
	x.committed = x.Mark() // no uncommitted row was ever written
	x.active = &memtable{last: x.committed}
	x.recent = make([]uint64, recentFor(x.count()))
	x.life, x.stop = context.WithCancel(context.Background())
	return x, nil
}

// recentFor returns how many slots of recent are worth their memory among n fingerprints: one for each, within bounds.
// A slot saves a read of 4 KiB each time that its fingerprint comes again.
func recentFor(n int64) int {
	slots := minRecent
	for int64(slots) < n && slots < maxRecent {
		slots *= 2
	}
	return slots
}

// Has reports whether fp was added. It may read a block of 4 KiB. The error is ErrDamaged, the error of writing the
// run, or ErrClosed, and every later call returns it again.
func (x *Index) Has(fp uint64) (found bool, err error) {
	if fail := x.fail.Load(); fail != nil {
		return false, *fail
	}
	slot := &x.recent[fp&uint64(len(x.recent)-1)]
	if fp != 0 && *slot == fp || x.active.Has(fp) { // no fingerprint ever leaves the set
		return true, nil
	}
	found, err = x.lookup(x.now.Load(), fp)
	if err != nil {
		x.end(err)
	} else if found {
		*slot = fp
	}
	return found, err
}

// lookup looks up fp in a view that was the present one a moment ago.
func (x *Index) lookup(v *view, fp uint64) (found bool, err error) {
	if v.sealed != nil && v.sealed.Has(fp) {
		return true, nil
	}
	if v.run == nil || !v.run.filter.has(fp) {
		return false, nil
	}
	x.mu.RLock()
	if x.now.Load() != v { // the file of its run may be closed by now
		x.mu.RUnlock()
		return x.lookup(x.now.Load(), fp)
	}
	defer x.mu.RUnlock()
	return v.run.has(fp, &x.block)
}

// Add adds a fingerprint that Has did not find, under the ID of its row. IDs must ascend and be above Mark; otherwise
// Add returns an error. Its other errors are those of Has.
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
	if b := x.active.bytes(); b != x.memory.Load() { // comparing is cheaper than storing
		x.memory.Store(b)
	}
	return nil
}

// seal lets the worker write the active memtable and begins another. It does nothing if the memtable is still small for
// the size of the run, or while the previous one is not written.
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
		x.recent = make([]uint64, n) // its entries come back as they are found again
	}
}

// Committed says that the rows up to an ID are committed in the database, so that they may count as seen even after a
// crash. A lower ID than before changes nothing. It does not block.
func (x *Index) Committed(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.committed = max(x.committed, id)
	x.writeLocked()
}

// writeLocked starts writing the sealed memtable, if there is one and all its rows are committed. mu must be held.
func (x *Index) writeLocked() {
	v := x.now.Load()
	if x.fail.Load() == nil && !x.writing && v.sealed != nil && v.sealed.last <= x.committed {
		x.writing = true
		x.worker.Go(func() { x.write(v) })
	}
}

// write merges the sealed memtable and the present run into a new run, which replaces them.
func (x *Index) write(v *view) {
	fps := v.sealed.sorted()
	h := header{keyCheck(x.cfg.Key), v.sealed.last, int64(len(fps))}
	if v.run != nil {
		h.count += v.run.count
	}
	r, err := writeRun(x.life, x.dir, h, v.run, fps)
	if err != nil {
		if x.life.Err() == nil { // otherwise Close has ended the write
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

// Mark returns the ID up to which all fingerprints are in the run on disk; those above it have to be added again after
// Open. It is zero if there is no run, and never above the largest committed ID.
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

// Bytes returns what the index takes in memory and on disk. It leaves out at most 8 MB of memory for fingerprints found
// lately, and what a write takes, in memory and on disk, while it lasts.
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

// Close stops the worker and closes the file. What is in memory alone is not written: it is above Mark. A damaged run
// is removed, and made anew after the next Open. A second Close does nothing.
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
		_ = r.f.Close() // the file is synced, or was only read
	}
	if fail != nil && errors.Is(*fail, ErrDamaged) {
		_, err = load(x.dir, 0, 0)
	}
	return err
}

func (x *Index) end(err error) { x.fail.CompareAndSwap(nil, &err) }

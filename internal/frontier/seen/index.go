package seen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	defaultMemtable = 1 << 19 // 8 MB, and a file of 5 MB, large enough that its fsyncs do not show
	defaultWaiting  = 4       // two million URLs
	// minRecent is 256 KB: the links that a site repeats on every page, of some hundred sites at a time. maxRecent is
	// 8 MB.
	minRecent, maxRecent = 1 << 15, 1 << 20
)

// Config says whose index it is, and how much memory it may take.
type Config struct {
	Key         uint64 // of the fingerprints; an index made with another is dropped; zero is a key
	MemtableFPs int    // fingerprints in memory before a run is written; zero means 524288
	Waiting     int    // full memtables of committed rows that may wait for the disk; zero means 4
}

// memtable is a set that covers rows. One that is sealed does not change any more.
type memtable struct {
	Set
	span
}

// view is what there is beside the active memtable. It is replaced, never changed.
type view struct {
	sealed []*memtable // in the order of their rows
	runs   []*run      // likewise, and before those
}

// Index is a set of fingerprints on disk. It is made by [Open].
type Index struct {
	cfg    Config
	d      folder
	wake   chan struct{} // holds one, for the worker
	stop   context.CancelFunc
	worker sync.WaitGroup

	// The owner's goroutine alone uses these.
	active *memtable
	recent []uint64 // found in a run not long ago, by its lower bits; a power of two
	block  [blockSize]byte

	fail   atomic.Pointer[error] // why no answer is right any more; nil: they are
	memory atomic.Int64          // bytes of the active memtable
	now    atomic.Pointer[view]  // changed with mu held; a run of the present one is open for who holds it for reading

	mu        sync.RWMutex // guards what follows
	changed   sync.Cond    // after each of the worker's steps
	committed int64
}

// Open opens the index of a database whose largest committed ID is last in a directory, making both if need be. Runs
// that are damaged, missing or of another key are dropped without an error, as are those of a database that had more
// rows, and Mark says what is left. An error names the path at fault.
func Open(dir string, last int64, cfg Config) (*Index, error) {
	return open(folder{path: dir}, last, cfg)
}

func open(d folder, last int64, cfg Config) (*Index, error) {
	cfg.MemtableFPs, cfg.Waiting = cmp.Or(cfg.MemtableFPs, defaultMemtable), cmp.Or(cfg.Waiting, defaultWaiting)
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("%w: move it away, and the index is made anew", err)
		}
		return nil, fmt.Errorf("seen: %w", err)
	}
	runs, err := d.load(keyCheck(cfg.Key), last)
	if err != nil {
		return nil, fmt.Errorf("seen: %w", err)
	}
	x := &Index{cfg: cfg, d: d, wake: make(chan struct{}, 1)}
	x.changed.L = &x.mu
	x.now.Store(&view{runs: runs})
	x.committed = x.Mark() // nothing uncommitted was ever written
	x.active = &memtable{span: span{x.committed, x.committed}}
	x.recent = make([]uint64, recentFor(x.count()))
	ctx, cancel := context.WithCancel(context.Background())
	x.stop = cancel
	x.worker.Go(func() { x.work(ctx) })
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

// Has reports whether fp was added. It may read a block of 4 KiB for each run that has it or seems to. The error is
// ErrDamaged, that of writing a run, or ErrClosed, and stays.
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
	for _, m := range v.sealed {
		if m.Has(fp) {
			return true, nil
		}
	}
	for _, r := range v.runs {
		if !r.filter.has(fp) {
			continue
		}
		x.mu.RLock()
		if x.now.Load() != v { // its file may be closed by now
			x.mu.RUnlock()
			return x.lookup(fp)
		}
		found, err = r.has(fp, &x.block)
		x.mu.RUnlock()
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// Add adds a fingerprint that Has did not find, under the ID of its row. An ID not above Mark and all before is an
// error.
//
// Add blocks while Config.Waiting memtables of committed rows wait to be written. Its error is one of Has.
func (x *Index) Add(fp uint64, id int64) error {
	if fail := x.fail.Load(); fail != nil {
		return *fail
	}
	if id <= x.active.last {
		return fmt.Errorf("seen: ID %d after ID %d: add them in ascending order, above Mark", id, x.active.last)
	}
	if x.active.Len() >= x.cfg.MemtableFPs {
		if err := x.seal(); err != nil {
			return err
		}
	}
	x.active.Set.Add(fp)
	x.active.last = id
	if b := x.active.bytes(); b != x.memory.Load() { // which is cheaper than to store it
		x.memory.Store(b)
	}
	return nil
}

// seal hands the active memtable to the worker, as soon as fewer wait than may, and begins another.
func (x *Index) seal() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.fail.Load() == nil && x.behind() >= x.cfg.Waiting {
		x.changed.Wait()
	}
	if fail := x.fail.Load(); fail != nil {
		return *fail
	}
	v := x.now.Load()
	x.now.Store(&view{append(slices.Clip(v.sealed), x.active), v.runs})
	x.rouse()
	x.active = &memtable{Set: Set{slots: make([]uint64, len(x.active.slots))}, span: span{x.active.last, x.active.last}}
	if n := recentFor(x.count()); n > len(x.recent) {
		x.recent = make([]uint64, n) // what it knew is found again
	}
	return nil
}

// behind is how many memtables could be written.
func (x *Index) behind() (n int) {
	for _, m := range x.now.Load().sealed {
		if m.last <= x.committed {
			n++
		}
	}
	return n
}

// Committed tells that the rows up to an ID are committed in the database, so that they may count as seen after a
// crash as well. A lower ID than before changes nothing. It does not wait for anything.
func (x *Index) Committed(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.committed = max(x.committed, id)
	if len(x.now.Load().sealed) > 0 {
		x.rouse()
	}
}

// Mark is the ID up to which all fingerprints are in runs on disk: those above it have to be added again after Open.
// It is zero if there are none, and never above what is committed.
func (x *Index) Mark() int64 {
	runs := x.now.Load().runs
	if len(runs) == 0 {
		return 0
	}
	return runs[len(runs)-1].last
}

func (x *Index) count() int64 {
	n := int64(x.active.Len())
	v := x.now.Load()
	for _, m := range v.sealed {
		n += int64(m.Len())
	}
	for _, r := range v.runs {
		n += r.count
	}
	return n
}

// Bytes is what the index holds in memory, beside at most 8 MB for what was found lately and what a write or a merge
// takes for its time, and on disk, beside what a merge writes.
func (x *Index) Bytes() (ram, disk int64) {
	ram = x.memory.Load()
	v := x.now.Load()
	for _, m := range v.sealed {
		ram += m.bytes()
	}
	for _, r := range v.runs {
		ram += r.ram()
		disk += r.size()
	}
	return ram, disk
}

// Close waits for the worker, which gives up a merge, and closes the files. What is in memory only is not written: it
// is above Mark. A damaged index is removed, and made anew after the next Open. A second Close does nothing.
func (x *Index) Close() (err error) {
	closed := ErrClosed
	fail := x.fail.Swap(&closed)
	if fail != nil && errors.Is(*fail, ErrClosed) {
		return nil
	}
	x.stop()
	x.worker.Wait()
	closeRuns(x.now.Swap(&view{}).runs)
	if fail != nil && errors.Is(*fail, ErrDamaged) {
		err = x.d.clear()
	}
	return err
}

func (x *Index) rouse() {
	select {
	case x.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// work writes and merges until ctx ends, or it fails.
func (x *Index) work(ctx context.Context) {
	for ctx.Err() == nil {
		if m := x.flushable(); m != nil {
			x.flush(m)
		} else if inputs := x.mergeable(); inputs != nil {
			x.merge(ctx, inputs)
		} else {
			select {
			case <-ctx.Done():
			case <-x.wake:
			}
		}
	}
}

// flushable is the memtable to be written next, if there is one and it may be.
func (x *Index) flushable() *memtable {
	x.mu.RLock()
	defer x.mu.RUnlock()
	v := x.now.Load()
	if x.fail.Load() != nil || len(v.sealed) == 0 || len(v.runs) >= maxRuns || v.sealed[0].last > x.committed {
		return nil
	}
	return v.sealed[0]
}

// flush makes a run of the oldest sealed memtable.
func (x *Index) flush(m *memtable) {
	r, err := writeRun(x.d, header{keyCheck(x.cfg.Key), m.span, int64(m.Len())}, func(add func(uint64) error) error {
		for _, fp := range m.sorted() {
			if err := add(fp); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		x.end(fmt.Errorf("seen: write a run: %w", err))
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.now.Load()
	x.now.Store(&view{slices.Clone(v.sealed[1:]), append(slices.Clip(v.runs), r)})
	x.changed.Broadcast()
}

func (x *Index) mergeable() []*run {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.fail.Load() != nil {
		return nil
	}
	var counts []int64
	runs := x.now.Load().runs
	for _, r := range runs {
		counts = append(counts, r.count)
	}
	if i := pickMerge(counts); i >= 0 {
		return runs[i : i+fanIn]
	}
	return nil
}

// merge puts one run in the place of neighbours. Memtables do not wait for it: they are written in between, and only
// ever come behind.
func (x *Index) merge(ctx context.Context, inputs []*run) {
	r, err := mergeRuns(x.d, inputs, func() error {
		for m := x.flushable(); m != nil; m = x.flushable() {
			x.flush(m)
		}
		return ctx.Err()
	})
	if err != nil {
		if ctx.Err() == nil { // or that was us
			x.end(fmt.Errorf("seen: merge runs: %w", err))
		}
		return
	}
	x.mu.Lock()
	v := x.now.Load()
	i := slices.Index(v.runs, inputs[0])
	x.now.Store(&view{v.sealed, slices.Replace(slices.Clone(v.runs), i, i+len(inputs), r)})
	x.mu.Unlock()
	closeRuns(inputs) // nobody reads them any more
	for _, r := range inputs {
		_ = x.d.remove(x.d.file(r.span)) // or the next Open removes it
	}
}

func (x *Index) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fail.CompareAndSwap(nil, &err)
	x.changed.Broadcast()
}

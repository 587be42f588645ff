package seen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// ErrDamaged is what Has returns when a run is not what was written. What the index says is
// not to be believed until Reset.
var ErrDamaged = errors.New("seen: the index is damaged: it has to be built anew")

// ErrFull is what Add returns when it has no more memory for what cannot be written.
var ErrFull = errors.New("seen: too many fingerprints wait to be written")

// ErrClosed is what an index returns after Close.
var ErrClosed = errors.New("seen: the index is closed")

const (
	defaultMemtable = 1 << 19 // 8 MB, and a file of 5 MB, large enough that its fsyncs do not show
	defaultWaiting  = 4       // two million URLs, far more than any database is behind
	// maxMemtable keeps slots and sorted copy below 3 GB.
	maxMemtable = 1 << 27
	// minRecent is 256 KB: the links that a site repeats on every page, of some hundred
	// sites at a time.
	minRecent = 1 << 15
	// maxRecent is 8 MB. A slot saves a read and a checksum of 4 KiB each time that its
	// fingerprint comes again, which no other 8 bytes here do.
	maxRecent = 1 << 20
)

// Config says whose index it is, and how much memory it may take.
type Config struct {
	Key         uint64 // of the fingerprints; an index made with another is dropped; zero is a key
	MemtableFPs int    // fingerprints in memory before a run is written, up to 2²⁷; zero means 524288
	Waiting     int    // full memtables that may wait for their commit or for the disk; zero means 4
}

func (c *Config) check() error {
	if c.MemtableFPs == 0 {
		c.MemtableFPs = defaultMemtable
	}
	if c.Waiting == 0 {
		c.Waiting = defaultWaiting
	}
	if c.MemtableFPs < 0 || c.MemtableFPs > maxMemtable {
		return fmt.Errorf("seen: MemtableFPs = %d: want 1 to %d", c.MemtableFPs, maxMemtable)
	}
	if c.Waiting < 0 {
		return fmt.Errorf("seen: Waiting = %d: want 1 or more", c.Waiting)
	}
	return nil
}

// view is what there is beside the active memtable. Its slices are replaced, never changed.
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
	seen   view     // as of the last refresh
	failed error    // likewise
	recent []uint64 // found in a run not long ago, by its lower bits; a power of two
	block  [blockSize]byte

	news   atomic.Bool  // the owner's copies are out of date
	count  atomic.Int64 // fingerprints
	memory atomic.Int64 // bytes of the active memtable

	mu        sync.Mutex // guards what follows
	changed   sync.Cond  // after each of the worker's steps
	now       view
	replaced  []*run // by a merge; the owner may be reading them
	released  []*run // the owner is not
	committed int64
	fail      error   // no answer is right any more
	flushing  attempt // to write runs
	merging   attempt // to make fewer of them
}

// attempt is how a kind of work goes.
type attempt struct {
	err    error // of the last time; nil if it went well
	paused bool  // not to be tried before there is a reason to
}

// Open opens the index in a directory, and makes both if there are none. Runs that are
// damaged, missing or of another fingerprint key are no error: they are dropped, and Mark says
// what is left. An error names the path that cannot be read, made or removed, or the field of
// the Config that is out of range.
func Open(dir string, cfg Config) (*Index, error) { return open(folder{path: dir}, cfg) }

func open(d folder, cfg Config) (*Index, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("%w: move it away, and the index is made anew", err)
		}
		return nil, fmt.Errorf("seen: %w", err)
	}
	x := &Index{cfg: cfg, d: d, wake: make(chan struct{}, 1)}
	x.changed.L = &x.mu
	runs, err := d.load(keyCheck(cfg.Key))
	if err != nil {
		return nil, fmt.Errorf("seen: %w", err)
	}
	x.begin(runs)
	return x, nil
}

// load opens the runs of a directory, all or, when one of them is damaged, none. Since the
// first is most of the index, half of one would spare the owner little, and would trust a
// disk that has just been found wanting.
func (d folder) load(check uint64) ([]*run, error) {
	chain, err := d.chain()
	if err != nil {
		return nil, err
	}
	var runs []*run
	for _, s := range chain {
		r, err := openRun(d, s, check)
		if err == nil {
			runs = append(runs, r)
			continue
		}
		closeRuns(runs)
		if errors.Is(err, ErrDamaged) {
			return nil, d.clear()
		}
		return nil, err
	}
	return runs, nil
}

func closeRuns(runs []*run) {
	for _, r := range runs {
		_ = r.f.Close() // it is synced, or was only read
	}
}

// begin starts with runs and nothing else.
func (x *Index) begin(runs []*run) {
	x.mu.Lock()
	x.now, x.fail = view{runs: runs}, nil
	x.flushing, x.merging = attempt{}, attempt{}
	x.committed = x.markLocked() // nothing uncommitted was ever written
	x.mu.Unlock()
	x.active = newMemtable(0, x.Mark())
	x.memory.Store(x.active.bytes())
	var n int64
	for _, r := range runs {
		n += r.count
	}
	x.count.Store(n)
	x.recent = make([]uint64, recentFor(n))
	x.refresh()
	ctx, cancel := context.WithCancel(context.Background())
	x.stop = cancel
	x.worker.Go(func() { x.work(ctx) })
}

// refresh copies what the worker has changed. From then on the owner does not read what was
// replaced, and the worker may remove it.
func (x *Index) refresh() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.news.Store(false)
	x.seen, x.failed = x.now, x.fail
	if len(x.replaced) > 0 {
		x.released = append(x.released, x.replaced...)
		x.replaced = nil
		x.rouse()
	}
}

// Has reports whether fp was added. It may read a block of 4 KiB for each run that has it or
// seems to. The error is ErrDamaged, and stays until Reset; or ErrClosed.
func (x *Index) Has(fp uint64) (bool, error) {
	if x.news.Load() {
		x.refresh()
	}
	if x.failed != nil {
		return false, x.failed
	}
	if x.isRecent(fp) || x.active.has(fp) {
		return true, nil
	}
	for _, m := range x.seen.sealed {
		if m.has(fp) {
			return true, nil
		}
	}
	return x.inRuns(fp)
}

func (x *Index) inRuns(fp uint64) (bool, error) {
	for _, r := range x.seen.runs {
		found, err := r.has(fp, &x.block)
		if err != nil {
			x.damage(err)
			return false, err
		}
		if found {
			*x.recentAt(fp) = fp
			return true, nil
		}
	}
	return false, nil
}

// isRecent reports whether fp was found in a run lately. Nothing ever leaves the set, so
// that is as good as finding it again. Zero marks an empty slot.
func (x *Index) isRecent(fp uint64) bool { return fp != 0 && *x.recentAt(fp) == fp }

func (x *Index) recentAt(fp uint64) *uint64 { return &x.recent[fp&uint64(len(x.recent)-1)] }

// recentFor is how many slots are worth their memory among n fingerprints: one for each, as
// long as that is not much.
func recentFor(n int64) int {
	slots := minRecent
	for int64(slots) < n && slots < maxRecent {
		slots *= 2
	}
	return slots
}

// Add puts a fingerprint into the set that Has did not find, under the ID of its row. IDs
// ascend from above Mark; one that does not is an error and is not added.
//
// Add blocks when Config.Waiting full memtables are committed and not yet written, until one
// is. The error is ErrFull, with the reason, when they cannot be; the fingerprint is not
// added then, and to call again later is to try again.
func (x *Index) Add(fp uint64, id int64) error {
	if x.news.Load() {
		x.refresh()
	}
	if x.failed != nil {
		return x.failed
	}
	if id <= x.active.last {
		return fmt.Errorf("seen: ID %d after ID %d: add them in ascending order, above Mark", id, x.active.last)
	}
	if x.active.n >= x.cfg.MemtableFPs {
		if err := x.seal(); err != nil {
			return err
		}
	}
	x.active.add(fp, id)
	x.count.Add(1)
	if b := x.active.bytes(); b != x.memory.Load() { // which is cheaper than to store it
		x.memory.Store(b)
	}
	return nil
}

// seal hands the active memtable to the worker and begins another.
func (x *Index) seal() error {
	if err := x.makeRoom(); err != nil {
		return err
	}
	x.refresh()
	x.active = newMemtable(len(x.active.slots), x.active.last)
	if n := recentFor(x.count.Load()); n > len(x.recent) {
		x.recent = make([]uint64, n) // what it knew is found again
	}
	return nil
}

// makeRoom puts the active memtable among the sealed ones as soon as there are fewer than may
// be. This is also when what has failed is tried again.
func (x *Index) makeRoom() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flushing.paused, x.merging.paused = false, false
	x.rouse()
	for len(x.now.sealed) >= x.cfg.Waiting {
		if err := x.stuckLocked(); err != nil {
			return err
		}
		x.changed.Wait()
	}
	x.now.sealed = append(slices.Clip(x.now.sealed), x.active)
	x.rouse()
	return nil
}

// stuckLocked is why it is no use to wait for the worker; nil if it is.
func (x *Index) stuckLocked() error {
	oldest := x.now.sealed[0].last
	switch {
	case x.fail != nil:
		return x.fail
	case oldest > x.committed:
		return fmt.Errorf("%w: row %d is not committed, only %d is", ErrFull, oldest, x.committed)
	case x.flushing.paused:
		return fmt.Errorf("%w: %w", ErrFull, x.flushing.err)
	case x.merging.paused && len(x.now.runs) >= maxRuns:
		return fmt.Errorf("%w: %w", ErrFull, x.merging.err)
	}
	return nil
}

// Committed tells that the rows up to an ID are committed in the database, so that they may
// count as seen after a crash as well. A lower ID than before changes nothing. It does not
// wait for anything.
func (x *Index) Committed(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.committed = max(x.committed, id)
	if len(x.now.sealed) > 0 {
		x.rouse()
	}
}

// Reset empties the index, on disk too, and mends one that is damaged. The owner adds all rows
// again and then tells what is committed: nothing is, as far as the index knows. An error names
// a file that could not be removed; it may be found by the next Open.
func (x *Index) Reset() error {
	if errors.Is(x.failed, ErrClosed) {
		return ErrClosed
	}
	x.halt()
	err := x.d.clear()
	x.begin(nil)
	if err != nil {
		return fmt.Errorf("seen: reset: %w", err)
	}
	return nil
}

// Close waits for the worker, which gives up a merge, and closes the files. What is in
// memory only is not written: it is above Mark. A second Close does nothing. An error names a
// file that could not be removed, which the next Open does.
func (x *Index) Close() error {
	if errors.Is(x.failed, ErrClosed) {
		return nil
	}
	gone := x.halt()
	x.mu.Lock()
	x.now, x.fail = view{}, ErrClosed
	x.mu.Unlock()
	x.refresh()
	x.active = newMemtable(0, 0)
	x.count.Store(0)
	x.memory.Store(0)
	if err := x.d.removeRuns(gone); err != nil {
		return fmt.Errorf("seen: close: %w", err)
	}
	return nil
}

// halt stops the worker and closes all files. It returns the runs that others have replaced.
func (x *Index) halt() (gone []*run) {
	x.stop()
	x.worker.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	gone = slices.Concat(x.replaced, x.released)
	x.replaced, x.released = nil, nil
	closeRuns(gone)
	closeRuns(x.now.runs)
	return gone
}

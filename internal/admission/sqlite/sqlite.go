// Package sqlite keeps what keys have used of plans in an SQLite file, so that it outlives the process and several
// processes on one computer share one count.
//
// States are rows, decided upon by the pure functions of package admission within one immediate transaction. A denial
// writes nothing. Callers that come while a transaction is under way are decided together in the next one, in the order
// they came; nobody waits for a batch to fill. Each has its answer after the commit: a process that is killed loses
// nothing that was granted, and a power cut what the system has not written yet.
//
// The work is done by a goroutine that Take starts when there is none and that ends when nobody waits, so that a caller
// whose context ends can leave though the disk stands still. While another process has the write lock it asks again
// every millisecond or two: SQLite's own busy timeout knows nothing of contexts. A process that sees others write pauses
// from time to time, as the lock knows no queue.
//
// All processes must see the same memory: no network file systems. Nothing in them may open and close the file by other
// means than SQLite, which would give up its locks. A file that is deleted or replaced is noticed before the next
// decision, and the one that has its name then is opened, or made.
//
// There is one row per plan and key in the table rate_limit_entries:
//
//	key           plan, a colon, and the key
//	count         tokens taken in the current window; of a bucket 0
//	previous      tokens taken in the window before; of a bucket 0
//	tokens        tokens left in the bucket; of a window NULL
//	window_start  when the window began; of a bucket, when tokens was right
//	expires_at    when nothing of it counts any more
//	created_at    when the row was made
//
// Times are microseconds since the Unix epoch: datetime(expires_at/1e6, 'unixepoch') is for people. The table
// rate_limit_schema has the version of all this, so that the file may hold other tables too.
//
// [Repository.Run] deletes what is over, every hour, in steps of some rows. There is no index on expires_at, in which
// each decision would have to move its row. The file does not shrink; its free pages are used again.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

const (
	// batchSize is as many callers as one transaction decides for: their rows cost most of it then, and it is over in a
	// millisecond or two, so that other processes get their turn.
	batchSize = 100

	// busyTimeout is how long another process may hold the write lock until those who wait get an error: long enough to
	// tell one that has forgotten to end its transaction.
	busyTimeout = 5 * time.Second

	// firstPoll and longestPoll are the pauses between two attempts to get the lock, which others have for less.
	firstPoll   = 100 * time.Microsecond
	longestPoll = 2 * time.Millisecond

	// turnLength is how long a worker goes on while other processes write too, and turnPause how long it then leaves the
	// lock to them: so long that each of them asks once.
	turnLength = 10 * time.Millisecond
	turnPause  = longestPoll

	// cleanupStep is how many rows a transaction looks at: a millisecond or so, in which decisions wait. keepFor is how
	// long a row stays that is over, for clocks that go back.
	cleanupEvery = time.Hour
	cleanupStep  = 1000
	keepFor      = admission.Micros(60e6)
)

// Config says where the file is.
type Config struct {
	// Path is the file. If it is not there it is made, readable for its owner only, since keys may be
	// personal data; its directory must be there. Beside it stand, while it is open, two more with -wal
	// and -shm behind the name. Zero is an error.
	Path string
	// OnCleanup, if set, is told the outcome of each cleanup of Run, with no lock held. An error does not
	// end Run: it may be a disk that is full until somebody makes room. Zero means nobody is told.
	OnCleanup func(removed int64, err error)
	// Clock is where the time comes from, of decisions and of waiting. Zero means the system's.
	Clock clock.Clock
}

// Repository is an [admission.Repository] in an SQLite file. Make it by [New].
type Repository struct {
	cfg  Config             // never changes after New
	ctx  context.Context    // ends when it is closed
	stop context.CancelFunc // ends it
	shut func() error       // closes, once

	mu      sync.Mutex // guards what follows
	queue   []*job     // those who wait, in the order they came
	working bool       // there is a worker, and it will look at the queue again
	closed  bool

	workers sync.WaitGroup // one, or none; what follows is its own
	file    *file          // nil if it was deleted and cannot be made again
	begun   time.Time      // when it last left the lock to others
	version int64          // of the file, as it was then; zero before the first look
}

var _ admission.Repository = (*Repository)(nil)

// New opens the file of a Repository, or makes it. A file that is no database, of another program, damaged at its
// beginning or not to be written is an error now, which says what to do. Errors about cfg name the field and the fix.
func New(cfg Config) (*Repository, error) {
	switch {
	case cfg.Path == "":
		return nil, errors.New("Config.Path is empty: name the file")
	case strings.ContainsRune(cfg.Path, 0):
		return nil, fmt.Errorf("Config.Path is %q: leave out the NUL, at which file names end", cfg.Path)
	case cfg.Clock == nil:
		cfg.Clock = clock.System()
	}
	r := &Repository{cfg: cfg}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.shut = sync.OnceValue(r.close)
	err := r.acquire(func() (err error) {
		r.file, err = open(cfg.Path)
		return err
	}, func() bool { return true })
	if err != nil {
		r.stop()
		return nil, err
	}
	r.cfg.Path = r.file.db.Path() // the same after a change of the working directory
	return r, nil
}

// Take decides as [admission.Repository] says. If ctx ends while the transaction is under way, Take does
// not wait for its end, and cannot tell whether key was charged.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (admission.Result, error) {
	j := &job{key: key, plans: plans, tokens: tokens}
	err := r.submit(ctx, j)
	if err != nil {
		return admission.Result{}, err
	}
	return j.result, nil
}

// Remove forgets what key has used under plans.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	return r.submit(ctx, &job{do: func(f *file) error { return f.remove(key, plans) }})
}

// Keys reads the keys in steps, each a transaction. yield is called between them.
func (r *Repository) Keys(ctx context.Context, plans []admission.Plan, yield func(key string) bool) error {
	for after := ""; ; {
		var rows []string // may lack what this transaction has charged so far
		if err := r.submit(ctx, &job{do: func(f *file) (err error) { rows, err = f.keys(after); return err }}); err != nil {
			return err
		}
		for _, after = range rows {
			plan, key, ok := strings.Cut(after, ":")
			asked := slices.ContainsFunc(plans, func(p admission.Plan) bool { return p.Name == plan })
			if ok && asked && !yield(key) {
				return nil
			}
		}
		if len(rows) == 0 {
			return nil
		}
	}
}

// Run cleans up at once and then every hour until ctx ends, and returns ctx's error, or ErrClosed. Without
// it, all works, and the file grows.
func (r *Repository) Run(ctx context.Context) error {
	for {
		removed, err := r.Cleanup(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, admission.ErrClosed):
			return err
		case r.cfg.OnCleanup != nil:
			r.cfg.OnCleanup(removed, err)
		}
		if err := clock.Sleep(ctx, r.cfg.Clock, cleanupEvery); err != nil {
			return err
		}
	}
}

// Cleanup deletes the rows that have been over for a minute, and returns how many it has deleted, also if
// it fails or ctx ends before it is through. Decisions come in between.
func (r *Repository) Cleanup(ctx context.Context) (removed int64, err error) {
	for after, more := "", true; more; more = after != "" {
		var n int64
		var next string
		if err := r.submit(ctx, &job{do: func(f *file) (err error) { next, n, err = f.sweep(after); return err }}); err != nil {
			return removed, err
		}
		removed, after = removed+n, next
	}
	return removed, nil
}

// Close fails those who wait with ErrClosed, waits for the transaction under way, and closes the file. Its
// error is about that file; what was decided is in it.
func (r *Repository) Close() error { return r.shut() }

func (r *Repository) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.workers.Wait()
	if r.file == nil {
		return nil
	}
	return r.file.db.Close()
}

// The states of a job. Only one of the worker and the one who waits takes it out of waiting.
const (
	jobWaiting int32 = iota
	jobTaken         // in a transaction
	jobLeft          // nobody wants it any longer
)

type job struct {
	do func(*file) error // nil for a decision; an error is one of the file, and fails the whole transaction

	key    string
	plans  []admission.Plan
	tokens int64

	state  atomic.Int32
	done   chan struct{} // closed when what follows is right
	err    error
	result admission.Result
}

// submit has a job done, by a worker that it starts if there is none.
func (r *Repository) submit(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.done = make(chan struct{})
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return admission.ErrClosed
	}
	r.queue = append(r.queue, j)
	if !r.working {
		r.working = true
		r.workers.Go(r.work)
	}
	r.mu.Unlock()
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		if j.state.CompareAndSwap(jobWaiting, jobLeft) {
			return fmt.Errorf("%w: the file was locked: %w", admission.ErrNotCharged, ctx.Err())
		}
		return ctx.Err() // nobody knows whether the transaction it is in will be kept
	}
}

func (r *Repository) work() {
	r.begun = r.cfg.Clock.Now()
	for r.anyLeft() {
		err := r.acquire(r.lock, r.anyWaiting)
		if errors.Is(err, errNobody) {
			continue
		}
		jobs := r.pull(err != nil)
		if err == nil {
			err = r.file.transact(jobs, admission.MicrosOf(r.cfg.Clock.Now()))
		}
		if err != nil && !errors.Is(err, admission.ErrClosed) {
			err = fmt.Errorf("%w; nothing was charged", err)
		}
		for _, j := range jobs {
			j.err = err
			close(j.done)
		}
		runtime.Gosched() // those who have their answers ask again: that is the next batch
		r.rest()
	}
}

// lock begins a transaction in the file that has the name now.
func (r *Repository) lock() (err error) {
	if r.file != nil && r.file.db.Gone() {
		// That it was not closed well is no matter of the file that is there now.
		_ = r.file.db.Close()
		r.file = nil
	}
	if r.file == nil {
		if r.file, err = open(r.cfg.Path); err != nil {
			return err
		}
	}
	return r.file.begin.Run()
}

// errNobody is that nobody waits for the lock any longer.
var errNobody = errors.New("nobody waits")

// acquire tries until another process's lock is not in the way, nobody wants it any longer, the repository
// is closed, or busyTimeout is over.
func (r *Repository) acquire(try func() error, wanted func() bool) error {
	clk := r.cfg.Clock
	begun := clk.Now()
	for pause := firstPoll; ; pause = min(2*pause, longestPoll) {
		if r.ctx.Err() != nil {
			return admission.ErrClosed
		}
		err := try()
		switch {
		case !sqlitedb.IsBusy(err):
			return err
		case clk.Since(begun) >= busyTimeout:
			return fmt.Errorf("waited %v: %w", busyTimeout, err)
		case !wanted():
			return errNobody
		}
		// Its random part keeps processes from asking in step. That it may end early, because the
		// repository is closed, is seen above.
		_ = clock.Sleep(r.ctx, clk, pause/2+rand.N(pause/2))
	}
}

// rest leaves the lock to others from time to time, if there are others who write.
func (r *Repository) rest() {
	clk := r.cfg.Clock
	if r.file == nil || clk.Since(r.begun) < turnLength {
		return
	}
	version, err := r.file.db.QueryInt(`PRAGMA data_version`)
	if err != nil {
		return // the next transaction will tell
	}
	if r.version != 0 && version != r.version {
		_ = clock.Sleep(r.ctx, clk, turnPause) // which Close ends
	}
	r.begun, r.version = clk.Now(), version
}

// anyLeft reports whether there are jobs. If not, whoever brings one starts a new worker.
func (r *Repository) anyLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = len(r.queue) > 0
	return r.working
}

// anyWaiting reports whether somebody waits, and forgets those who left: while the lock is not to be had,
// the queue is no longer than there are callers.
func (r *Repository) anyWaiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(j *job) bool { return j.state.Load() != jobWaiting })
	return len(r.queue) > 0
}

// pull takes the jobs of a transaction out of the queue, or all of them.
func (r *Repository) pull(all bool) (jobs []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for ; i < len(r.queue) && (all || len(jobs) < batchSize); i++ {
		if r.queue[i].state.CompareAndSwap(jobWaiting, jobTaken) {
			jobs = append(jobs, r.queue[i])
		}
	}
	r.queue = slices.Delete(r.queue, 0, i)
	return jobs
}

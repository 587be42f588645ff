// Package sqlite keeps what keys have used of plans in an SQLite file, so that it outlives the process, and several
// processes on one computer share one count.
//
// States are rows. The pure functions of package admission decide on them within one immediate transaction. A denial
// writes nothing. Callers that arrive while a transaction is in progress are decided together in the next one, in the
// order in which they came; nobody waits for a batch to fill. Each caller gets its answer after the commit: a process
// that is killed loses nothing that was granted, and a power failure loses what the operating system has not written
// yet.
//
// The work is done by a goroutine that Take starts if there is none, and that ends when no caller waits, so that a
// caller whose context ends can return even if the disk hangs. While another process has the write lock, the goroutine
// tries again every millisecond or two, because SQLite's own busy timeout ignores contexts. A process that notices that
// others write pauses from time to time, because the lock has no queue.
//
// All processes must see the same memory: no network file systems. No code in them may open and close the file other
// than through SQLite, because that would drop SQLite's locks. A file that is deleted or replaced is noticed before the
// next decision; then the file with that name is opened, or created.
//
// There is one row per plan and key in the table rate_limit_entries:
//
//	key           plan, a colon, and the key
//	count         tokens taken in the current window; of a bucket 0
//	previous      tokens taken in the window before; of a bucket 0
//	tokens        tokens left in the bucket; of a window NULL
//	window_start  when the window began; of a bucket, when tokens was right
//	expires_at    when nothing of it counts any longer
//	created_at    when the row was made
//
// Times are microseconds since the Unix epoch; datetime(expires_at/1e6, 'unixepoch') makes them readable. The table
// rate_limit_schema has the version of all this, so that the file may hold other tables too.
//
// [Repository.Run] deletes expired rows every hour, in steps of some rows. There is no index on expires_at, because
// each decision would have to move its row in it. The file does not shrink; its free pages are used again.
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
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

const (
	// batchSize is how many callers one transaction decides for at most: then most of the cost is their rows, and it
	// ends within a millisecond or two, so that other processes get their turn.
	batchSize = 100

	// busyTimeout is how long another process may hold the write lock until callers get an error: long enough to
	// recognize a process that has forgotten to end its transaction.
	busyTimeout = 5 * time.Second

	// firstPoll and longestPoll are the first and the longest pause between two attempts to get the lock, which other
	// processes hold for less than that.
	firstPoll   = 100 * time.Microsecond
	longestPoll = 2 * time.Millisecond

	// turnLength is how long a worker goes on while other processes write too, and turnPause how long it then leaves
	// the lock to them: long enough that each of them tries once.
	turnLength = 10 * time.Millisecond
	turnPause  = longestPoll

	// cleanupStep is how many rows one transaction of a cleanup examines: it takes a millisecond or so, during which
	// decisions wait. keepFor is how long an expired row stays, for clocks that go back.
	cleanupEvery = time.Hour
	cleanupStep  = 1000
	keepFor      = admission.Micros(60e6)
)

// Config configures a [Repository].
type Config struct {
	// Path is the file. If it does not exist it is created, readable for its owner only, since keys may be personal
	// data; its directory must exist. While it is open, there are two more files beside it, whose names have -wal and
	// -shm appended. Empty is an error.
	Path string
	// OnCleanup, if set, is called with the outcome of each cleanup of Run, with no lock held. An error does not end
	// Run, because its cause may be a disk that is full until somebody makes room.
	OnCleanup func(removed int64, err error)
	// Clock gives the time for decisions and for waiting. Nil means the system clock.
	Clock clock.Clock
}

// Repository is an [admission.Repository] in an SQLite file. Make it by [New].
type Repository struct {
	cfg  Config             // never changes after New
	ctx  context.Context    // canceled by Close
	stop context.CancelFunc // cancels ctx
	shut func() error       // closes, once

	mu      sync.Mutex // guards what follows
	queue   []*job     // jobs that wait, in the order in which they came
	working bool       // there is a worker, and it will look at the queue again
	closed  bool

	workers sync.WaitGroup // one or none; the following fields belong to the worker
	file    *file          // nil if it was deleted and could not be created again
	begun   time.Time      // when the worker last left the lock to others
	version int64          // data version of the file at that time; zero before the first look
}

var _ admission.Repository = (*Repository)(nil)

// New opens the file of a Repository, or creates it. It fails, with advice, if the file is no database, belongs to
// another program, is damaged at its beginning, or cannot be written. Errors about cfg name the field and the fix.
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
	r.cfg.Path = r.file.db.Path() // absolute, so that it stays the same after a change of the working directory
	return r, nil
}

// Take decides as [admission.Repository] says. If ctx ends while the transaction is in progress, Take does not wait for
// its end, and it is not known whether key was charged.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (admission.Result, error) {
	var res admission.Result
	if err := r.submit(ctx, func(f *file) (err error) { res, err = f.take(key, plans, tokens); return err }); err != nil {
		return admission.Result{}, err // without a look at res, which may still be written
	}
	return res, nil
}

// Remove forgets what key has used under plans.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	return r.submit(ctx, func(f *file) error { return f.remove(key, plans) })
}

// Keys reads the keys in steps, each in a transaction. It calls yield between the steps.
func (r *Repository) Keys(ctx context.Context, plans []admission.Plan, yield func(key string) bool) error {
	for after := ""; ; {
		var rows []string // without rows that this transaction has charged and not written yet
		if err := r.submit(ctx, func(f *file) (err error) { rows, err = f.keys(after); return err }); err != nil {
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

// Run cleans up at once and then every hour until ctx ends. It returns ctx's error, or ErrClosed. Without Run
// everything works, and the file grows.
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

// Cleanup deletes the rows that expired more than a minute ago. It returns how many it has deleted, also if it fails or
// ctx ends before it is complete. Decisions are made between its steps.
func (r *Repository) Cleanup(ctx context.Context) (removed int64, err error) {
	for after, more := "", true; more; more = after != "" {
		var n int64
		var next string
		if err := r.submit(ctx, func(f *file) (err error) { next, n, err = f.sweep(after); return err }); err != nil {
			return removed, err
		}
		removed, after = removed+n, next
	}
	return removed, nil
}

// Close fails waiting callers with ErrClosed, waits for the transaction in progress, and closes the file. Its error is
// about closing the file; all decisions made are in it.
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

// job is what a caller wants done in a transaction. Its error is one of the file, and fails the whole transaction.
type job struct {
	do   func(*file) error
	done chan struct{} // closed when err is set
	err  error
}

// submit queues a job and waits for it. It starts a worker if there is none.
func (r *Repository) submit(ctx context.Context, do func(*file) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{do: do, done: make(chan struct{})}
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
		if r.leave(j) {
			return fmt.Errorf("%w: the file was locked: %w", admission.ErrNotCharged, ctx.Err())
		}
		return ctx.Err() // it is not known whether its transaction will be committed
	}
}

// leave takes a job out of the queue. It returns false if a transaction has it.
func (r *Repository) leave(j *job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.queue, j)
	if i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
	}
	return i >= 0
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
		runtime.Gosched() // callers that have their answers may submit again, and so fill the next batch
		r.rest()
	}
}

// lock begins a transaction in the file that has the name now.
func (r *Repository) lock() (err error) {
	if r.file != nil && r.file.db.Gone() {
		// An error of closing the old file does not concern the file that is there now.
		_ = r.file.db.Close()
		r.file = nil
	}
	if r.file == nil {
		if r.file, err = open(r.cfg.Path); err != nil {
			return err
		}
	}
	return r.file.db.Run("BEGIN IMMEDIATE")
}

// errNobody says that no caller waits for the lock any longer.
var errNobody = errors.New("nobody waits")

// acquire calls try until it does not fail because of another process's lock, wanted returns false, the repository is
// closed, or busyTimeout has passed.
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
		// The random part keeps processes from trying in step. If the sleep ends early because the repository is
		// closed, the check above notices it.
		_ = clock.Sleep(r.ctx, clk, pause/2+rand.N(pause/2))
	}
}

// rest leaves the lock to other processes from time to time, if there are others that write.
func (r *Repository) rest() {
	clk := r.cfg.Clock
	if r.file == nil || clk.Since(r.begun) < turnLength {
		return
	}
	version, err := r.file.db.QueryInt(`PRAGMA data_version`)
	if err != nil {
		return // the next transaction will fail with the same error
	}
	if r.version != 0 && version != r.version {
		_ = clock.Sleep(r.ctx, clk, turnPause) // Close ends the sleep
	}
	r.begun, r.version = clk.Now(), version
}

// anyLeft reports whether there are jobs. If not, the next job starts a new worker.
func (r *Repository) anyLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = len(r.queue) > 0
	return r.working
}

func (r *Repository) anyWaiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0
}

// pull takes the jobs for a transaction out of the queue, or all of them.
func (r *Repository) pull(all bool) (jobs []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.queue)
	if !all {
		n = min(n, batchSize)
	}
	jobs = slices.Clone(r.queue[:n])
	r.queue = slices.Delete(r.queue, 0, n)
	return jobs
}

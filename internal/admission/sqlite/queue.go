package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/admission"
)

// The states of a job. Only one of the worker and the one who waits takes it out of waiting.
const (
	jobWaiting int32 = iota
	jobTaken         // in a transaction
	jobLeft          // nobody wants it any longer
)

// job is a question in the queue.
type job struct {
	do     func(*job, *batch) error // an error is one of the file, and fails the whole transaction
	key    string
	plans  []admission.Plan
	tokens int64
	after  string // of a cleanup or a list, the last key of the step before

	state atomic.Int32
	done  chan struct{} // closed when what follows is right
	err   error

	result  admission.Result // of take
	removed int64            // of a cleanup
	next    string           // of a cleanup, the last key of this step; "" at the end
	rows    []string         // of a list, the keys of this step; none at the end
}

func newJob(do func(*job, *batch) error) *job {
	return &job{do: do, done: make(chan struct{})}
}

func (j *job) take(b *batch) (err error) {
	j.result, err = b.take(j.key, j.plans, j.tokens)
	return err
}

func (j *job) remove(b *batch) error { return b.remove(j.key, j.plans) }

// list is one step of Keys. What this transaction has charged so far may not be in it.
func (j *job) list(b *batch) error {
	list := b.file.list
	list.Text(1, j.after)
	list.Int(2, cleanupStep)
	for {
		found, err := list.Step()
		if err != nil || !found {
			return err
		}
		j.rows = append(j.rows, list.ColumnText(0))
	}
}

func (j *job) finish(err error) {
	j.err = err
	close(j.done)
}

// submit has a job done, by a worker that it starts if there is none.
func (r *Repository) submit(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.enqueue(j) {
		return admission.ErrClosed
	}
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

func (r *Repository) enqueue(j *job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.queue = append(r.queue, j)
	if !r.working {
		r.working = true
		r.workers.Go(r.work)
	}
	return true
}

// work does jobs until there are none.
func (r *Repository) work() {
	r.turn.begun = r.cfg.Clock.Now()
	for r.anyLeft() {
		err := r.acquire(r.lock, r.anyWaiting)
		if errors.Is(err, errNobody) {
			continue
		}
		jobs := r.pull(err != nil)
		if err == nil {
			err = r.transact(jobs)
		}
		if err != nil && !errors.Is(err, admission.ErrClosed) {
			err = fmt.Errorf("%w; nothing was charged", err)
		}
		for _, j := range jobs {
			j.finish(err)
		}
		runtime.Gosched() // those who have their answers ask again: that is the next batch
		r.rest()
	}
}

// lock begins a transaction in the file that has the name now.
func (r *Repository) lock() error {
	if r.file != nil && r.file.db.Gone() {
		// That it was not closed well is no matter of the file that is there now.
		_ = r.file.db.Close()
		r.file = nil
	}
	if r.file == nil {
		f, err := open(r.cfg.Path, r.cfg.Durable)
		if err != nil {
			return err
		}
		r.file, r.batch = f, newBatch(f)
	}
	return r.file.begin.Run()
}

// anyLeft reports whether there are jobs. If not, whoever brings one starts a new worker.
func (r *Repository) anyLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = len(r.queue) > 0
	return r.working
}

// anyWaiting reports whether somebody waits, and forgets those who left: while the lock is
// not to be had, the queue is no longer than there are callers.
func (r *Repository) anyWaiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.queue[:0]
	for _, j := range r.queue {
		if j.state.Load() == jobWaiting {
			waiting = append(waiting, j)
		}
	}
	clear(r.queue[len(waiting):])
	r.queue = waiting
	return len(waiting) > 0
}

// pull takes the jobs of a transaction out of the queue, or all of them.
func (r *Repository) pull(all bool) []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	var jobs []*job
	i := 0
	for ; i < len(r.queue) && (all || len(jobs) < r.cfg.Batch); i++ {
		if r.queue[i].state.CompareAndSwap(jobWaiting, jobTaken) {
			jobs = append(jobs, r.queue[i])
		}
	}
	r.queue = slices.Delete(r.queue, 0, i)
	return jobs
}

// transact does jobs within the transaction that has begun. If one fails, all do, and
// the file is as it was.
func (r *Repository) transact(jobs []*job) error {
	r.batch.reset(admission.MicrosOf(r.cfg.Clock.Now()))
	return r.file.finish(func() error {
		for _, j := range jobs {
			if err := j.do(j, r.batch); err != nil {
				return err
			}
		}
		return r.batch.write()
	})
}

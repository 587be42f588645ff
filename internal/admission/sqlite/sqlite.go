package sqlite

import (
	"context"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/admission"
)

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
	batch   *batch
	turn    turn
}

var _ admission.Repository = (*Repository)(nil)

// New opens the file of a Repository, or makes it. A file that is no database, of another
// program, damaged at its beginning or not to be written is an error now, which says what to
// do. Errors about cfg name the field and the fix.
func New(cfg Config) (*Repository, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	r := &Repository{cfg: cfg}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.shut = sync.OnceValue(r.close)
	err := r.acquire(func() (err error) {
		r.file, err = open(cfg.Path, cfg.Durable)
		return err
	}, func() bool { return true })
	if err != nil {
		r.stop()
		return nil, err
	}
	r.cfg.Path = r.file.db.Path() // the same after a change of the working directory
	r.batch = newBatch(r.file)
	return r, nil
}

// Take decides as [admission.Repository] says. If ctx ends while the transaction is under
// way, Take does not wait for its end, and cannot tell whether key was charged.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (admission.Result, error) {
	j := newJob((*job).take)
	j.key, j.plans, j.tokens = key, plans, tokens
	if err := r.submit(ctx, j); err != nil {
		return admission.Result{}, err
	}
	return j.result, nil
}

// Remove forgets what key has used under plans.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	j := newJob((*job).remove)
	j.key, j.plans = key, plans
	return r.submit(ctx, j)
}

// Keys reads the keys in steps, each a transaction. yield is called between them.
func (r *Repository) Keys(ctx context.Context, plans []admission.Plan, yield func(key string) bool) error {
	asked := make(map[string]bool, len(plans))
	for i := range plans {
		asked[plans[i].Name] = true
	}
	for after, more := "", true; more; {
		j := newJob((*job).list)
		j.after = after
		if err := r.submit(ctx, j); err != nil {
			return err
		}
		for _, row := range j.rows {
			if plan, key, ok := strings.Cut(row, ":"); ok && asked[plan] && !yield(key) {
				return nil
			}
		}
		if more = len(j.rows) > 0; more {
			after = j.rows[len(j.rows)-1]
		}
	}
	return nil
}

// Close fails those who wait with ErrClosed, waits for the transaction under way, and
// closes the file. Its error is about that file; what was decided is in it.
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

package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

const (
	// cleanupStep is how many rows a transaction of a cleanup looks at: in the millisecond
	// or so that it takes, decisions wait.
	cleanupStep = 1000

	// keepFor is how long a row stays that is over. A clock that goes back by less
	// finds all that counts for it.
	keepFor = time.Minute
)

// The last key of a step of some rows.
const boundQuery = `SELECT key FROM rate_limit_entries WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?`

// A row is over when it expires. It is over too if it is for a time further in the future
// than it would be kept from then on: that was a clock that was wrong, and decisions take it
// for none.
// The last step has no last key and goes to the end: blobs are greater than any text.
const sweepQuery = `DELETE FROM rate_limit_entries WHERE key > ? AND key <= ifnull(?, x'00')
	AND (expires_at <= ? OR 2 * window_start - expires_at > ?)`

// Run cleans up at once and then every CleanupInterval until ctx ends, and returns ctx's
// error, or ErrClosed. Without it, all works, and the file grows.
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
		if err := clock.Sleep(ctx, r.cfg.Clock, r.cfg.CleanupInterval); err != nil {
			return err
		}
	}
}

// Cleanup deletes the rows that have been over for a minute, and returns how many it has
// deleted, also if it fails or ctx ends before it is through. Decisions come in between.
func (r *Repository) Cleanup(ctx context.Context) (removed int64, err error) {
	for after, more := "", true; more; {
		j := newJob((*job).sweep)
		j.after = after
		if err := r.submit(ctx, j); err != nil {
			return removed, err
		}
		removed += j.removed
		after, more = j.next, j.next != ""
	}
	return removed, nil
}

// sweep is one step of a cleanup.
func (j *job) sweep(b *batch) error {
	bound, sweep := b.file.bound, b.file.sweep
	bound.Text(1, j.after)
	bound.Int(2, cleanupStep-1)
	found, err := bound.Step()
	if err != nil {
		return err
	}
	if found {
		j.next = bound.ColumnText(0)
		bound.Reset()
	}
	kept := admission.Micros(keepFor / time.Microsecond)
	sweep.Text(1, j.after)
	sweep.TextOrNull(2, j.next)
	sweep.Int(3, int64(b.now-kept))
	sweep.Int(4, int64(b.now+kept))
	if err := sweep.Run(); err != nil {
		return err
	}
	j.removed = b.file.db.Changes()
	return nil
}

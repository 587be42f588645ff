package seen

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// rouse makes the worker look for work.
func (x *Index) rouse() {
	select {
	case x.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// work writes and merges until ctx ends. What it fails at waits until a memtable is sealed.
func (x *Index) work(ctx context.Context) {
	for ctx.Err() == nil {
		x.removeReleased()
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
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fail != nil || x.flushing.paused || len(x.now.sealed) == 0 || len(x.now.runs) >= maxRuns {
		return nil
	}
	if m := x.now.sealed[0]; m.last <= x.committed {
		return m
	}
	return nil
}

// flush makes a run of the oldest sealed memtable.
func (x *Index) flush(m *memtable) {
	h := header{keyCheck(x.cfg.Key), m.span, int64(m.n)}
	r, err := writeRun(x.d, h, func(w *writer) error {
		for _, fp := range m.sorted() {
			if err := w.add(fp); err != nil {
				return err
			}
		}
		return nil
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flushing = outcome("write a run", err)
	if err == nil {
		x.now = view{slices.Clone(x.now.sealed[1:]), append(slices.Clip(x.now.runs), r)}
		x.news.Store(true)
	}
	x.changed.Broadcast()
}

// outcome is what to remember of an attempt.
func outcome(op string, err error) attempt {
	if err == nil {
		return attempt{}
	}
	return attempt{fmt.Errorf("seen: %s: %w", op, err), true}
}

// mergeable is the runs to be merged next, or nil.
func (x *Index) mergeable() []*run {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fail != nil || x.merging.paused {
		return nil
	}
	counts := make([]int64, 0, maxRuns)
	for _, r := range x.now.runs {
		counts = append(counts, r.count)
	}
	if i := pickMerge(counts); i >= 0 {
		return x.now.runs[i : i+fanIn]
	}
	return nil
}

// merge puts one run in the place of neighbours. Memtables do not wait for it: they are
// written in between, and only ever come behind.
func (x *Index) merge(ctx context.Context, inputs []*run) {
	r, err := mergeRuns(x.d, inputs, func() error {
		for m := x.flushable(); m != nil; m = x.flushable() {
			x.flush(m)
		}
		return ctx.Err()
	})
	if ctx.Err() != nil && err != nil {
		return // that was us
	}
	if errors.Is(err, ErrDamaged) {
		x.damage(err)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.merging = outcome("merge runs", err)
	if err == nil {
		i := slices.Index(x.now.runs, inputs[0])
		x.now.runs = slices.Replace(slices.Clone(x.now.runs), i, i+len(inputs), r)
		x.replaced = append(x.replaced, inputs...)
		x.news.Store(true)
	}
	x.changed.Broadcast()
}

// removeReleased removes the runs that others have replaced and nobody reads.
func (x *Index) removeReleased() {
	x.mu.Lock()
	gone := x.released
	x.released = nil
	x.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	closeRuns(gone)
	if err := x.d.removeRuns(gone); err != nil {
		x.mu.Lock()
		x.merging.err = fmt.Errorf("seen: %w", err) // the next Open removes it
		x.mu.Unlock()
	}
}

// removeRuns deletes the files of runs.
func (d folder) removeRuns(runs []*run) error {
	var errs []error
	for _, r := range runs {
		errs = append(errs, d.remove(d.file(r.span)))
	}
	return errors.Join(errs...)
}

// damage ends all answers until Reset.
func (x *Index) damage(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fail == nil {
		x.fail = err
	}
	x.news.Store(true)
	x.changed.Broadcast()
}

package disk

import (
	"cmp"
	"errors"
	"os"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

type writer struct {
	s        *Store
	f        *file
	hosts    hosts
	unplaced unplaced

	round     int64     // the current round
	began     time.Time // when the transaction began; zero means that there is none
	ops       int       // number of calls in the transaction
	lastPut   int64     // the largest ID in the transaction or before
	counts    Counts
	positions map[string]frontier.Position // positions to be committed
}

// restore reads the figures that are kept in memory because counting rows reads the whole table.
func (w *writer) restore() (err error) {
	if err := w.f.db.Transact(func() error { return w.f.db.Exec(placeQuery + ";" + layDownQuery) }); err != nil {
		return err
	}
	w.hosts = newHosts(w.f.db)
	if w.counts, err = w.hosts.restore(); err != nil {
		return err
	}
	// IDs continue from the last one. The ID of an uncommitted URL is reused, since nothing durable refers to it.
	var err1, err2 error
	w.round, err1 = w.f.db.QueryInt(`SELECT max(round) FROM rounds`)
	w.lastPut, err2 = w.f.db.QueryInt(`SELECT max(id) FROM urls`)
	if err = cmp.Or(err1, err2); err != nil {
		return err
	}
	w.unplaced = unplaced{last: make(map[int64]int32)}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.round = frontier.Left{Queued: w.counts.Queued, Known: w.counts.Known, LastID: w.lastPut}, int(w.round)
	w.publish()
	return nil
}

func (w *writer) publish() {
	c := w.counts
	w.s.counts.Store(&c)
}

func (w *writer) run() {
	defer close(w.s.ended)
	err := w.s.Run(func(ops []op, due, last bool) (time.Duration, error) {
		err := w.applyAll(ops)
		if err == nil && (due || last || w.ops >= w.s.cfg.maxPending/2) {
			err = w.settle(last)
		}
		if w.began.IsZero() {
			return 0, err
		}
		return max(1, w.s.cfg.linger-w.s.cfg.clock.Since(w.began)), err // it commits then
	})
	if err != nil {
		w.s.fail(err)
	}
	w.s.endErr = w.end()
}

// applyAll writes calls in a transaction, which it begins if there is none. The transaction is an immediate one, so
// that what it reads cannot change meanwhile.
func (w *writer) applyAll(ops []op) error {
	for i := range ops {
		o := &ops[i]
		if o.kind == opOrder {
			if err := w.obey(o); err != nil {
				return err
			}
			continue
		}
		if w.began.IsZero() {
			if err := w.f.db.Exec("BEGIN IMMEDIATE"); err != nil {
				return err
			}
			w.began = w.s.cfg.clock.Now()
		}
		if err := w.apply(o); err != nil {
			return err
		}
		w.ops++
	}
	w.s.Stored(len(ops))
	return nil
}

// obey commits all calls before an order, and carries the order out.
func (w *writer) obey(o *op) error {
	err := w.commit()
	if err == nil && o.do != nil {
		err = o.do(w)
	}
	if err == nil {
		err = w.settle(o.do == nil)
	}
	if err == nil {
		close(o.done)
	}
	return err
}

// settle commits, and moves the log into the database if it is long or, with whole set, in any case.
func (w *writer) settle(whole bool) error {
	if err := w.commit(); err != nil {
		return err
	}
	if len(w.unplaced.rows) >= w.s.cfg.unplaced { // apart from the batches, which are durable before
		if err := w.f.db.Transact(w.placeAll); err != nil {
			return err
		}
	}
	limit := w.s.cfg.walBytes
	if whole {
		limit = 0
	}
	return w.checkpoint(limit)
}

// commit ends the transaction if one has begun.
func (w *writer) commit() error {
	if w.began.IsZero() {
		return nil
	}
	if err := w.hosts.write(); err != nil {
		return err
	}
	if err := w.writePositions(); err != nil {
		return err
	}
	if err := present(w.f.ids); err != nil {
		return err
	}
	if err := w.f.db.Exec("COMMIT"); err != nil {
		return err
	}
	w.began, w.ops = time.Time{}, 0
	w.s.committed.Store(w.lastPut)
	w.s.index.Committed(w.lastPut)
	w.publish()
	return nil
}

// writePositions writes the positions of the sinks, after their files are synced.
func (w *writer) writePositions() error {
	if len(w.positions) == 0 {
		return nil
	}
	if sync := w.s.cfg.Sync; sync != nil {
		if err := sync(); err != nil {
			return err
		}
	}
	for _, p := range w.positions {
		if err := w.f.db.Run(queries.putSink, p.Path, p.Format, p.Bytes, p.Records); err != nil {
			return err
		}
	}
	clear(w.positions)
	return nil
}

const (
	// checkpointWait is how long a checkpoint, and with it the crawl, waits for readers; if that is not enough, the
	// next commit tries again.
	checkpointWait = 20 * time.Millisecond
	// writeWait is how long a transaction waits for another process that writes, such as a person with an SQLite shell.
	writeWait = 5 * time.Second
)

// checkpoint moves the log into the database if it is longer than limit.
func (w *writer) checkpoint(limit int64) error {
	info, err := os.Stat(w.f.db.Path() + "-wal")
	if err != nil || info.Size() <= limit {
		return nil //nolint:nilerr // the next commit finds that it is gone, and says so
	}
	w.f.db.SetBusyTimeout(checkpointWait)
	defer w.f.db.SetBusyTimeout(writeWait)
	_, err = w.f.db.Checkpoint()
	return err
}

// end closes the database. If the store has failed, it does not commit the open transaction.
func (w *writer) end() error {
	if !w.began.IsZero() {
		_ = w.f.db.Exec("ROLLBACK") // after many failures SQLite has rolled back itself, and returns an error here
	}
	failed := w.s.Err()
	if bad := (*rowError)(nil); errors.As(failed, &bad) { // so that a person finds the row in places
		_ = w.f.db.Transact(func() error { return w.f.db.Exec(placeQuery) }) // if this fails, the next process does it
	}
	return w.f.db.Close()
}

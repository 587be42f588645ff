package disk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/ratelimit/sqlitedb"
)

// The newer of two entries of a host counts, and no order to wait is lost.
const putRateQuery = `INSERT INTO rates (host, used, rate, pause_ns, retry_until, held_until)
	VALUES (?, ?, ?, ?, nullif(?, 0), nullif(?, 0)) ON CONFLICT (host) DO UPDATE SET
	used        = max(used, excluded.used),
	rate        = iif(excluded.used >= used, excluded.rate, rate),
	pause_ns    = iif(excluded.used >= used, excluded.pause_ns, pause_ns),
	held_until  = iif(excluded.used >= used, excluded.held_until, held_until),
	retry_until = nullif(max(coalesce(retry_until, 0), coalesce(excluded.retry_until, 0)), 0)`

// What is a day old and orders nothing says nothing (ratelimit.HostMemory.At).
const agedRatesQuery = `DELETE FROM rates WHERE used <= ?1 - 86400000
	AND coalesce(retry_until, 0) <= ?1 AND coalesce(held_until, 0) <= ?1`

// Rates is the memory of hosts in the state: what their limiter learned, with the same
// promises as [memory.File].
type Rates struct{ s *Store }

// Rates is the memory of hosts in this state. It is safe for concurrent use.
func (s *Store) Rates() Rates { return Rates{s} }

// Path is the name of the database.
func (r Rates) Path() string { return r.s.path }

// Save merges hosts in, the newer entry of each counting, and returns when that is
// committed. It needs no Commit, but while the batch under way has been written in part it
// waits for one. If ctx ends first its error is returned, and the hosts are saved nevertheless.
func (r Rates) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	o := &order{rates: []ratelimit.HostMemory{}}
	now := r.s.cfg.Clock.Now()
	for m := range hosts {
		if m, ok := m.At(now, r.s.cfg.MaxWait); ok && m.Validate() == nil { // or it could not be read again
			o.rates = append(o.rates, m)
		}
	}
	if err := r.s.await(ctx, o); err != nil {
		return fmt.Errorf("save learned rates: %w", err)
	}
	return nil
}

// storeRates writes what is to be stored.
func (w *writer) storeRates() error {
	for _, o := range w.orders {
		if o.rates == nil {
			continue
		}
		if !w.within {
			if err := w.f.begin.Run(); err != nil {
				return err
			}
			w.within = true // and not ahead: this is of no batch
		}
		for i := range o.rates {
			if err := w.putRate(&o.rates[i]); err != nil {
				return err
			}
		}
		if err := w.trimRates(); err != nil {
			return err
		}
	}
	return nil
}

// putRate merges one entry in.
func (w *writer) putRate(m *ratelimit.HostMemory) error {
	p := w.f.putRate
	p.Text(1, m.Domain)
	p.Int(2, m.LastUsed.UnixMilli())
	p.Float(3, float64(m.Rate))
	p.Int(4, int64(m.Pause))
	p.Int(5, millisUp(m.RetryUntil))
	p.Int(6, millisUp(m.HeldUntil))
	return p.Run()
}

// millisUp is millis of an order to wait, which must not end earlier than it said.
func millisUp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// trimRates forgets what says nothing any more, and what was used longest ago of more than
// there is room for.
func (w *writer) trimRates() error {
	w.f.agedRates.Int(1, w.s.cfg.Clock.Now().UnixMilli())
	if err := w.f.agedRates.Run(); err != nil {
		return err
	}
	if _, err := w.f.countRates.Step(); err != nil {
		return err
	}
	excess := w.f.countRates.ColumnInt(0) - int64(w.s.cfg.MaxRates)
	w.f.countRates.Reset()
	if excess <= 0 {
		return nil
	}
	w.f.dropRate.Int(1, excess)
	return w.f.dropRate.Run()
}

// Load reads what is left at present, the latest used host first. Rows that no limiter has
// written are passed over and reported; the number of the first is its place in that order.
func (r Rates) Load() (hosts []ratelimit.HostMemory, damage memory.Damage, err error) {
	db, err := r.s.reader()
	if err != nil {
		return nil, damage, err
	}
	now, row := r.s.cfg.Clock.Now(), 0
	err = each(db, `SELECT host, used, rate, pause_ns, coalesce(retry_until, 0), coalesce(held_until, 0)
		FROM rates ORDER BY used DESC, host`, func(q *sqlitedb.Stmt) error {
		row++
		m := ratelimit.HostMemory{
			Domain: q.ColumnText(0), LastUsed: time.UnixMilli(q.ColumnInt(1)).UTC(),
			Learned:    ratelimit.Learned{Rate: float32(q.ColumnFloat(2)), Pause: time.Duration(q.ColumnInt(3))},
			RetryUntil: timeOf(q.ColumnInt(4)), HeldUntil: timeOf(q.ColumnInt(5)),
		}
		if err := m.Validate(); err != nil {
			if damage.Lines++; damage.Lines == 1 {
				damage.First, damage.Err = row, err
			}
		} else if m, ok := m.At(now, r.s.cfg.MaxWait); ok {
			hosts = append(hosts, m)
		}
		return nil
	})
	return hosts, damage, errors.Join(err, db.Close())
}

// timeOf is the time of milliseconds since the epoch; of zero, the zero time.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

package disk

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

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
		if err := w.f.rates.Merge(o.rates, w.s.cfg.Clock.Now(), w.s.cfg.MaxRates); err != nil {
			return err
		}
	}
	return nil
}

// Load reads what is left at present, the latest used host first. Rows that no limiter has
// written are passed over and reported; the number of the first is its place in that order.
func (r Rates) Load() (hosts []ratelimit.HostMemory, damage memory.Damage, err error) {
	db, err := r.s.reader()
	if err != nil {
		return nil, damage, err
	}
	hosts, damage, err = memory.ReadTable(db, r.s.cfg.Clock.Now(), r.s.cfg.MaxWait)
	return hosts, damage, errors.Join(err, db.Close())
}

package disk

import (
	"context"
	"fmt"
	"iter"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// Rates is the memory of hosts in the state: what their limiter learned, with the same promises as [memory.Database].
type Rates struct{ s *Store }

// Rates is the memory of hosts in this state. It is safe for concurrent use.
func (s *Store) Rates() Rates { return Rates{s} }

// Path is the name of the database.
func (r Rates) Path() string { return r.s.path }

// Save merges hosts in, the newer entry of each, and returns when that is committed. If ctx ends first it returns its
// error, and saves nevertheless.
func (r Rates) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	cfg := &r.s.cfg
	list := memory.Kept(hosts, cfg.clock.Now(), cfg.maxWait)
	err := r.s.await(ctx, func(w *writer) error {
		return w.f.db.Transact(func() error { return w.f.rates.Merge(list, cfg.clock.Now(), cfg.maxRates) })
	})
	if err != nil {
		return fmt.Errorf("save learned rates: %w", err)
	}
	return nil
}

// Load reads what is left, the latest used host first. Invalid rows are skipped and reported, by their numbers in that
// order.
func (r Rates) Load() (hosts []ratelimit.HostMemory, damage memory.Damage, err error) {
	err = r.s.read(func(db *sqlitedb.DB) (err error) {
		hosts, damage, err = memory.ReadTable(db, r.s.cfg.clock.Now(), r.s.cfg.maxWait)
		return err
	})
	return hosts, damage, err
}

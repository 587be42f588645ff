package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/seen"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the state of the crawl is closed")

// Counts are the figures of a state as of its last commit.
type Counts struct {
	Queued int64 `json:"queued"` // queued URLs
	Done   int64 `json:"done"`   // URLs no longer queued
	Known  int64 `json:"known"`  // URLs ever put
	Hosts  int64 `json:"hosts"`
}

// Store is the state of a crawl on disk. Make it with [Open]; it must be closed.
type Store struct {
	View   // reads the database
	cfg    Config
	key    uint64
	ids    []identity // of the database files and the lock
	unlock func() error

	frontier.Calls[op]
	quit   chan struct{} // closed when nobody takes answers any more
	ended  chan struct{} // closed when the writer has ended
	endErr error         // set before ended is closed
	close  func() error

	committed atomic.Int64 // largest ID that is committed
	counts    atomic.Pointer[Counts]

	mu        sync.Mutex // guards what follows
	meta      map[string]string
	noted     []op // changes of meta that go into the batch
	positions map[string]frontier.Position
	left      frontier.Left
	round     int

	// Only the goroutine of the frontier uses these.
	batch []op // the calls since the last Commit
	asked bool // whether batch contains a Load or Activate
	index *seen.Index
}

var _ frontier.Storage = (*Store)(nil)

// Key returns the key of the fingerprints of this crawl.
func (s *Store) Key() uint64 { return s.key }

// Left returns what was left when the state was opened, or after Again what the new round has to do. All hosts with
// queued URLs are inactive; those that were active before come first. It is safe for concurrent use.
func (s *Store) Left() frontier.Left {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// Round returns the number of the current or last round, from 1. It is safe for concurrent use.
func (s *Store) Round() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round
}

// Known reports whether a URL of that fingerprint was ever put.
func (s *Store) Known(fp uint64) bool {
	known, err := s.index.Has(fp)
	if err != nil {
		s.fail(err)
		return true // so that nothing more is added
	}
	return known
}

// Put stores a new URL as queued.
func (s *Store) Put(host string, it *frontier.Item, fp uint64, dormant bool) {
	if s.Err() != nil {
		return
	}
	if err := s.index.Add(fp, it.ID); err != nil {
		s.fail(err)
		return
	}
	s.tell(op{kind: opPut, dormant: dormant, host: host, item: *it})
}

// Spent stores the tries of a queued URL. Spent and Done ignore robots.txt, which is not stored.
func (s *Store) Spent(host string, it *frontier.Item) {
	if it.ID != 0 {
		s.tell(op{kind: opSpent, host: host, item: *it})
	}
}

// Done stores that a URL is no longer queued, and its visit. It changes nothing if the URL is not queued.
func (s *Store) Done(host string, it *frontier.Item, v frontier.Visit) {
	if it.ID != 0 {
		s.tell(op{kind: opDone, host: host, item: *it, visit: &v})
	}
}

// Load requests queued URLs of a host; Answers delivers them.
func (s *Store) Load(host string, behind frontier.Place, n int) {
	s.ask(func(w *writer) error { return w.load(host, behind, n) })
}

// Activate requests inactive hosts; Answers delivers them.
func (s *Store) Activate(n int) {
	s.ask(func(w *writer) error { return w.activate(n) })
}

// Deactivate makes a host inactive, behind all other inactive hosts.
func (s *Store) Deactivate(host string, _ time.Time) {
	s.tell(op{kind: opDo, do: func(w *writer) error {
		h, err := w.hosts.find(host)
		if h != nil {
			w.hosts.layDown(h)
		}
		return err
	}})
}

// Commit ends a batch: all calls since the last Commit, and these positions, become durable together or not at all,
// within 100 ms and the time of writing. Before the call, the files must contain what the positions say. Load and
// Activate calls of the batch are answered then.
func (s *Store) Commit(positions []frontier.Position) {
	s.mu.Lock()
	for _, p := range positions {
		s.positions[p.Path] = p
	}
	s.batch, s.noted = append(s.batch, s.noted...), s.noted[:0]
	s.mu.Unlock()
	if len(positions) > 0 {
		positions = slices.Clone(positions)
		s.tell(op{kind: opDo, do: func(w *writer) error {
			for _, p := range positions {
				w.positions[p.Path] = p
			}
			return nil
		}})
	}
	if len(s.batch) == 0 {
		return
	}
	s.Add(s.asked, s.batch...)
	s.batch, s.asked = s.Spare(s.batch), false
}

// Positions returns the positions that were committed last or are about to be committed. It is safe for concurrent use.
func (s *Store) Positions() []frontier.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.positions))
}

// Meta returns a stored value, or an empty string if there is none. It is safe for concurrent use.
func (s *Store) Meta(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta[key]
}

// MetaBelow returns the values whose keys begin with prefix, by the rest of the key, without empty values. It is safe
// for concurrent use.
func (s *Store) MetaBelow(prefix string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	below := make(map[string]string)
	for key, value := range s.meta {
		if rest, ok := strings.CutPrefix(key, prefix); ok && value != "" {
			below[rest] = value
		}
	}
	return below
}

// SetMeta sets a value, as part of the batch that ends next. The keys fingerprint_key, program and created belong to
// the store itself. It is safe for concurrent use.
func (s *Store) SetMeta(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta[key] = value
	s.noted = append(s.noted, op{kind: opDo, do: func(w *writer) error { return w.f.db.Run(queries.putMeta, key, value) }})
}

func (s *Store) tell(o op) { s.batch = append(s.batch, o) }

func (s *Store) ask(do func(*writer) error) {
	s.asked = true
	s.tell(op{kind: opDo, do: do})
}

// Owned returns nil while this process alone has the state. If the database files or the lock no longer have their
// names, another process may be writing to the state; then the store fails, and Owned returns the error of Err. It
// takes microseconds and is safe for concurrent use.
func (s *Store) Owned() error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := present(s.ids); err != nil {
		s.fail(err)
	}
	return s.Err()
}

// fail ends the work of the store. Only the first error counts.
func (s *Store) fail(err error) { s.Fail(fmt.Errorf("%w; what was committed before is kept", err)) }

// Flush waits until all ended batches are committed and on disk; calls since the last Commit are not part of them. If
// ctx ends first, Flush returns its error, and the writer continues. It is safe for concurrent use.
func (s *Store) Flush(ctx context.Context) error { return s.await(ctx, nil) }

func (s *Store) await(ctx context.Context, do func(*writer) error) error {
	o := op{kind: opOrder, do: do, done: make(chan struct{})}
	if !s.Add(true, o) {
		return cmp.Or(s.Err(), ErrClosed)
	}
	select {
	case <-o.done:
		return nil
	case <-s.Failed():
		return s.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Again configures a new round.
type Again struct {
	// Since excludes URLs whose last answer came then or later from the round; URLs that were refused or not answered
	// are still visited. Zero excludes none.
	Since time.Time
	// Meta holds values to set in the same transaction, as SetMeta does. Nil sets nothing.
	Meta map[string]string
}

// Again begins a new round: visited URLs are queued again, each with its last visit that says what was there. When it
// returns nil, the round is durable, and Left and Round describe it. Otherwise the round has not begun, with one
// exception: if ctx ends first, Again returns its error and the round begins nevertheless. Call it before a frontier is
// made; earlier calls belong to the round before. Queued URLs stay queued.
//
// It takes one pass over all visits, sorted by URL.
func (s *Store) Again(ctx context.Context, a Again) error {
	since := int64(math.MaxInt64)
	if !a.Since.IsZero() {
		since = a.Since.UnixMilli()
	}
	return s.await(ctx, func(w *writer) error {
		if err := w.f.db.Transact(func() error { return w.beginRound(since, a.Meta) }); err != nil {
			return fmt.Errorf("begin a round: %w", err)
		}
		s.mu.Lock()
		maps.Copy(s.meta, a.Meta)
		s.mu.Unlock()
		return w.restore()
	})
}

// Counts returns the figures as of the last commit. It is safe for concurrent use.
func (s *Store) Counts() Counts { return *s.counts.Load() }

// SeenBytes returns what the fingerprint index takes in memory and on disk. It is safe for concurrent use.
func (s *Store) SeenBytes() (memory, disk int64) { return s.index.Bytes() }

// Close commits the ended batches, drops the calls since the last Commit, moves the log into the database and releases
// the files and the lock. The frontier must not call the store any more. The error is that of Err or of closing;
// further calls return the same.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	close(s.quit)
	s.NoMore()
	<-s.ended
	return errors.Join(s.Err(), s.endErr, s.index.Close(), s.unlock())
}

// Rates is the host memory in the state: what the limiters learned of hosts. It makes the same promises as
// [memory.Database].
type Rates struct{ s *Store }

// Rates returns the host memory in this state. It is safe for concurrent use.
func (s *Store) Rates() Rates { return Rates{s} }

// Path returns the path of the database.
func (r Rates) Path() string { return r.s.path }

// Save merges hosts into the memory, of each host the newer entry, and returns when that is committed. If ctx ends
// first, it returns its error, and the hosts are saved nevertheless.
func (r Rates) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	cfg := &r.s.cfg
	list := memory.Kept(hosts, cfg.clock.Now(), cfg.maxWait)
	err := r.s.await(ctx, func(w *writer) error {
		return w.f.db.Transact(func() error { return memory.MergeTable(w.f.db, list, cfg.clock.Now(), cfg.maxRates) })
	})
	if err != nil {
		return fmt.Errorf("save learned rates: %w", err)
	}
	return nil
}

// Load reads the stored hosts that are still valid, the latest used first. Invalid rows are skipped and reported, by
// their numbers in that order.
func (r Rates) Load() (hosts []ratelimit.HostMemory, damage memory.Damage, err error) {
	err = r.s.read(func(db *sqlitedb.DB) (err error) {
		hosts, damage, err = memory.ReadTable(db, r.s.cfg.clock.Now(), r.s.cfg.maxWait)
		return err
	})
	return hosts, damage, err
}

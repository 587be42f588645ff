package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/seen"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// The names within the directory.
const (
	databaseName = "state.db"
	seenName     = "seen"
	lockName     = "lock"
)

// Keys of meta that are the store's own.
const (
	// MetaEmbedded is "yes" if a program that embeds the crawler has the sinks; then only that program knows what their
	// positions mean.
	MetaEmbedded = "embedded"

	metaKey     = "fingerprint_key"
	metaProgram = "program"
	metaCreated = "created"
)

// Open opens or makes the state in a directory, according to cfg.Mode, and starts the writer. It rebuilds what the
// fingerprint index lacks: that takes a second or so after a kill, and twenty seconds for ten million URLs without an
// index.
//
// The error is [ErrExists], [ErrMissing] or an [*sqlitedb.InUseError], with the path in front, or says what is wrong
// with the database and what helps. Errors about cfg name the field and the fix.
func Open(dir string, cfg Config) (_ *Store, err error) {
	if err := sqlitedb.Linked(); err != nil { // before any file is made
		return nil, err
	}
	cfg.settle()
	path := filepath.Join(dir, databaseName)
	if cfg.Mode == Resume && !exists(path) {
		return nil, fmt.Errorf("%s: %w", dir, ErrMissing)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil { // without the bits of the user's umask
		return nil, fmt.Errorf("%w: name a directory that can be made", err)
	}
	unlock, giveUp, err := lock(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, View: View{path}, unlock: unlock,
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	s.Begin(cfg.clock, cfg.linger, cfg.maxPending, cfg.maxPending/2)
	s.close = sync.OnceValue(s.shut)
	if err := s.start(dir); err != nil {
		return nil, errors.Join(err, giveUp())
	}
	return s, nil
}

// exists reports whether there is a file with content at path. An empty file was left by a process that was killed
// while it made the state. An unknown error counts as existing.
func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0 || err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// start opens the database, then the index, which may be rebuilt from it, and starts the writer. On failure everything
// is closed.
func (s *Store) start(dir string) error {
	f, err := openFile(s.path, &s.cfg)
	if err != nil {
		return err
	}
	w := &writer{s: s, f: f, positions: make(map[string]frontier.Position)}
	err = s.restore(w)
	if err == nil {
		// How fingerprints are made may change with the version, so the index of another version is made anew.
		s.index, err = seen.Open(filepath.Join(dir, seenName), w.lastPut, seen.Config{Key: s.key ^ version, MemtableFPs: s.cfg.memtableFPs})
	}
	if err == nil {
		if err = s.replay(f.db); err != nil {
			err = errors.Join(err, s.index.Close())
		}
	}
	if err != nil {
		return errors.Join(err, f.db.Close())
	}
	s.ids = f.ids
	go w.run()
	return nil
}

func (s *Store) restore(w *writer) (err error) {
	s.meta = make(map[string]string)
	if err := w.f.db.Each(`SELECT key, value FROM meta`, func(q *sqlitedb.Stmt) error {
		s.meta[q.ColumnText(0)] = q.ColumnText(1)
		return nil
	}); err != nil {
		return err
	}
	if s.positions, err = readPositions(w.f.db); err != nil {
		return err
	}
	if err := s.settleKey(w.f); err != nil {
		return err
	}
	if err := w.restore(); err != nil {
		return err
	}
	s.committed.Store(w.lastPut)
	return nil
}

// settleKey reads or chooses the key of the fingerprints, which the crawled sites must not be able to predict.
func (s *Store) settleKey(f *file) (err error) {
	if text, ok := s.meta[metaKey]; ok {
		if s.key, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%s: %s in meta: %w: restore the database from a copy, or begin anew", s.path, metaKey, err)
		}
		return nil
	}
	s.key = s.cfg.key
	for s.key == 0 {
		s.key = rand.Uint64()
	}
	now := s.cfg.clock.Now()
	own := map[string]string{metaKey: strconv.FormatUint(s.key, 10), metaCreated: now.UTC().Format(time.RFC3339)}
	maps.Copy(s.meta, own)
	return f.db.Transact(func() error {
		for key, value := range own {
			if err := f.db.Run(queries.putMeta, key, value); err != nil {
				return err
			}
		}
		return f.db.Exec(fmt.Sprintf(`INSERT INTO rounds VALUES (1, %d, 0)`, now.UnixMilli()))
	})
}

func readPositions(db *sqlitedb.DB) (map[string]frontier.Position, error) {
	positions := make(map[string]frontier.Position)
	return positions, db.Each(`SELECT path, format, bytes, records FROM sinks`, func(s *sqlitedb.Stmt) error {
		p := frontier.Position{
			Path: s.ColumnText(0), Format: s.ColumnText(1), Bytes: s.ColumnInt(2), Records: s.ColumnInt(3),
		}
		positions[p.Path] = p
		return nil
	})
}

// Remove removes a state that nobody uses, and nothing else from its directory. It removes the database first, so that
// an interrupted removal leaves no state. The error is [*sqlitedb.InUseError] if a process has the state. A database of
// another program is an error, and stays.
func Remove(dir string) error {
	if err := sqlitedb.Linked(); err != nil { // SQLite is needed to recognize the databases of other programs
		return err
	}
	path := filepath.Join(dir, databaseName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, giveUp, err := lock(dir)
	if err != nil {
		return err
	}
	// A file that cannot be read is removed like a readable one.
	if err := (View{path}).read(func(*sqlitedb.DB) error { return nil }); errors.Is(err, errForeign) {
		return errors.Join(err, giveUp())
	}
	var errs []error
	for _, name := range []string{databaseName, databaseName + "-wal", databaseName + "-shm", lockName} {
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.RemoveAll(filepath.Join(dir, seenName)), unlock())
	return errors.Join(errs...)
}

// lock locks a directory. giveUp unlocks it, and removes the lock file if there was none before.
func lock(dir string) (unlock, giveUp func() error, err error) {
	path := filepath.Join(dir, lockName)
	_, none := os.Lstat(path)
	unlock, err = sqlitedb.Lock(path)
	if err != nil || !errors.Is(none, fs.ErrNotExist) {
		return unlock, unlock, err
	}
	return unlock, func() error {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) { // on systems without locks
			err = nil
		}
		return errors.Join(err, unlock())
	}, nil
}

// Mode says whether a state must exist, must not exist, or may exist already.
type Mode uint8

// The modes.
const (
	CreateOrResume Mode = iota // opens a state if there is one, else makes one
	Create                     // there must be no state, or the error is [ErrExists]
	Resume                     // there must be a state, or the error is [ErrMissing]
)

// Errors of Open that callers tell apart.
var (
	ErrExists  = errors.New("there is the state of a crawl already: resume it, or name another directory")
	ErrMissing = errors.New("there is no state of a crawl: name the directory of one")
)

// Config configures how a state is opened.
type Config struct {
	Mode    Mode   // zero means CreateOrResume
	Program string // name and version of this program, for people and for error messages; empty means "unknown"
	// Sync, if set, is called on the writer's goroutine before positions of the sinks are committed, and must sync the
	// sinks. Its error fails the store. If it is nil, a sink may be shorter than its position after a power cut.
	Sync func() error
	// Log receives messages about what takes long and what was repaired. Nil discards them.
	Log *slog.Logger

	// What only tests set; zero means what settle says.

	key         uint64 // key of the fingerprints, for a new state
	linger      time.Duration
	maxPending  int // number of pending calls from which on the store is not Ready; half as many are written at once
	walBytes    int64
	memtableFPs int // see seen.Config
	unplaced    int
	maxRates    int
	maxWait     time.Duration
	clock       clock.Clock
}

// cacheBytes bounds the page cache, which takes twice as much memory. It holds the ends of the queues of ten thousand
// hosts. With half of it, 4 million URLs of 20,000 hosts took 14 % longer; twice as much did not speed up anything.
const cacheBytes = 32 << 20

func (c *Config) settle() {
	c.Program = cmp.Or(c.Program, "unknown")
	// The work that a kill may cost. Ten commits a second cost little beside their rows.
	c.linger = cmp.Or(c.linger, 100*time.Millisecond)
	// About 4 MB of URLs of usual length.
	c.maxPending = cmp.Or(c.maxPending, 20_000)
	// Half a million URLs. From 16 to 256 MiB the cost is the same; a longer log is slower to read after a kill.
	c.walBytes = cmp.Or(c.walBytes, 64<<20)
	// 13 URLs of each of 20,000 hosts, which then share a page of the database. They take 6 MB, and half a second of
	// a processor to write.
	c.unplaced = cmp.Or(c.unplaced, 1<<18)
	// As in memory.Config.
	c.maxRates, c.maxWait = cmp.Or(c.maxRates, 100_000), cmp.Or(c.maxWait, time.Hour)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.clock = cmp.Or(c.clock, clock.System())
}

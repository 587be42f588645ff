package disk

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Mode says whether there may or must be a state already.
type Mode uint8

// The modes.
const (
	CreateOrResume Mode = iota // whatever is there
	Create                     // there must be none: [ErrExists]
	Resume                     // there must be one: [ErrMissing]
	numModes
)

// Errors of Open that callers tell apart.
var (
	ErrExists  = errors.New("there is the state of a crawl already: resume it, or name another directory")
	ErrMissing = errors.New("there is no state of a crawl: name the directory of one")
)

const (
	// defaultLinger is how much work a kill may cost. Ten commits a second cost little beside their rows.
	defaultLinger = 100 * time.Millisecond

	// defaultMaxPending is about 4 MB of URLs of usual length.
	defaultMaxPending = 20_000

	// leastPending keeps batches large enough that to begin and end them is not all there is to do.
	leastPending = 16

	// cacheBytes bounds the page cache, which takes twice as much memory. It holds the ends of the queues of ten
	// thousand hosts. Half of it made 4 million URLs of 20,000 hosts 14 % slower; twice as much sped up nothing.
	cacheBytes = 32 << 20

	// defaultWAL holds half a million URLs. From 16 to 256 MiB the cost is the same; a longer log is slower to read
	// after a kill.
	defaultWAL = 64 << 20

	// defaultUnplaced is 13 URLs of each of 20,000 hosts, which share a page of the database then; it costs 8 MB.
	defaultUnplaced = 1 << 18

	// Like memory.Config.
	defaultMaxRates = 100_000
	defaultMaxWait  = time.Hour
)

// Config says what a state is opened for.
type Config struct {
	Mode    Mode   // zero means CreateOrResume
	Key     uint64 // of the fingerprints, for a state that is made; zero means one drawn at random
	Program string // name and version of this program, for people and for error messages; zero means "unknown"
	// Sync, if set, syncs the sinks before positions in them are committed, on the writer's goroutine; its error is
	// the store's. If nil, a sink may be shorter than its position after a power cut.
	Sync func() error
	// Log is told of what takes long and of what was repaired. Zero means nobody is.
	Log *slog.Logger
	// Linger is how long a batch may wait to be committed with later ones. Zero: 100 ms; negative: not at all.
	Linger time.Duration
	// MaxPending is how many calls, of about 200 bytes, may wait until Ready says so; half as many are written at
	// once. Zero: 20,000; the least is 16.
	MaxPending int
	// WALBytes is the size at which the log is moved into the database, give or take a transaction and concurrent
	// reads. Zero: 64 MiB.
	WALBytes int64
	// MemtableFPs is [seen.Config.MemtableFPs], and zero means the same.
	MemtableFPs int
	// Unplaced is how many queued URLs may wait for rows in places, at 32 bytes each, 64 while they are written. Zero:
	// 262,144.
	Unplaced int
	MaxRates int           // hosts whose learned rates are kept, those used last; zero means 100,000
	MaxWait  time.Duration // an obligation that ends later than that from now was written by a wrong clock, and ends then; zero means 1h
	Clock    clock.Clock   // tells the time and times the Linger; zero means the system's
}

// settle fills the defaults in, or returns what is wrong.
func (c *Config) settle() error {
	if c.Mode >= numModes {
		return fmt.Errorf("disk: Mode = %d: use one of the constants", c.Mode)
	}
	if c.MaxPending != 0 && c.MaxPending < leastPending {
		return fmt.Errorf("disk: MaxPending = %d: want %d or more", c.MaxPending, leastPending)
	}
	for name, v := range map[string]int64{
		"WALBytes": c.WALBytes, "Unplaced": int64(c.Unplaced), "MaxRates": int64(c.MaxRates), "MaxWait": int64(c.MaxWait),
	} {
		if v < 0 {
			return fmt.Errorf("disk: %s = %d: want more than zero", name, v)
		}
	}
	c.Program = cmp.Or(c.Program, "unknown")
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.MaxPending = cmp.Or(c.MaxPending, defaultMaxPending)
	c.WALBytes = cmp.Or(c.WALBytes, defaultWAL)
	c.Unplaced = cmp.Or(c.Unplaced, defaultUnplaced)
	c.MaxRates = cmp.Or(c.MaxRates, defaultMaxRates)
	c.MaxWait = cmp.Or(c.MaxWait, defaultMaxWait)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return nil
}

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
	// defaultLinger is how much work a kill may cost, and so what is fetched twice. At ten commits in a second what
	// they cost is a small part of what their rows cost.
	defaultLinger = 100 * time.Millisecond

	// defaultMaxPending is about 4 MB of URLs of usual length.
	defaultMaxPending = 20_000

	// leastPending keeps batches large enough that to begin and end them is not all there is to do.
	leastPending = 16

	// cacheBytes bounds the pages of the database in memory, which take about twice as much: it holds the ends of the
	// queues of some ten thousand hosts, which is where new URLs go. With half of it, to put four million URLs of
	// 20,000 hosts took a seventh more; twice as much made a million of them no quicker.
	cacheBytes = 32 << 20

	// defaultWAL is as much as half a million URLs are in the database. From 16 to 256 MiB a million of them cost the
	// same; a longer log takes longer to be read after a kill.
	defaultWAL = 64 << 20

	// defaultUnplaced is some 13 URLs of each of 20,000 hosts, which share a page of the database then. It costs 8
	// MB.
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
	// Sync, if set, has the disk take what was written to the sinks before positions in them are committed. It is
	// called by the writer's goroutine; its error is the store's. Zero means that after a power cut a sink may be
	// shorter than the position in the state.
	Sync func() error
	// Log is told of what takes long and of what was repaired. Zero means nobody is.
	Log *slog.Logger
	// Linger is how long a batch may wait to be committed together with those behind it. Zero means 100 ms, and less
	// than zero not at all.
	Linger time.Duration
	// MaxPending is how many calls may wait to be written until Ready says so; a batch of half as many is written at
	// once. A call takes about 200 bytes. Zero means 20,000; the least is 16.
	MaxPending int
	// WALBytes is how large the log grows before it is moved into the database. It grows further by one transaction,
	// and while another process reads. Zero means 64 MiB.
	WALBytes int64
	// MemtableFPs is [seen.Config.MemtableFPs], and zero means the same.
	MemtableFPs int
	// Unplaced is how many queued URLs may wait for their rows in places, which are written together, sorted by
	// hosts; 32 bytes of memory each, and twice as many while that goes on. Zero means 262,144.
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

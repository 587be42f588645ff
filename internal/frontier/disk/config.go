package disk

import (
	"cmp"
	"errors"
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
)

// Errors of Open that callers tell apart.
var (
	ErrExists  = errors.New("there is the state of a crawl already: resume it, or name another directory")
	ErrMissing = errors.New("there is no state of a crawl: name the directory of one")
)

// Config says what a state is opened for.
type Config struct {
	Mode    Mode   // zero means CreateOrResume
	Program string // name and version of this program, for people and for error messages; zero means "unknown"
	// Sync, if set, syncs the sinks before positions in them are committed, on the writer's goroutine; its error is
	// the store's. If nil, a sink may be shorter than its position after a power cut.
	Sync func() error
	// Log is told of what takes long and of what was repaired. Zero means nobody is.
	Log *slog.Logger

	// What only tests set; zero means what settle says.

	key         uint64 // of the fingerprints, for a state that is made
	linger      time.Duration
	maxPending  int // calls that wait before the store is not Ready; half as many are written at once
	walBytes    int64
	memtableFPs int // of package seen
	unplaced    int
	maxRates    int
	maxWait     time.Duration
	clock       clock.Clock
}

// cacheBytes bounds the page cache, which takes twice as much memory. It holds the ends of the queues of ten thousand
// hosts. Half of it made 4 million URLs of 20,000 hosts 14 % slower; twice as much sped up nothing.
const cacheBytes = 32 << 20

func (c *Config) settle() {
	c.Program = cmp.Or(c.Program, "unknown")
	// How much work a kill may cost. Ten commits a second cost little beside their rows.
	c.linger = cmp.Or(c.linger, 100*time.Millisecond)
	// About 4 MB of URLs of usual length.
	c.maxPending = cmp.Or(c.maxPending, 20_000)
	// Half a million URLs. From 16 to 256 MiB the cost is the same; a longer log is slower to read after a kill.
	c.walBytes = cmp.Or(c.walBytes, 64<<20)
	// 13 URLs of each of 20,000 hosts, which share a page of the database then; it costs 8 MB, twice that while they
	// are written.
	c.unplaced = cmp.Or(c.unplaced, 1<<18)
	// Like memory.Config.
	c.maxRates, c.maxWait = cmp.Or(c.maxRates, 100_000), cmp.Or(c.maxWait, time.Hour)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.clock = cmp.Or(c.clock, clock.System())
}

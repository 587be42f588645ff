package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// DefaultBatch is as many callers as one transaction decides for. At a hundred what a
	// transaction costs is a small part of what its rows cost, and it is over in a
	// millisecond or two, so that other processes get their turn.
	DefaultBatch = 100

	// DefaultBusyTimeout is far above what other processes of this package need, and so
	// tells them from one that has forgotten to end its transaction.
	DefaultBusyTimeout = 5 * time.Second

	// DefaultCleanupInterval is rare enough for the second of work that a million rows
	// are, which take some fifty megabytes, and often enough for these to be all.
	DefaultCleanupInterval = time.Hour
)

// Config says where the file is and how it is used.
type Config struct {
	// Path is the file. If it is not there it is made, readable for its owner only, since
	// keys may be personal data; its directory must be there. Beside it stand, while it is
	// open, two more with -wal and -shm behind the name. Zero is an error.
	Path string
	// Batch is how many callers at most are decided for in one transaction. Zero means
	// DefaultBatch; 1 is a transaction for each.
	Batch int
	// Durable has each transaction wait until the disk has it, some milliseconds on many
	// disks: then a power cut too loses nothing. Zero means that one loses what the system
	// has not written yet, and damages nothing; a process that is killed loses nothing.
	Durable bool
	// BusyTimeout is how long another process may hold the file's write lock until
	// those who wait get an error. Zero means DefaultBusyTimeout.
	BusyTimeout time.Duration
	// CleanupInterval is the time between two cleanups of Run. Zero means
	// DefaultCleanupInterval.
	CleanupInterval time.Duration
	// OnCleanup, if set, is told the outcome of each cleanup of Run, with no lock held. An
	// error does not end Run: it may be a disk that is full until somebody makes room.
	// Zero means nobody is told.
	OnCleanup func(removed int64, err error)
	// Clock is where the time comes from, of decisions and of waiting. Zero means the
	// system's.
	Clock clock.Clock
}

// settle fills the defaults in, or returns what is wrong.
func (c *Config) settle() error {
	switch {
	case c.Path == "":
		return errors.New("Config.Path is empty: name the file")
	case strings.ContainsRune(c.Path, 0):
		return fmt.Errorf("Config.Path is %q: leave out the NUL, at which file names end", c.Path)
	case c.Batch < 0:
		return fmt.Errorf("Config.Batch is %d: set it to 1 or more, or leave it out for the default", c.Batch)
	case c.BusyTimeout < 0:
		return fmt.Errorf("Config.BusyTimeout is %v: set it to more than 0, or leave it out for the default", c.BusyTimeout)
	case c.CleanupInterval < 0:
		return fmt.Errorf("Config.CleanupInterval is %v: set it to more than 0, or leave it out for the default", c.CleanupInterval)
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = DefaultBusyTimeout
	}
	if c.CleanupInterval == 0 {
		c.CleanupInterval = DefaultCleanupInterval
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return nil
}

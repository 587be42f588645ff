package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

const (
	// firstPoll and longestPoll are the pauses between two attempts to get the lock. A
	// transaction of another process takes from some ten microseconds to a millisecond or
	// two, and an attempt some microseconds.
	firstPoll   = 100 * time.Microsecond
	longestPoll = 2 * time.Millisecond

	// turnLength is how long a worker goes on while other processes write too, and
	// turnPause how long it then leaves the lock to them: so long that each of
	// them asks once.
	turnLength = 10 * time.Millisecond
	turnPause  = longestPoll
)

// errNobody is that nobody waits for the lock any longer.
var errNobody = errors.New("nobody waits")

// acquire tries until another process's lock is not in the way, nobody wants it any
// longer, the repository is closed, or BusyTimeout is over.
func (r *Repository) acquire(try func() error, wanted func() bool) error {
	clk := r.cfg.Clock
	begun := clk.Now()
	for pause := firstPoll; ; pause = min(2*pause, longestPoll) {
		if r.ctx.Err() != nil {
			return admission.ErrClosed
		}
		err := try()
		switch {
		case !sqlitedb.IsBusy(err):
			return err
		case clk.Since(begun) >= r.cfg.BusyTimeout:
			return fmt.Errorf("waited %v: %w", r.cfg.BusyTimeout, err)
		case !wanted():
			return errNobody
		}
		// Its random part keeps processes from asking in step. That it may end early,
		// because the repository is closed, is seen above.
		_ = clock.Sleep(r.ctx, clk, pause/2+rand.N(pause/2))
	}
}

// turn is what a worker knows of other processes.
type turn struct {
	begun   time.Time // when it last left the lock to others
	version int64     // of the file, as it was then; zero before the first look
}

// rest leaves the lock to others from time to time, if there are others who write.
func (r *Repository) rest() {
	clk := r.cfg.Clock
	if r.file == nil || clk.Since(r.turn.begun) < turnLength {
		return
	}
	version := r.file.version
	if found, err := version.Step(); !found || err != nil {
		return // the next transaction will tell
	}
	seen := version.ColumnInt(0)
	version.Reset()
	if r.turn.version != 0 && seen != r.turn.version {
		_ = clock.Sleep(r.ctx, clk, turnPause) // which Close ends
	}
	r.turn = turn{clk.Now(), seen}
}

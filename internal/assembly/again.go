package assembly

import (
	"context"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier/disk"
)

// Again says what a new round is about: that of the package crawl, which says what each field means.
type Again struct {
	MaxAge     time.Duration
	Unfinished bool
}

// round is a round that is to begin with the Crawler.
type round struct {
	number int
	since  time.Time // of the answers that are new enough; zero: none is
}

// ErrUnfinished means that a new round was asked for of a crawl whose last run was interrupted,
// or failed, and has URLs left.
var ErrUnfinished = errors.New("the last round of the crawl is not done")

// OpenAgain opens the state of a crawl for another round: every URL that it knows is asked for
// again, and what is found on the way is, too. The error is [ErrUnfinished] if the last run did not
// come to an end of its own, unless again.Unfinished says that this does not matter, and otherwise
// as with OpenState.
func OpenAgain(cfg StateConfig, again Again) (*State, error) {
	s, err := OpenState(cfg)
	if err != nil {
		return nil, err
	}
	if !again.Unfinished && !s.settled() {
		return nil, errors.Join(stateError(cfg.Dir, ErrUnfinished), s.Close())
	}
	s.next, s.pages, s.given, s.newRound = &round{number: s.store.Round() + 1}, 0, 0, true
	if again.MaxAge > 0 {
		s.next.since = clock.System().Now().Add(-again.MaxAge)
	}
	return s, nil
}

// Round is the number of the round that the crawl is in, or will be in. The first is 1.
func (s *State) Round() int {
	if s.next != nil {
		return s.next.number
	}
	return s.store.Round()
}

// beginRound begins the round that was asked for, together with the settings it has: whoever
// goes on with it after a kill writes where it began to.
func (s *State) beginRound(settings Settings) error {
	if s.next == nil {
		return nil
	}
	text, err := settings.SaveIn(s.dir)
	if err != nil {
		return err
	}
	// It is one transaction on a local disk, which nothing is gained by leaving halfway.
	err = s.store.Again(context.Background(), disk.Again{
		Since: s.next.since, Meta: map[string]string{metaSettings: text, metaProgram: s.program},
	})
	if err == nil {
		s.next = nil
	}
	return stateError(s.dir, err)
}

package control

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// trouble is what there is to know of a host after its first event, be that a refusal, a
// failure or a queue, and only then. Of a million hosts most never have one, and each takes
// 288 bytes less for it.
type trouble struct {
	window
	bucket
	hold
	experiment
	event Event // the latest
}

// calm is the trouble of all hosts that have had none. It is read and never written:
// meetTrouble goes before.
var calm = trouble{hold: hold{sentAt: never, at: never, failedAt: never, forbidAt: never}}

// meetTrouble gives the host a trouble of its own, if it has none.
func (s *steer) meetTrouble() {
	if s.trouble == &calm {
		own := calm
		s.trouble = &own
	}
}

// note makes the latest event one of now.
func (s *steer) note(now clock.Instant, c Cause, from, to float64, hold time.Duration) {
	s.meetTrouble()
	s.event = s.event.next(now, c, from, to, hold)
}

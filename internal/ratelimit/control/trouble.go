package control

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// trouble is what there is to know of a host after its first event, be that a refusal, a
// failure or a queue, and only then. Of a million hosts most never have one, and each takes
// 208 bytes less for it. What only some of those with events need is apart in turn: a plain
// refusal needs none of it.
type trouble struct {
	hold
	aftermath
	event       Event // the latest
	*window           // noWindow, until the host ordered a long pause or counts over a window
	*experiment       // noExperiment, until failures began the first
	*drainage         // the latest; nil before the first
}

// These are of all hosts that have none of their own yet. They are read and never written:
// meetTrouble, meetWindow and meetExperiment go before.
var (
	calm = trouble{
		hold:   hold{sentAt: never, at: never, failedAt: never, forbidAt: never},
		window: &noWindow, experiment: &noExperiment,
	}
	noWindow     window
	noExperiment experiment
)

// meetTrouble gives the host a trouble of its own, if it has none.
func (s *steer) meetTrouble() {
	if s.trouble == &calm {
		own := calm
		s.trouble = &own
	}
}

// meetWindow does the same for what is known of a quota. There is trouble already.
func (s *steer) meetWindow() {
	if s.window == &noWindow {
		s.window = new(window)
	}
}

// meetExperiment does so for experiments. There is trouble already.
func (s *steer) meetExperiment() {
	if s.experiment == &noExperiment {
		s.experiment = new(experiment)
	}
}

// note makes the latest event one of now.
func (s *steer) note(now clock.Instant, c Cause, from, to float64, hold time.Duration) {
	s.meetTrouble()
	s.event = s.event.next(now, c, from, to, hold)
}

package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// trouble is what there is to know of a host after its first event, be that a refusal, a
// failure or a queue, and only then. Of a million hosts most never have one, and each takes
// 192 bytes less for it. What only some of those with events need is apart in turn: a plain
// refusal needs none of it.
type trouble struct {
	hold
	aftermath
	lastProbe
	event       Event // the latest
	*window           // noWindow, until the host ordered a long pause or counts over a window
	*experiment       // noExperiment, until failures began the first
	*seldom           // noSeldom, until the host did what few do
}

// seldom is what few hosts show: a bound on connections, an outage, a run of 403, a queue.
type seldom struct {
	doors    doors
	failedAt clock.Instant // when the last outage was over
	block
	drainage // the latest
}

// These are of all hosts that have none of their own yet. They are read and never written:
// meetTrouble, meetWindow, meetExperiment and meetSeldom go before.
var (
	calm = trouble{
		hold:      hold{sentAt: never, at: never},
		aftermath: aftermath{quietTill: never},
		window:    &noWindow, experiment: &noExperiment, seldom: &noSeldom,
	}
	noWindow     window
	noExperiment experiment
	noSeldom     = seldom{failedAt: never, block: block{forbidAt: never}}
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

// meetSeldom does so for what few hosts show. There is trouble already.
func (s *steer) meetSeldom() {
	if s.seldom == &noSeldom {
		own := noSeldom
		own.doors.since = uint16(min(s.resumed, math.MaxUint16-1)) // they were not counted before
		s.seldom = &own
	}
}

// note makes the latest event one of now.
func (s *steer) note(now clock.Instant, c Cause, from, to float64, hold time.Duration) {
	s.meetTrouble()
	s.event = s.event.next(now, c, from, to, hold)
}

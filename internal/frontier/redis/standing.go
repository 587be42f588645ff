package redis

import (
	"slices"
	"time"
)

// Doing is what a process of a job is at.
type Doing string

// What processes do.
const (
	Crawling  Doing = "crawling"    // it is asking for URLs
	Waiting   Doing = "waiting"     // none of its hosts is to be asked yet
	StandsBy  Doing = "standing by" // it has no host
	Refused   Doing = "blocked"     // all of its hosts refuse to be asked
	Pausing   Doing = "paused"      // by an operator
	Finishing Doing = "finishing"   // what is under way, as it was told to end
	Lost      Doing = "lost"        // it was not heard of for its lease: it has died, or is cut off
)

// Ended is why nobody is at a job any more.
type Ended string

// The ends. A job that was not purged can go on after all but the first.
const (
	EndedComplete Ended = "complete"  // nothing is left to do
	EndedPages    Ended = "max_pages" // as many pages as it may have were asked for
	EndedTime     Ended = "max_time"  // its time is over
	EndedDrained  Ended = "drained"   // by an operator
	EndedBlocked  Ended = "blocked"   // only hosts remain that refuse to be asked
	EndedAlone    Ended = "alone"     // its processes have left it, or died
)

// judge says what the processes are at, or why there is none. It changes s alone.
func (s *Status) judge() {
	for i := range s.Workers {
		s.Workers[i].Doing = s.Workers[i].doing(s.Control)
	}
	s.Ended = s.ended()
}

func (w *Worker) doing(control Control) Doing {
	switch {
	case !w.Alive:
		return Lost
	case control == Draining:
		return Finishing
	case control == Paused && w.Leased == 0:
		return Pausing
	case w.State == stateBlocked:
		return Refused
	case w.Leased > 0:
		return Crawling
	case w.Hosts == 0:
		return StandsBy
	}
	return Waiting
}

func (s *Status) ended() Ended {
	if s.Complete {
		return EndedComplete
	}
	if slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Alive }) {
		return ""
	}
	for i := range s.Budgets {
		if name := s.Budgets[i].Name; s.Budgets[i].UsedUp() && (name == maxPages || name == maxTime) {
			return Ended(name)
		}
	}
	switch {
	case s.Control == Draining:
		return EndedDrained
	case s.Blocked != "":
		return EndedBlocked
	}
	return EndedAlone
}

// UsedUp reports whether nothing is left of a bound of pages or of time.
func (b *Budget) UsedUp() bool {
	switch b.Name {
	case maxPages:
		return int64(b.Used) >= parse(b.Plan)
	case maxTime:
		d, err := time.ParseDuration(b.Plan)
		return err == nil && b.Used >= d.Seconds()
	}
	return false
}

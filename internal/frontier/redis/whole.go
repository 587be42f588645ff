package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const (
	// wholeEvery is how often the figures of the whole job are read at most: one command for
	// each partition and three more.
	wholeEvery = 5 * time.Second
	// wholeFor is for how long they are read after somebody has looked at them.
	wholeFor = time.Minute
)

// Whole is how the job stands, all processes together, as of an instant. The figures of
// partitions are of slightly different moments.
type Whole struct {
	At        time.Time // zero: it was never read
	Known     int64     // URLs ever added
	Done      int64     // of them
	Queued    int64     // URLs that are not done
	Leased    int64     // of these, those that processes were handed, as they told last
	Processes int       // that are heard of
}

// Whole is what was read last. It asks nothing: that somebody looks has the store read it
// again soon, and so every 5 s or a third of the lease if that is longer.
func (s *Store) Whole() Whole {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = s.cfg.Clock.Now()
	return s.whole
}

// survey reads how the job stands if somebody wants to know. An error leaves what was read
// before, which ages.
func (s *Store) survey(ctx context.Context) {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	wanted := !s.looked.IsZero() && now.Sub(s.looked) < wholeFor && now.Sub(s.whole.At) >= wholeEvery
	s.mu.Unlock()
	if !wanted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	w, err := wholeOf(ctx, s.link.Client, s.job, s.cfg.now)
	if err != nil {
		s.cfg.Log.Debug("how the job stands cannot be read", "job", s.job.name, "error", err)
		return
	}
	w.At = now
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = w
}

// wholeOf reads the figures.
func wholeOf(ctx context.Context, c rueidis.Client, j *job, test func() int64) (w Whole, err error) {
	var list rueidis.Commands
	for p := range j.partitions {
		list = append(list, c.B().Hmget().Key(counters(j.name, p)).Field("done", "added").Build())
	}
	for _, res := range c.DoMulti(ctx, list...) {
		values, err := res.AsStrSlice()
		if err != nil || len(values) != 2 {
			return w, fmt.Errorf("redis: %w", err)
		}
		w.Done, w.Known = w.Done+parse(values[0]), w.Known+parse(values[1])
	}
	w.Queued = max(0, w.Known-w.Done)
	workers, _, err := workersOf(ctx, c, j.name, test)
	if err != nil {
		return w, fmt.Errorf("redis: %w", err)
	}
	for i := range workers {
		if workers[i].Alive {
			w.Processes++
			w.Leased += int64(workers[i].Loaded)
		}
	}
	return w, nil
}

// CutOff is a [Control] that nobody gives: the server has not been heard for so long that
// this process has no host that it may ask.
const CutOff Control = "cut_off"

// Standing is what this process is to do just now, and how long ago the server was heard
// last.
func (s *Store) Standing() (Control, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := max(0, s.cfg.Clock.Since(s.heardAt))
	if silent >= s.cfg.Lease-s.margin() {
		return CutOff, silent
	}
	return s.control, silent
}

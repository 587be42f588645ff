package redis

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// settleEvery is how long what became of URLs may wait to be told, for the sinks to be synced
// less often: as long as the state of a single process does.
const settleEvery = 100 * time.Millisecond

// unsettled are URLs that are done and whose records may be on no disk yet. They are told once
// those are: of what the job takes for done nobody would fetch a record again. The writer's alone.
type unsettled struct {
	ops   []op
	timer clock.Timer      // nil until it is needed
	due   <-chan time.Time // nil while none waits
	over  bool             // they have waited long enough
}

// settle takes out of ops what is to wait, and adds what need not wait any longer, having synced
// the sinks. What is given back or asked for depends on all that was told before; and at the
// end nothing waits.
func (s *Store) settle(ops []op, end bool) ([]op, error) {
	if s.cfg.Sync == nil {
		return ops, nil
	}
	u := &s.unsettled
	now := end || u.over
	rest := ops[:0]
	for _, o := range ops {
		if o.kind == opDone {
			u.ops = append(u.ops, o)
			continue
		}
		now = now || o.kind == opGive || o.kind == opRouse
		rest = append(rest, o)
	}
	if len(u.ops) == 0 {
		return rest, nil
	}
	if !now && len(u.ops) <= s.cfg.MaxPending/2 {
		s.settleLater()
		return rest, nil
	}
	if err := s.cfg.Sync(); err != nil {
		return nil, err
	}
	s.counts.syncs.Add(1)
	rest = append(rest, u.ops...)
	clear(u.ops)
	u.ops, u.due, u.over = u.ops[:0], nil, false
	return rest, nil
}

// settleLater has the writer come back when what waits has waited for long.
func (s *Store) settleLater() {
	u := &s.unsettled
	switch {
	case u.due != nil:
		return // it will
	case u.timer == nil:
		u.timer = s.cfg.Clock.NewTimer(settleEvery)
	default:
		u.timer.Reset(settleEvery)
	}
	u.due = u.timer.C()
}

// stop ends the timer.
func (u *unsettled) stop() {
	if u.timer != nil {
		u.timer.Stop()
	}
}

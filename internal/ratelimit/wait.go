package ratelimit

import (
	"context"
	"slices"

	"github.com/treadlight/crawl/internal/clock"
)

// line is the queue of a domain's waiters, first in, first out. Only its head has a timer, for the next grant; the
// others sleep on a channel. A waiter takes nothing before it is granted, so it may give up at any time.
type line struct {
	waiters []*waiter
	armed   clock.Instant // when the head's timer fires; forever if it waits for something else
}

func (ln *line) len() int {
	if ln == nil {
		return 0
	}
	return len(ln.waiters)
}

// nudge wakes the head, so that it looks again whether it may go.
func (ln *line) nudge() {
	if ln != nil {
		ln.waiters[0].nudge()
	}
}

type waiter struct {
	domain   string
	wake     chan struct{} // of capacity one: a value means look again
	deadline clock.Instant // of the caller's context; forever if it has none
	err      error         // why the waiter was dismissed; nil while in line

	in  [numScopes]*budget // the shared budgets in whose lines it stands
	seq uint64             // its place in all of them; zero while it stands in none
}

func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it is about to look
	}
}

func (s *state) leaveLocked(w *waiter) {
	s.rules.l.shared.leave(w)
	ln := s.line
	i := slices.Index(ln.waiters, w)
	if len(ln.waiters) == 1 {
		s.line = nil // an idle domain needs no line
		return
	}
	if i > 0 {
		ln.waiters = slices.Delete(ln.waiters, i, i+1)
		return
	}
	ln.waiters[0] = nil
	ln.waiters, ln.armed = ln.waiters[1:], forever
	s.line.nudge()
}

func (s *state) refuseWaitersLocked() {
	for s.line != nil {
		w := s.line.waiters[len(s.line.waiters)-1]
		s.rules.l.denied.Add(1)
		s.dropLocked(w, s.denialLocked(w.domain))
	}
}

func (s *state) denialLocked(domain string) error {
	return &CircuitOpenError{Domain: domain, Until: s.rules.l.timeOf(s.plan.notBefore)}
}

func (s *state) dropLocked(w *waiter, err error) {
	w.err = err
	s.leaveLocked(w)
	w.nudge()
}

// rearmLocked is called after a change of the schedule: the head sets its timer anew, and waiters that will miss their
// deadlines get an error at once.
func (s *state) rearmLocked(now clock.Instant) {
	if s.line == nil {
		return
	}
	at, _ := s.scheduleLocked(now, 0)
	if at == s.line.armed && s.plan.inCap == 0 {
		return
	}
	if at > s.line.armed {
		ahead := 0
		for _, w := range slices.Clone(s.line.waiters) {
			if w.deadline != forever {
				if at, why := s.scheduleLocked(now, ahead); at > w.deadline {
					s.dropLocked(w, &WaitError{Domain: w.domain, Wait: at.Sub(now), Limit: why})
					continue
				}
			}
			ahead++
		}
	}
	s.line.nudge()
}

// waitLocked waits in the domain's line and returns the permit or an error. It holds the domain's lock when it
// returns, and not while it sleeps.
func (s *state) waitLocked(ctx context.Context, w *waiter, now clock.Instant) (Permit, error) {
	clk := s.rules.l.cfg.Clock // read here, where the lock is held
	begun := now
	var sleeper clock.Sleeper
	defer sleeper.Stop()
	if s.line == nil {
		s.line = &line{armed: forever}
	}
	s.line.waiters = append(s.line.waiters, w)
	for ; ; now = s.nowLocked() {
		permit, at, err := s.turnLocked(ctx, w, now, begun)
		if permit != nil || err != nil {
			return permit, err
		}
		s.mu.Unlock()
		pause := clock.Forever
		if at != forever {
			pause = at.Sub(now)
		}
		sleeper.Sleep(ctx, clk, w.wake, pause)
		s.mu.Lock()
	}
}

// turnLocked grants w its permit, or gives up with an error, or says until when w may sleep. After a permit or an error
// w has left the line.
func (s *state) turnLocked(ctx context.Context, w *waiter, now, begun clock.Instant) (p Permit, at clock.Instant, err error) {
	if w.err != nil {
		return nil, 0, w.err
	}
	if err := ctx.Err(); err != nil {
		s.leaveLocked(w)
		return nil, 0, err
	}
	if s.line.waiters[0] != w {
		return nil, forever, nil
	}
	s.reviewLocked(now)
	if s.plan.shut(now) {
		s.refuseWaitersLocked()
		return nil, 0, w.err
	}
	at, why, t, ok := s.claimLocked(w, now)
	if ok {
		s.leaveLocked(w)
		return s.grantLocked(now, now.Sub(begun), t), now, nil
	}
	wait := at.Sub(now)
	if at == unknown {
		// A release wakes the waiter, at an unknown time. A deadline may have no timer in the context.
		at, wait = w.deadline, s.bucket.rate.interval()
	}
	if at != forever && (at > w.deadline || at <= now) {
		s.leaveLocked(w)
		return nil, 0, &WaitError{Domain: w.domain, Wait: wait, Limit: why}
	}
	s.line.armed = at
	return nil, s.reviewedLocked(now, at, why), nil
}

// unknown stands for an instant that only a release will tell.
const unknown = forever - 1

// claimLocked takes what a grant costs beside the domain's own token: of shared budgets and caps. If one of them has no
// room, it takes nothing and returns when to try again, and which limit that is.
func (s *state) claimLocked(w *waiter, now clock.Instant) (at clock.Instant, why Limit, t ticket, ok bool) {
	h := &s.rules.l.shared
	at, why = s.scheduleLocked(now, 0)
	if limit, full := s.fullLocked(); at <= now && full {
		at, why = unknown, limit
	}
	if at > now || now > w.deadline {
		h.leave(w)
		return at, why, t, false
	}
	sh := s.sharesLocked()
	if at, why, t = h.turn(w, &sh, now); at > now {
		return at, why, t, false
	}
	if s.rules.caps.take() {
		return now, LimitNone, t, true
	}
	h.giveUp(now, t)
	return now.Add(soon), LimitCap, ticket{}, false
}

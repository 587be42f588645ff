package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
)

// sessionOf is the session in a partition; empty if there is none.
func (s *Store) sessionOf(p *part) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.session
}

// begin is the session in a partition, named if there is none.
func (s *Store) begin(p *part) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session == "" {
		p.epoch++
		p.session = s.worker + "." + strconv.Itoa(p.epoch)
	}
	return p.session
}

// firstBeat is when a process is heard of again after it has come, with the hosts that it has got
// by then.
const firstBeat = time.Second

// keep renews the sessions and has the process be heard of, until the store is closed.
func (s *Store) keep() {
	period := s.cfg.Lease / 3
	for wait := min(period, firstBeat); ; {
		if !s.restFor(wait) {
			return
		}
		s.noteUsed()
		err := s.renew(s.life)
		if err == nil {
			err = s.beat(s.life)
		}
		if err == nil {
			s.checkMarks(s.life)
			s.survey(s.life)
		}
		wait = period
		if errors.Is(err, ErrNoJob) {
			s.fail(err)
		} else if err != nil {
			wait = period / 4
		}
	}
}

// restFor waits, or until there is something to tell; false at the end of the store.
func (s *Store) restFor(wait time.Duration) bool {
	timer := s.cfg.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-s.stir:
	case <-s.life.Done():
	}
	return s.life.Err() == nil
}

// beatSoon has the others hear at once what has changed.
func (s *Store) beatSoon() {
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// othersSeed reports whether a process that is heard of brings seeds yet. Of what cannot be
// read it takes the worst.
func (s *Store) othersSeed(ctx context.Context) bool {
	workers, _, err := workersOf(ctx, s.link.Client, s.job.name, s.cfg.now)
	return err != nil || slices.ContainsFunc(workers, func(w Worker) bool { return w.Alive && w.Seeding && w.ID != s.worker })
}

// renew has all sessions last for another lease. One that the server has ended is lost.
func (s *Store) renew(ctx context.Context) error {
	var calls []*call
	var parts []*part
	var sessions []string
	s.mu.Lock()
	for _, p := range s.parts {
		if !p.until.IsZero() {
			parts, sessions = append(parts, p), append(sessions, p.session)
			calls = append(calls, &call{script: scriptRenew, keys: []string{p.key}, args: s.args(p.session, decimal(s.cfg.Lease.Milliseconds()))})
		}
	}
	s.mu.Unlock()
	sent := s.cfg.Clock.Now()
	missing, err := s.link.try(ctx, calls)
	if err == nil && len(missing) > 0 { // the script was not known
		_, err = s.link.try(ctx, missing)
	}
	for i, c := range calls {
		switch {
		case c.err != nil:
			err = c.err
		case !c.done || len(c.reply) < 2:
		case number(c.reply[0]) == 0:
			s.lose(parts[i], sessions[i])
		default:
			s.renewed(parts[i], sessions[i], sent.Add(s.cfg.Lease))
			s.heard(parts[i], list(c.reply[1]))
		}
	}
	return err
}

func (s *Store) renewed(p *part, session string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session == session && !p.until.IsZero() {
		p.until = until
	}
}

// noteUsed stores what is known of the hosts that were asked since.
func (s *Store) noteUsed() {
	var used []*held
	s.mu.Lock()
	for _, h := range s.hosts {
		if h.used {
			h.used = false
			used = append(used, h)
		}
	}
	s.mu.Unlock()
	for _, h := range used {
		if text := s.memory(h); text != "" {
			s.tell(op{kind: opLearned, held: h, text: text})
		}
	}
}

// watch ends the sessions that were not renewed in time, whatever the server says.
func (s *Store) watch() {
	for {
		now := s.cfg.Clock.Now()
		var next time.Time
		for _, p := range s.parts {
			if at := s.lapse(p, now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		var alarm <-chan time.Time
		var timer clock.Timer
		if !next.IsZero() {
			timer = s.cfg.Clock.NewTimer(next.Sub(now))
			alarm = timer.C()
		}
		select {
		case <-alarm:
		case <-s.wake:
		case <-s.life.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if s.life.Err() != nil {
			return
		}
	}
}

// lapse ends the session of a partition if its time has come, and else returns when that is.
func (s *Store) lapse(p *part, now time.Time) time.Time {
	s.mu.Lock()
	session, until := p.session, p.until
	s.mu.Unlock()
	if until.IsZero() {
		return until
	}
	if at := until.Add(-s.margin()); at.After(now) {
		return at
	}
	s.lose(p, session)
	return time.Time{}
}

// lose ends a session: its hosts are not ours any more.
func (s *Store) lose(p *part, session string) {
	s.mu.Lock()
	if p.session != session || p.until.IsZero() {
		s.mu.Unlock()
		return
	}
	var names []string
	for name, h := range p.hosts {
		names = append(names, name)
		s.dropLocked(h)
	}
	p.cancel(errLost)
	p.session, p.until, p.ctx, p.cancel = "", time.Time{}, nil, nil
	s.mu.Unlock()
	s.counts.lost.Add(int64(len(names)))
	if len(names) > 0 {
		s.cfg.Log.Warn("a lease has ended: the hosts are others'", "job", s.job.name, "partition", p.index, "hosts", len(names))
		s.announce(func(n *frontier.Update) { n.Lost = append(n.Lost, names...) })
	}
}

// loseHost takes in that the server has a newer token of a host.
func (s *Store) loseHost(h *held) {
	s.mu.Lock()
	ours := s.hosts[h.name] == h
	if ours {
		s.dropLocked(h)
	}
	s.mu.Unlock()
	if ours {
		s.counts.lost.Add(1)
		s.announce(func(n *frontier.Update) { n.Lost = append(n.Lost, h.name) })
	}
}

// leave gives back all that this process has, and has it be heard of no more.
func (s *Store) leave(ctx context.Context) error {
	var ops []op
	s.mu.Lock()
	for _, h := range s.hosts {
		ops = append(ops, op{kind: opGive, held: h})
	}
	s.mu.Unlock()
	wait := s.untilHeard()
	for i := range ops {
		ops[i].text, ops[i].n = s.memory(ops[i].held), wait.Milliseconds()
	}
	if err := s.give(ctx, ops); err != nil {
		return fmt.Errorf("give the hosts back: %w", err)
	}
	var rest []*call
	s.mu.Lock()
	for _, p := range s.parts {
		if p.session != "" {
			rest = append(rest, &call{script: scriptRelease, keys: []string{p.key}, args: s.args(p.session, "1")})
		}
	}
	s.mu.Unlock()
	for len(rest) > 0 {
		if err := s.link.run(ctx, rest); err != nil {
			return fmt.Errorf("give the hosts back: %w", err)
		}
		var more []*call
		for _, c := range rest {
			if c.err == nil && len(c.reply) == 2 && number(c.reply[1]) > 0 {
				more = append(more, &call{script: c.script, keys: c.keys, args: c.args})
			}
		}
		rest = more
	}
	if err := s.giveBudgets(ctx); err != nil {
		return fmt.Errorf("give back what was drawn: %w", err)
	}
	if err := s.dropMarks(ctx); err != nil {
		return fmt.Errorf("leave the job: %w", err)
	}
	return s.takeLeave(ctx)
}

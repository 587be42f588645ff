package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// part is a partition, and the session that this process has in it.
type part struct {
	index   int
	key     string // of its counters
	epoch   int    // of sessions, from 1
	session string
	until   time.Time // by our clock; zero: there is none
	hosts   map[string]*held
	acked   int64           // the number of this process that the partition has; zero: none yet
	ackedAt time.Time       // when that was acknowledged
	ctx     context.Context // ends with the session
	cancel  context.CancelCauseFunc
}

// held is a host of this process.
type held struct {
	name    string
	part    *part
	session string
	token   int64
	loaded  int       // URLs that were handed out and are not done
	used    bool      // since what is known of it was stored
	last    time.Time // when a request to it was over; zero: none was
}

// sessionOf is the session in a partition; empty if there is none.
func (s *Store) sessionOf(p *part) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.session
}

// acquire answers with hosts that belong to nobody: of partitions where there may be some, or else of all.
func (s *Store) acquire(ctx context.Context, n int) error {
	var a frontier.Answer
	var some []*part
	for i := range s.hints {
		some = append(some, s.parts[i])
	}
	clear(s.hints)
	for _, parts := range [][]*part{some, s.parts} {
		if len(a.Hosts) > 0 || len(parts) == 0 {
			continue
		}
		if err := s.ask(ctx, parts, n, &a); err != nil {
			return err
		}
	}
	if len(a.Hosts) == 0 {
		t, err := tallyOf(ctx, s.link.Client, s.job)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		a.Complete = err == nil && t.added == t.done && !s.othersSeed(ctx) && s.hearUnvisited(ctx) == nil // or it is asked again soon
	}
	a.More = len(s.hints) > 0
	if !s.Answer(ctx.Done(), a) {
		return ctx.Err()
	}
	return nil
}

// othersSeed reports whether a process that is heard of brings seeds yet. Of what cannot be read it takes the worst.
func (s *Store) othersSeed(ctx context.Context) bool {
	workers, _, err := workersOf(ctx, s.link.Client, s.job.name, s.cfg.now)
	return err != nil || slices.ContainsFunc(workers, func(w Worker) bool { return w.Alive && w.Seeding && w.ID != s.worker })
}

// ask acquires hosts of partitions, about as many of each.
func (s *Store) ask(ctx context.Context, parts []*part, n int, a *frontier.Answer) error {
	quota := max(1, (n+len(parts)-1)/len(parts))
	s.request++
	sent := s.cfg.Clock.Now()
	calls, sessions := make([]*call, len(parts)), make([]string, len(parts))
	s.mu.Lock()
	for i, p := range parts {
		if p.session == "" {
			p.epoch++
			p.session = s.worker + "." + strconv.Itoa(p.epoch)
		}
		sessions[i] = p.session
		calls[i] = &call{script: scriptAcquire, keys: []string{p.key}, args: s.args(
			p.session, millis(s.cfg.Lease), decimal(quota), decimal(s.request), decimal(len(s.hosts)))}
	}
	s.mu.Unlock()
	if err := s.link.run(ctx, calls); err != nil {
		return err
	}
	earlier := func(d *time.Duration, m message) {
		if wait := time.Duration(number(m)) * time.Millisecond; wait > 0 && (*d == 0 || wait < *d) {
			*d = wait
		}
	}
	for i, c := range calls {
		reply, err := c.parts(4)
		if err != nil {
			return err
		}
		earlier(&a.Next, reply[1])
		earlier(&a.Due, reply[3])
		before := len(a.Hosts)
		s.granted(parts[i], sessions[i], sent, list(reply[0]), a)
		if len(a.Hosts)-before >= quota {
			s.hints[parts[i].index] = true // there may be more
		}
	}
	return nil
}

// granted takes in hosts that a session was given.
func (s *Store) granted(p *part, session string, sent time.Time, reply []message, a *frontier.Answer) {
	const fields = 5 // of each host
	if len(reply) < fields {
		return
	}
	for h := range slices.Chunk(reply, fields) {
		if m, ok := recalled(text(h[0]), text(h[4]), s.cfg.Clock.Now()); ok && s.cfg.Recall != nil {
			s.cfg.Recall(m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session != session {
		return // it ended meanwhile, and the hosts with it
	}
	if p.until.IsZero() {
		p.until = sent.Add(s.cfg.Lease)
		p.ctx, p.cancel = context.WithCancelCause(s.life)
		signal(s.wake)
	}
	for f := range slices.Chunk(reply, fields) {
		h := &held{name: text(f[0]), part: p, session: session, token: number(f[1])}
		s.hosts[h.name], p.hosts[h.name] = h, h
		s.counts.acquired.Add(1)
		a.Hosts = append(a.Hosts, frontier.HostLeft{Name: h.name, Queued: int(number(f[2])), Pages: int(number(f[3])), Lease: h.token})
	}
}

// recalled reads what the holder before has left of a host, in spans from now.
func recalled(host, line string, now time.Time) (m ratelimit.HostMemory, ok bool) {
	var rate float32
	var pause, used, retry, hold int64
	if n, err := fmt.Sscan(line, &rate, &pause, &used, &retry, &hold); n != 5 || err != nil {
		return m, false
	}
	in := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return now.Add(time.Duration(ms) * time.Millisecond)
	}
	return ratelimit.HostMemory{
		Domain: host, LastUsed: now.Add(-time.Duration(used) * time.Millisecond),
		Learned:    ratelimit.Learned{Rate: rate, Pause: time.Duration(pause) * time.Millisecond},
		RetryUntil: in(retry), HeldUntil: in(hold),
	}, true
}

// longestGap bounds for how long a host may stay unasked because it is asked seldom.
const longestGap = time.Hour

// memory is the limiter's knowledge of a host, in spans from now that end no earlier than they should, or empty.
func (s *Store) memory(h *held) string {
	if s.cfg.Remember == nil {
		return ""
	}
	m, gap, ok := s.cfg.Remember(h.name)
	if !ok || math.IsNaN(float64(m.Rate)) || math.IsInf(float64(m.Rate), 0) {
		return ""
	}
	s.mu.Lock()
	if h.last.After(m.LastUsed) {
		m.LastUsed = h.last
	}
	s.mu.Unlock()
	now := s.cfg.Clock.Now()
	whole := func(d time.Duration) string { return decimal(d.Milliseconds() + min(1, int64(d%time.Millisecond))) }
	left := func(t time.Time) string {
		if t.IsZero() {
			return "0"
		}
		return whole(max(1, t.Sub(now)))
	}
	return strings.Join([]string{
		strconv.FormatFloat(float64(m.Rate), 'g', -1, 32), whole(m.Pause), millis(max(0, now.Sub(m.LastUsed))),
		left(m.RetryUntil), left(m.HeldUntil), whole(min(gap, longestGap)),
	}, " ")
}

// firstBeat is when a process is heard of again after it has come, with the hosts that it has got by then.
const firstBeat = time.Second

// keep renews the sessions and has the process be heard of, until the store is closed.
func (s *Store) keep() {
	period := s.cfg.Lease / 3
	for wait := min(period, firstBeat); ; {
		timer := s.cfg.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-s.stir:
		case <-s.life.Done():
		}
		timer.Stop()
		if s.life.Err() != nil {
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
		s.learned(h)
	}
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
			calls = append(calls, &call{script: scriptRenew, keys: []string{p.key}, args: s.args(p.session, millis(s.cfg.Lease))})
		}
	}
	s.mu.Unlock()
	until := s.cfg.Clock.Now().Add(s.cfg.Lease)
	err := s.link.try(ctx, calls)
	for i, c := range calls {
		switch {
		case c.err != nil:
			err = c.err
		case !c.done || len(c.reply) < 2:
		case number(c.reply[0]) == 0:
			s.lose(parts[i], sessions[i])
		default:
			s.mu.Lock()
			if p := parts[i]; p.session == sessions[i] && !p.until.IsZero() {
				p.until = until
			}
			s.mu.Unlock()
			s.heard(parts[i], list(c.reply[1]))
		}
	}
	return err
}

// watch ends the sessions that were not renewed in time, whatever the server says.
func (s *Store) watch() {
	for s.life.Err() == nil {
		now := s.cfg.Clock.Now()
		var next time.Time
		for _, p := range s.parts {
			if at := s.lapse(p, now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		var a alarm
		if !next.IsZero() {
			a.set(s.cfg.Clock, next.Sub(now))
		}
		select {
		case <-a.due:
		case <-s.wake:
		case <-s.life.Done():
		}
		a.stop()
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
	wait := int64(0)
	if s.Verdict() != "" { // all are to hear of it first, or what this one leaves would keep them from their end
		wait = s.cfg.Lease.Milliseconds()
	}
	for i := range ops {
		ops[i].text, ops[i].n = s.memory(ops[i].held), wait
	}
	err := s.give(ctx, ops)
	if err == nil {
		err = s.endSessions(ctx)
	}
	if err != nil {
		return fmt.Errorf("give the hosts back: %w", err)
	}
	if err := s.giveBudgets(ctx); err != nil {
		return fmt.Errorf("give back what was drawn: %w", err)
	}
	if err := s.dropMarks(ctx); err != nil {
		return fmt.Errorf("leave the job: %w", err)
	}
	s.beating.Lock()
	defer s.beating.Unlock()
	s.parted = true
	_, err = s.link.one(ctx, s.hello(0))
	return err
}

// endSessions ends all sessions, some hosts at a time.
func (s *Store) endSessions(ctx context.Context) error {
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
			return err
		}
		var more []*call
		for _, c := range rest {
			if c.err == nil && len(c.reply) == 2 && number(c.reply[1]) > 0 {
				more = append(more, &call{script: c.script, keys: c.keys, args: c.args})
			}
		}
		rest = more
	}
	return nil
}

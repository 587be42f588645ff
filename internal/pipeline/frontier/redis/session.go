package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
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

// acquire answers with hosts that belong to nobody: of partitions where there may be some,
// or else of all.
func (s *Store) acquire(ctx context.Context, n int) error {
	var a frontier.Answer
	var some []*part
	for i := range s.hints {
		some = append(some, s.parts[i])
	}
	clear(s.hints)
	if len(some) > 0 {
		if err := s.ask(ctx, some, n, &a); err != nil {
			return err
		}
	}
	if len(a.Hosts) == 0 {
		if err := s.ask(ctx, s.parts, n, &a); err != nil {
			return err
		}
		if len(a.Hosts) == 0 {
			t, err := tallyOf(ctx, s.link.Client, s.job)
			if err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			a.Complete = err == nil && t.added == t.done && !s.othersSeed(ctx) // or it is asked again soon
		}
	}
	a.More = len(s.hints) > 0
	return s.answer(ctx, a)
}

// ask acquires hosts of partitions, about as many of each.
func (s *Store) ask(ctx context.Context, parts []*part, n int, a *frontier.Answer) error {
	quota := max(1, (n+len(parts)-1)/len(parts))
	s.request++
	sent := s.cfg.Clock.Now()
	calls, sessions := make([]*call, len(parts)), make([]string, len(parts))
	for i, p := range parts {
		sessions[i] = s.begin(p)
		calls[i] = &call{script: scriptAcquire, keys: []string{p.key}, args: s.args(
			sessions[i], decimal(s.cfg.Lease.Milliseconds()), strconv.Itoa(quota), decimal(s.request), "1")}
	}
	if err := s.link.run(ctx, calls); err != nil {
		return err
	}
	for i, c := range calls {
		if c.err != nil {
			return c.err
		}
		if len(c.reply) < 4 {
			return errors.New("redis: acquire: a reply cannot be read")
		}
		if wait := time.Duration(number(c.reply[1])) * time.Millisecond; wait > 0 && (a.Next == 0 || wait < a.Next) {
			a.Next = wait
		}
		if due := time.Duration(number(c.reply[3])) * time.Millisecond; due > 0 && (a.Due == 0 || due < a.Due) {
			a.Due = due
		}
		before := len(a.Hosts)
		s.granted(parts[i], sessions[i], sent, list(c.reply[0]), a)
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
	for i := 0; i+fields <= len(reply) && s.cfg.Recall != nil; i += fields {
		if m, ok := recalled(text(reply[i]), text(reply[i+4]), s.cfg.Clock.Now()); ok {
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
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	for i := 0; i+fields <= len(reply); i += fields {
		h := &held{name: text(reply[i]), part: p, session: session, token: number(reply[i+1]), ids: make(map[int64]struct{})}
		s.hosts[h.name], p.hosts[h.name] = h, h
		s.counts.acquired.Add(1)
		a.Hosts = append(a.Hosts, frontier.HostLeft{
			Name: h.name, Queued: int(number(reply[i+2])), Pages: int(number(reply[i+3])), Lease: h.token,
		})
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

// memory is what the limiter knows of a host, in spans from now; empty if that is nothing.
// No span ends earlier than it should: the limiter tells when it let a request go, which
// reaches its host later, but not after it was over.
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
	left := func(t time.Time) string {
		if t.IsZero() {
			return "0"
		}
		return wholeMs(max(1, t.Sub(now)))
	}
	return strings.Join([]string{
		strconv.FormatFloat(float64(m.Rate), 'g', -1, 32), wholeMs(m.Pause), decimal(max(0, now.Sub(m.LastUsed).Milliseconds())),
		left(m.RetryUntil), left(m.HeldUntil), wholeMs(min(gap, longestGap)),
	}, " ")
}

// longestGap bounds for how long a host may stay unasked because it is asked seldom.
const longestGap = time.Hour

// wholeMs is a span in milliseconds, and not less.
func wholeMs(d time.Duration) string {
	return decimal(d.Milliseconds() + min(1, int64(d%time.Millisecond)))
}

// keep renews the sessions and has the process be heard of, until the store is closed.
func (s *Store) keep() {
	period := s.cfg.Lease / 3
	for wait := period; ; {
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
		s.announce(func(n *frontier.News) { n.Lost = append(n.Lost, names...) })
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
		s.announce(func(n *frontier.News) { n.Lost = append(n.Lost, h.name) })
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
	_, err := s.link.one(ctx, s.hello(0))
	return err
}

// hello is the call by which this process is heard of for a while.
func (s *Store) hello(ttl time.Duration) *call {
	s.mu.Lock()
	hosts, loaded, idleness := len(s.hosts), len(s.handed), s.idleness
	s.idleTold = ttl > 0 && idleness.Still()
	s.mu.Unlock()
	c := &s.counts
	var use map[string]float64
	if s.cfg.Use != nil && ttl > 0 {
		use = s.cfg.Use()
	}
	info, err := json.Marshal(WorkerInfo{
		Use:  use,
		Name: s.cfg.Worker, Hosts: hosts, Added: c.added.Load(), Done: c.done.Load(), Dropped: c.dropped.Load(), Lost: c.lost.Load(),
		Loaded: loaded, Seeding: s.seeding.Load(), State: stateOf(&idleness),
	})
	if err != nil { // numbers and a name always have a form
		info = nil
	}
	name := s.job.name
	return &call{
		script: scriptHello,
		keys:   []string{jobKey(name, "job"), jobKey(name, "workers"), jobKey(name, "info"), jobKey(name, "seeds"), jobKey(name, "idle")},
		args:   append([]string{timeArg(s.cfg.now), s.job.id, s.worker, decimal(ttl.Milliseconds()), string(info)}, s.idleArgs(&idleness)...),
	}
}

// beat has the process be heard of, and hears what the job is to do and which seeds there are.
func (s *Store) beat(ctx context.Context) error {
	c := s.hello(s.cfg.Lease)
	missing, err := s.link.try(ctx, []*call{c})
	if err == nil && len(missing) > 0 {
		_, err = s.link.try(ctx, missing)
	}
	if err = errors.Join(err, c.err); err != nil {
		return err
	}
	if len(c.reply) < 3 {
		return errors.New("redis: hello: the reply cannot be read")
	}
	s.judge(text(c.reply[2]))
	s.counts.heartbeats.Add(1)
	control := Control(text(c.reply[0]))
	s.mu.Lock()
	changed := control != s.control
	s.control, s.heardAt = control, s.cfg.Clock.Now()
	s.mu.Unlock()
	if changed && s.cfg.OnControl != nil {
		s.cfg.OnControl(control)
	}
	return s.hearSeeds(ctx, number(c.reply[1]))
}

// seedsMost bounds the seeds that are read at a time.
const seedsMost = 1000

type seed struct {
	url  string
	hops uint8
	at   int64
}

// hearSeeds tells of the seeds that were added since.
func (s *Store) hearSeeds(ctx context.Context, last int64) error {
	for s.cfg.OnSeed != nil && s.lastSeed < last {
		seeds, err := s.seedsBehind(ctx, s.lastSeed)
		if err != nil {
			return err
		}
		for _, seed := range seeds {
			s.cfg.OnSeed(seed.url, seed.hops)
			s.lastSeed = seed.at
		}
		if len(seeds) == 0 {
			return nil
		}
	}
	return nil
}

// seedsBehind reads some of the seeds of the job.
func (s *Store) seedsBehind(ctx context.Context, last int64) ([]seed, error) {
	c := s.link.Client
	found, err := c.Do(ctx, c.B().Zrangebyscore().Key(jobKey(s.job.name, "seeds")).
		Min("("+decimal(last)).Max("+inf").Withscores().Limit(0, seedsMost).Build()).AsZScores()
	if err != nil {
		return nil, fmt.Errorf("redis: read the seeds: %w", err)
	}
	seeds := make([]seed, len(found))
	for i, z := range found {
		seeds[i] = seed{z.Member, uint8(int64(z.Score) & 255), int64(z.Score)}
	}
	return seeds, nil
}

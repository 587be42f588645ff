package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

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
			a.Complete = err == nil && t.added == t.done && !s.othersSeed(ctx) && s.hearUnvisited(ctx) == nil // or it is asked again soon
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
	s.mu.Lock()
	has := strconv.Itoa(len(s.hosts))
	s.mu.Unlock()
	calls, sessions := make([]*call, len(parts)), make([]string, len(parts))
	for i, p := range parts {
		sessions[i] = s.begin(p)
		calls[i] = &call{script: scriptAcquire, keys: []string{p.key}, args: s.args(
			sessions[i], decimal(s.cfg.Lease.Milliseconds()), strconv.Itoa(quota), decimal(s.request), has)}
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

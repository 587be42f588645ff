package redis

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

type leases struct {
	*process

	mu     sync.Mutex // guards what follows
	parts  []*part
	hosts  map[string]*held
	loaded int // URLs handed out and not done
	news   news
}

// news is what the frontier has to learn without a request. It waits here, as one, for as long as nobody takes the
// answer that delivers it: who announces must go on, to renew the leases.
type news struct {
	told    bool // an answer that delivers the news is on its way
	ready   bool
	lost    []frontier.HostLeft
	grown   map[string]int // hosts of this process, with how many more URLs they got
	wanting map[*part]bool // partitions whose hosts other processes would take
	poorest int            // only if there are any of wanting
}

func (n *news) grow(host string, more int) {
	if n.grown == nil {
		n.grown = make(map[string]int)
	}
	n.grown[host] += more
}

func (n *news) want(p *part, poorest int) {
	if len(n.wanting) == 0 {
		n.wanting, n.poorest = make(map[*part]bool), poorest
	}
	n.wanting[p], n.poorest = true, min(n.poorest, poorest)
}

type part struct {
	index   int
	key     string // key of its counters
	epoch   int    // number of sessions so far
	session string
	hosts   map[string]*held
	tenure  *frontier.Tenure // of the session; nil means that it has no host yet
	cancel  context.CancelCauseFunc
	asking  bool // a request for hosts is outstanding
	giving  int  // hosts of the session whose return is not acknowledged yet
	moves   int  // counts changes of the hosts that the server has for this session
}

type held struct {
	name    string
	part    *part
	session string
	token   int64
	loaded  int       // URLs handed out and not done
	used    bool      // a request was made since its host memory was stored last
	last    time.Time // when a request to it ended; zero means that none was made
}

// size returns how many hosts this process holds, and how many of their URLs are handed out and not done.
func (s *leases) size() (hosts, loaded int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hosts), s.loaded
}

// Hosts returns how many hosts this process holds. It is safe for concurrent use.
func (s *leases) Hosts() int {
	n, _ := s.size()
	return n
}

func (s *leases) find(host string) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts[host]
}

// asked records that a URL of a host was requested and that that many are done. It returns nil if this process does not
// hold the host.
func (s *leases) asked(host string, done int) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[host]
	if h == nil {
		return nil
	}
	done = min(done, h.loaded)
	h.loaded, s.loaded = h.loaded-done, s.loaded-done
	h.used, h.last = true, s.cfg.Clock.Now()
	return h
}

// handed records URLs of a host that were handed out, unless the host was lost meanwhile; then nobody wants them.
func (s *leases) handed(h *held, urls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts[h.name] == h {
		h.loaded, s.loaded = h.loaded+urls, s.loaded+urls
	}
}

// dropLocked drops a host, and reports whether this process held it.
func (s *leases) dropLocked(h *held) bool {
	if s.hosts[h.name] != h {
		return false
	}
	s.loaded -= h.loaded
	delete(s.hosts, h.name)
	delete(h.part.hosts, h.name)
	delete(s.news.grown, h.name)
	h.part.moves++
	return true
}

// give drops a host that is to be returned, and reports whether this process held it.
func (s *leases) give(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dropLocked(h) {
		return false
	}
	h.part.giving++
	return true
}

// gave records that the return of a host is acknowledged.
func (s *leases) gave(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := h.part; p.session == h.session && p.giving > 0 {
		p.giving--
		p.moves++
	}
}

// margin returns how long before the end of a session the process stops sending requests.
func (p *process) margin() time.Duration { return p.cfg.Lease / 4 }

// until returns when a session ends for this process, given when the request that renewed it was sent.
func (p *process) until(sent time.Time) time.Time { return sent.Add(p.cfg.Lease - p.margin()) }

// errLost is the cause of the end of a host's context. To a fetch it means that the request was canceled.
var errLost = fmt.Errorf("the lease of the host has ended: %w", context.Canceled)

// learned stores what the limiter knows of a host.
func (s *leases) learned(h *held) {
	if text := s.memory(h); text != "" {
		s.tell(op{kind: opLearned, held: h, text: text})
	}
}

func (s *leases) sessionOf(p *part) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.session
}

// begin returns the session of a partition, for a request for hosts, and begins one if there is none. The time of a
// session runs from when it is granted a host.
func (s *leases) begin(p *part) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session == "" {
		p.epoch++
		p.session = s.worker + "." + strconv.Itoa(p.epoch)
	}
	p.asking = true
	return p.session
}

// granted adds the hosts that a session was granted to the leases and to the answer.
func (s *leases) granted(p *part, session string, sent time.Time, reply []message, a *frontier.Answer) {
	const fields = 5 // fields per host
	reply = reply[:len(reply)/fields*fields]
	for h := range slices.Chunk(reply, fields) {
		if m, ok := recalled(text(h[0]), text(h[4]), s.cfg.Clock.Now()); ok && s.cfg.Recall != nil {
			s.cfg.Recall(m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.asking = false
	p.moves++
	if p.session != session || len(reply) == 0 {
		return // the session has ended meanwhile, and with it its hosts; or there are no hosts
	}
	if p.tenure == nil {
		ctx, cancel := context.WithCancelCause(s.life)
		p.tenure, p.cancel = frontier.NewTenure(ctx, s.until(sent)), cancel
	}
	for f := range slices.Chunk(reply, fields) {
		h := &held{name: text(f[0]), part: p, session: session, token: number(f[1])}
		s.hosts[h.name], p.hosts[h.name] = h, h
		s.counts.acquired.Add(1)
		queued, known := int(number(f[2])), int(number(f[3]))
		a.Hosts = append(a.Hosts, frontier.HostLeft{Name: h.name, Queued: queued, Pages: known, Visited: max(0, known-queued), Lease: h.token, Tenure: p.tenure})
	}
}

// recalled reads the host memory that the previous holder left. Its times are durations from now.
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

// longestGap bounds how long a host may wait after its previous holder because of a long gap between requests.
const longestGap = time.Hour

// memory returns the limiter's host memory as text, or an empty string. Its times are durations from now, rounded up so
// that none ends too early.
func (s *leases) memory(h *held) string {
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

// used returns the hosts with requests since its last call.
func (s *leases) used() (used []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		if h.used {
			h.used = false
			used = append(used, h)
		}
	}
	return used
}

// renew renews all sessions for another lease. A session that the server has ended is lost.
func (s *leases) renew(ctx context.Context) error {
	var calls []*call
	var parts []*part
	var was []part
	s.mu.Lock()
	for _, p := range s.parts {
		if p.tenure != nil {
			parts, was = append(parts, p), append(was, *p)
			calls = append(calls, &call{script: scriptRenew, keys: []string{p.key}, args: s.args(p.session, millis(s.cfg.Lease))})
		}
	}
	s.mu.Unlock()
	until := s.until(s.cfg.Clock.Now())
	err := s.link.try(ctx, calls)
	for i, c := range calls {
		switch {
		case c.err != nil:
			err = c.err
		case !c.done:
		case number(c.reply[0]) == 0, s.strays(parts[i], &was[i], int(number(c.reply[2]))):
			s.lose(parts[i], was[i].session)
		default:
			s.mu.Lock()
			if p := parts[i]; p.session == was[i].session && p.tenure != nil {
				p.tenure.Extend(until)
			}
			s.mu.Unlock()
			s.heard(parts[i], list(c.reply[1]))
		}
	}
	return err
}

// strays reports whether the server has more hosts of a session than this process holds or is about to return. Then the
// server has lost a return that it had acknowledged, as in a failover, and would keep those hosts from everybody as
// long as the session is renewed.
func (s *leases) strays(p, before *part, owned int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := p.session == before.session && p.moves == before.moves && !p.asking
	return still && owned > len(p.hosts)+p.giving
}

// watchEvery is how often per lease watch looks for sessions that have ended.
const watchEvery = 32

// watch ends the sessions that were not renewed in time, whatever the server says.
func (s *leases) watch() {
	for s.wait(s.cfg.Lease/watchEvery, nil) {
		now := s.cfg.Clock.Now()
		for _, p := range s.parts {
			s.mu.Lock()
			session, over := p.session, p.tenure.Over(now)
			s.mu.Unlock()
			if over {
				s.lose(p, session)
			}
		}
	}
}

// lose ends a session: this process no longer holds its hosts.
func (s *leases) lose(p *part, session string) {
	s.mu.Lock()
	if p.session != session || p.tenure == nil {
		s.mu.Unlock()
		return
	}
	var lost []*held
	for _, h := range p.hosts {
		lost = append(lost, h)
		s.dropLocked(h)
	}
	p.cancel(errLost)
	p.session, p.tenure, p.cancel, p.giving = "", nil, nil, 0
	s.mu.Unlock()
	if len(lost) > 0 {
		s.cfg.Log.Warn("a lease has ended: the hosts are others'", "job", s.job.name, "partition", p.index, "hosts", len(lost))
		s.lost(lost...)
	}
}

// loseHost drops a host of which the server has a newer token.
func (s *leases) loseHost(h *held) {
	s.counts.stale.Add(1)
	s.mu.Lock()
	held := s.dropLocked(h)
	s.mu.Unlock()
	if held {
		s.lost(h)
	}
}

// lost announces hosts that were dropped because this process no longer holds them.
func (s *leases) lost(hosts ...*held) {
	s.counts.lost.Add(int64(len(hosts)))
	s.announce(func(n *news) {
		for _, h := range hosts {
			n.lost = append(n.lost, frontier.HostLeft{Name: h.name, Lease: h.token})
		}
	})
}

// returns makes the calls that give back all hosts, not to be acquired for wait milliseconds.
func (s *leases) returns(wait int64) (ops []op) {
	s.mu.Lock()
	for _, h := range s.hosts {
		ops = append(ops, op{kind: opDeactivate, held: h, n: wait})
	}
	s.mu.Unlock()
	for i := range ops {
		ops[i].text = s.memory(ops[i].held)
	}
	return ops
}

// endSessions ends all sessions; the server returns some hosts of each at a time.
func (s *leases) endSessions(ctx context.Context) error {
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
			if c.err == nil && number(c.reply[1]) > 0 {
				more = append(more, &call{script: c.script, keys: c.keys, args: c.args})
			}
		}
		rest = more
	}
	return nil
}

// announce adds to the news, and has an answer deliver them unless one is on its way.
func (s *leases) announce(add func(*news)) {
	s.mu.Lock()
	add(&s.news)
	told := s.news.told
	s.news.told = true
	s.mu.Unlock()
	if !told {
		s.Answer(s.life.Done(), frontier.Answer{Update: s.takeNews})
	}
}

// takeNews returns all news so far, and clears them.
func (s *leases) takeNews() frontier.Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.news
	s.news = news{}
	u := frontier.Update{Ready: n.ready, Lost: n.lost, Poorest: n.poorest}
	for _, host := range slices.Sorted(maps.Keys(n.grown)) {
		u.Grown = append(u.Grown, frontier.HostLeft{Name: host, Queued: n.grown[host]})
	}
	for p := range n.wanting {
		u.Wanted = slices.AppendSeq(u.Wanted, maps.Keys(p.hosts))
	}
	return u
}

// heard processes the news that a script has added to its reply.
func (s *leases) heard(p *part, reply []message) {
	if len(reply) < 2 {
		return
	}
	wants, grown := int(number(reply[0])), list(reply[1])
	if wants <= 0 && len(grown) == 0 {
		return
	}
	s.announce(func(n *news) {
		if wants > 0 {
			n.want(p, wants-1)
		}
		for _, host := range grown {
			n.grow(text(host), 0)
		}
	})
}

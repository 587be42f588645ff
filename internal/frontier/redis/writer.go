package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

func (s *Store) tell(o op) {
	s.Told(1)
	if s.Err() != nil || !s.inbox.add(o) {
		s.Told(-1)
	}
}

// write sends what was told until the store is closed or fails.
func (s *Store) write() {
	defer close(s.inbox.done)
	var linger alarm
	defer linger.stop()
	defer s.unsettled.stop()
	for {
		timeIsUp, overdue := false, false
		select {
		case <-s.life.Done():
			return
		case <-s.inbox.wake:
		case <-linger.due:
			timeIsUp, linger.due = true, nil
		case <-s.unsettled.due:
			overdue, s.unsettled.due = true, nil
		}
		ops, later, closed := s.inbox.take(timeIsUp)
		if later {
			linger.set(s.cfg.Clock, s.cfg.Linger)
		} else {
			linger.due = nil
		}
		ctx, cancel := s.life, context.CancelFunc(func() {})
		if closed {
			ctx, cancel = context.WithTimeout(s.life, s.patience())
		}
		ops, err := s.settle(ops, overdue || closed)
		if err == nil {
			err = s.send(ctx, ops)
		}
		if err == nil && closed {
			err = s.leave(ctx)
		}
		cancel()
		if err != nil && s.life.Err() == nil {
			s.fail(err)
		}
		if err != nil || closed {
			return
		}
	}
}

// settleEvery is how long outcomes may wait, to sync the sinks less often.
const settleEvery = 100 * time.Millisecond

// unsettled are done URLs whose records may not be on disk yet, told once they are. The writer's alone.
type unsettled struct {
	ops []op
	alarm
}

// settle takes out of ops what is to wait, and adds what need not, after a sync. Returns and questions depend on all
// calls before.
func (s *Store) settle(ops []op, now bool) ([]op, error) {
	if s.cfg.Sync == nil {
		return ops, nil
	}
	u := &s.unsettled
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
		u.set(s.cfg.Clock, settleEvery)
		return rest, nil
	}
	if err := s.cfg.Sync(); err != nil {
		return nil, err
	}
	s.counts.syncs.Add(1)
	rest = append(rest, u.ops...)
	clear(u.ops)
	u.ops, u.due = u.ops[:0], nil
	return rest, nil
}

// send sends a batch, phase by phase.
func (s *Store) send(ctx context.Context, ops []op) error {
	if len(ops) == 0 {
		return nil
	}
	begun := s.cfg.Clock.Now()
	slices.SortStableFunc(ops, func(a, b op) int { return cmp.Compare(phase[a.kind], phase[b.kind]) })
	for len(ops) > 0 {
		n := 1
		for n < len(ops) && phase[ops[n].kind] == phase[ops[0].kind] && ops[n].kind != opRouse {
			n++
		}
		var err error
		switch ops[0].kind {
		case opNote:
			err = s.note(ctx, ops[:n])
		case opPut:
			err = s.put(ctx, ops[:n])
		case opSeeded:
			s.seeding.Store(false)
			signal(s.stir)
		case opSpent, opDone, opLearned:
			err = s.finish(ctx, ops[:n])
		case opGive:
			err = s.give(ctx, ops[:n])
		case opLoad:
			err = s.load(ctx, ops[:n])
		case opRouse:
			err = s.acquire(ctx, int(ops[0].n))
		}
		if err != nil {
			return err
		}
		s.Stored(n)
		ops = ops[n:]
	}
	s.counts.rtt.Store(int64(s.cfg.Clock.Since(begun)))
	return nil
}

// addMost, doneMost and giveMost bound a script to some milliseconds.
const (
	addMost  = 256
	doneMost = 512
	giveMost = 64
)

// batch is calls of one script, one per session and up to so many operations, in order per session.
type batch struct {
	script *script
	most   int
	head   func(session string) []string // the first arguments
	calls  []*call
	ops    [][]op // of each call
	open   map[place]int
}

type place struct {
	partition int
	session   string // its name is the same in many partitions
}

func (b *batch) add(p *part, session string, o op, args ...string) {
	at := place{p.index, session}
	i, ok := b.open[at]
	if !ok || len(b.ops[i]) >= b.most {
		i = len(b.calls)
		if b.open == nil {
			b.open = make(map[place]int)
		}
		b.open[at] = i
		b.calls = append(b.calls, &call{script: b.script, keys: []string{p.key}, args: b.head(session)})
		b.ops = append(b.ops, nil)
	}
	b.calls[i].args = append(b.calls[i].args, args...)
	b.ops[i] = append(b.ops[i], o)
}

// args are those that all scripts begin with.
func (s *Store) args(more ...string) []string {
	return append([]string{timeArg(s.cfg.now), s.job.id}, more...)
}

func (s *Store) argsOf(session string) []string { return s.args(session) }

func decimal[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func millis(d time.Duration) string { return decimal(d.Milliseconds()) }

// put adds URLs, the seeds among them to those of the job before.
func (s *Store) put(ctx context.Context, ops []op) error {
	seeds := &call{script: scriptSeeds, keys: []string{jobKey(s.job.name, "seeds")}}
	var numbers []int64 // of the calls
	b := batch{script: scriptAdd, most: addMost, head: func(session string) []string {
		s.request++
		numbers = append(numbers, s.request)
		return s.args(session, s.worker, decimal(s.request))
	}}
	for _, o := range ops {
		if o.seed != "" {
			seeds.args = append(seeds.args, o.seed, decimal(int(o.hops)))
		}
		p := s.parts[s.job.partitionOf(o.host)]
		b.add(p, s.sessionOf(p), o, o.host, o.fingerprint(), decimal(o.n), o.budget, o.text)
	}
	if len(seeds.args) > 0 {
		// One that the server has no memory for is a seed of this process alone.
		if _, err := s.link.one(ctx, seeds); err != nil && !errors.Is(err, errMemory) {
			return err
		}
	}
	if err := s.link.run(ctx, b.calls); err != nil {
		return err
	}
	full, lost := false, 0
	for i, c := range b.calls {
		if errors.Is(c.err, errMemory) {
			full = true
			for _, o := range b.ops[i] {
				s.known.forget(o.fp)
			}
			s.counts.dropped.Add(int64(len(b.ops[i])))
			continue
		}
		reply, err := c.parts(5)
		if err != nil {
			return err
		}
		if s.added(reply, b.ops[i], numbers[i]) {
			lost++
		}
	}
	s.noteFull(full)
	s.noteLost(lost)
	return nil
}

// fingerprint is that of a URL, as the script takes it.
func (o *op) fingerprint() string {
	text := strconv.FormatUint(o.fp&fpMask, 10)
	switch {
	case o.none:
		return "!"
	case o.also != 0:
		return text + "/" + strconv.FormatUint(o.also&fpMask, 10)
	}
	return text
}

// noteFull tells once when the server begins to refuse new URLs, and when it takes them again.
func (s *Store) noteFull(full bool) {
	if was := s.counts.oom.Swap(full); was == full {
		return
	}
	dropped := s.counts.dropped.Load()
	if full {
		s.cfg.Log.Warn("Redis has no memory left: new URLs are dropped, and the queued ones visited", "job", s.job.name, "dropped", dropped)
	} else {
		s.cfg.Log.Info("Redis has memory again", "job", s.job.name, "dropped", dropped)
	}
}

// added takes in the outcome of offered URLs, and reports whether the partition has lost earlier ones.
func (s *Store) added(reply []message, ops []op, serial int64) (lost bool) {
	fresh, refused := number(reply[0]), list(reply[1])
	s.counts.added.Add(fresh)
	s.counts.refused.Add(int64(len(refused)))
	s.counts.duplicates.Add(int64(len(ops)) - fresh - int64(len(refused)))
	for _, m := range refused {
		if i := number(m); i >= 0 && i < int64(len(ops)) && s.job.max > 0 {
			s.turnAway(&ops[i])
		}
	}
	p := s.job.partitionOf(ops[0].host)
	lost = s.acknowledged(s.parts[p], number(reply[4]), serial)
	grown, ready := list(reply[2]), number(reply[3]) == 1
	if ready {
		s.hints[p] = true
	}
	if ready || len(grown) > 0 {
		s.announce(func(n *frontier.Update) {
			n.Ready = n.Ready || ready
			for i := 0; i+1 < len(grown); i += 2 {
				n.Grown = append(n.Grown, frontier.HostLeft{Name: text(grown[i]), Queued: int(number(grown[i+1]))})
			}
		})
	}
	return lost
}

// announce adds to the news and lets it be known that there are some.
func (s *Store) announce(add func(*frontier.Update)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.news)
	if !s.told { // if there is no room the next to announce tries again
		s.told = s.Offer(frontier.Answer{Update: s.takeNews})
	}
}

// takeNews is all that is new by now.
func (s *Store) takeNews() frontier.Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.news
	s.news, s.told = frontier.Update{}, false
	return n
}

// heard takes in the news that a script has added to its reply.
func (s *Store) heard(p *part, reply []message) {
	if len(reply) < 2 {
		return
	}
	wants, grown := int(number(reply[0])), list(reply[1])
	if wants <= 0 && len(grown) == 0 {
		return
	}
	s.announce(func(n *frontier.Update) {
		if wants > 0 {
			if len(n.Wanted) == 0 || wants-1 < n.Poorest {
				n.Poorest = wants - 1
			}
			for name := range p.hosts {
				n.Wanted = append(n.Wanted, name)
			}
		}
		for _, name := range grown {
			n.Grown = append(n.Grown, frontier.HostLeft{Name: text(name)})
		}
	})
}

// finish stores what became of URLs, and what was learned.
func (s *Store) finish(ctx context.Context, ops []op) error {
	b := batch{script: scriptDone, most: doneMost, head: s.argsOf}
	for _, o := range ops {
		what := map[kind]string{opDone: "d", opSpent: "s", opLearned: "m"}[o.kind]
		if o.refused {
			what = "r"
		}
		b.add(o.held.part, o.held.session, o, what, o.held.name, decimal(o.held.token), decimal(s.seq(o.id)), o.text)
	}
	if err := s.link.run(ctx, b.calls); err != nil {
		return err
	}
	for i, c := range b.calls {
		reply, err := c.parts(3)
		if err != nil {
			return err
		}
		s.counts.done.Add(number(reply[0]))
		for _, stale := range list(reply[1]) {
			at := slices.IndexFunc(b.ops[i], func(o op) bool { return o.held.name == text(stale) })
			if s.counts.stale.Add(1); at >= 0 {
				s.loseHost(b.ops[i][at].held)
			}
		}
		s.heard(b.ops[i][0].held.part, list(reply[2]))
	}
	s.readmit(ops)
	return nil
}

// seq is the number of a URL in its partition.
func (s *Store) seq(id int64) int64 { return id / int64(s.job.partitions) }

// give returns hosts.
func (s *Store) give(ctx context.Context, ops []op) error {
	b := batch{script: scriptRelease, most: giveMost, head: func(session string) []string { return s.args(session, "0") }}
	for _, o := range ops {
		b.add(o.held.part, o.held.session, o, o.held.name, decimal(o.held.token), decimal(o.n), o.text)
	}
	if err := s.link.run(ctx, b.calls); err != nil {
		return err
	}
	for _, c := range b.calls {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// load answers with the next URLs of hosts.
func (s *Store) load(ctx context.Context, ops []op) error {
	b := batch{script: scriptLoad, most: giveMost, head: s.argsOf}
	for _, o := range ops {
		if o.held == nil {
			if !s.Answer(ctx.Done(), frontier.Answer{Host: o.host}) {
				return ctx.Err()
			}
			continue
		}
		s.request++
		b.add(o.held.part, o.held.session, o, o.held.name, decimal(o.held.token), decimal(o.n), decimal(s.request))
	}
	if err := s.link.run(ctx, b.calls); err != nil {
		return err
	}
	for i, c := range b.calls {
		reply, err := c.parts(2)
		if err != nil {
			return err
		}
		s.heard(b.ops[i][0].held.part, list(reply[1]))
		replies := list(reply[0])
		for j, o := range b.ops[i] {
			if j >= len(replies) {
				return errors.New("redis: load: a reply cannot be read")
			}
			a, err := s.loadedOf(o.held, list(replies[j]))
			if err != nil {
				return err
			}
			if !s.Answer(ctx.Done(), a) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// loadedOf is the answer about one host.
func (s *Store) loadedOf(h *held, reply []message) (frontier.Answer, error) {
	a := frontier.Answer{Host: h.name, Lease: h.token}
	if len(reply) < 2 {
		return a, fmt.Errorf("redis: load: the reply about %s cannot be read", h.name)
	}
	left := number(reply[0])
	if left < 0 {
		s.counts.stale.Add(1)
		s.loseHost(h)
		return a, nil
	}
	a.Left = int(left)
	for _, m := range list(reply[1]) {
		it, err := s.item(h, text(m))
		if err != nil {
			return a, fmt.Errorf("redis: %s of %s: %w: go on with the program that stored it", root(s.job.name, h.part.index)+"x:"+h.name, s.job.name, err)
		}
		a.Items = append(a.Items, it)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts[h.name] == h { // else it was lost meanwhile, and nobody wants the answer
		h.loaded, s.loaded = h.loaded+len(a.Items), s.loaded+len(a.Items)
	}
	return a, nil
}

// What an opNote tells beside a reason.
const (
	noteVisited  = 1
	noteAnswered = 2
)

// note stores notes with the job, before the URL of their origin counts as done, so that whoever finds the job
// complete sees them.
func (s *Store) note(ctx context.Context, ops []op) error {
	visited, answered, reason := "0", "0", ""
	for _, o := range ops {
		switch {
		case o.n == noteVisited:
			visited = "1"
		case o.n == noteAnswered:
			answered = "1"
		case reason == "":
			reason = o.text
		}
	}
	_, err := s.link.one(ctx, &call{script: scriptNote, keys: []string{jobKey(s.job.name, "job")}, args: s.args(visited, reason, answered)})
	return err
}

package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
)

// addMost and doneMost bound what one script does, so that no other waits for it for more
// than some milliseconds.
const (
	addMost  = 256
	doneMost = 512
	giveMost = 64
)

func (s *Store) tell(o op) {
	s.pending.Add(1)
	if s.Err() != nil || !s.inbox.add(o) {
		s.pending.Add(-1)
	}
}

// write sends what was told until the store is closed or fails.
func (s *Store) write() {
	defer close(s.inbox.ended())
	defer s.unsettled.stop()
	var timer clock.Timer
	var due <-chan time.Time
	for {
		timeIsUp := false
		select {
		case <-s.life.Done():
			return
		case <-s.inbox.wake:
		case <-due:
			timeIsUp, due = true, nil
		case <-s.unsettled.due:
			s.unsettled.due, s.unsettled.over = nil, true
		}
		ops, later, closed := s.inbox.take(timeIsUp)
		switch {
		case !later:
			due = nil
		case due == nil && timer == nil:
			timer = s.cfg.Clock.NewTimer(s.cfg.Linger)
			defer timer.Stop()
			due = timer.C()
		case due == nil:
			timer.Reset(s.cfg.Linger)
			due = timer.C()
		}
		ctx, cancel := s.life, context.CancelFunc(func() {})
		if closed {
			ctx, cancel = context.WithTimeout(s.life, s.patience())
		}
		ops, err := s.settle(ops, closed)
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

// send sends a batch: first what all are to know, and the URLs that were found, then what became of others, then
// hosts that are given back, and last the questions.
func (s *Store) send(ctx context.Context, ops []op) error {
	if len(ops) == 0 {
		return nil
	}
	begun := s.cfg.Clock.Now()
	slices.SortStableFunc(ops, func(a, b op) int { return int(phase[a.kind]) - int(phase[b.kind]) })
	for len(ops) > 0 {
		n := 1
		for n < len(ops) && phase[ops[n].kind] == phase[ops[0].kind] {
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
			s.beatSoon()
		case opSpent, opDone, opLearned:
			err = s.finish(ctx, ops[:n])
		case opGive:
			err = s.give(ctx, ops[:n])
		case opLoad:
			err = s.load(ctx, ops[:n])
		case opRouse:
			n = 1
			err = s.acquire(ctx, int(ops[0].n))
		}
		if err != nil {
			return err
		}
		s.sent(n)
		ops = ops[n:]
	}
	s.counts.rtt.Store(int64(s.cfg.Clock.Since(begun)))
	return nil
}

// phase is when calls of a kind are sent. Those of one phase keep their order.
var phase = [...]uint8{opNote: 0, opPut: 1, opSpent: 2, opDone: 2, opLearned: 2, opSeeded: 3, opGive: 4, opLoad: 5, opRouse: 6}

// sent makes room for more calls.
func (s *Store) sent(n int) {
	if s.pending.Add(-int64(n)) < int64(s.cfg.MaxPending) {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

// batch is calls of one script, one for each session of each partition and up to so many
// operations. Those of one session stay in order.
type batch struct {
	script *script
	head   func(session string) []string // the first arguments
	most   int
	calls  []*call
	ops    [][]op // of each call
	open   map[place]int
}

type place struct {
	partition int
	session   string // its name is the same in many partitions
}

func newBatch(sc *script, most int, head func(session string) []string) *batch {
	return &batch{script: sc, most: most, head: head, open: make(map[place]int)}
}

func (b *batch) add(p *part, session string, o op, args ...string) {
	at := place{p.index, session}
	i, ok := b.open[at]
	if !ok || len(b.ops[i]) >= b.most {
		i = len(b.calls)
		b.open[at] = i
		b.calls = append(b.calls, &call{script: b.script, keys: []string{p.key}, args: b.head(session)})
		b.ops = append(b.ops, nil)
	}
	b.calls[i].args = append(b.calls[i].args, args...)
	b.ops[i] = append(b.ops[i], o)
}

// args are those that all scripts of a partition begin with.
func (s *Store) args(more ...string) []string {
	return append([]string{timeArg(s.cfg.now), s.job.id}, more...)
}

func (s *Store) argsOf(session string) []string { return s.args(session) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// put adds URLs, the seeds among them to those of the job before.
func (s *Store) put(ctx context.Context, ops []op) error {
	seeds := &call{script: scriptSeeds, keys: []string{jobKey(s.job.name, "seeds")}}
	var numbers []int64 // of the calls
	b := newBatch(scriptAdd, addMost, func(session string) []string {
		s.request++
		numbers = append(numbers, s.request)
		return s.args(session, s.worker, decimal(s.request))
	})
	for _, o := range ops {
		if o.seed != "" {
			seeds.args = append(seeds.args, o.seed, strconv.Itoa(int(o.hops)))
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
		switch {
		case errors.Is(c.err, errMemory):
			full = true
			for _, o := range b.ops[i] {
				s.known.forget(o.fp)
			}
			s.counts.dropped.Add(int64(len(b.ops[i])))
		case c.err != nil:
			return c.err
		default:
			if s.added(c, b.ops[i], numbers[i]) {
				lost++
			}
		}
	}
	s.setFull(full)
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

// setFull tells once when the server begins to refuse new URLs, and when it takes them again.
func (s *Store) setFull(full bool) {
	was := s.counts.oom.Load() > 0
	switch {
	case full && !was:
		s.counts.oom.Store(1)
		s.cfg.Log.Warn("Redis has no memory left: new URLs are dropped, and the queued ones visited", "job", s.job.name, "dropped", s.counts.dropped.Load())
	case !full && was:
		s.counts.oom.Store(0)
		s.cfg.Log.Info("Redis has memory again", "job", s.job.name, "dropped", s.counts.dropped.Load())
	}
}

// added takes in what became of URLs that were offered by a call of that number, and reports
// whether the partition has lost what was added before.
func (s *Store) added(c *call, ops []op, serial int64) (lost bool) {
	if len(c.reply) < 5 {
		return false
	}
	fresh, refused := number(c.reply[0]), refusedOf(ops, list(c.reply[1]))
	s.counts.added.Add(fresh)
	s.counts.refused.Add(int64(len(refused)))
	s.counts.duplicates.Add(int64(len(ops)) - fresh - int64(len(refused)))
	s.turnAway(refused)
	p := s.job.partitionOf(ops[0].host)
	lost = s.acknowledged(s.parts[p], number(c.reply[4]), serial)
	ready := number(c.reply[3]) == 1
	if ready {
		s.hints[p] = true
	}
	grown := list(c.reply[2])
	if !ready && len(grown) == 0 {
		return lost
	}
	s.announce(func(n *frontier.Update) {
		n.Ready = n.Ready || ready
		for i := 0; i+1 < len(grown); i += 2 {
			n.Grown = append(n.Grown, frontier.HostLeft{Name: text(grown[i]), Queued: int(number(grown[i+1]))})
		}
	})
	return lost
}

// announce adds to the news and lets it be known that there are some.
func (s *Store) announce(add func(*frontier.Update)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.news)
	if s.told {
		return
	}
	select {
	case s.answers <- frontier.Answer{Update: s.takeNews}:
		s.told = true
	default: // full: the next to announce tries again
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
	wants, inbox := int(number(reply[0])), list(reply[1])
	want := wants > 0
	if !want && len(inbox) == 0 {
		return
	}
	s.announce(func(n *frontier.Update) {
		if want {
			if len(n.Wanted) == 0 || wants-1 < n.Poorest {
				n.Poorest = wants - 1
			}
			for name := range p.hosts {
				n.Wanted = append(n.Wanted, name)
			}
		}
		for _, name := range inbox {
			n.Grown = append(n.Grown, frontier.HostLeft{Name: text(name)})
		}
	})
}

// finish stores what became of URLs, and what was learned.
func (s *Store) finish(ctx context.Context, ops []op) error {
	b := newBatch(scriptDone, doneMost, s.argsOf)
	for _, o := range ops {
		h := o.held
		what := map[kind]string{opDone: "d", opSpent: "s", opLearned: "m"}[o.kind]
		if o.refused {
			what = "r"
		}
		b.add(h.part, h.session, o, what, h.name, decimal(h.token), decimal(s.seq(o.id)), o.text)
	}
	if err := s.link.run(ctx, b.calls); err != nil {
		return err
	}
	for i, c := range b.calls {
		if c.err != nil {
			return c.err
		}
		if len(c.reply) < 3 {
			continue
		}
		s.counts.done.Add(number(c.reply[0]))
		s.stale(c.reply[1], b.ops[i])
		s.heard(b.ops[i][0].held.part, list(c.reply[2]))
	}
	s.readmit(ops)
	return nil
}

// seq is the number of a URL in its partition.
func (s *Store) seq(id int64) int64 { return id / int64(s.job.partitions) }

// stale takes in that hosts are not ours any more.
func (s *Store) stale(names message, ops []op) {
	for _, m := range list(names) {
		name := text(m)
		s.counts.stale.Add(1)
		for _, o := range ops {
			if o.held.name == name {
				s.loseHost(o.held)
				break
			}
		}
	}
}

// give returns hosts.
func (s *Store) give(ctx context.Context, ops []op) error {
	b := newBatch(scriptRelease, giveMost, func(session string) []string { return s.args(session, "0") })
	for _, o := range ops {
		h := o.held
		b.add(h.part, h.session, o, h.name, decimal(h.token), decimal(o.n), o.text)
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
	b := newBatch(scriptLoad, giveMost, s.argsOf)
	var answers []frontier.Answer
	for _, o := range ops {
		h := o.held
		if h == nil {
			answers = append(answers, frontier.Answer{Host: o.host})
			continue
		}
		s.request++
		b.add(h.part, h.session, o, h.name, decimal(h.token), decimal(o.n), decimal(s.request))
	}
	if err := s.link.run(ctx, b.calls); err != nil {
		return err
	}
	for i, c := range b.calls {
		if c.err != nil {
			return c.err
		}
		if len(c.reply) < 2 {
			return errors.New("redis: load: a reply cannot be read")
		}
		replies := list(c.reply[0])
		for j, o := range b.ops[i] {
			if j >= len(replies) {
				return errors.New("redis: load: a reply cannot be read")
			}
			a, err := s.loaded(o.held, list(replies[j]))
			if err != nil {
				return err
			}
			answers = append(answers, a)
		}
		s.heard(b.ops[i][0].held.part, list(c.reply[1]))
	}
	for _, a := range answers {
		if err := s.answer(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) answer(ctx context.Context, a frontier.Answer) error {
	select {
	case s.answers <- a:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

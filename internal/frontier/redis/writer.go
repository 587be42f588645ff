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

// writer sends the calls of the store, on a goroutine of its own.
type writer struct {
	*process
	seen      *seen
	leases    *leases
	member    *member
	request   int64        // number of the last request of a script that wants one
	hints     map[int]bool // partitions where a host may be ready
	unsettled []op         // done URLs whose records may not be on disk yet; sent after a sync
	since     time.Time    // time of the first of unsettled
}

// run sends the calls until the store is closed or fails.
func (s *writer) run() {
	defer close(s.ended)
	if err := s.Run(s.take); err != nil && s.life.Err() == nil {
		s.fail(err)
	}
}

// take sends calls, without the outcomes that can wait.
func (s *writer) take(ops []op, _, last bool) (wait time.Duration, err error) {
	ctx := s.life
	if last {
		patient, cancel := context.WithTimeout(s.life, s.patience())
		defer cancel()
		ctx = patient
	}
	if ops, wait, err = s.settle(ops, last); err != nil {
		return 0, err
	}
	if err = s.send(ctx, ops); err == nil && last {
		err = s.leave(ctx)
	}
	return wait, err
}

// settleEvery is how long outcomes may wait, so that the sinks are synced less often.
const settleEvery = 100 * time.Millisecond

// settle holds back the outcomes in ops, and adds those that need not wait any longer, after a sync. Returned hosts and
// requests for hosts depend on all calls before them, so they force a sync. wait is how long the outcomes that it holds
// back may wait.
func (s *writer) settle(ops []op, now bool) (rest []op, wait time.Duration, err error) {
	if s.cfg.Sync == nil {
		return ops, 0, nil
	}
	if len(s.unsettled) == 0 {
		s.since = s.cfg.Clock.Now()
	}
	rest = ops[:0]
	for _, o := range ops {
		if o.kind == opDone {
			s.unsettled = append(s.unsettled, o)
			continue
		}
		now = now || o.kind == opDeactivate || o.kind == opActivate
		rest = append(rest, o)
	}
	if len(s.unsettled) == 0 {
		return rest, 0, nil
	}
	if wait = settleEvery - s.cfg.Clock.Since(s.since); !now && wait > 0 && len(s.unsettled) <= s.cfg.maxPending/2 {
		return rest, wait, nil
	}
	if err := s.cfg.Sync(); err != nil {
		return nil, 0, err
	}
	rest = append(rest, s.unsettled...)
	clear(s.unsettled)
	s.unsettled = s.unsettled[:0]
	return rest, 0, nil
}

func (s *writer) send(ctx context.Context, ops []op) error {
	if len(ops) == 0 {
		return nil
	}
	begun := s.cfg.Clock.Now()
	slices.SortStableFunc(ops, func(a, b op) int { return cmp.Compare(phases[a.kind].at, phases[b.kind].at) })
	for len(ops) > 0 {
		phase, n := phases[ops[0].kind], 1
		for n < len(ops) && phases[ops[n].kind].at == phase.at && !phase.single {
			n++
		}
		if err := phase.send(s, ctx, ops[:n]); err != nil {
			return err
		}
		s.Stored(n)
		ops = ops[n:]
	}
	s.counts.rtt.Store(int64(s.cfg.Clock.Since(begun)))
	return nil
}

// addMost, doneMost and giveMost bound the operations of a script call, so that it runs for some milliseconds at most.
const (
	addMost  = 256
	doneMost = 512
	giveMost = 64
)

// each runs a batch, and calls take with each reply.
func (s *writer) each(ctx context.Context, b *batch, take func(ops []op, reply []message) error) error {
	err := s.link.run(ctx, b.calls)
	for i, c := range b.calls {
		if err = cmp.Or(err, c.err); err == nil {
			err = take(b.ops[i], c.reply)
		}
	}
	return err
}

func decimal[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func millis(d time.Duration) string { return decimal(d.Milliseconds()) }

// put adds URLs, and the seeds among them to the seeds of the job.
func (s *writer) put(ctx context.Context, ops []op) error {
	seeds := &call{script: scriptSeeds, keys: []string{s.key("seeds")}}
	var numbers []int64 // numbers of the calls
	b := batch{script: scriptAdd, most: addMost, head: func(session ...string) []string {
		s.request++
		numbers = append(numbers, s.request)
		return s.args(session[0], s.worker, decimal(s.request))
	}}
	for _, o := range ops {
		if o.seed != "" {
			seeds.args = append(seeds.args, o.seed, decimal(int(o.hops)))
		}
		p := s.leases.parts[s.job.partitionOf(o.host)]
		b.add(p, s.leases.sessionOf(p), o, o.host, strconv.FormatUint(o.fp&fpMask, 10), decimal(o.n), o.budget, o.text)
	}
	if len(seeds.args) > 0 {
		// If the server is out of memory, the seeds are known to this process alone.
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
				s.seen.forget(o.fp)
			}
			s.counts.dropped.Add(int64(len(b.ops[i])))
			continue
		}
		if c.err != nil {
			return c.err
		}
		if s.added(c.reply, b.ops[i], numbers[i]) {
			lost++
		}
	}
	s.noteFull(full)
	s.seen.noteLost(lost)
	return nil
}

// noteFull logs once that the server has begun to refuse new URLs, and once that it accepts them again.
func (s *writer) noteFull(full bool) {
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

// added processes the reply about added URLs, and reports whether the partition has lost earlier ones.
func (s *writer) added(reply []message, ops []op, serial int64) (lost bool) {
	fresh, refused := number(reply[0]), list(reply[1])
	s.counts.added.Add(fresh)
	s.counts.refused.Add(int64(len(refused)))
	s.counts.duplicates.Add(int64(len(ops)) - fresh - int64(len(refused)))
	for _, m := range refused {
		if i := number(m); i >= 0 && i < int64(len(ops)) { // it may be added later, when a refused page makes room
			s.seen.forget(ops[i].fp)
		}
	}
	p := s.job.partitionOf(ops[0].host)
	lost = s.seen.acknowledged(p, number(reply[4]), serial)
	grown, ready := list(reply[2]), number(reply[3]) == 1
	if ready {
		s.hints[p] = true
	}
	if ready || len(grown) > 0 {
		s.leases.announce(func(n *news) {
			n.ready = n.ready || ready
			for pair := range slices.Chunk(grown, 2) {
				n.grow(text(pair[0]), int(number(pair[len(pair)-1])))
			}
		})
	}
	return lost
}

func (s *writer) finish(ctx context.Context, ops []op) error {
	b := batch{script: scriptDone, most: doneMost, head: s.args}
	for _, o := range ops {
		what := map[kind]string{opDone: "d", opSpent: "s", opLearned: "m"}[o.kind]
		if o.refused {
			what = "r"
		}
		b.add(o.held.part, o.held.session, o, what, o.held.name, decimal(o.held.token), decimal(s.seq(o.id)), o.text)
	}
	return s.each(ctx, &b, func(ops []op, reply []message) error {
		s.counts.done.Add(number(reply[0]))
		for _, stale := range list(reply[1]) {
			if i := slices.IndexFunc(ops, func(o op) bool { return o.held.name == text(stale) }); i >= 0 {
				s.leases.loseHost(ops[i].held)
			}
		}
		s.leases.heard(ops[0].held.part, list(reply[2]))
		return nil
	})
}

func (s *writer) seq(id int64) int64 { return id / int64(s.job.partitions) }

func (s *writer) give(ctx context.Context, ops []op) error {
	b := batch{script: scriptRelease, most: giveMost, head: func(session ...string) []string { return s.args(session[0], "0") }}
	for _, o := range ops {
		b.add(o.held.part, o.held.session, o, o.held.name, decimal(o.held.token), decimal(o.n), o.text)
	}
	return s.each(ctx, &b, func(ops []op, _ []message) error {
		for _, o := range ops {
			s.leases.gave(o.held)
		}
		return nil
	})
}

// load answers with the next URLs of hosts.
func (s *writer) load(ctx context.Context, ops []op) error {
	b := batch{script: scriptLoad, most: giveMost, head: s.args}
	for _, o := range ops {
		if o.held == nil { // the host was lost; an update says so to the frontier
			if !s.Answer(ctx.Done(), frontier.Answer{Host: o.host}) {
				return ctx.Err()
			}
			continue
		}
		s.request++
		b.add(o.held.part, o.held.session, o, o.held.name, decimal(o.held.token), decimal(o.n), decimal(s.request))
	}
	return s.each(ctx, &b, func(ops []op, reply []message) error {
		s.leases.heard(ops[0].held.part, list(reply[1]))
		replies := list(reply[0])
		if len(replies) < len(ops) {
			return errors.New("redis: load: a reply cannot be read")
		}
		for i, o := range ops {
			a, err := s.loadedOf(o.held, list(replies[i]))
			if err != nil {
				return err
			}
			if !s.Answer(ctx.Done(), a) {
				return ctx.Err()
			}
		}
		return nil
	})
}

// loadedOf returns the answer about one host.
func (s *writer) loadedOf(h *held, reply []message) (frontier.Answer, error) {
	a := frontier.Answer{Host: h.name, Lease: h.token}
	if len(reply) < 2 {
		return a, fmt.Errorf("redis: load: the reply about %s cannot be read", h.name)
	}
	left := number(reply[0])
	if left < 0 {
		s.leases.loseHost(h)
		return a, nil
	}
	a.Left = int(left)
	for _, m := range list(reply[1]) {
		it, err := itemOf(s.job.partitions, h, text(m))
		if err != nil {
			return a, fmt.Errorf("redis: %s of %s: %w: go on with the program that stored it", root(s.job.name, h.part.index)+"x:"+h.name, s.job.name, err)
		}
		a.Items = append(a.Items, it)
	}
	s.leases.handed(h, len(a.Items))
	return a, nil
}

// acquire answers with hosts that belong to nobody: from partitions where there may be some, or else from all.
func (s *writer) acquire(ctx context.Context, n int) error {
	var a frontier.Answer
	var some []*part
	for i := range s.hints {
		some = append(some, s.leases.parts[i])
	}
	clear(s.hints)
	for _, parts := range [][]*part{some, s.leases.parts} {
		if len(a.Hosts) > 0 || len(parts) == 0 {
			continue
		}
		if err := s.ask(ctx, parts, n, &a); err != nil {
			return err
		}
	}
	a.Complete = len(a.Hosts) == 0 && s.member.complete(ctx)
	a.More = len(s.hints) > 0
	if !s.Answer(ctx.Done(), a) {
		return ctx.Err()
	}
	return nil
}

// ask acquires up to about n hosts, about as many from each of the partitions.
func (s *writer) ask(ctx context.Context, parts []*part, n int, a *frontier.Answer) error {
	quota := max(1, (n+len(parts)-1)/len(parts))
	s.request++
	sent := s.cfg.Clock.Now()
	calls, sessions := make([]*call, len(parts)), make([]string, len(parts))
	has, _ := s.leases.size()
	for i, p := range parts {
		sessions[i] = s.leases.begin(p)
		calls[i] = &call{script: scriptAcquire, keys: []string{p.key}, args: s.args(
			sessions[i], millis(s.cfg.Lease), decimal(quota), decimal(s.request), decimal(has))}
	}
	if err := s.link.run(ctx, calls); err != nil {
		return err
	}
	earlier := func(d *time.Duration, m message) {
		if wait := time.Duration(number(m)) * time.Millisecond; wait > 0 && (*d == 0 || wait < *d) {
			*d = wait
		}
	}
	for i, c := range calls {
		if c.err != nil {
			return c.err
		}
		earlier(&a.Next, c.reply[1])
		earlier(&a.Due, c.reply[3])
		before := len(a.Hosts)
		s.leases.granted(parts[i], sessions[i], sent, list(c.reply[0]), a)
		if len(a.Hosts)-before >= quota {
			s.hints[parts[i].index] = true // there may be more hosts
		}
	}
	return nil
}

// note stores notes in the job. They are sent before their URL counts as done, so that whoever finds the job complete
// sees them.
func (s *writer) note(ctx context.Context, ops []op) error {
	answered, visited, reason := "0", "0", ""
	for _, o := range ops {
		if o.answered {
			answered = "1"
		}
		if o.visited {
			visited = "1"
		}
		reason = cmp.Or(reason, o.text)
	}
	_, err := s.link.one(ctx, &call{script: scriptNote, keys: []string{s.key("job")}, args: s.args(visited, reason, answered)})
	return err
}

// draw draws n pages, and gives back those that are due to be given back.
func (s *writer) draw(ctx context.Context, n int64) error {
	a := &s.member.pages
	a.mu.Lock()
	back := a.back
	a.back = 0
	a.mu.Unlock()
	if n+back > 0 {
		s.request++
		c := &call{script: scriptDraw, keys: []string{s.key("job"), s.key("drawn")}, args: s.args(
			s.worker, decimal(s.request), maxPages, decimal(s.cfg.MaxPages), decimal(n), decimal(back))}
		reply, err := s.link.one(ctx, c)
		if err != nil {
			return err
		}
		granted := number(reply[0])
		a.mu.Lock()
		a.drawn, a.left, a.asked = a.drawn+granted, number(reply[1]), a.asked && n == 0
		a.spent = a.left == 0 && granted < n
		a.mu.Unlock()
	}
	frontier.Signal(s.member.changed)
	return nil
}

// leave gives back all that this process has, and says goodbye to the job.
func (s *writer) leave(ctx context.Context) error {
	wait := int64(0)
	if s.member.Verdict() != "" { // the others must learn of the verdict first; hosts free before would keep them going
		wait = s.cfg.Lease.Milliseconds()
	}
	err := s.give(ctx, s.leases.returns(wait))
	if err == nil {
		err = s.leases.endSessions(ctx)
	}
	if err != nil {
		return fmt.Errorf("give the hosts back: %w", err)
	}
	s.member.pages.yield(0)
	if err := s.draw(ctx, 0); err != nil {
		return fmt.Errorf("give back what was drawn: %w", err)
	}
	s.seen.dropMarks(ctx)
	return s.member.part(ctx)
}

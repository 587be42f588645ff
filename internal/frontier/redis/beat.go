package redis

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

// hearing is what a process has heard by its heartbeats.
type hearing struct {
	beating  sync.Mutex // held while this process is heard of; taken before Store.mu
	parted   bool       // the others were told that it has gone; guarded by beating
	lastSeed int64      // the heartbeat's alone, as is what follows
	changes  int64      // of bounds
	bounds   Bounds     // that operators have set
}

// standing is how the job and this process stand, guarded by Store.mu.
type standing struct {
	control  Control
	heardAt  time.Time // when the server answered a heartbeat last
	looked   time.Time // when somebody wanted to know of the whole job; zero: never
	whole    Whole
	idleness frontier.Idleness // as the frontier told last
	idleTold bool              // the others were told that there is nothing to do here
	verdict  string            // why the job is at its end; empty: it is not
	judged   chan struct{}     // holds one: the verdict may be another

	unvisited  string // why nothing could be asked for, as of when the job was found complete
	unanswered bool   // no host has answered, likewise
}

// hello is the call by which this process is heard of for a while.
func (s *Store) hello(ttl time.Duration) *call {
	s.mu.Lock()
	idleness := s.idleness
	info := WorkerInfo{Name: s.cfg.Worker, Hosts: len(s.hosts), Loaded: s.loaded, Seeding: s.seeding.Load(), State: stateOf(&idleness)}
	s.idleTold = ttl > 0 && idleness.Still()
	s.mu.Unlock()
	c := &s.counts
	info.Added, info.Done, info.Dropped, info.Lost = c.added.Load(), c.done.Load(), c.dropped.Load(), c.lost.Load()
	if ttl > 0 && s.cfg.Tell != nil {
		s.cfg.Tell(&info)
	}
	text, err := json.Marshal(info)
	if err != nil { // numbers and a name always have a form
		text = nil
	}
	var keys []string
	for _, what := range []string{"job", "workers", "info", "seeds", "idle", "drawn"} {
		keys = append(keys, jobKey(s.job.name, what))
	}
	return &call{script: scriptHello, keys: keys, args: append(s.args(s.worker, millis(ttl), string(text)), s.idleArgs(&idleness)...)}
}

// beat sends a heartbeat, unless the process has left, and reads the job's control and seeds. One at a time: a late
// answer would undo a newer one, and one under way could bring back a process that has left.
func (s *Store) beat(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	if s.parted {
		return nil
	}
	c := s.hello(s.cfg.Lease)
	if err := s.link.try(ctx, []*call{c}); err != nil {
		return err
	}
	reply, err := c.parts(4)
	if err != nil {
		return err
	}
	s.judge(text(reply[2]))
	s.counts.heartbeats.Add(1)
	control := Control(text(reply[0]))
	s.mu.Lock()
	changed := control != s.control
	s.control, s.heardAt = control, s.cfg.Clock.Now()
	s.mu.Unlock()
	if changed && s.cfg.OnControl != nil {
		s.cfg.OnControl(control)
	}
	if err := s.hearBounds(ctx, number(reply[3])); err != nil {
		return err
	}
	for last := number(reply[1]); s.cfg.OnSeed != nil && s.lastSeed < last; {
		seeds, err := s.seedsBehind(ctx, s.lastSeed)
		if err != nil || len(seeds) == 0 {
			return err
		}
		for _, seed := range seeds {
			s.cfg.OnSeed(seed.url, seed.hops)
			s.lastSeed = seed.at
		}
	}
	return nil
}

// hearBounds tells of bounds that were changed, by how often they were.
func (s *Store) hearBounds(ctx context.Context, changes int64) error {
	if changes == s.changes {
		return nil
	}
	j, err := findJob(ctx, s.link.Client, s.job.name)
	if err != nil {
		return err
	}
	s.bounds = j.bounds()
	if s.pages != nil && s.bounds.Pages != nil {
		s.pages.reopen()
	}
	if s.cfg.OnBounds != nil {
		s.cfg.OnBounds(s.bounds)
	}
	s.changes = changes
	return nil
}

// Bounds are those of a job that an operator may change. A set one overrides that of a joining process.
type Bounds struct {
	// Pages of all processes together. Zero means no bound; nil means that nobody has changed it.
	Pages *int64
	// Time since the job was made. Zero means no bound; nil means that nobody has changed it.
	Time *time.Duration
}

// bounds are those that operators have set. What cannot be read was not stored by us, and is left out.
func (j *job) bounds() (b Bounds) {
	if n, err := strconv.ParseInt(j.terms[maxPages], 10, 64); j.set[maxPages] && err == nil && n >= 0 {
		b.Pages = &n
	}
	if d, err := time.ParseDuration(j.terms[maxTime]); j.set[maxTime] && err == nil && d >= 0 {
		b.Time = &d
	}
	return b
}

// Only blocked hosts may remain for the whole job alone, as hosts move between processes. Each heartbeat says whether
// the process works, has no URL, or only hosts that refuse; its script gives the verdict when none works, and a
// process that works revokes it.

// The states of a process, for people.
const (
	stateWorking = "working"
	stateIdle    = "idle"
	stateBlocked = "blocked"
)

// reasonMost bounds what the others are told of why hosts refuse.
const reasonMost = 1 << 10

func shortened(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), reasonMost)], "")
}

func stateOf(i *frontier.Idleness) string {
	switch {
	case i.Whole:
		return stateBlocked
	case i.Idle:
		return stateIdle
	}
	return stateWorking
}

// idleArgs is what the script of a heartbeat is told of it.
func (s *Store) idleArgs(i *frontier.Idleness) []string {
	now := s.cfg.Clock.Now()
	kind, ordered, since, until := "w", "0", time.Duration(0), time.Duration(0)
	switch {
	case i.Whole && i.Excluded:
		kind = "x"
	case i.Whole:
		kind, until = "b", max(0, i.Until.Sub(now))
	case i.Idle:
		kind = "i"
	}
	if i.Ordered {
		ordered = "1"
	}
	if i.Still() {
		since = max(0, now.Sub(i.Since))
	}
	return []string{kind, millis(since), millis(until), ordered, millis(i.Patience), shortened(i.Reason)}
}

// Idles says how far this process is idle. Others hear of it with the next heartbeat, and at once if it works again.
// Quick.
func (s *Store) Idles(i frontier.Idleness) {
	s.mu.Lock()
	s.idleness = i
	correct := s.idleTold && !i.Still()
	s.idleTold = s.idleTold && !correct
	if !i.Still() {
		s.verdict = "" // whatever was said
	}
	s.mu.Unlock()
	if correct {
		signal(s.stir)
	}
}

// Verdict is why the job ends with only blocked hosts left, as last heard, or empty. A process with work goes on, and
// revokes it.
func (s *Store) Verdict() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict
}

// Judged receives when Verdict may say otherwise than before.
func (s *Store) Judged() <-chan struct{} { return s.judged }

// judge takes in what a heartbeat was answered.
func (s *Store) judge(verdict string) {
	s.mu.Lock()
	if !s.idleness.Still() {
		verdict = "" // it was asked for before there was something to do
	}
	changed := s.verdict != verdict
	s.verdict = verdict
	s.mu.Unlock()
	if changed {
		signal(s.judged)
	}
}

// Answered notes with the job that a host has answered to a request, if only to one for its robots.txt. It is quick.
func (s *Store) Answered() { s.tell(op{kind: opNote, n: noteAnswered}) }

// Visited notes with the job that a host has answered to a URL. It is quick.
func (s *Store) Visited() { s.tell(op{kind: opNote, n: noteVisited}) }

// Unruled notes with the job the first reason of a URL given up for want of a robots.txt. Quick.
func (s *Store) Unruled(reason string) {
	if !s.unruled.Swap(true) { // else it is there, or on its way
		s.tell(op{kind: opNote, text: shortened(reason)})
	}
}

// Unvisited is why no process could ask for any URL, when this one found the job complete; empty: one could, or none
// was due.
func (s *Store) Unvisited() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unvisited
}

// Unanswered reports that no host answered any process, when this one found the job complete; false before.
func (s *Store) Unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered
}

// hearUnvisited reads what was noted of a job that is complete.
func (s *Store) hearUnvisited(ctx context.Context) error {
	j, err := findJob(ctx, s.link.Client, s.job.name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unvisited, s.unanswered = j.unvisited(), !j.answered()
	return nil
}

const (
	// wholeEvery is how often the figures of the whole job are read at most.
	wholeEvery = 5 * time.Second
	// wholeFor is for how long they are read after somebody has looked at them.
	wholeFor = time.Minute
)

// Whole is the state of the job; the figures of partitions are of slightly different moments.
type Whole struct {
	At        time.Time // zero: it was never read
	Known     int64     // URLs ever added
	Done      int64     // of them
	Queued    int64     // URLs that are not done
	Leased    int64     // of these, those that processes were handed, as they told last
	Processes int       // that are heard of
}

// Whole is the last state read, without a request. Asking has it read again every 5 s or third of the lease, the
// longer.
func (s *Store) Whole() Whole {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = s.cfg.Clock.Now()
	return s.whole
}

// survey reads how the job stands if somebody wants to know. An error leaves what was read before, which ages.
func (s *Store) survey(ctx context.Context) {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	wanted := !s.looked.IsZero() && now.Sub(s.looked) < wholeFor && now.Sub(s.whole.At) >= wholeEvery
	s.mu.Unlock()
	if !wanted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	t, err := tallyOf(ctx, s.link.Client, s.job)
	var workers []Worker
	if err == nil {
		workers, _, err = workersOf(ctx, s.link.Client, s.job.name, s.cfg.now)
	}
	if err != nil {
		s.cfg.Log.Debug("how the job stands cannot be read", "job", s.job.name, "error", err)
		return
	}
	w := Whole{At: now, Known: t.added, Done: t.done, Queued: max(0, t.added-t.done)}
	for i := range workers {
		if workers[i].Alive {
			w.Processes++
			w.Leased += int64(workers[i].Loaded)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = w
}

// Standing is what this process is to do just now, and how long ago the server was heard last.
func (s *Store) Standing() (Control, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := max(0, s.cfg.Clock.Since(s.heardAt))
	if silent >= s.cfg.Lease-s.margin() {
		return CutOff, silent
	}
	return s.control, silent
}

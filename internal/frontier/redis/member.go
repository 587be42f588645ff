package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

type member struct {
	*process
	leases  *leases
	pages   allowance
	changed chan struct{} // of capacity one
	stir    chan struct{} // of capacity one; makes keep send a heartbeat at once
	seeding atomic.Bool   // this process may still bring seeds
	slotted atomic.Bool   // it has requested slots

	beating   sync.Mutex // held during a heartbeat; taken before mu; guards what follows
	parted    bool       // the process has said goodbye to the job
	lastSeed  int64
	order     Order
	serverNow time.Time // the server's time at the last heartbeat

	mu       sync.Mutex // guards what follows
	heard    *job       // the job at the last heartbeat
	heardAt  time.Time  // when that was, by our clock
	others   []WorkerInfo
	looked   bool // somebody wants the figures of the whole job
	whole    whole
	idleness frontier.Idleness // as Idles reported last
	idleTold bool              // a heartbeat has reported that this process has nothing to do
	verdict  string            // why the job has ended with only blocked hosts left; empty means that it has not
}

type whole struct {
	at time.Time
	tally
	leased    int64
	processes int
}

func newMember(p *process, l *leases) *member {
	m := &member{
		process: p, leases: l, changed: make(chan struct{}, 1), stir: make(chan struct{}, 1),
		order: Order{Control: Running}, pages: allowance{left: math.MaxInt64},
	}
	if p.cfg.MaxPages > 0 {
		m.pages.left = p.cfg.MaxPages
	}
	m.seeding.Store(p.cfg.Seeding)
	return m
}

// Order is what operators want from all processes of a job.
type Order struct {
	Control Control
	Bounds  Bounds
	changes int64 // counts changes of the bounds
}

// Bounds are the bounds of a job that an operator may change. A changed bound overrides that of a joining process.
type Bounds struct {
	Pages *int64         // pages of all processes together; zero means no bound, nil means not changed
	Time  *time.Duration // time since the job was made; zero means no bound, nil means not changed
}

// order returns what operators want. A bound that cannot be read was not stored by this program, and is left out.
func (j *job) order() Order {
	o := Order{Control: Control(j.fields["control"]), changes: parse(j.fields["changes"])}
	if n, err := strconv.ParseInt(j.terms[maxPages], 10, 64); j.set[maxPages] && err == nil && n >= 0 {
		o.Bounds.Pages = &n
	}
	if d, err := time.ParseDuration(j.terms[maxTime]); j.set[maxTime] && err == nil && d >= 0 {
		o.Bounds.Time = &d
	}
	return o
}

// Order returns what operators want, as of the last heartbeat. It is safe for concurrent use.
func (s *member) Order() Order {
	s.beating.Lock()
	defer s.beating.Unlock()
	return s.order
}

// Seeded says that this process brings no seeds beyond those already put.
func (s *member) Seeded() {
	if s.seeding.Load() {
		s.tell(op{kind: opSeeded})
	}
}

// seeded reports that to the other processes, once all seeds are stored.
func (s *member) seeded() {
	s.seeding.Store(false)
	frontier.Signal(s.stir)
}

// hello returns the call that announces this process for a time to live; zero says goodbye.
func (s *member) hello(ttl time.Duration) *call {
	hosts, loaded := s.leases.size()
	s.mu.Lock()
	idleness := s.idleness
	s.idleTold = ttl > 0 && idleness.Still()
	s.mu.Unlock()
	c := &s.counts
	info := WorkerInfo{
		Name: s.cfg.Worker, Hosts: hosts, Loaded: loaded, Seeding: s.seeding.Load(), State: stateOf(&idleness),
		Added: c.added.Load(), Done: c.done.Load(), Dropped: c.dropped.Load(), Lost: c.lost.Load(),
	}
	if ttl > 0 && s.cfg.Tell != nil {
		s.cfg.Tell(&info)
	}
	text, err := json.Marshal(info)
	if err != nil { // this cannot happen: numbers and a name always have a JSON form
		text = nil
	}
	var keys []string
	for _, what := range []string{"job", "workers", "info", "seeds", "idle", "drawn"} {
		keys = append(keys, s.key(what))
	}
	return &call{script: scriptHello, keys: keys, args: append(s.args(s.worker, millis(ttl), string(text)), s.idleArgs(&idleness)...)}
}

// beat sends a heartbeat, unless the process has said goodbye, and processes the reply about the job. Only one
// heartbeat is sent at a time: a late reply would undo a newer one, and a heartbeat in flight could announce a process
// again that has left.
func (s *member) beat(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	if s.parted {
		return nil
	}
	reply, err := s.link.once(ctx, s.hello(s.cfg.Lease))
	if err != nil {
		return err
	}
	s.serverNow = time.UnixMilli(number(reply[3]))
	j, err := readJob(s.job.name, pairs(list(reply[0])))
	if err != nil {
		return err
	}
	s.counts.heartbeats.Add(1)
	s.take(j, list(reply[2]))
	if o := j.order(); o.Control != s.order.Control || o.changes != s.order.changes {
		s.order = o
		s.pages.yield(1)         // keeps one page: it may have been requested before Pages is called
		s.tell(op{kind: opDraw}) // pages drawn and not used are drawn again, by the new bound
		if s.cfg.OnOrder != nil {
			s.cfg.OnOrder(o)
		}
	}
	return s.hearSeeds(ctx, number(reply[1]))
}

// take processes the reply to a heartbeat: the job, and what other processes report about themselves.
func (s *member) take(j *job, infos []message) {
	s.mu.Lock()
	s.heard, s.heardAt, s.others = j, s.cfg.Clock.Now(), make([]WorkerInfo, len(infos))
	for i, m := range infos {
		_ = json.Unmarshal([]byte(text(m)), &s.others[i]) // a process of another version may report less
	}
	verdict := j.fields["blocked"]
	if !s.idleness.Still() {
		verdict = "" // the heartbeat was sent before this process had work
	}
	changed := s.verdict != verdict
	s.verdict = verdict
	s.mu.Unlock()
	if changed {
		frontier.Signal(s.changed)
	}
}

// seedsMost bounds how many seeds are read at a time.
const seedsMost = 1000

// hearSeeds reads the seeds of the job that this process has not read yet, up to seedsMost at a time. last is the
// number of the last one.
func (s *member) hearSeeds(ctx context.Context, last int64) error {
	for c := s.link.Client; s.cfg.OnSeed != nil && s.lastSeed < last; {
		found, err := c.Do(ctx, c.B().Zrangebyscore().Key(s.key("seeds")).
			Min("("+decimal(s.lastSeed)).Max("+inf").Withscores().Limit(0, seedsMost).Build()).AsZScores()
		if err != nil {
			return fmt.Errorf("redis: read the seeds: %w", err)
		}
		if len(found) == 0 {
			return nil
		}
		for _, z := range found {
			s.lastSeed = int64(z.Score)
			s.cfg.OnSeed(z.Member, uint8(s.lastSeed&255))
		}
	}
	return nil
}

// complete reports whether all URLs of the job are done and no other process brings seeds. The first heartbeat, before
// counting, shows whether seeds may come; the second one, after counting, gets all notes about done URLs. A caller that
// gets false asks again soon.
func (s *member) complete(ctx context.Context) bool {
	if s.beat(ctx) != nil {
		return false
	}
	s.mu.Lock()
	seeding := slices.ContainsFunc(s.others, func(w WorkerInfo) bool { return w.Seeding })
	s.mu.Unlock()
	if seeding {
		return false
	}
	t, err := tallyOf(ctx, s.link.Client, s.job)
	return err == nil && t.added == t.done && s.beat(ctx) == nil
}

// Whether only blocked hosts remain can only be said of the whole job, as hosts move between processes. Each heartbeat
// says whether the process works, has no URL, or only has hosts that refuse requests. The script of the heartbeat gives
// the verdict when no process works; a process that works revokes it.

// The states of a process, for people.
const (
	stateWorking = "working"
	stateIdle    = "idle"
	stateBlocked = "blocked"
)

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

// idleArgs returns the arguments that report idleness to the script of a heartbeat.
func (s *member) idleArgs(i *frontier.Idleness) []string {
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

// Idles records how far this process is idle. The next heartbeat reports it; that is sent at once if the process has
// work again. It is quick and safe for concurrent use.
func (s *member) Idles(i frontier.Idleness) {
	s.mu.Lock()
	s.idleness = i
	correct := s.idleTold && !i.Still()
	s.idleTold = s.idleTold && !correct
	if !i.Still() {
		s.verdict = "" // whatever the last heartbeat said
	}
	s.mu.Unlock()
	if correct {
		frontier.Signal(s.stir)
	}
}

// Noted stores in the job what this process has found out: whether a host has answered any request, even one for its
// robots.txt; whether a host has answered a request for a URL; and the first reason for giving up a URL for lack of a
// robots.txt, or an empty string. It is quick.
func (s *member) Noted(answered, visited bool, unruled string) {
	s.tell(op{kind: opNote, answered: answered, visited: visited, text: shortened(unruled)})
}

// Changed returns a channel that receives when the result of Pages or Verdict may have changed.
func (s *member) Changed() <-chan struct{} { return s.changed }

// Verdict returns why the job ends with only blocked hosts left, as of the last heartbeat, or an empty string. A
// process that has work continues, and revokes the verdict. It is safe for concurrent use.
func (s *member) Verdict() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict
}

// Unvisited returns why no process could request any URL, as of the last heartbeat. Empty means that one could, or that
// no URL was due. It is safe for concurrent use.
func (s *member) Unvisited() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.unvisited()
}

// Unanswered reports whether no host has answered any process, as of the last heartbeat. It is safe for concurrent use.
func (s *member) Unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.heard.answered()
}

// survey reads the figures of the job if somebody wants them. After an error the previous figures stay, and age.
func (s *member) survey(ctx context.Context) {
	s.mu.Lock()
	looked, w := s.looked, whole{at: s.heardAt, processes: 1 + len(s.others)}
	for i := range s.others {
		w.leased += int64(s.others[i].Loaded)
	}
	s.looked = false
	s.mu.Unlock()
	if !looked {
		return
	}
	_, loaded := s.leases.size()
	w.leased += int64(loaded)
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	var err error
	if w.tally, err = tallyOf(ctx, s.link.Client, s.job); err != nil {
		s.cfg.Log.Debug("how the job stands cannot be read", "job", s.job.name, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = w
}

// stand fills in the figures of the job, as last read, and the current state of this process.
func (s *member) stand(f *frontier.JobFigures, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = true
	silent := max(0, now.Sub(s.heardAt))
	if f.State = s.heard.fields["control"]; silent >= s.cfg.Lease-s.margin() {
		f.State = string(CutOff)
	}
	w := &s.whole
	f.SilentSeconds, f.AgeSeconds = silent.Seconds(), now.Sub(w.at).Seconds()
	f.Known, f.Done, f.Queued, f.Leased, f.Processes = w.added, w.done, max(0, w.added-w.done), w.leased, w.processes
}

const (
	// drawMost and drawPart bound a draw of pages, so that it lasts longer than it takes: at most drawMost pages, and
	// at most a drawPart-th of those left. A killed process loses the pages that it has drawn.
	drawMost, drawPart = 1024, 64
	// maxPages and maxTime are the names of these bounds among the terms of a job.
	maxPages, maxTime = "max_pages", "max_time"
)

// allowance is the pages that a process may request; it draws them ahead and gives the rest back at Close.
type allowance struct {
	mu    sync.Mutex // guards what follows
	drawn int64
	used  int64
	back  int64 // drawn, and to be given back
	left  int64 // left in the job, as far as known
	asked bool  // a draw is outstanding
	spent bool  // nothing was left at the last draw
}

// yield marks all unused pages but kept to be given back.
func (a *allowance) yield(kept int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := max(0, a.drawn-a.used-kept)
	a.drawn, a.back, a.spent = a.drawn-n, a.back+n, false
}

// Pages records that this process has used so many pages, and returns how many it may use in all, and whether that is
// final. While it is not final, Changed receives when there may be more. It is safe for concurrent use.
func (s *member) Pages(used int) (most int, last bool) {
	a := &s.pages
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = int64(used)
	if n := min(a.left/drawPart+1, drawMost); !a.spent && !a.asked && a.drawn-a.used <= n/2 {
		a.asked = true
		s.tell(op{kind: opDraw, n: n})
	}
	return int(a.drawn), a.spent
}

// Slots requests a share of plan, the number of requests that all processes together may have in flight. held is how
// many this process may have until the reply, and want how many it could use. The share lasts until an instant; by then
// the process must have canceled requests beyond it. Shares never add up to more than the plan, except in a cluster
// that lost only the job's own node: a new process waits until others have acknowledged smaller shares. If there is
// less than one request per process, the processes take turns.
func (s *member) Slots(ctx context.Context, plan, held, want int) (share int, until time.Time, err error) {
	s.slotted.Store(true)
	until = s.cfg.Clock.Now().Add(s.cfg.Lease - s.margin())
	reply, err := s.link.once(ctx, s.slotsCall(plan, held, want))
	if err != nil {
		return 0, time.Time{}, err
	}
	return int(number(reply[0])), until, nil
}

func (s *member) slotsCall(plan, held, want int) *call {
	return &call{script: scriptSlots, keys: []string{s.key("job"), s.key("slots")}, args: s.args(
		s.worker, millis(s.cfg.Lease), decimal(plan), decimal(held), decimal(want))}
}

// part says goodbye to the job, after all else.
func (s *member) part(ctx context.Context) error {
	if s.slotted.Load() {
		if _, err := s.link.one(ctx, s.slotsCall(0, 0, 0)); err != nil {
			return fmt.Errorf("give back what was drawn: %w", err)
		}
	}
	s.beating.Lock()
	defer s.beating.Unlock()
	s.parted = true
	_, err := s.link.one(ctx, s.hello(0))
	return err
}

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
	changed chan struct{} // holds one
	stir    chan struct{} // holds one, for keep: there is something to tell the others
	seeding atomic.Bool   // seeds of this process may come yet
	slotted atomic.Bool   // it has asked for slots

	beating   sync.Mutex // held while this process is heard of; taken before mu; guards what follows
	parted    bool       // the others were told that it has gone
	lastSeed  int64
	order     Order
	serverNow time.Time // of the last heartbeat

	mu       sync.Mutex // guards what follows
	heard    *job       // as the server answered last
	heardAt  time.Time  // and when
	others   []WorkerInfo
	looked   bool // somebody wants to know of the whole job
	whole    whole
	idleness frontier.Idleness // as the frontier told last
	idleTold bool              // the others were told that there is nothing to do here
	verdict  string            // why the job is at its end; empty: it is not
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

// Order is what operators want of all processes of a job.
type Order struct {
	Control Control
	Bounds  Bounds
	changes int64 // of bounds
}

// Bounds are those of a job that an operator may change. A set one overrides that of a joining process.
type Bounds struct {
	Pages *int64         // of all processes together; zero means no bound; nil means that nobody has changed it
	Time  *time.Duration // since the job was made; zero means no bound; nil means that nobody has changed it
}

// order is what operators have said. A bound that cannot be read was not stored by us, and is left out.
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

// Order is what operators want, as last heard.
func (s *member) Order() Order {
	s.beating.Lock()
	defer s.beating.Unlock()
	return s.order
}

// Seeded says that this process brings no more seeds than it has put.
func (s *member) Seeded() {
	if s.seeding.Load() {
		s.tell(op{kind: opSeeded})
	}
}

// seeded has the others hear of it, once all seeds are stored.
func (s *member) seeded() {
	s.seeding.Store(false)
	frontier.Signal(s.stir)
}

// hello is the call by which this process is heard of for a while.
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
	if err != nil { // numbers and a name always have a form
		text = nil
	}
	var keys []string
	for _, what := range []string{"job", "workers", "info", "seeds", "idle", "drawn"} {
		keys = append(keys, s.key(what))
	}
	return &call{script: scriptHello, keys: keys, args: append(s.args(s.worker, millis(ttl), string(text)), s.idleArgs(&idleness)...)}
}

// beat sends a heartbeat, unless the process has left, and takes in what the job is by now. One at a time: a late
// answer would undo a newer one, and one under way could bring back a process that has left.
func (s *member) beat(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	if s.parted {
		return nil
	}
	reply, err := s.link.once(ctx, s.hello(s.cfg.Lease), 4)
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
		s.pages.yield(1)         // which may be asked for, and Pages has not heard of it
		s.tell(op{kind: opDraw}) // what is drawn and not used is drawn anew, by the new bound
		if s.cfg.OnOrder != nil {
			s.cfg.OnOrder(o)
		}
	}
	return s.hearSeeds(ctx, number(reply[1]))
}

// take takes in what a heartbeat was answered: the job, and what other processes tell of themselves.
func (s *member) take(j *job, infos []message) {
	s.mu.Lock()
	s.heard, s.heardAt, s.others = j, s.cfg.Clock.Now(), make([]WorkerInfo, len(infos))
	for i, m := range infos {
		_ = json.Unmarshal([]byte(text(m)), &s.others[i]) // of another version: what is there of it
	}
	verdict := j.fields["blocked"]
	if !s.idleness.Still() {
		verdict = "" // it was asked for before there was something to do
	}
	changed := s.verdict != verdict
	s.verdict = verdict
	s.mu.Unlock()
	if changed {
		frontier.Signal(s.changed)
	}
}

// seedsMost bounds the seeds that are read at a time.
const seedsMost = 1000

// hearSeeds reads the seeds of the job that were not heard of, up to the last, some at a time.
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

// complete reports whether all URLs of the job are done and no other process brings seeds. Seeds that were brought
// are counted behind that, and what was noted of a URL that is done is heard of after it. It is asked again soon.
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

// Only blocked hosts may remain for the whole job alone, as hosts move between processes. Each heartbeat says whether
// the process works, has no URL, or only hosts that refuse; its script gives the verdict when none works, and a
// process that works revokes it.

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

// idleArgs is what the script of a heartbeat is told of it.
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

// Idles says how far this process is idle. Others hear of it with the next heartbeat, and at once if it works again.
// Quick.
func (s *member) Idles(i frontier.Idleness) {
	s.mu.Lock()
	s.idleness = i
	correct := s.idleTold && !i.Still()
	s.idleTold = s.idleTold && !correct
	if !i.Still() {
		s.verdict = "" // whatever was said
	}
	s.mu.Unlock()
	if correct {
		frontier.Signal(s.stir)
	}
}

// Noted notes with the job what this process has found: whether a host has answered to a request, if only to one for
// its robots.txt; whether one has to a URL; and the first reason of a URL given up for want of a robots.txt, empty for
// none. Quick.
func (s *member) Noted(answered, visited bool, unruled string) {
	s.tell(op{kind: opNote, answered: answered, visited: visited, text: shortened(unruled)})
}

// Changed receives when Pages or Verdict may say otherwise than before.
func (s *member) Changed() <-chan struct{} { return s.changed }

// Verdict is why the job ends with only blocked hosts left, as last heard, or empty. A process with work goes on, and
// revokes it.
func (s *member) Verdict() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict
}

// Unvisited is why no process could ask for any URL, as last heard; empty: one could, or none was due.
func (s *member) Unvisited() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.unvisited()
}

// Unanswered reports that no host has answered any process, as last heard.
func (s *member) Unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.heard.answered()
}

// survey reads how the job stands if somebody wants to know. An error leaves what was read before, which ages.
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

// stand fills in how the job stands, as last read, and what this process is to do just now.
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
	// drawMost and drawPart bound a draw of pages, which lasts longer than it takes: so many, and such a part of what is
	// left. A killed process loses its draw.
	drawMost, drawPart = 1024, 64
	// maxPages and maxTime are what the bounds of a job are called among its terms.
	maxPages, maxTime = "max_pages", "max_time"
)

// allowance is the pages that a process may ask for, drawn ahead and given back at Close.
type allowance struct {
	mu    sync.Mutex // guards what follows
	drawn int64
	used  int64
	back  int64 // drawn, and to be given back
	left  int64 // of the job, as far as is known
	asked bool  // a draw is under way
	spent bool  // nothing was left when it was drawn last
}

// yield has all pages but some given back that are not used.
func (a *allowance) yield(kept int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := max(0, a.drawn-a.used-kept)
	a.drawn, a.back, a.spent = a.drawn-n, a.back+n, false
}

// Pages is how many pages this process may have asked for in all, after used, and whether that is final. Until then
// Changed receives.
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

// Slots asks for a share of plan, the requests that all processes may have in flight; this one may have held until the
// answer, and could use want. The share lasts until an instant, at which requests beyond it have been cut off, except
// in a cluster that lost only the job's own node. Shares never add up to more than the plan: a new process waits until
// others have acknowledged less. With less than one each, processes take turns.
func (s *member) Slots(ctx context.Context, plan, held, want int) (share int, until time.Time, err error) {
	s.slotted.Store(true)
	until = s.cfg.Clock.Now().Add(s.cfg.Lease - s.margin())
	reply, err := s.link.once(ctx, s.slotsCall(plan, held, want), 1)
	if err != nil {
		return 0, time.Time{}, err
	}
	return int(number(reply[0])), until, nil
}

func (s *member) slotsCall(plan, held, want int) *call {
	return &call{script: scriptSlots, keys: []string{s.key("job"), s.key("slots")}, args: s.args(
		s.worker, millis(s.cfg.Lease), decimal(plan), decimal(held), decimal(want))}
}

// part has this process be heard of no more, after all else.
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

package testsite

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"sort"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// unknown is the instant at which a request will be admitted if that cannot be known: an open request may end at any
// time.
const unknown clock.Instant = -1

// gate has everything that may refuse a request to an address, and measures how much of the limits was used. The hosts
// of one address share it, so it has its own lock, which is taken after that of a host. A request is charged to all
// limits or to none.
//
// The limits are those of package limit. Their clock stands still at the instant of the decision, and runs at the speed
// of the day.
type gate struct {
	day    *day
	tells  bool // responses have quota headers
	bounds bounds
	plain  bool // the tightest bound does not change with the day

	mu      sync.Mutex    // guards what follows
	last    clock.Instant // of the last decision
	time    heldClock
	members []limit.Weighted // all limits
	quotas  []limit.Weighted // those of members that have quota headers
	delays  []delay
	work    work
	bans    bans
	open    int
	used    usage
}

type pass struct {
	ok     bool
	banned bool            // by a ban, because of earlier refusals
	ready  clock.Instant   // if not ok: when the limit that refused would admit a request, or unknown
	delay  time.Duration   // by queues and leaky buckets
	factor float64         // of the host's own latency
	quota  *limit.Standing // nil if there are no quota headers
}

// delay is a leaky bucket that delays the requests of its burst.
type delay struct {
	limit.Weighted

	burst int64
}

// heldClock stands still at an instant until it is set to the next.
type heldClock struct {
	clock.Clock           // for timers, which are not used here
	base        time.Time // without a monotonic reading, so that instants add up
	at          clock.Instant
}

func (c *heldClock) Now() time.Time                  { return c.base.Add(time.Duration(c.at)) }
func (c *heldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func newGate(s *Site, cfg Host, seed uint64) (*gate, error) {
	if !cfg.limited() {
		return nil, nil
	}
	g := &gate{
		day: newDay(cfg.Day), tells: cfg.Refusal.tells(), bounds: boundsOf(&cfg, s.epoch),
		time: heldClock{Clock: s.clk, base: s.epoch.Round(0)}, work: newWork(cfg.Load, seed),
		bans: bans{within: cmp.Or(cfg.Ban.Within, cfg.Ban.For), term: cfg.Ban.For, refused: make([]clock.Instant, cfg.Ban.After)},
	}
	g.plain = g.bounds.tightest().plain
	g.used = newUsage(g.bounds.rate(), g.bounds.window())
	for _, l := range cfg.Limit.limiters() {
		if err := g.add(&l, "limit", false); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Limits {
		if err := g.add(&cfg.Limits[i], fmt.Sprintf("limit-%d", i), true); err != nil {
			return nil, err
		}
	}
	g.time.at = 0
	return g, nil
}

func (l *Limit) limiters() (all []Limiter) {
	if l.Rate > 0 {
		all = append(all, Limiter{Kind: kindLeaky, Rate: l.Rate, Burst: l.Burst})
	}
	if l.Requests > 0 {
		all = append(all, Limiter{Kind: kindFixed, Requests: l.Requests, Window: l.Window, fromNew: true})
	}
	if l.Concurrent > 0 {
		all = append(all, Limiter{Kind: kindSlots, Concurrent: l.Concurrent})
	}
	return all
}

// add makes a limiter of package limit for l. Windows of l itself begin with the hours of the day, so the limiter is
// made as of the beginning of the present window.
func (g *gate) add(l *Limiter, name string, tells bool) error {
	if g.time.at = 0; l.Window > 0 && !l.fromNew {
		g.time.at = -clock.Instant(time.Duration(g.time.base.UnixNano()) % l.Window)
	}
	member, err := limit.New(l.spec(), limit.WithClock(&g.time))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	g.members = append(g.members, member)
	if tells && l.Kind != kindSlots {
		g.quotas = append(g.quotas, member)
	}
	if l.Delay && l.Burst > 0 {
		g.delays = append(g.delays, delay{member, int64(l.Burst)})
	}
	return nil
}

// spec returns the limiter of package limit that does what l says. The excess that limit_req counts, up to burst, is a
// bucket of burst+1 tokens upside down.
func (l *Limiter) spec() limit.Spec {
	switch l.Kind {
	case kindLeaky, kindToken:
		return limit.Spec{Permits: 1, Per: interval(l.Rate), Burst: int64(l.first()), Queue: -1}
	case kindSlots:
		return limit.Spec{Kind: limit.KindConcurrency, Permits: int64(l.Concurrent), Queue: -1}
	}
	return limit.Spec{Kind: limit.Kind(l.Kind), Permits: int64(l.Requests), Per: l.Window, Queue: -1}
}

// first returns how many requests a bucket admits at once.
func (l *Limiter) first() int {
	switch {
	case l.Kind == kindLeaky:
		return 1 + l.Burst
	case l.Burst > 0:
		return l.Burst
	}
	return max(1, int(l.Rate))
}

// interval returns the time between two requests at a rate, rounded to a nanosecond. The error is one in a billion at
// one request per second, and one in a thousand at a million.
func interval(rate float64) time.Duration { return time.Duration(float64(time.Second)/rate + 0.5) }

func (g *gate) admit(now clock.Instant) pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Hosts of one address read the clock before they wait for this lock.
	now = max(now, g.last)
	g.last = now
	if now < g.bans.until {
		return pass{banned: true}
	}
	g.time.at = g.day.of(now)
	p := g.chargeLocked(now)
	worked := g.time.at
	if g.plain {
		worked = now
	}
	g.used.arrive(worked, now, p.ok)
	if !p.ok {
		g.bans.refuse(now)
	}
	if g.tells {
		p.quota = g.standingLocked(p.ok)
	}
	return p
}

// chargeLocked first checks the limits, without charging them, and charges them when none of them can refuse any more.
func (g *gate) chargeLocked(now clock.Instant) pass {
	at := g.time.at
	if ready := g.work.ready(now); ready > now {
		return pass{ready: ready}
	}
	ready := at
	for _, m := range g.members {
		wait := m.Wait(1)
		if wait == limit.Never { // slots, which are released at an unknown time
			return pass{ready: unknown}
		}
		ready = max(ready, at.Add(wait))
	}
	if ready > at {
		return pass{ready: g.day.when(ready)}
	}
	for _, m := range g.members {
		m.TryAcquire() // has room: the lock is held, and the clock stands still
	}
	g.open++
	return pass{ok: true, delay: g.delayLocked(now), factor: g.work.stretch(g.open)}
}

// delayLocked returns how long a request that was just admitted waits. In a leaky bucket that is until its excess has
// drained: until the token bucket has burst tokens.
func (g *gate) delayLocked(now clock.Instant) time.Duration {
	longest := g.work.take(now, g.day.speed(now))
	for _, q := range g.delays {
		if wait := q.Wait(q.burst); wait > 0 {
			longest = max(longest, g.day.when(g.time.at.Add(wait)).Sub(now))
		}
	}
	return longest
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	for _, m := range g.members {
		m.Release() // does nothing except for slots
	}
}

// standingLocked returns the tightest quota of the limits, in real time; nil if none has one.
func (g *gate) standingLocked(ok bool) (tight *limit.Standing) {
	for _, m := range g.quotas {
		s := m.Standing()
		if s.Refused = !ok && s.Left == 0; tight == nil || s.Left < tight.Left {
			tight = &s
		}
	}
	if tight == nil {
		return nil
	}
	for _, d := range []*time.Duration{&tight.Next, &tight.Lasts} {
		if *d != limit.Never {
			*d = g.day.when(g.time.at.Add(*d)).Sub(g.day.when(g.time.at))
		}
	}
	return tight
}

// daySteps is the number of steps by which a cosine is approximated. It changes by less than 4 % of its height from one
// to the next.
const daySteps = 96

type span struct {
	from   time.Duration // since the beginning of the day
	worked time.Duration // time of the limiters' clock since the beginning of the day
	speed  float64
}

// day is the clock of limiters whose speed changes over the day: its time is the integral of the speed. A limiter on
// this clock admits at its rate multiplied by the current speed. A nil day has a constant speed of one.
type day struct {
	length time.Duration
	worked time.Duration // of a whole day
	spans  []span
}

func (d *Day) length() time.Duration {
	if d.Length == 0 && (d.Low > 0 || len(d.Table) > 0) {
		return 24 * time.Hour
	}
	return d.Length
}

func newDay(cfg Day) *day {
	d := &day{length: cfg.length()}
	if d.length == 0 {
		return nil
	}
	if cfg.Low > 0 {
		for i := range daySteps {
			angle := 2 * math.Pi * (float64(i) + 0.5) / daySteps // the middle of a step
			d.begin(d.length*time.Duration(i)/daySteps, cfg.Low+(1-cfg.Low)*(1+math.Cos(angle))/2)
		}
	} else {
		d.begin(0, 1)
		for _, h := range cfg.Table {
			d.begin(h.At, h.Speed)
		}
	}
	last := d.spans[len(d.spans)-1]
	d.worked = last.worked + scale(d.length-last.from, last.speed)
	return d
}

// begin adds a span. If it begins where the last one does, it replaces that one.
func (d *day) begin(at time.Duration, speed float64) {
	s := span{from: at, speed: speed}
	if n := len(d.spans); n > 0 {
		last := d.spans[n-1]
		if last.from == at {
			d.spans = d.spans[:n-1]
		}
		s.worked = last.worked + scale(at-last.from, last.speed)
	}
	d.spans = append(d.spans, s)
}

// scale rounds down, so that no limiter admits too early.
func scale(d time.Duration, speed float64) time.Duration { return time.Duration(float64(d) * speed) }

func (d *day) at(rest time.Duration) span {
	return d.spans[sort.Search(len(d.spans), func(i int) bool { return d.spans[i].from > rest })-1]
}

func (d *day) of(now clock.Instant) clock.Instant {
	if d == nil {
		return now
	}
	days, rest := int64(now)/int64(d.length), time.Duration(int64(now)%int64(d.length))
	s := d.at(rest)
	return clock.Instant(days * int64(d.worked)).Add(s.worked + scale(rest-s.from, s.speed))
}

// when returns the first instant at which the limiters' clock is no earlier than at.
func (d *day) when(at clock.Instant) clock.Instant {
	if d == nil {
		return at
	}
	days, rest := int64(at)/int64(d.worked), time.Duration(int64(at)%int64(d.worked))
	i := sort.Search(len(d.spans), func(i int) bool { return d.spans[i].worked > rest }) - 1
	s := d.spans[i]
	now := clock.Instant(days * int64(d.length)).Add(s.from + time.Duration(math.Ceil(float64(rest-s.worked)/s.speed)))
	for d.of(now) < at { // the two roundings may be short
		now++
	}
	return now
}

func (d *day) speed(now clock.Instant) float64 {
	if d == nil {
		return 1
	}
	return d.at(time.Duration(int64(now) % int64(d.length))).speed
}

func (d *day) mean() float64 {
	if d == nil {
		return 1
	}
	return float64(d.worked) / float64(d.length)
}

// work is a host's load: a queue with one worker, and a bound on open requests, beyond which responses take longer. Its
// gate guards it.
type work struct {
	service time.Duration // mean time of one request; zero means no queue
	longest time.Duration // longest wait in the queue
	workers int           // zero means no bound
	seed    uint64

	free clock.Instant // when the worker is done with all admitted requests
	n    int           // admitted so far
}

func newWork(cfg Load, seed uint64) work {
	// By default the latency shows the load to a client: few clients wait longer than this for a page.
	w := work{longest: cmp.Or(cfg.MaxWait, 30*time.Second), workers: cfg.Workers, seed: seed}
	if cfg.Rate > 0 {
		w.service = time.Duration(math.Round(float64(time.Second) / cfg.Rate))
	}
	return w
}

func (w *work) ready(now clock.Instant) clock.Instant {
	if w.service == 0 {
		return now
	}
	return max(now, w.free.Add(-w.longest))
}

// take queues a request, and returns how long it takes until the worker is done with it, by Lindley's recursion (1952).
func (w *work) take(now clock.Instant, speed float64) time.Duration {
	if w.service == 0 {
		return 0
	}
	d := newDraw(w.seed, streamLoad, w.n)
	w.n++
	// One draw in half a billion is beyond the cut.
	took := min(tailCut, -math.Log(d.unit())) * float64(w.service) / speed
	w.free = max(now, w.free).Add(time.Duration(took))
	return w.free.Sub(now)
}

func (w *work) stretch(open int) float64 {
	if w.workers == 0 || open <= w.workers {
		return 1
	}
	return float64(open) / float64(w.workers)
}

// bans shuts clients out as fail2ban does: after a number of refusals within a period it does so for some time, and
// then it forgets them. Its gate guards it.
type bans struct {
	within, term time.Duration
	refused      []clock.Instant // ring of the latest refusals, as long as a ban needs
	next, n      int             // of the ring: the index for the next refusal, and how many there are
	until        clock.Instant   // end of the latest ban
	count        int64
}

func (b *bans) refuse(now clock.Instant) {
	if len(b.refused) == 0 {
		return
	}
	b.refused[b.next] = now
	b.next = (b.next + 1) % len(b.refused)
	b.n = min(b.n+1, len(b.refused))
	if b.n == len(b.refused) && now.Sub(b.refused[b.next]) <= b.within { // next is the oldest
		b.until, b.n, b.next = now.Add(b.term), 0, 0
		b.count++
	}
}

func (b *Ban) decision() decision {
	if b.Mode == modeDrop {
		return decision{act: actReset}
	}
	return decision{act: actStatus, status: cmp.Or(b.Status, http.StatusForbidden)}
}

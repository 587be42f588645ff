package polite

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/transport"
)

// Shared is one state per host for all who ask hosts in a process: crawls, clients, and a program's own code. Each of
// them has a [Member]. It is safe for concurrent use.
type Shared struct {
	*ratelimit.AdaptiveRateLimiter

	keeper  *memory.Keeper // its Places are empty if nothing is kept
	events  listeners
	delays  delays
	members atomic.Int32
	own     func() *Member // of the program's own requests
	paced   transport.Middleware
	stop    context.CancelFunc
	beside  sync.WaitGroup
	closed  atomic.Bool
}

// SharedConfig is what [NewShared] needs.
type SharedConfig struct {
	Limiter  ratelimit.Config // its OnEvent and MaxCrawlDelay are not used
	Remember string           // the file where what is learned is kept; empty: nowhere
	Log      *slog.Logger     // nil: nobody is told
}

// NewShared loads what the file remembers, and begins to save it there. Close ends that.
func NewShared(cfg SharedConfig) (*Shared, error) {
	s := &Shared{}
	pauses := make(chan struct{}, 1)
	cfg.Limiter.OnEvent = memory.NotePauses(pauses, s.events.tell)
	cfg.Limiter.MaxCrawlDelay = -1 // each member has a bound of its own
	if cfg.Limiter.Clock == nil {
		cfg.Limiter.Clock = clock.System()
	}
	var err error
	if s.AdaptiveRateLimiter, err = ratelimit.New(cfg.Limiter); err != nil {
		return nil, err
	}
	s.paced, err = transport.Polite(transport.PoliteConfig{Limiter: s, MaxRetryAfter: cfg.Limiter.MaxRetryAfter})
	if err != nil {
		return nil, err
	}
	s.keeper = &memory.Keeper{
		Limiter: s.AdaptiveRateLimiter, Clock: cfg.Limiter.Clock, Pauses: pauses,
		Log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
	}
	if cfg.Remember != "" {
		place, err := memory.At(memory.Config{Path: cfg.Remember, MaxWait: cfg.Limiter.MaxRetryAfter, Clock: cfg.Limiter.Clock})
		if err != nil {
			return nil, err
		}
		s.keeper.Places = []memory.Place{place}
		if err := s.keeper.Recall(); err != nil {
			return nil, err
		}
	}
	s.own = sync.OnceValue(func() *Member { return s.Join(MemberConfig{}) })
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.beside.Go(func() { _ = s.AdaptiveRateLimiter.Run(ctx) }) // it ends with ctx, and has no other error
	s.beside.Go(func() { s.keeper.Run(ctx) })
	return s, nil
}

// Acquire waits for the turn of a request of the program's own, in line with all others.
func (s *Shared) Acquire(ctx context.Context, domain string) (ratelimit.Permit, error) {
	s.own() // so that crawls know of somebody else
	return s.AdaptiveRateLimiter.Acquire(ctx, domain)
}

// SetCrawlDelay is that of the program's own robots.txt reader: see [Member.SetCrawlDelay].
func (s *Shared) SetCrawlDelay(domain string, d time.Duration) { s.own().SetCrawlDelay(domain, d) }

// Save writes what is known of hosts to the file now. Without a file it does nothing.
func (s *Shared) Save(ctx context.Context) error {
	for _, place := range s.keeper.Places {
		if err := place.Save(ctx, s.Remember()); err != nil {
			return err
		}
	}
	return nil
}

// Close ends what runs beside, and saves. Who is a member yet goes on, but what it learns from then on is not saved. It
// may be called again.
func (s *Shared) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.beside.Wait()
	return s.Save(context.Background())
}

// Subscribe has fn called with what changes the pace of a host, in order for each host, by the goroutines that ask. It
// must not block. A call may still be under way when off has returned.
func (s *Shared) Subscribe(fn func(ratelimit.Event)) (off func()) { return s.events.add(fn) }

// Middleware paces the requests of an http.RoundTripper of the program's own.
func (s *Shared) Middleware() transport.Middleware { return s.paced }

// Until is how long it is until an instant, by the clock of the limiter.
func (s *Shared) Until(t time.Time) time.Duration { return t.Sub(s.keeper.Clock.Now()) }

// Report is Feedback of an answer whose header, nil for none, has yet to be read.
func (s *Shared) Report(domain string, fb ratelimit.Feedback, h http.Header) {
	if h != nil {
		now := s.keeper.Clock.Now()
		wait, _ := header.RetryAfterOf(h, now, 0) // a malformed one asks for nothing
		switch outcome.RetryAfter(fb.StatusCode) {
		case outcome.WaitsHost:
			fb.RetryAfter = cmp.Or(fb.RetryAfter, wait)
		case outcome.WaitsIfBlock:
			if _, why := s.ReadyAt(domain, 0, 0); why == ratelimit.LimitBreaker {
				fb.RetryAfter = cmp.Or(fb.RetryAfter, wait)
			}
		}
		fb.Quota, _ = header.Parse(h, now) // nor does a malformed quota say anything
		fb.Second = header.Second(h)
	}
	s.Feedback(domain, fb)
}

const (
	// promptly is how long a member waits for a permit that it was told is there.
	promptly = 20 * time.Millisecond
	// MaxInLine is how long a member may wait in line for a host at most.
	MaxInLine = 30 * time.Second
	// maxInVain is how many hosts are noted whose line was too long.
	maxInVain = 1 << 12
)

// Member is a part of a [Shared] that learns from its own answers and obeys what all have learned. It is what the
// pipeline of a crawl takes for a limiter.
type Member struct {
	*ratelimit.AdaptiveRateLimiter

	shared   *Shared
	maxDelay time.Duration   // longest Crawl-delay that is obeyed; negative: any
	leaving  context.Context // ends what waits in line
	off      func()
	left     sync.Once

	mostInLine int
	mu         sync.Mutex
	standing   int                  // requests that stand in line
	inLine     map[string]time.Time // hosts of which none may stand in line, as one does or did in vain, and until when
}

// MemberConfig is what [Shared.Join] needs.
type MemberConfig struct {
	MaxCrawlDelay time.Duration         // longest that is obeyed; zero means 60s, negative means any
	InLine        int                   // how many requests may wait in line while others ask the same host; zero: 1
	Leaving       context.Context       // whose end ends those waits; nil: never
	OnEvent       func(ratelimit.Event) // of all hosts of the Shared; nil: nobody is told
}

// Join makes a member. Leave ends it.
func (s *Shared) Join(cfg MemberConfig) *Member {
	m := &Member{
		AdaptiveRateLimiter: s.AdaptiveRateLimiter, shared: s, off: func() {},
		maxDelay: cmp.Or(cfg.MaxCrawlDelay, time.Minute), leaving: cfg.Leaving, mostInLine: max(1, cfg.InLine), inLine: make(map[string]time.Time),
	}
	if m.leaving == nil {
		m.leaving = context.Background()
	}
	if cfg.OnEvent != nil {
		m.off = s.Subscribe(cfg.OnEvent)
	}
	s.members.Add(1)
	return m
}

// Leave ends a member: what robots.txt has told it holds no longer when another one tells something else. It may be
// called again, and of a nil Member, which is none.
func (m *Member) Leave() {
	if m == nil {
		return
	}
	m.left.Do(func() {
		m.off()
		m.shared.members.Add(-1)
		m.shared.delays.forget(m)
	})
}

// Acquire takes the permit that ReadyAt has told of. Where another one was faster, or others wait, it stands in line
// with them, so that nobody is always late: one request for a host, up to [MaxInLine], and a few hosts at a time.
func (m *Member) Acquire(ctx context.Context, domain string) (ratelimit.Permit, error) {
	permit, err := m.AdaptiveRateLimiter.Acquire(ratelimit.Until{Context: ctx, Time: m.now().Add(promptly)}, domain)
	late, ok := errors.AsType[*ratelimit.WaitError](err)
	if !ok || m.alone() || late.Wait > MaxInLine || !paces(late.Limit) || !m.enter(domain) {
		return permit, err
	}
	again := time.Time{}
	defer func() { m.exit(domain, again) }()
	inLine, cancel := context.WithCancel(ratelimit.Until{Context: ctx, Time: m.now().Add(MaxInLine)})
	defer cancel()
	defer context.AfterFunc(m.leaving, cancel)()
	permit, err2 := m.AdaptiveRateLimiter.Acquire(inLine, domain)
	if err2 != nil {
		again = m.now().Add(max(late.Wait, time.Second)) // or a host would be tried and tried whose line is too long
	}
	if err2 != nil && m.leaving.Err() != nil && ctx.Err() == nil {
		return nil, err
	}
	return permit, err2
}

// ReadyAt is now for a host that others wait for, if this member may stand in line with them.
func (m *Member) ReadyAt(domain string, ahead, all int) (at time.Time, why ratelimit.Limit) {
	at, why = m.AdaptiveRateLimiter.ReadyAt(domain, ahead, all)
	if why == ratelimit.LimitNone || ahead > 0 || m.alone() || !paces(why) || at.Sub(m.now()) > MaxInLine {
		return at, why
	}
	if b, _ := m.Brief(domain); b.Waiting == 0 || !m.mayEnter(domain) {
		return at, why
	}
	return time.Time{}, ratelimit.LimitNone
}

// alone reports whether nobody else shares the limiter.
func (m *Member) alone() bool { return m.shared.members.Load() < 2 }

// mayEnter reports whether a request for a domain may stand in line: none does, nor was one in vain a moment ago.
func (m *Member) mayEnter(domain string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayEnterLocked(domain)
}

func (m *Member) mayEnterLocked(domain string) bool {
	return m.standing < m.mostInLine && !m.inLine[domain].After(m.now())
}

// enter has a request stand in line, if it may. What follows is exit.
func (m *Member) enter(domain string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mayEnterLocked(domain) {
		return false
	}
	now := m.now()
	if len(m.inLine) >= maxInVain {
		maps.DeleteFunc(m.inLine, func(_ string, again time.Time) bool { return !again.After(now) })
	}
	m.inLine[domain] = now.Add(MaxInLine + time.Second)
	m.standing++
	return true
}

// exit lets the next one for a domain stand in line from again on, or at once.
func (m *Member) exit(domain string, again time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.standing--; again.IsZero() || len(m.inLine) > maxInVain {
		delete(m.inLine, domain)
	} else {
		m.inLine[domain] = again
	}
}

// paces reports whether a limit is one that lets the next request through soon, after those of others.
func paces(l ratelimit.Limit) bool {
	switch l {
	case ratelimit.LimitRetryAfter, ratelimit.LimitBreaker, ratelimit.LimitQuota:
		return false
	}
	return true
}

func (m *Member) now() time.Time { return m.shared.keeper.Clock.Now() }

// SetCrawlDelay notes what a host's robots.txt asks of this member. The longest that it asks of any holds for all.
func (m *Member) SetCrawlDelay(domain string, d time.Duration) {
	if m.maxDelay > 0 {
		d = min(d, m.maxDelay)
	}
	domain = ratelimit.Domain(domain)
	m.shared.delays.set(m, domain, max(d, 0), m.AdaptiveRateLimiter.SetCrawlDelay)
}

// maxDelays is how many hosts have their delays told apart by member. Of more, the longest that was told counts until
// the limiter forgets the host.
const maxDelays = 100_000

// delays are what robots.txt asks of whom. The zero delays is ready.
type delays struct {
	mu sync.Mutex
	by map[string][]delayOf
}

type delayOf struct {
	member *Member
	d      time.Duration // above zero
}

// set tells the limiter the longest delay of a domain, without a lock held, as it tells of events. Of two calls at a
// time the last one tells what counts after both.
func (t *delays) set(m *Member, domain string, d time.Duration, tell func(string, time.Duration)) {
	longest := t.note(m, domain, d)
	for told := longest - 1; told != longest; longest = t.longest(domain) {
		told = longest
		tell(domain, told)
	}
}

func (t *delays) longest(domain string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return longestOf(t.by[domain])
}

func longestOf(all []delayOf) (d time.Duration) {
	for _, o := range all {
		d = max(d, o.d)
	}
	return d
}

func (t *delays) note(m *Member, domain string, d time.Duration) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.DeleteFunc(t.by[domain], func(o delayOf) bool { return o.member == m })
	if d > 0 {
		all = append(all, delayOf{m, d})
	}
	if len(all) == 0 {
		delete(t.by, domain)
		return 0
	}
	if t.by == nil {
		t.by = make(map[string][]delayOf)
	}
	if _, known := t.by[domain]; !known && len(t.by) >= maxDelays {
		for other := range t.by { // any of them
			delete(t.by, other)
			break
		}
	}
	t.by[domain] = all
	return longestOf(all)
}

func (t *delays) forget(m *Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for domain, all := range t.by {
		if all = slices.DeleteFunc(all, func(o delayOf) bool { return o.member == m }); len(all) == 0 {
			delete(t.by, domain)
		} else {
			t.by[domain] = all
		}
	}
}

// listeners are told of events. The zero listeners is ready.
type listeners struct {
	mu  sync.Mutex // held while the list is replaced
	all atomic.Pointer[[]*func(ratelimit.Event)]
}

func (l *listeners) add(fn func(ratelimit.Event)) (off func()) {
	l.change(func(all []*func(ratelimit.Event)) []*func(ratelimit.Event) { return append(all, &fn) })
	return sync.OnceFunc(func() {
		l.change(func(all []*func(ratelimit.Event)) []*func(ratelimit.Event) {
			return slices.DeleteFunc(all, func(f *func(ratelimit.Event)) bool { return f == &fn })
		})
	})
}

func (l *listeners) change(to func([]*func(ratelimit.Event)) []*func(ratelimit.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*func(ratelimit.Event)
	if old := l.all.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = to(all)
	l.all.Store(&all)
}

func (l *listeners) tell(e ratelimit.Event) {
	if all := l.all.Load(); all != nil {
		for _, fn := range *all {
			(*fn)(e)
		}
	}
}

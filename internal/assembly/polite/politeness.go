package polite

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/transport"
)

// Shared holds one state per host for all that send requests in a process: crawls, clients, and a program's own code.
// Each of them has a [Member]. It is safe for concurrent use.
type Shared struct {
	*ratelimit.AdaptiveRateLimiter

	keeper  *memory.Keeper // its Places are empty if nothing is saved
	events  listeners
	delays  delays
	members atomic.Int32
	own     func() *Member // returns the member for the program's own requests
	paced   transport.Middleware
	stop    context.CancelFunc
	beside  sync.WaitGroup
	closed  atomic.Bool
}

// SharedConfig configures [NewShared].
type SharedConfig struct {
	Limiter  ratelimit.Config // its OnEvent and MaxCrawlDelay are not used
	Remember string           // path of the file where what is learned is saved; empty: nowhere
	Log      *slog.Logger     // nil: nothing is logged
}

// NewShared makes a limiter, loads what the file remembers, and begins to save to the file. Close ends that.
func NewShared(cfg SharedConfig) (*Shared, error) {
	s := &Shared{}
	pauses := make(chan struct{}, 1)
	cfg.Limiter.OnEvent = memory.NotePauses(pauses, s.events.tell)
	cfg.Limiter.MaxCrawlDelay = -1 // each member has a bound of its own
	cfg.Limiter.Clock = cmp.Or(cfg.Limiter.Clock, clock.System())
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

// Acquire waits for the permit of a request of the program's own, in line with all others.
func (s *Shared) Acquire(ctx context.Context, domain string) (ratelimit.Permit, error) {
	s.own() // counts as a member, so that crawls are not alone
	return s.AdaptiveRateLimiter.Acquire(ctx, domain)
}

// SetCrawlDelay sets the Crawl-delay that the program's own robots.txt reader found: see [Member.SetCrawlDelay].
func (s *Shared) SetCrawlDelay(domain string, d time.Duration) { s.own().SetCrawlDelay(domain, d) }

// Save writes what is known about hosts to the file now. Without a file it does nothing.
func (s *Shared) Save(ctx context.Context) error {
	for _, place := range s.keeper.Places {
		if err := place.Save(ctx, s.Remember()); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the goroutines, and saves. Members may continue, but what they learn from then on is not saved. It may be
// called again.
func (s *Shared) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.beside.Wait()
	return s.Save(context.Background())
}

// Subscribe makes the limiter call fn with each change of a host's pace, in order per host, on the goroutines that send
// requests. fn must not block. A call may still be running when off has returned.
func (s *Shared) Subscribe(fn func(ratelimit.Event)) (off func()) { return s.events.add(fn) }

// Middleware returns what paces the requests of a program's own http.RoundTripper.
func (s *Shared) Middleware() transport.Middleware { return s.paced }

// RetryIn returns how long a program should wait that got that error from Acquire: see [ratelimit.RetryIn].
func (s *Shared) RetryIn(err error) (wait time.Duration, ok bool) {
	return ratelimit.RetryIn(err, s.keeper.Clock.Now())
}

// Host returns the name by which the limits of a host are kept that a program gives by its name or as a URL.
func Host(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
		if i := strings.IndexAny(s, "/?#"); i >= 0 {
			s = s[:i]
		}
		s = s[strings.LastIndexByte(s, '@')+1:]
	}
	return ratelimit.Domain(s)
}

// Report calls Feedback after it has added to fb what the header of the response says. A nil header adds nothing.
func (s *Shared) Report(domain string, fb ratelimit.Feedback, h http.Header) {
	if h != nil {
		now := s.keeper.Clock.Now()
		if wait, _ := header.RetryAfterOf(h, now, 0); ratelimit.Waits(s, domain, fb.StatusCode) { // a malformed header is ignored
			fb.RetryAfter = cmp.Or(fb.RetryAfter, wait)
		}
		fb.Quota, _ = header.Parse(h, now) // a malformed quota is ignored
		fb.Second = header.Second(h)
	}
	s.Feedback(domain, fb)
}

const (
	// promptly is how long a member waits for a permit that ReadyAt has announced.
	promptly = 20 * time.Millisecond
	// MaxInLine is how long a request may wait in line for a host at most.
	MaxInLine = 30 * time.Second
	// maxInVain is for how many hosts it is recorded that waiting in line was in vain.
	maxInVain = 1 << 12
)

// Member is a part of a [Shared]: it learns from its own responses and obeys what all members have learned. The
// pipeline of a crawl uses it as its limiter.
type Member struct {
	*ratelimit.AdaptiveRateLimiter

	shared   *Shared
	maxDelay time.Duration   // longest Crawl-delay that is obeyed; negative means any
	leaving  context.Context // cancels waits in line when it ends
	off      func()
	left     sync.Once

	mostInLine int
	mu         sync.Mutex
	standing   int                  // number of requests that wait in line
	inLine     map[string]time.Time // hosts for which none may join the line, as one waits or did in vain; until when
}

// MemberConfig configures [Shared.Join].
type MemberConfig struct {
	MaxCrawlDelay time.Duration         // longest Crawl-delay that is obeyed; zero means 60s, negative means any
	InLine        int                   // how many requests may wait in line while others request from the same host; zero means 1
	Leaving       context.Context       // cancels these waits when it ends; nil means never
	OnEvent       func(ratelimit.Event) // gets the events of all hosts of the Shared; nil means that nobody does
}

// Join makes a member. Leave ends it.
func (s *Shared) Join(cfg MemberConfig) *Member {
	m := &Member{
		AdaptiveRateLimiter: s.AdaptiveRateLimiter, shared: s, off: func() {},
		maxDelay: cmp.Or(cfg.MaxCrawlDelay, time.Minute), leaving: cfg.Leaving, mostInLine: max(1, cfg.InLine), inLine: make(map[string]time.Time),
	}
	m.leaving = cmp.Or(m.leaving, context.Background())
	if cfg.OnEvent != nil {
		m.off = s.Subscribe(cfg.OnEvent)
	}
	s.members.Add(1)
	return m
}

// Leave ends a member. The Crawl-delays that it has set are dropped, and no longer count when another member sets one.
// It may be called again, and on a nil Member, where it does nothing.
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

// Acquire takes the permit that ReadyAt has announced. If another request was faster, or if others wait, it waits in
// line with them, so that no member is always late: one request per host, up to [MaxInLine], and a few hosts at a time.
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
		again = m.now().Add(max(late.Wait, time.Second)) // so that a host whose line is too long is not tried again and again
	}
	if err2 != nil && m.leaving.Err() != nil && ctx.Err() == nil {
		return nil, err
	}
	return permit, err2
}

// ReadyAt returns the zero time for a host that others wait for, if this member may wait in line with them; otherwise
// it returns what the limiter does.
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

// alone reports whether no other member shares the limiter.
func (m *Member) alone() bool { return m.shared.members.Load() < 2 }

// mayEnter reports whether a request for a domain may join the line: none of this member waits for the domain, or has
// waited in vain lately, and few wait for others.
func (m *Member) mayEnter(domain string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayEnterLocked(domain)
}

func (m *Member) mayEnterLocked(domain string) bool {
	return m.standing < m.mostInLine && !m.inLine[domain].After(m.now())
}

// enter makes a request join the line, if it may. Every success needs a call of exit.
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

// exit makes a request leave the line. The next one for the domain may join at the instant again, or at once if that is
// zero.
func (m *Member) exit(domain string, again time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.standing--; again.IsZero() || len(m.inLine) > maxInVain {
		delete(m.inLine, domain)
	} else {
		m.inLine[domain] = again
	}
}

// paces reports whether a limit lets the next request through soon, after those of others.
func paces(l ratelimit.Limit) bool {
	switch l {
	case ratelimit.LimitRetryAfter, ratelimit.LimitBreaker, ratelimit.LimitQuota:
		return false
	}
	return true
}

func (m *Member) now() time.Time { return m.shared.keeper.Clock.Now() }

// SetCrawlDelay records what a host's robots.txt demands of this member. The longest delay that it demands of any
// member applies to all.
func (m *Member) SetCrawlDelay(domain string, d time.Duration) {
	if m.maxDelay > 0 {
		d = min(d, m.maxDelay)
	}
	domain = ratelimit.Domain(domain)
	m.shared.delays.set(m, domain, max(d, 0), m.AdaptiveRateLimiter.SetCrawlDelay)
}

// maxDelays is for how many hosts delays are kept per member. For others, the longest delay that was set counts until
// the limiter forgets the host.
const maxDelays = 100_000

// delays holds what robots.txt demands of each member. The zero delays is ready to use.
type delays struct {
	mu sync.Mutex
	by map[string][]delayOf
}

type delayOf struct {
	member *Member
	d      time.Duration // above zero
}

// set records a delay, and calls tell with the longest delay of the domain, without holding a lock, as tell emits
// events. If two calls run at the same time, the last call of tell has what counts after both.
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

// listeners are functions that are called with events. The zero listeners is ready to use.
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

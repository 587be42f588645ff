package robots

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Defaults and limits of [Config].
const (
	// maxTTL is RFC 9309 section 2.4: no copy is used for longer than a day.
	maxTTL = 24 * time.Hour
	// A robots.txt is a few kilobytes at most sites, so ten thousand origins fit into
	// the byte bound; it is there for those that fill the half mebibyte they may.
	defaultOrigins  = 10_000
	defaultMaxBytes = 64 << 20
	// A blip is over in seconds; an outage lasts, and asking every ten minutes notices
	// its end soon enough at no cost to the host.
	defaultRetryBase = 2 * time.Second
	defaultRetryMax  = 10 * time.Minute
)

// Config says how a [Cache] behaves.
type Config struct {
	// Agent is the product token whose rules are kept, such as "treadlight". A version
	// after it is ignored. It has no default: empty is an error.
	Agent string
	// MaxOrigins bounds how many origins are remembered. Zero means 10000.
	MaxOrigins int
	// MaxBytes bounds the memory of all their rules, approximately. Zero means 64 MiB.
	MaxBytes int
	// TTL is how long a file is obeyed before it is fetched again, at most 24h. Zero means 24h.
	TTL time.Duration
	// Stale is for how long after that a copy stays in force while the origin cannot be
	// reached, at most 24h. Zero means 24h.
	Stale time.Duration
	// RetryBase is the pause after the first failure; it doubles with each that follows.
	// Zero means 2s.
	RetryBase time.Duration
	// RetryMax bounds that pause, at least RetryBase and at most 24h. Zero means 10m, or
	// RetryBase if that is longer.
	RetryMax time.Duration
}

// State is where an origin stands.
type State uint8

// The states in the order in which an origin goes through them.
const (
	Unknown     State = iota // nobody has asked, or what is known has expired
	Pending                  // robots.txt is being asked for
	Known                    // rules are in force
	Unreachable              // the last try failed; the next is due at RetryAt
)

// String is the name that logs and explanations carry.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Known:
		return "known"
	case Unreachable:
		return "unreachable"
	}
	return "unknown"
}

// Entry is what is known of an origin at an instant.
type Entry struct {
	State State
	// Rules are those in force, or nil while URLs of the origin have to wait. They are
	// there when the State is Known, and in any other while an older copy may be used.
	Rules *Rules
	// Sitemaps are the sitemap URLs of the file in force. They must not be changed.
	Sitemaps []string
	// RetryAt is when the state can change by itself: in Known the rules expire, in
	// Unknown and Unreachable the file may be asked for from then on. Zero means now.
	RetryAt time.Time
	// Attempts is how many tries in a row have failed or been put off. Whoever gives an
	// origin up for good decides by it.
	Attempts int
	// Class is the outcome of the last request that failed or was put off.
	Class outcome.Class
	// Lasting says that the State is Unreachable for a reason that waiting will not cure.
	Lasting bool
	// Reason says how the State came about. Empty for an origin never heard of.
	Reason string
}

// Due reports whether robots.txt should be asked for now, with Begin.
func (e Entry) Due(now time.Time) bool {
	return (e.State == Unknown || e.State == Unreachable) && !now.Before(e.RetryAt)
}

// Check gives the verdict on a path. Without rules in force nothing is allowed, for now.
func (e Entry) Check(path string) Verdict {
	if e.Rules != nil {
		return e.Rules.Check(path)
	}
	return (&Rules{fixed: e.wait()}).Check(path)
}

func (e Entry) wait() string {
	if e.State == Unreachable {
		return fmt.Sprintf("robots.txt unreachable (%s), next try at %s", e.Reason, e.RetryAt.UTC().Format(time.RFC3339))
	}
	return "robots.txt is not known yet"
}

// record is what the cache keeps of an origin.
type record struct {
	pending  bool
	rules    *Rules // of the last file, or nil
	sitemaps []string
	size     int       // bytes charged for this record
	expires  time.Time // of rules
	retryAt  time.Time
	attempts int
	failed   bool // the last try has failed, or else it was put off
	lasting  bool // and will again
	class    outcome.Class
	reason   string
}

// Cache remembers the robots.txt of origins for one crawler. An origin that is
// forgotten for lack of room is unknown again, so its file is asked for once more: that
// costs a request but never breaks a rule. A Cache is safe for concurrent use.
type Cache struct {
	cfg Config // never changes after New

	mu      sync.Mutex // guards what follows
	origins *simplelru.LRU[string, *record]
	bytes   int
}

// New returns an empty Cache, or an error that names the field of cfg that makes no sense.
func New(cfg Config) (*Cache, error) {
	if token(cfg.Agent) == "" {
		return nil, fmt.Errorf("robots: Config.Agent is %q: begin it with a letter, as in %q", cfg.Agent, "treadlight")
	}
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg}
	origins, err := simplelru.NewLRU(cfg.MaxOrigins, func(_ string, r *record) { c.bytes -= r.size })
	if err != nil {
		return nil, fmt.Errorf("robots: Config.MaxOrigins is %d: %w", cfg.MaxOrigins, err)
	}
	c.origins = origins
	return c, nil
}

func (cfg *Config) fill() error {
	for _, f := range []struct {
		name       string
		value      *int
		zero, most int
	}{
		{"MaxOrigins", &cfg.MaxOrigins, defaultOrigins, math.MaxInt},
		{"MaxBytes", &cfg.MaxBytes, defaultMaxBytes, math.MaxInt},
	} {
		if err := fill(f.name, f.value, f.zero, f.most); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name       string
		value      *time.Duration
		zero, most time.Duration
	}{
		{"TTL", &cfg.TTL, maxTTL, maxTTL},
		{"Stale", &cfg.Stale, maxTTL, maxTTL},
		{"RetryBase", &cfg.RetryBase, defaultRetryBase, maxTTL},
		{"RetryMax", &cfg.RetryMax, max(defaultRetryMax, cfg.RetryBase), maxTTL},
	} {
		if err := fill(f.name, f.value, f.zero, f.most); err != nil {
			return err
		}
	}
	if cfg.RetryMax < cfg.RetryBase {
		return fmt.Errorf("robots: Config.RetryMax is %v: use at least RetryBase, %v", cfg.RetryMax, cfg.RetryBase)
	}
	return nil
}

func fill[T int | time.Duration](name string, value *T, zero, most T) error {
	if *value == 0 {
		*value = zero
	}
	if *value < 0 || *value > most {
		return fmt.Errorf("robots: Config.%s is %v: use more than zero and at most %v, or zero for %v", name, *value, most, zero)
	}
	return nil
}

// Lookup is what is known of an origin, "scheme://host:port", at now.
func (c *Cache) Lookup(origin string, now time.Time) Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.origins.Get(origin)
	if !ok {
		return Entry{}
	}
	return r.entry(now, c.cfg.Stale)
}

func (r *record) entry(now time.Time, stale time.Duration) Entry {
	e := Entry{State: r.state(now), RetryAt: r.retryAt, Attempts: r.attempts, Class: r.class, Lasting: r.lasting, Reason: r.reason}
	if e.State == Known {
		e.RetryAt = r.expires
	}
	end := r.expires
	if r.failed { // a host in trouble keeps its word, one that answers renews it
		end = end.Add(stale)
	}
	if r.rules != nil && now.Before(end) {
		e.Rules, e.Sitemaps = r.rules, r.sitemaps
	}
	return e
}

func (r *record) state(now time.Time) State {
	switch {
	case r.pending:
		return Pending
	case r.rules != nil && now.Before(r.expires):
		return Known
	case r.failed:
		return Unreachable
	}
	return Unknown
}

// Begin claims the request for an origin's robots.txt. True means that the caller has
// to make it and to report its end with Answer; of several callers only one gets true.
// False means that it is not due.
func (c *Cache) Begin(origin string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.origins.Get(origin)
	if !ok {
		r = new(record)
		c.origins.Add(origin, r)
	}
	if !r.entry(now, c.cfg.Stale).Due(now) {
		return false
	}
	r.pending = true
	return true
}

// Answer records how the request ended and returns what is known then. A result of
// kind Moved leaves the origin as it is: the caller goes on asking. An answer nobody
// has begun to wait for, because the origin was forgotten meanwhile, is as welcome.
func (c *Cache) Answer(origin string, now time.Time, res Result) Entry {
	fresh := c.fresh(now, res) // before the lock: a large file takes a while
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.origins.Get(origin)
	if !ok {
		r = new(record)
		c.origins.Add(origin, r)
	}
	switch {
	case res.Kind == Moved:
	case fresh != nil:
		c.storeLocked(r, fresh)
	default:
		r.putOff(now, res, c.cfg)
	}
	return r.entry(now, c.cfg.Stale)
}

// fresh is the record of a result that puts rules in force, or nil.
func (c *Cache) fresh(now time.Time, res Result) *record {
	r := &record{rules: new(Rules), expires: now.Add(c.cfg.TTL), reason: res.Reason}
	switch {
	case res.Kind == Found && res.File != nil:
		r.rules, r.sitemaps = res.File.Agent(c.cfg.Agent), res.File.Sitemaps()
	case res.Kind != Absent:
		return nil
	}
	r.size = r.weigh()
	return r
}

func (c *Cache) storeLocked(r, fresh *record) {
	c.bytes += fresh.size - r.size
	*r = *fresh
	// The origin itself is the most recent, so it goes last; alone it may stay.
	for c.bytes > c.cfg.MaxBytes && c.origins.Len() > 1 {
		c.origins.RemoveOldest()
	}
}

// weigh estimates the memory of a record: the constants are the sizes of its parts and
// what the list and the map around them add.
func (r *record) weigh() int {
	const perRecord, perRule, perString = 300, 64, 16
	n := perRecord
	for i := range r.rules.rules {
		n += perRule + len(r.rules.rules[i].pattern) + len(r.rules.rules[i].written)
	}
	for _, s := range r.sitemaps {
		n += perString + len(s)
	}
	return n
}

// putOff schedules the next try: at once if it was we who gave up, otherwise after a
// pause that doubles, and not before the host wants.
func (r *record) putOff(now time.Time, res Result, cfg Config) {
	r.pending = false
	r.reason = res.Reason
	if res.Kind == NoAnswer {
		r.retryAt = now
		return
	}
	r.failed = r.failed || res.Kind == Failed
	r.lasting, r.class = res.Lasting, res.Class
	pause := cfg.RetryBase
	for range r.attempts {
		if pause = min(2*pause, cfg.RetryMax); pause == cfg.RetryMax {
			break
		}
	}
	r.attempts++
	r.retryAt = now.Add(max(pause, min(res.RetryAfter, maxTTL)))
}

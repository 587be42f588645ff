package robots

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Defaults and bounds of [Config].
const (
	maxTTL          = 24 * time.Hour // RFC 9309 section 2.4; as long again while the origin is unreachable
	defaultOrigins  = 10_000
	defaultMaxBytes = 64 << 20
	retryBase       = 2 * time.Second // the pause after a failure; it doubles with each further one
	retryMax        = 10 * time.Minute
)

// Config is the settings of a [Cache].
type Config struct {
	// Agent is the product token whose rules are kept, such as "treadlight". A version after it is ignored. Required.
	Agent string
	// MaxOrigins bounds the origins. Zero means 10000.
	MaxOrigins int
	// MaxBytes bounds the memory of all rules, approximately. Zero means 64 MiB.
	MaxBytes int
	// TTL is how long a file is obeyed before it is fetched again. Zero means 24h.
	TTL time.Duration
}

// State is the state of an origin.
type State uint8

// The states, in their usual order.
const (
	Unknown     State = iota // nobody has asked, or what is known has expired
	Pending                  // robots.txt is being asked for
	Known                    // rules are in force
	Unreachable              // the last try failed; the next is due at RetryAt
)

// Entry is what is known of an origin at one time.
type Entry struct {
	State State
	// Rules are those in force, in any State while an older copy may be used; nil while URLs of the origin have to
	// wait.
	Rules *Rules
	// Sitemaps are the sitemap URLs of the file in force. They must not be changed.
	Sitemaps []string
	// RetryAt is when the rules expire (Known) or the file may be requested (Unknown, Unreachable). Zero means now.
	RetryAt time.Time
	// Attempts is how many tries in a row have failed or been put off.
	Attempts int
	// Class is the outcome of the last request that failed or was put off.
	Class outcome.Class
	// Lasting says that waiting will not help an Unreachable origin.
	Lasting bool
	// Reason is the cause of the State. Empty for an origin never seen.
	Reason string
}

// Due reports whether to request robots.txt now, with Begin.
func (e Entry) Due(now time.Time) bool {
	return (e.State == Unknown || e.State == Unreachable) && !now.Before(e.RetryAt)
}

// record is what the Cache has of an origin: an Entry without its State, with the rules of the last file however old.
type record struct {
	Entry
	pending bool
	failed  bool // the last try has failed, or else it was put off
	size    int  // bytes charged for this record
	expires time.Time
}

// Cache holds the robots.txt of origins for one crawler. An evicted origin is unknown again, and its file is
// requested once more.
type Cache struct {
	cfg Config // never changes after New

	mu      sync.Mutex // guards what follows
	origins *simplelru.LRU[string, *record]
	bytes   int
}

// New returns an empty Cache. The error names the invalid field.
func New(cfg Config) (*Cache, error) {
	if token(cfg.Agent) == "" {
		return nil, fmt.Errorf("robots: Config.Agent is %q: begin it with a letter, as in %q", cfg.Agent, "treadlight")
	}
	cfg.MaxOrigins, cfg.MaxBytes = cmp.Or(cfg.MaxOrigins, defaultOrigins), cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	cfg.TTL = cmp.Or(cfg.TTL, maxTTL)
	c := &Cache{cfg: cfg}
	origins, err := simplelru.NewLRU(cfg.MaxOrigins, func(_ string, r *record) { c.bytes -= r.size })
	if err != nil {
		return nil, fmt.Errorf("robots: Config.MaxOrigins is %d: %w", cfg.MaxOrigins, err)
	}
	c.origins = origins
	return c, nil
}

// Lookup is the state of an origin, "scheme://host:port", at now.
func (c *Cache) Lookup(origin string, now time.Time) Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.origins.Get(origin)
	if !ok {
		return Entry{}
	}
	return r.entry(now)
}

func (r *record) entry(now time.Time) Entry {
	e, end := r.Entry, r.expires
	switch {
	case r.pending:
		e.State = Pending
	case r.Rules != nil && now.Before(r.expires):
		e.State, e.RetryAt = Known, r.expires
	case r.failed:
		e.State = Unreachable
	}
	if r.failed {
		end = end.Add(maxTTL)
	}
	if !now.Before(end) {
		e.Rules, e.Sitemaps = nil, nil
	}
	return e
}

func (c *Cache) recordLocked(origin string) *record {
	r, ok := c.origins.Get(origin)
	if !ok {
		r = new(record)
		c.origins.Add(origin, r)
	}
	return r
}

// Begin claims the request for robots.txt. If it is true, which it is for one caller only, the caller makes the
// request and reports its end with Answer. False means that it is not due.
func (c *Cache) Begin(origin string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.recordLocked(origin)
	if !r.entry(now).Due(now) {
		return false
	}
	r.pending = true
	return true
}

// Answer records the end of a request and returns the new state. A result of kind Moved changes nothing: the caller
// follows the redirect. Answers without Begin are taken as well.
func (c *Cache) Answer(origin string, now time.Time, res Result) Entry {
	fresh := c.fresh(now, res) // before the lock: a large file takes a while
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.recordLocked(origin)
	switch {
	case res.Kind == Moved:
	case fresh != nil:
		c.bytes += fresh.size - r.size
		*r = *fresh
		// The origin itself is the newest, and stays if it is alone.
		for c.bytes > c.cfg.MaxBytes && c.origins.Len() > 1 {
			c.origins.RemoveOldest()
		}
	default:
		r.putOff(now, res)
	}
	return r.entry(now)
}

// fresh is the record of a result with rules, or nil.
func (c *Cache) fresh(now time.Time, res Result) *record {
	r := &record{Entry: Entry{Rules: new(Rules), Reason: res.Reason}, expires: now.Add(c.cfg.TTL)}
	switch {
	case res.Kind == Found && res.File != nil:
		r.Rules, r.Sitemaps = res.File.Agent(c.cfg.Agent), res.File.Sitemaps()
	case res.Kind != Absent:
		return nil
	}
	r.size = r.weigh()
	return r
}

func (r *record) weigh() int {
	const perRecord, perRule, perString = 300, 64, 16
	n := perRecord
	for i := range r.Rules.rules {
		n += perRule + len(r.Rules.rules[i].pattern) + len(r.Rules.rules[i].written)
	}
	for _, s := range r.Sitemaps {
		n += perString + len(s)
	}
	return n
}

// putOff schedules the next try: at once if we gave up, otherwise after a pause that doubles.
func (r *record) putOff(now time.Time, res Result) {
	r.pending = false
	r.Reason = res.Reason
	if res.Kind == NoAnswer {
		r.RetryAt = now
		return
	}
	r.failed = r.failed || res.Kind == Failed
	r.Lasting, r.Class = res.Lasting, res.Class
	r.RetryAt = now.Add(min(retryBase<<min(r.Attempts, 16), retryMax))
	r.Attempts++
}

// MaxRedirects is how many redirects are followed for one robots.txt (RFC 9309 section 2.3.1.2). A file behind more
// does not exist.
const MaxRedirects = 5

// Answer is how one request for robots.txt ended.
type Answer struct {
	Status   int    // zero if no header arrived
	Err      error  // nil if the answer arrived whole
	Body     []byte // what arrived of the body, decoded
	Location string // target of a redirect; empty if there is none
	Hops     int    // redirects already followed on the way to this answer
}

// Kind is the meaning of an [Answer].
type Kind uint8

// The kinds. The zero Kind is NoAnswer.
const (
	NoAnswer  Kind = iota // we gave up before one came: ask again
	Throttled             // the host asks for patience: ask again later
	Found                 // there is a file
	Absent                // there is none: everything is allowed
	Moved                 // ask at Location, with one hop more, before telling the cache
	Failed                // the host cannot say: everything is forbidden for now
)

// Result is what follows from an [Answer].
type Result struct {
	Kind     Kind
	File     *File         // of kind Found; otherwise nil
	Location string        // of kind Moved, unresolved; otherwise empty
	Reason   string        // for people, such as "status 503"
	Class    outcome.Class // of the answer; Unknown if the Result was not made of one
	Lasting  bool          // of kind Failed: waiting will not cure it, such as a name that does not exist
}

// FromAnswer classifies an answer. A body that was cut at a size limit is parsed; one that broke off is not, because
// a rule may be missing. The body matters only for a success.
func FromAnswer(a Answer) Result {
	success := a.Status/100 == 2
	class := outcome.Of(a.Status, a.Err)
	if a.Status != 0 && !success && class != outcome.Canceled {
		class = outcome.Of(a.Status, nil)
	}
	r := Result{Reason: fmt.Sprintf("status %d", a.Status), Class: class}
	switch {
	case class == outcome.Redirect && a.Hops >= MaxRedirects:
		r.Reason = fmt.Sprintf("more than %d redirects", MaxRedirects)
	case a.Err != nil && !class.Answered():
		r.Reason = fmt.Sprintf("%v: %v", class, a.Err)
	}
	switch {
	case class == outcome.Canceled, class == outcome.Unknown:
		r.Kind = NoAnswer
	case class == outcome.Throttled:
		r.Kind = Throttled
	case success && (class == outcome.OK || class == outcome.TooLarge):
		r.Kind, r.File = Found, Parse(a.Body)
	case class == outcome.Redirect && a.Location != "" && a.Hops < MaxRedirects:
		r.Kind, r.Location = Moved, a.Location
	case class == outcome.Redirect, class == outcome.OK, a.Status/100 == 4:
		r.Kind = Absent // 3xx that leads nowhere, and every 4xx that is left
	default:
		r.Kind, r.Lasting = Failed, a.Status == 0 && !class.Transient()
	}
	return r
}

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
	maxTTL          = 24 * time.Hour // RFC 9309 section 2.4; an older copy is used for as long again while the origin is unreachable
	defaultOrigins  = 10_000
	defaultMaxBytes = 64 << 20
	retryBase       = 2 * time.Second // pause after a failure, doubled with each further failure
	retryMax        = 10 * time.Minute
)

// Config has the settings of a [Cache].
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
	Unknown     State = iota // robots.txt was never requested, or the rules have expired
	Pending                  // robots.txt is being requested
	Known                    // rules are in force
	Unreachable              // the last request failed; the next is due at RetryAt
)

// Entry is what the Cache knows of an origin at one time.
type Entry struct {
	State State
	// Rules are those in force, which in every State may be those of an older copy; nil while the origin's URLs have to
	// wait.
	Rules *Rules
	// Sitemaps are the sitemap URLs of the file in force. They must not be changed.
	Sitemaps []string
	// RetryAt is when the rules expire (Known) or the file may be requested (Unknown, Unreachable). Zero means now.
	RetryAt time.Time
	// Attempts is how many requests in a row have failed or were put off.
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

// record is what the Cache keeps of an origin: an Entry without its State, with the rules of the last file, however
// old.
type record struct {
	Entry
	pending bool
	failed  bool // the last request failed; otherwise it was put off
	size    int  // bytes counted for this record
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

// Lookup returns the state of an origin, "scheme://host:port", at now.
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

// Begin claims the request for robots.txt. It returns true to one caller only, which must then make the request and
// report its result by Answer. It returns false if no request is due.
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

// Answer records the result of a request and returns the new state. A result of kind Moved changes nothing: the caller
// must follow the redirect. Begin need not have been called before.
func (c *Cache) Answer(origin string, now time.Time, res Result) Entry {
	fresh := c.fresh(now, res) // before taking the lock, because parsing a large file takes a while
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.recordLocked(origin)
	switch {
	case res.Kind == Moved:
	case fresh != nil:
		c.bytes += fresh.size - r.size
		*r = *fresh
		// The origin itself is the newest, and stays even if it alone exceeds the bound.
		for c.bytes > c.cfg.MaxBytes && c.origins.Len() > 1 {
			c.origins.RemoveOldest()
		}
	default:
		r.putOff(now, res)
	}
	return r.entry(now)
}

// fresh returns the record of a result that has rules, or nil.
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

// putOff schedules the next request: at once if this program gave up, otherwise after a pause that doubles each time.
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
// redirects counts as absent.
const MaxRedirects = 5

// Answer is the result of one request for robots.txt.
type Answer struct {
	Status   int    // zero if no header arrived
	Err      error  // nil if the whole response arrived
	Body     []byte // the part of the body that arrived, decoded
	Location string // target of a redirect; empty if there is none
	Hops     int    // redirects already followed to this response
}

// Kind is the meaning of an [Answer].
type Kind uint8

// The kinds. The zero Kind is NoAnswer.
const (
	NoAnswer  Kind = iota // this program gave up before a response: request it again
	Throttled             // the host asks to wait: request it again later
	Found                 // there is a file
	Absent                // there is no file: everything is allowed
	Moved                 // request it at Location, with one hop more, before reporting to the cache
	Failed                // the host cannot answer: everything is forbidden for now
)

// Result is what follows from an [Answer].
type Result struct {
	Kind     Kind
	File     *File         // for kind Found; otherwise nil
	Location string        // for kind Moved, unresolved; otherwise empty
	Reason   string        // a text for people, such as "status 503"
	Class    outcome.Class // of the response; Unknown if the Result was not made from one
	Lasting  bool          // for kind Failed: waiting will not help, as with a name that does not exist
}

// FromAnswer classifies a response. A body cut at a size limit is parsed; one that broke off is not, because a rule may
// be missing. The body is used only if the status is a success.
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
		r.Kind = Absent // redirects that lead nowhere, and all other 4xx
	default:
		r.Kind, r.Lasting = Failed, a.Status == 0 && !class.Transient()
	}
	return r
}

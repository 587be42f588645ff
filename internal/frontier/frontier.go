package frontier

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// SlowAfter is the average time for which a host may hold a slot before it counts as slow, and the time that a request
// may wait for its first byte before it gives its slot back. It is far above the time of a healthy response and far
// below the timeouts.
const SlowAfter = time.Second

// Kind says what a URL is fetched for.
type Kind uint8

// The kinds.
const (
	Page    Kind = iota // a page to process and record
	Robots              // the robots.txt of an origin; the frontier's own request, not stored
	Sitemap             // a list of pages, queued and stored like a page
	Control             // a page requested again to see whether the host answers; the frontier's own, not stored
	numKinds
)

func (k Kind) String() string { return [numKinds]string{"page", "robots", "sitemap", "control"}[k] }

// Item is one URL to visit and how it was found.
type Item struct {
	URL canonical.URL
	Found
	attribution.Tries
	Kind   Kind
	Rank   int32         // URLs of a host go in ascending order of rank, and within a rank as they were found
	ID     int64         // numbers the URLs as they were found, from 1; the frontier assigns it. Zero for Robots
	Queued time.Time     // when the URL was first added
	Wait   time.Duration // how long after it was added the URL is not leased; not stored
	Origin string        // for Robots: the origin whose rules are requested
	// Request describes the request beyond its URL, in the encoding of whoever adds the item. The text up to the first
	// line break makes it another resource than the URL alone, and may be empty; the text behind the line break does
	// not. Empty means the URL alone.
	Request string
	// Before is what an earlier round found at the URL, as the store has it. Nil means that nothing is known.
	Before *Visit
}

func (it *Item) size() int { return len(it.URL.String()) + len(it.Request) }

// Found is where a URL was found.
type Found struct {
	Referrer string // the page that linked here; empty for a seed
	FoundOn  int64  // the ID of that page; zero for a seed
	Depth    int32  // number of links from a seed; for Robots, that of the URL that waits for the rules
	Hops     uint8  // redirects since the last link
	Seed     bool   // given by the user, or the target of a seed's redirect
}

// Lease is a URL handed out. It ends with exactly one End and, if it held a slot, one Release, in either order.
type Lease struct {
	Item
	Refused *Refusal // why the URL must not be fetched; such a lease holds no slot. Nil means that it may be fetched
	// Cause is the URL that waits for a robots.txt. It is set only on the lease of a robots.txt that was not
	// redirected.
	Cause canonical.URL
	// Evidence is what a failure of the request is attributed by.
	Evidence attribution.Evidence
	// Tenure is how long this process holds the host. Nil means for ever, or that the host is here only for a
	// redirected robots.txt.
	Tenure *Tenure

	host     *host
	all      *atomic.Int32 // Frontier.handed
	at       time.Time     // when the URL was leased
	due      time.Time     // when its host came up in the schedule
	started  bool          // whether Started was called
	freed    bool
	finished bool
	extra    bool        // whether it holds an extra slot instead of one of Config.Slots
	waited   bool        // whether Overdue was called
	answered atomic.Bool // whether Answered was called
}

// Host returns the name under which the URL's host is paced.
func (l *Lease) Host() string { return l.host.name }

// subject returns what the outcome of the lease's request is evidence about.
func (l *Lease) subject() attribution.Subject {
	switch l.Kind {
	case Robots:
		return attribution.Rules
	case Control:
		return attribution.Control
	}
	return attribution.Page
}

// Late returns how long the URL could have been leased before it was.
func (l *Lease) Late() time.Duration { return max(l.at.Sub(l.due), 0) }

// LeasedAt returns when the URL was leased.
func (l *Lease) LeasedAt() time.Time { return l.at }

// Started records that the holder has requested its permit from the limiter, so that the frontier no longer counts the
// lease ahead of the limiter. It may be called from any goroutine, and repeatedly by the same one.
func (l *Lease) Started() {
	if !l.started {
		l.started = true
		l.host.handed.Add(-1)
		l.all.Add(-1)
	}
}

// Answered records that the first byte of the response has come. It may be called from any goroutine.
func (l *Lease) Answered() { l.answered.Store(true) }

// Waiting reports whether the request of the lease is in flight and has no response yet.
func (l *Lease) Waiting() bool { return !l.freed && !l.answered.Load() }

// Extra reports whether the lease holds one of Config.ExtraSlots. Only the owner of the frontier may call it.
func (l *Lease) Extra() bool { return l.extra }

// Pass is the decision of a gate about a URL.
type Pass uint8

// The answers.
const (
	Go     Pass = iota // the URL may be fetched
	Ask                // the rules of the origin are to be requested first
	Wait               // the rules are being fetched, or are to be requested again later
	Refuse             // the URL must not be fetched
)

// Verdict is a gate's answer for one URL.
type Verdict struct {
	Pass    Pass
	Until   time.Time // when a Wait ends; zero means at the next [Frontier.Wake]
	Reason  string    // what a Wait waits for
	Refusal *Refusal  // why a Refuse was decided
}

// Refusal is why a URL must not be fetched: a class to count by, and a text for people.
type Refusal struct{ Class, Reason string }

// Gate holds URLs back until the rules of their origin are known.
type Gate interface {
	Check(it *Item, now time.Time) Verdict
}

// Config configures a frontier. Pacer is required.
type Config struct {
	Pacer ratelimit.Pacer
	// Gate decides about each URL before it is leased. Nil lets every URL pass.
	Gate Gate
	// RobotsGivenUp is called with an origin whose robots.txt will not be requested any more, because another process
	// has taken over its host. Nil means that nobody is to be called.
	RobotsGivenUp func(origin string, now time.Time)
	// Slots is how many leases may hold a slot at a time, over all hosts. It only shapes how hosts share the slots: the
	// owner of the frontier enforces the number. Zero means 64.
	Slots int
	// ExtraSlots is how many leases of slow hosts may be open beside those within Slots. Zero means none.
	ExtraSlots int
	// PerHost is how many leases of one host may hold a slot at a time. Zero means 8.
	PerHost int
	// InFlight, if set, is called once per host and returns how many leases the host may have at a time, within
	// PerHost. If it is nil or returns zero, PerHost holds.
	InFlight func(host string) int
	// NoRetries says that a URL whose failure is its own is not retried. Then, if no other URL of the host is left to
	// try, a control request shows whose the failure was before the URL is requested again.
	NoRetries bool
	// MaxURLs bounds the number of URLs known, queued or visited. Without a Store each takes 11 to 21 bytes for its
	// fingerprint and, while queued, about 150 bytes and its length; of the URLs beyond 256 of one host and rank, each
	// takes half of its length or less. The total length of the URLs in memory is bounded too, by 256 bytes times
	// MaxURLs. Zero means 10,000,000.
	MaxURLs int
	// MaxHosts bounds the number of hosts in memory, about 300 bytes each. Without a Store these are all the known
	// hosts, and links to other hosts are dropped. With a Store the other hosts are inactive there until there is room;
	// only a host whose robots.txt others wait for is taken in beyond the bound. Zero means 1,000,000.
	MaxHosts int
	// Store keeps the URLs. Nil keeps them in memory alone.
	Store Storage
	// Left is what Store has left of an earlier crawl; all its hosts are inactive there. If the store is shared,
	// MaxHosts bounds the hosts that this process holds, and the store itself enforces MaxURLs and MaxPagesPerHost.
	Left Left
	// Resident is how many queued URLs are at least held in memory before others are in the Store alone; each takes
	// about 150 bytes and its length at most. In addition each host may have headMin URLs in memory, however many hosts
	// there are. Without a Store it has no meaning. Zero means 131,072.
	Resident int
	// MaxPagesPerHost bounds the URLs accepted of one host. Zero means no bound.
	MaxPagesPerHost int
	// Key makes the fingerprints of this crawl unpredictable to the web, so that nobody can craft two URLs that
	// collide.
	Key uint64
}

func (c Config) withDefaults() Config {
	c.Slots, c.PerHost = cmp.Or(c.Slots, 64), cmp.Or(c.PerHost, 8)
	c.MaxURLs, c.MaxHosts, c.Resident = cmp.Or(c.MaxURLs, 10_000_000), cmp.Or(c.MaxHosts, 1_000_000), cmp.Or(c.Resident, 1<<17)
	return c
}

// usualLength is how many bytes of text are reserved for each of MaxURLs URLs. Real URLs take a third of it on average;
// a crawl that needs more has URLs longer than anyone would type.
const usualLength = 256

// Added is the result of adding a URL to the frontier.
type Added uint8

// The ways in which an offer ends.
const (
	Queued    Added = iota // new, and queued now
	Seen                   // known already
	Full                   // MaxURLs is reached, or the room for their text
	HostsFull              // MaxHosts is reached
	HostPages              // MaxPagesPerHost URLs of this host are known already
	numAdded
)

func (a Added) String() string {
	return [numAdded]string{"queued", "seen", "frontier_full", "hosts_full", "host_pages"}[a]
}

// Counts holds the exact number of URLs in each state, and the number of hosts.
type Counts struct {
	Queued int64 `json:"queued"` // waiting, retries included
	Leased int64 `json:"leased"` // handed out and not yet ended
	Known  int64 `json:"known"`  // ever accepted
	Hosts  int64 `json:"hosts"`  // in memory now
}

type counts struct{ queued, leased, known, hosts atomic.Int64 }

func (c *counts) load() Counts {
	return Counts{c.queued.Load(), c.leased.Load(), c.known.Load(), c.hosts.Load()}
}

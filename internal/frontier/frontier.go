package frontier

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// SlowAfter is the average time for which a host may hold a slot before it counts as slow, and the wait for a first
// byte after which a request gives its slot back. It is far above a healthy response and far below the timeouts.
const SlowAfter = time.Second

// Kind says what a URL is fetched for.
type Kind uint8

// The kinds.
const (
	Page    Kind = iota // a page to process and record
	Robots              // the robots.txt of an origin: of the frontier's own asking, and not stored
	Sitemap             // a list of pages, queued and stored like a page
	Control             // a page asked for again to see whether the host answers: of the frontier's own asking, and not stored
	numKinds
)

func (k Kind) String() string { return [numKinds]string{"page", "robots", "sitemap", "control"}[k] }

// Item is one URL to visit and how it was found.
type Item struct {
	URL canonical.URL
	Found
	attribution.Tries
	Kind   Kind
	Rank   int32         // URLs of a host go in the order of their ranks, and then as they were found
	ID     int64         // numbers the URLs as they were found, from 1; the frontier gives it. Zero for Robots
	Queued time.Time     // when it was first added
	Wait   time.Duration // for how long after it was added it is not leased; not stored
	Origin string        // for Robots: the origin whose rules are asked for
	// Request is what is asked for besides the URL, as whoever adds the item wrote it: up to the first line break what
	// makes it another resource than the URL alone, which may be nothing, then what does not. Empty: the URL alone.
	Request string
	// Before is what an earlier round found at the URL, from a store, or nil.
	Before *Visit
}

func (it *Item) size() int { return len(it.URL.String()) + len(it.Request) }

// Found is where a URL was found.
type Found struct {
	Referrer string // the page that linked here; empty for a seed
	FoundOn  int64  // the ID of that page; zero for a seed
	Depth    int32  // links from a seed; for Robots: of the URL that waits for the rules
	Hops     uint8  // redirects since the last link
	Seed     bool   // given by the user, or where a seed redirected to
}

// Lease is a URL handed out. It ends with exactly one End and, if it held a slot, one Release, in either order.
type Lease struct {
	Item
	Refused *Refusal // why the URL must not be fetched; such a lease holds no slot. Nil: it may
	// Cause is, for a robots.txt that was not redirected, the URL that waits for it.
	Cause canonical.URL
	// Evidence is by what a failure of the request is attributed.
	Evidence attribution.Evidence
	// Tenure is for how long the host is this process's. Nil: for ever, or it is asked for a moved robots.txt alone.
	Tenure *Tenure

	host     *host
	all      *atomic.Int32 // Frontier.handed
	at       time.Time     // when it was leased
	due      time.Time     // when its host came up
	started  bool          // Started was called
	freed    bool
	finished bool
	extra    bool        // it holds none of Config.Slots
	waited   bool        // Overdue was called
	answered atomic.Bool // Answered was called
}

// Host is the name under which the URL's host is paced.
func (l *Lease) Host() string { return l.host.name }

// subject is what the request of a lease says something about.
func (l *Lease) subject() attribution.Subject {
	switch l.Kind {
	case Robots:
		return attribution.Rules
	case Control:
		return attribution.Control
	}
	return attribution.Page
}

// Late is how long the URL could have been leased before it was.
func (l *Lease) Late() time.Duration { return max(l.at.Sub(l.due), 0) }

// LeasedAt is when the URL was leased.
func (l *Lease) LeasedAt() time.Time { return l.at }

// Started says that the holder has asked the limiter for its permit, so the lease is no longer counted ahead of it. It
// may be called from any goroutine, by one repeatedly.
func (l *Lease) Started() {
	if !l.started {
		l.started = true
		l.host.handed.Add(-1)
		l.all.Add(-1)
	}
}

// Answered says that the first of the answer is there. It may be called from any goroutine.
func (l *Lease) Answered() { l.answered.Store(true) }

// Waiting reports whether the request of a lease is under way and has no answer.
func (l *Lease) Waiting() bool { return !l.freed && !l.answered.Load() }

// Extra reports whether a lease holds one of Config.ExtraSlots. For the owner of the frontier only.
func (l *Lease) Extra() bool { return l.extra }

// Pacer says when a host may be asked.
type Pacer interface {
	// ReadyAt is the instant at which a request would not wait, after ahead others of the domain and all of any, and
	// which limit makes it wait.
	ReadyAt(domain string, ahead, all int) (time.Time, ratelimit.Limit)
}

// Pass is a gate's answer.
type Pass uint8

// The answers.
const (
	Go     Pass = iota // may be fetched
	Ask                // ask for the origin's rules first
	Wait               // the rules are on their way, or to be asked for again later
	Refuse             // must not be fetched
)

// Verdict is a gate's answer for one URL.
type Verdict struct {
	Pass    Pass
	Until   time.Time // how long a Wait lasts; zero: until [Frontier.Wake]
	Reason  string    // for a Wait
	Refusal *Refusal  // for a Refuse
}

// Refusal is why a URL must not be fetched: a class to count by, and words.
type Refusal struct{ Class, Reason string }

// Gate holds URLs back until their origin's rules are known.
type Gate interface {
	Check(it *Item, now time.Time) Verdict
}

// Config shapes a frontier. Pacer is required.
type Config struct {
	Pacer Pacer
	// Gate is asked before a URL is leased. Nil lets every URL pass.
	Gate Gate
	// RobotsGivenUp, if set, is told of an origin whose robots.txt is no longer asked for, as its host went to another
	// process.
	RobotsGivenUp func(origin string, now time.Time)
	// Slots is how many leases may be out over all hosts. It shapes sharing only: the owner keeps the count. Zero: 64.
	Slots int
	// ExtraSlots is how many leases of slow hosts may be out beside those within Slots. Zero: none.
	ExtraSlots int
	// PerHost is how many leases one host may have out. Zero means 8.
	PerHost int
	// InFlight, if set, is asked once per host how many leases it may have out, within PerHost. Zero or nil: PerHost.
	InFlight func(host string) int
	// NoRetries says that a URL which fails on its own has no retries: where no other URL is left to ask, a control
	// shows whose the failure was before the URL is asked for again.
	NoRetries bool
	// MaxURLs bounds the URLs known, queued or visited. Without a Store they take 11 to 21 bytes each for the
	// fingerprint, and while queued about 150 and their length; of those beyond 256 of one host and rank, half of
	// their length or less. The lengths in memory are bounded too, by 256 bytes times MaxURLs. Zero means 10,000,000.
	MaxURLs int
	// MaxHosts bounds the hosts in memory, about 300 bytes each. Without a Store these are all that is known, and
	// links to others are dropped; with one the others are inactive there until there is room, and only a host whose
	// robots.txt others wait for is taken in beyond it. Zero means 1,000,000.
	MaxHosts int
	// Store keeps the URLs. Nil keeps them in memory alone.
	Store Storage
	// Left is what Store has left of an earlier crawl. All hosts of it are inactive there. If the store is shared MaxHosts
	// bounds the hosts that this process has, and MaxURLs and MaxPagesPerHost are the store's to keep.
	Left Left
	// Resident is how many queued URLs are in memory at least before others lie in the Store alone, about 150 bytes
	// and their length each at most. Beside it each host may have headMin, whatever their number. Without a Store it
	// has no meaning. Zero means 131,072.
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

// usualLength is the room for each of MaxURLs URLs. Real ones are a third of it on average; what needs more makes
// URLs longer than anyone would type.
const usualLength = 256

// Added is what became of a URL offered to the frontier.
type Added uint8

// The ways in which an offer ends.
const (
	Queued    Added = iota // new, now queued
	Seen                   // known already
	Full                   // MaxURLs reached, or the room for them
	HostsFull              // MaxHosts reached
	HostPages              // MaxPagesPerHost URLs of this host are known already
	numAdded
)

func (a Added) String() string {
	return [numAdded]string{"queued", "seen", "frontier_full", "hosts_full", "host_pages"}[a]
}

// Counts is the exact state of a frontier.
type Counts struct {
	Queued int64 `json:"queued"` // waiting, retries included
	Leased int64 `json:"leased"` // handed out and not yet acknowledged
	Known  int64 `json:"known"`  // ever accepted
	Hosts  int64 `json:"hosts"`  // known at the moment
}

type counts struct{ queued, leased, known, hosts atomic.Int64 }

func (c *counts) load() Counts {
	return Counts{c.queued.Load(), c.leased.Load(), c.known.Load(), c.hosts.Load()}
}

package frontier

import (
	"context"
	"crypto/sha256"
	"math"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier/seen"
)

// Place orders the URLs of a host: by rank, then in the order in which they were found. The zero Place is before every
// URL of rank zero.
type Place struct {
	Rank int32
	ID   int64
}

// Before reports whether p comes up earlier than q.
func (p Place) Before(q Place) bool {
	return p.Rank < q.Rank || p.Rank == q.Rank && p.ID < q.ID
}

var firstPlace = Place{Rank: math.MinInt32}

// Place returns where the item stands in the queue of its host.
func (it *Item) Place() Place { return Place{it.Rank, it.ID} }

// Visit is the result of visiting a URL: the part of its record that a store keeps.
type Visit struct {
	At     time.Time // when the last request was sent; for a refused URL, when it was refused
	Status int       // zero when no host answered
	Class  string    // class of the error; empty means no error
	Bytes  int64     // size of the decoded body
	// Refused says that the URL was not fetched, and so does not count as a visited page. The frontier sets it.
	Refused bool
	// ETag and LastModified are the server's validators of the page, kept for a later round. Empty or zero means that
	// there is none.
	ETag         string
	LastModified time.Time
	// Digest is the SHA-256 of the body or, for a redirect, of its target. Zero means unknown.
	Digest [sha256.Size]byte
	// Change says how the page differs from what the round before found.
	Change Change
}

// Change says how a page differs from that of the round before. Empty means that there is nothing to compare it with.
type Change string

// The changes.
const (
	Appeared  Change = "new"       // a page at a URL where none was known, or where it was gone
	Changed   Change = "changed"   // a page that differs from the one before
	Unchanged Change = "unchanged" // the same page, whether the server said so or sent it again
	Gone      Change = "gone"      // the page does not exist any more
)

// Kept has the figures of a state on disk.
type Kept struct {
	Pending, Limit         int64 // operations not written yet, and how many there may be before the crawl waits
	Queued, Done           int64 // URLs, as of the last commit
	IndexMemory, IndexDisk int64 // bytes
	Failed                 bool  // writing has failed, and nothing is written any more
}

// Storage keeps the URLs of a frontier outside of memory, and beyond the life of the process. In the storage a URL is
// either queued or done; a leased URL is still queued there, so that a crawl which was interrupted finds it again.
//
// The frontier's goroutine calls its methods and does not wait for them: calls are stored in order, some time later.
// The result of Load or Activate comes as an [Answer], at the latest once a Commit has ended the batch of that call,
// and reflects all calls before it. An error of the storage ends the crawl by [Calls.Failed].
type Storage interface {
	// Known reports whether a URL of that fingerprint was ever put. It may read from a disk.
	Known(fp uint64) bool
	// Put stores a new URL as queued. IDs ascend. If inactive is set, the frontier has no room for the host: the
	// storage keeps the host as inactive until Activate.
	Put(host string, it *Item, fp uint64, inactive bool)
	// Spent stores the tries of a queued URL after a failure that the host is responsible for: Attempt, Returns and
	// URLFailures.
	Spent(host string, it *Item)
	// Done stores that a URL of a host is no longer queued, and the result of its visit.
	Done(host string, it *Item, v Visit)
	// Load requests up to n queued URLs of a host that stand behind a place, in the order of their places.
	Load(host string, behind Place, n int)
	// Activate activates up to n inactive hosts, those that have waited longest first, and requests them as an Answer.
	Activate(n int)
	// Deactivate makes a host inactive, behind all other inactive hosts. In a shared store any process may then acquire
	// it, with all its URLs, but not before an instant. Otherwise the instant is zero: the frontier itself knows until
	// when its hosts refuse requests.
	Deactivate(host string, notBefore time.Time)
	// Commit ends a batch: the calls since the last Commit, and the positions of the sinks, become durable together or
	// not at all.
	Commit(positions []Position)
}

// memory is the storage of a crawl whose URLs are all in the queues of its frontier. It keeps only the fingerprints of
// the known URLs.
type memory struct{ *seen.Set }

func (m memory) Known(fp uint64) bool                     { return m.Has(fp) }
func (m memory) Put(_ string, _ *Item, fp uint64, _ bool) { m.Add(fp) }
func (memory) Spent(string, *Item)                        {}
func (memory) Done(string, *Item, Visit)                  {}
func (memory) Load(string, Place, int)                    {}
func (memory) Activate(int)                               {}
func (memory) Deactivate(string, time.Time)               {}
func (memory) Commit([]Position)                          {}

// Tenure is how long a process holds hosts, where several processes share a [Storage]. It is safe for concurrent use.
// Nil means for ever.
type Tenure struct {
	context.Context // ends with the tenure, and cancels what is in flight to the hosts
	until           atomic.Pointer[time.Time]
}

// NewTenure returns a tenure that lasts until an instant or until ctx ends, whichever comes first.
func NewTenure(ctx context.Context, until time.Time) *Tenure {
	t := &Tenure{Context: ctx}
	t.Extend(until)
	return t
}

// Extend makes the tenure last until an instant, unless its context ends before.
func (t *Tenure) Extend(until time.Time) { t.until.Store(&until) }

// Over reports whether no request may be sent to the hosts at now, because the tenure has ended or must be extended
// first.
func (t *Tenure) Over(now time.Time) bool {
	return t.Ended() || t != nil && !now.Before(*t.until.Load())
}

// Ended reports whether the tenure has ended for good. A tenure that is Over but not Ended may still be extended.
func (t *Tenure) Ended() bool { return t != nil && t.Err() != nil }

// Answer is the result of Load (the URLs of one host) or of Activate (hosts), or carries an Update.
type Answer struct {
	Host   string     // the host of Items; empty for an answer to Activate
	Behind Place      // the place that Load was called with
	Items  []Item     // in the order of their places
	More   bool       // whether there are more: URLs behind the last of Items, or inactive hosts
	Hosts  []HostLeft // the activated hosts, without those that have no URL queued any more

	// The following fields are set only when several processes share the store:

	Lease    int64         // the lease of the host, as the answer to Activate had it
	Left     int           // how many URLs the store has behind the last of Items; replaces More
	Complete bool          // no process has a URL left; only without Hosts
	Next     time.Duration // time until a host is due, or another process's lease ends; zero: none is known
	Due      time.Duration // time until the first host is due that no process holds; zero: none is known
	// Update, if set, returns what the store reports without a request, by the time of the call; the rest is not used
	// then. At most one such Answer is on its way.
	Update func() Update
}

// HostLeft is a host of a store that has queued URLs.
type HostLeft struct {
	Name   string
	Queued int // URLs
	// Pages is how many pages are visited or queued, without those that were refused. A later round queues the refused
	// ones again.
	Pages   int
	Visited int // the part of Pages that is not queued

	// The following fields are set only when several processes share the store:

	Lease  int64   // the lease by which this process holds the host
	Tenure *Tenure // how long this process holds the host
}

// Left is what a store has left of an earlier crawl, and whether other processes share the store.
type Left struct {
	Queued int64 // queued URLs
	Known  int64 // URLs visited or queued
	LastID int64 // the largest ID of a known URL
	// Shared says that several processes hold the hosts in turn. A process holds a host from Activate to Deactivate or
	// to the end of its [Tenure]. URLs that are found go to the storage, whoever holds their host, and its holder gets
	// them by Load. So only the storage can tell whether a URL is known already, and it assigns the IDs. Other
	// processes may load what is in the storage at any time, so loaded URLs go before URLs found later, whatever their
	// ranks.
	Shared bool
}

// Position is how far a destination of records has been written, as a state keeps it.
type Position struct {
	Path    string // path under which it was opened
	Format  string
	Bytes   int64 // size up to the end of the last whole record
	Records int64 // number of records within Bytes
}

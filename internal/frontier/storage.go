package frontier

import (
	"context"
	"crypto/sha256"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier/seen"
)

// Place orders the URLs of a host: by rank, then by the order of finding. The zero Place is before all of rank zero.
type Place struct {
	Rank int32
	ID   int64
}

// Before reports whether p comes up earlier than q.
func (p Place) Before(q Place) bool {
	return p.Rank < q.Rank || p.Rank == q.Rank && p.ID < q.ID
}

var firstPlace = Place{Rank: math.MinInt32}

// Place is where the item stands in the queue of its host.
func (it *Item) Place() Place { return Place{it.Rank, it.ID} }

// Visit is what became of a URL: what a store keeps of its record.
type Visit struct {
	At     time.Time // when the last request was sent; of a URL that was refused, when that was
	Status int       // zero when no host answered
	Class  string    // of the error; empty when there was none
	Bytes  int64     // of the decoded body
	// Refused says that the URL was not fetched, and does not count as a page visited. The frontier sets it.
	Refused bool
	// ETag and LastModified are the server's validators of the page, for a later round. Zero: none.
	ETag         string
	LastModified time.Time
	// Digest is the SHA-256 of the body, or of where a redirect leads. Zero: unknown.
	Digest [sha256.Size]byte
	// Change is how this differs from what the round before found.
	Change Change
}

// Change is how a page differs from that of the round before. Empty: nothing to compare it with.
type Change string

// The changes.
const (
	Appeared  Change = "new"       // a page where none was known, or none was any more
	Changed   Change = "changed"   // another page than before
	Unchanged Change = "unchanged" // the same, whether the server said so or sent it again
	Gone      Change = "gone"      // no page any more
)

// Storage keeps the URLs of a frontier outside of memory, and beyond the life of the process. A URL is queued or done
// there; a leased one is queued, so that an interrupted crawl finds it again.
//
// The frontier's goroutine calls it and does not wait: calls are stored in order, some time later, and answers come as
// an [Answer], at the latest once a Commit has ended the batch of the question. Each answer reflects all calls before
// the question. An error of the storage ends the crawl by [Progress.Failed].
type Storage interface {
	// Known reports whether a URL of that fingerprint was ever put. It may read a disk.
	Known(fp uint64) bool
	// Put stores a new URL as queued; IDs ascend. An inactive one is of a host without room in the frontier, which the
	// storage remembers until Activate.
	Put(host string, it *Item, fp uint64, inactive bool)
	// Spent stores the tries of a queued URL of a host that failed: Attempt, Returns and URLFailures.
	Spent(host string, it *Item)
	// Done stores that a URL of a host is not queued any more, and what became of it.
	Done(host string, it *Item, v Visit)
	// Load asks for up to n queued URLs of a host that stand behind a place, in order.
	Load(host string, behind Place, n int)
	// Activate asks for up to n inactive hosts, those that have waited longest first, and activates them.
	Activate(n int)
	// Deactivate makes a host inactive, behind all others, not to be activated before an instant. In a shared store
	// any process may get it, with all its URLs.
	Deactivate(host string, notBefore time.Time)
	// Commit ends a batch: the calls since the last, and the positions of the sinks, become durable together or not at
	// all.
	Commit(positions []Position)
}

// memory is the storage of a crawl all of whose URLs are in the queues of its frontier: only what is known is here.
type memory struct{ *seen.Set }

func (m memory) Known(fp uint64) bool                     { return m.Has(fp) }
func (m memory) Put(_ string, _ *Item, fp uint64, _ bool) { m.Add(fp) }
func (memory) Spent(string, *Item)                        {}
func (memory) Done(string, *Item, Visit)                  {}
func (memory) Load(string, Place, int)                    {}
func (memory) Activate(int)                               {}
func (memory) Deactivate(string, time.Time)               {}
func (memory) Commit([]Position)                          {}

// Tenure is for how long hosts are a process's, where several share a [Storage]. It is safe for concurrent use. Nil:
// for ever.
type Tenure struct {
	context.Context // ends with it, and so does what is under way at the hosts
	until           atomic.Pointer[time.Time]
}

// NewTenure returns a tenure that lasts until an instant, or the end of a context.
func NewTenure(ctx context.Context, until time.Time) *Tenure {
	t := &Tenure{Context: ctx}
	t.Extend(until)
	return t
}

// Extend has it last until an instant.
func (t *Tenure) Extend(until time.Time) { t.until.Store(&until) }

// Over reports whether nothing is to be asked of the hosts, as it has ended or is to be extended first.
func (t *Tenure) Over(now time.Time) bool {
	return t.Ended() || t != nil && !now.Before(*t.until.Load())
}

// Ended reports whether it is over for good: one that is only Over may be extended yet.
func (t *Tenure) Ended() bool { return t != nil && t.Err() != nil }

// Answer is what a store has been asked for: the URLs of one host, or hosts.
type Answer struct {
	Host   string     // whose URLs they are; empty for an answer to Activate
	Behind Place      // as it was asked
	Items  []Item     // in the order of their places
	More   bool       // there are more: URLs behind the last of them, or inactive hosts
	Hosts  []HostLeft // but for those that have none queued any more

	// Of several processes alone:

	Lease    int64         // of the host, as Activate told it
	Left     int           // URLs that the store has behind the last of Items, in place of More
	Complete bool          // no process has a URL left; without Hosts
	Next     time.Duration // until the next host is due that no process has; zero: none is known
	Due      time.Duration // of Next, if no process had the host and was to be heard of; zero: none is known
	// Update, if set, tells what is new by then, and this is no answer.
	Update func() Update
}

// HostLeft is a host of a store with queued URLs.
type HostLeft struct {
	Name   string
	Queued int // URLs
	// Pages are those visited or queued, but for those that were refused; a later round queues these again.
	Pages   int
	Visited int // of Pages, those that are not queued

	// Of several processes alone:

	Lease  int64   // by which the host is ours
	Tenure *Tenure // until when
}

// Left is what a store has of an earlier crawl, and whose it is.
type Left struct {
	Queued int64 // URLs
	Known  int64 // URLs, visited or queued
	LastID int64 // the largest of them
	// Shared says that several processes have the hosts by turns. A host is a process's from Activate to Deactivate, or
	// to the end of its [Tenure]. URLs found go to the storage whosever their host is, and come by Load to its holder,
	// so a URL may turn out to be known only there, and the storage assigns IDs. Others may ask for what lies there at
	// any time, so loaded URLs go before those found later, whatever their ranks.
	Shared bool
}

// Position is how far a destination of records is, as a state keeps it.
type Position struct {
	Path    string // as it was opened
	Format  string
	Bytes   int64 // its size up to the last whole record
	Records int64 // in it
}

// Progress is how far a store has come with its calls and questions, for stores to embed. Safe for concurrent use
// after Begin.
type Progress struct {
	limit   int64
	pending atomic.Int64
	answers chan Answer
	room    chan struct{} // holds one
	failed  chan struct{}
	once    sync.Once
	err     error // set before failed is closed
}

// answersRoom is more than a frontier has questions out (256 loads and one for hosts).
const answersRoom = 512

// Begin makes it ready, for a store of which maxPending calls may wait before it asks for a pause.
func (p *Progress) Begin(maxPending int) {
	p.limit = int64(maxPending)
	p.answers, p.room, p.failed = make(chan Answer, answersRoom), make(chan struct{}, 1), make(chan struct{})
}

// Answers delivers answers in the order of their questions; at 512 untaken the store waits.
func (p *Progress) Answers() <-chan Answer { return p.answers }

// Answer hands an answer over, unless done ends before anybody takes it.
func (p *Progress) Answer(done <-chan struct{}, a Answer) (taken bool) {
	select {
	case p.answers <- a:
		return true
	case <-done:
		return false
	}
}

// Offer hands an answer over if there is room for it.
func (p *Progress) Offer(a Answer) (taken bool) {
	select {
	case p.answers <- a:
		return true
	default:
		return false
	}
}

// Stored counts calls of an [Inbox] that do not wait any more.
func (p *Progress) Stored(n int) {
	if p.pending.Add(-int64(n)) < p.limit {
		select {
		case p.room <- struct{}{}:
		default:
		}
	}
}

// Ready reports whether the store takes more in. It is advice, and no call is refused.
func (p *Progress) Ready() bool { return p.pending.Load() < p.limit }

// Room is nil while the store is Ready; otherwise it receives when it may be so again.
func (p *Progress) Room() <-chan struct{} {
	if p.Ready() {
		return nil
	}
	return p.room
}

// Pending is how many calls are not stored yet, and from how many on the store is not Ready.
func (p *Progress) Pending() (n, limit int64) { return p.pending.Load(), p.limit }

// Fail ends the work of the store for good. Only the first reason counts; it reports whether this is.
func (p *Progress) Fail(err error) (first bool) {
	p.once.Do(func() {
		p.err, first = err, true
		close(p.failed)
	})
	return first
}

// Failed is closed when the store has failed for good: nothing more is stored or answered.
func (p *Progress) Failed() <-chan struct{} { return p.failed }

// Err is why the store has failed; nil if it has not.
func (p *Progress) Err() error {
	select {
	case <-p.failed:
		return p.err
	default:
		return nil
	}
}

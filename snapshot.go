package crawl

import (
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
)

// Snapshot is the state of a crawl at one instant. In JSON it is a line of what `crawl --stats` writes. Counts are since
// the beginning of the run. Maps and lists are nil if they are empty.
type Snapshot struct {
	// Time is when, and ElapsedSeconds how long the crawl has run until then, or did.
	Time           time.Time `json:"time"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	// State is running (also before the run), done (all in scope was visited), limit (MaxPages or MaxTime was reached),
	// blocked (only hosts that refuse to be asked are left), unruled (no host gave its robots.txt), interrupted (Stop was
	// called) or failed. Reason says it in words; empty while the crawl runs.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`

	Records   int64 `json:"records"`    // written
	Pages     int64 `json:"pages"`      // with a status of 2xx, robots.txt and sitemaps apart
	Errors    int64 `json:"errors"`     // records of URLs that failed: no answer, an unusable one, or a status of 400 and above
	Requests  int64 `json:"requests"`   // made, robots.txt and retries included
	Answered  int64 `json:"answered"`   // requests that were answered with a status
	Failed    int64 `json:"failed"`     // requests without an answer, or refused by the host's state: 429 and 5xx, not 404
	Retries   int64 `json:"retries"`    // requests to be repeated
	OfURL     int64 `json:"of_url"`     // refusals that were one URL's alone: others of its host were served
	Returned  int64 `json:"returned"`   // URLs that were handed out and put back without a request
	Refused   int64 `json:"refused"`    // URLs that robots.txt refuses
	Unruled   int64 `json:"unruled"`    // URLs given up because robots.txt cannot be had
	Unindexed int64 `json:"unindexed"`  // records left out because their pages ask for it; see OutputOptions.SkipNoindex
	Bytes     int64 `json:"bytes"`      // of bodies, decoded
	WireBytes int64 `json:"wire_bytes"` // of bodies, as received

	Outcomes   map[string]int64 `json:"outcomes"`               // requests by the class of their outcome
	Helpers    map[string]int64 `json:"helpers,omitempty"`      // of Outcomes, requests for robots.txt and sitemaps
	OutOfScope map[string]int64 `json:"out_of_scope,omitempty"` // links by the reason of the scope
	Dropped    map[string]int64 `json:"dropped,omitempty"`      // links there was no room for, or no budget, or that lead nowhere
	Suspected  map[string]int64 `json:"suspected,omitempty"`    // links that lead nowhere and were followed; see ScopeOptions.ReportTraps
	Trapped    int64            `json:"trapped,omitempty"`      // URLs that were queued and then left for that

	// Duplicates are pages that repeat others; see ExtractOptions.Duplicates. Nil: nobody looked for them.
	Duplicates *struct {
		Exact int64 `json:"exact"` // byte by byte
		Near  int64 `json:"near"`  // in nearly all they say
		// Clusters are the pages that are repeated most, at most ten.
		Clusters []struct {
			URL   string `json:"url"`   // the first that was met
			Exact int64  `json:"exact"` // pages that are the same byte by byte
			Near  int64  `json:"near"`  // others that say nearly the same
		} `json:"clusters,omitempty"`
	} `json:"duplicates,omitempty"`

	Round   int              `json:"round,omitempty"`   // of a crawl that visits again what it knows, from 2; zero in the first
	Changes map[string]int64 `json:"changes,omitempty"` // records by how the page differs from the rounds before

	// Workers are the goroutines that fetch.
	Workers struct {
		Count       int     `json:"count"`        // how many there are
		BusySeconds float64 `json:"busy_seconds"` // fetching, summed over all
		WaitSeconds float64 `json:"wait_seconds"` // waiting for the turn of a request, summed over all
	} `json:"workers"`
	// Frontier is what the crawl knows of URLs.
	Frontier struct {
		Queued int64 `json:"queued"` // to be visited, retries included
		Leased int64 `json:"leased"` // under way
		Known  int64 `json:"known"`  // ever accepted, in all runs
		Hosts  int64 `json:"hosts"`  // known at the moment
	} `json:"frontier"`
	// Hosts are at most 50: those with the longest queues first, then those with the most pages.
	Hosts []QueueSnapshot `json:"hosts,omitempty"`
	// Limiter has the pace of hosts, and why it is that.
	Limiter LimiterSnapshot `json:"limiter"`
}

// QueueSnapshot is the queue of a host, and why it is not being asked.
type QueueSnapshot struct {
	Host         string    `json:"host"`               // lower case, ASCII; with the port unless it is 80 or 443
	Queued       int       `json:"queued"`             // URLs to be visited
	InFlight     int       `json:"in_flight"`          // requests under way
	Pages        int       `json:"pages"`              // URLs handed out so far
	ServiceMS    float64   `json:"service_ms"`         // smoothed time that a request takes, in milliseconds
	TakenSeconds float64   `json:"taken_seconds"`      // from the first request to the end of the latest
	Reason       string    `json:"reason,omitempty"`   // what it waits for, as [HostSnapshot.LimitedBy]; empty: for nothing
	Until        time.Time `json:"until,omitzero"`     // when it is looked at again; zero: that depends on an event
	Failures     int       `json:"failures,omitempty"` // requests in a row that failed
	Trouble      string    `json:"trouble,omitempty"`  // the class of the last of them; empty: there is none
	Blocked      bool      `json:"blocked"`            // the host itself said "not now", or is down
	Excluded     bool      `json:"barred,omitempty"`   // [Crawler.Block] was called
}

func snapshotOf(s *pipeline.Snapshot) Snapshot {
	to := Snapshot{
		Time: s.Time, ElapsedSeconds: s.ElapsedSeconds, State: s.State.String(), Reason: s.Reason,
		Records: s.Records, Pages: s.Pages, Errors: s.Errors, Requests: s.Requests, Answered: s.Answered, Failed: s.Failed,
		Retries: s.Retries, OfURL: s.OfURL, Returned: s.Returned, Refused: s.Refused, Unruled: s.Unruled, Unindexed: s.Unindexed,
		Bytes: s.Bytes, WireBytes: s.WireBytes, Outcomes: s.Outcomes, Helpers: s.Helpers, OutOfScope: s.OutOfScope,
		Dropped: s.Dropped, Suspected: s.Suspected, Trapped: s.Trapped, Round: s.Round, Changes: s.Changes,
		Hosts: each(s.Hosts, func(h *frontier.HostState) QueueSnapshot { return QueueSnapshot(*h) }), Limiter: limiterSnapshotOf(s.Limiter),
	}
	to.Workers, to.Frontier = s.Workers, s.Frontier
	if d := s.Duplicates; d != nil {
		to.Duplicates = newLike(to.Duplicates)
		to.Duplicates.Exact, to.Duplicates.Near = d.Exact, d.Near
		for _, c := range d.Clusters {
			to.Duplicates.Clusters = append(to.Duplicates.Clusters, c)
		}
	}
	return to
}

// newLike is a new value of the type that p points to, which has no name.
func newLike[T any](*T) *T { return new(T) }

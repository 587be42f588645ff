package pipeline

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// stats are the live counters of a crawl. They only grow.
type stats struct {
	full     atomic.Bool                  // the frontier had no room for some link
	nofollow atomic.Int64                 // links not followed because their page asks for that
	out      [scope.NumCodes]atomic.Int64 // links out of scope

	mu      sync.Mutex // guards what follows
	n       Snapshot   // only its counters are used, without those above
	visited int64      // records of URLs for which the host responded
}

func (s *stats) init() {
	for _, m := range s.n.tallies() {
		*m = make(map[string]int64)
	}
}

func (s *Snapshot) tallies() []*map[string]int64 {
	return []*map[string]int64{&s.Outcomes, &s.Helpers, &s.OutOfScope, &s.Dropped, &s.Suspected, &s.Changes}
}

func (s *stats) count(counter *int64, n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter += n
	return *counter
}

func (s *stats) spend(seconds *float64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*seconds += d.Seconds()
}

// tally adds n to the counter of a name and reports whether these are its first. It does nothing if n is zero.
func (s *stats) tally(names map[string]int64, name string, n int) (first bool) {
	if n == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names[name] += int64(n)
	return names[name] == int64(n)
}

func (s *stats) met() (answered, visited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n.Answered > 0, s.visited > 0
}

func (s *stats) request(f *fetched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n.Requests++
	s.n.Outcomes[f.class.String()]++
	if f.lease.Kind != frontier.Page {
		s.n.Helpers[f.class.String()]++
	}
	if c := f.class; !c.Success() && c != outcome.ClientError && c != outcome.Filtered && c != outcome.Canceled {
		s.n.Failed++
	}
	if f.resp != nil {
		s.n.Answered++
		s.n.WireBytes += f.resp.WireBytes
	}
}

func (s *stats) record(rec *record.Record, unindexed bool) {
	page, failed := sink.Counts(rec.Kind, rec.Status, rec.ErrorClass())
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(counter *int64, counts bool) {
		if counts {
			*counter++
		}
	}
	add(&s.n.Records, !unindexed)
	add(&s.n.Unindexed, unindexed)
	add(&s.visited, rec.Status != 0)
	add(&s.n.Pages, page)
	add(&s.n.Errors, failed)
	s.n.Bytes += rec.Bytes
	if rec.Change != "" && rec.Kind != frontier.Sitemap.String() && rec.Kind != frontier.Robots.String() { // as in 'crawl report'
		s.n.Changes[rec.Change]++
	}
}

func (s *stats) snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.n
	for _, m := range to.tallies() {
		*m = maps.Clone(*m)
	}
	for c := range s.out {
		if n := s.out[c].Load(); n > 0 {
			to.OutOfScope[scope.Code(c).String()] = n
		}
	}
	if n := s.nofollow.Load(); n > 0 {
		to.OutOfScope[reasonNofollow] = n
	}
	return to
}

// Workers says how the goroutines that fetch spend their time.
type Workers struct {
	Count       int     `json:"count"`
	BusySeconds float64 `json:"busy_seconds"` // fetching, summed over all workers
	WaitSeconds float64 `json:"wait_seconds"` // waiting for permits, summed over all workers
}

// Snapshot is the state of a crawl at one instant, with all that explains why it is as fast or as slow as it is.
type Snapshot struct {
	Time           time.Time `json:"time"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	State          End       `json:"state"`
	Reason         string    `json:"reason,omitempty"` // why it ended, or, while it runs, why no request leaves it

	Records     int64  `json:"records"`                // written records
	Pages       int64  `json:"pages"`                  // pages with a 2xx status
	Errors      int64  `json:"errors"`                 // records of URLs that failed: no response, one that cannot be used, or a status of 400 and above
	Requests    int64  `json:"requests"`               // requests made, those for robots.txt and retries included
	Answered    int64  `json:"answered"`               // requests with a response, whatever its status
	Failed      int64  `json:"failed"`                 // requests without a response, or refused by the state of the host: 429 and 5xx, not 404
	Retries     int64  `json:"retries"`                // requests that are tried again
	OfURL       int64  `json:"of_url"`                 // failures attributed to one URL, as others of its host succeed
	Returned    int64  `json:"returned"`               // leases returned without a request
	Refused     int64  `json:"refused"`                // URLs that robots.txt disallows
	Unruled     int64  `json:"unruled"`                // URLs given up because robots.txt cannot be fetched
	Unindexed   int64  `json:"unindexed"`              // records left out because their pages ask for that
	Rendered    int64  `json:"rendered,omitempty"`     // pages rendered by a browser
	Scripted    int64  `json:"scripted,omitempty"`     // pages that seem empty without scripts, in a crawl that renders none
	ScriptedURL string `json:"scripted_url,omitempty"` // the first of them
	Bytes       int64  `json:"bytes"`                  // bytes of bodies, decoded
	WireBytes   int64  `json:"wire_bytes"`             // bytes of bodies, as received

	Outcomes   map[string]int64 `json:"outcomes"`               // requests by class
	Helpers    map[string]int64 `json:"helpers,omitempty"`      // requests of Outcomes that are for no page: robots.txt, sitemaps, control requests
	OutOfScope map[string]int64 `json:"out_of_scope,omitempty"` // links by reason
	Dropped    map[string]int64 `json:"dropped,omitempty"`      // links not followed for lack of room or budget, or as traps, by reason
	Suspected  map[string]int64 `json:"suspected,omitempty"`    // links of traps that were followed because traps are only reported, by reason
	Trapped    int64            `json:"trapped,omitempty"`      // URLs that were accepted and later not requested, as traps

	// Duplicates counts pages that repeat others. Nil means that none are looked for.
	Duplicates *neardup.Totals `json:"duplicates,omitempty"`

	Round   int              `json:"round,omitempty"`   // the round of the crawl; zero for the first
	Changes map[string]int64 `json:"changes,omitempty"` // records of pages by how they differ from earlier rounds

	Workers  Workers                   `json:"workers"`
	Frontier frontier.Counts           `json:"frontier"`
	Hosts    []frontier.HostState      `json:"hosts,omitempty"` // hosts with the longest queues first, then those with the most pages; at most 50
	Limiter  ratelimit.LimiterSnapshot `json:"limiter"`
}

const snapshotHosts = 50

// Snapshot returns the state of the crawl. It may be called at any time, from any goroutine, except those that call a
// hook of the limiter or the handler of the log. While the crawl runs it waits until Discovery is free.
func (p *Pipeline) Snapshot() Snapshot {
	now, s := p.cfg.Clock.Now(), p.stats.snapshot()
	stalled := ""
	p.ask(func(d *discovery) {
		stalled = d.stalled(now)
		s.Hosts = d.frontier.Hosts(now, snapshotHosts)
		for i := range s.Hosts {
			d.tellPause(&s.Hosts[i])
		}
	})
	s.Time, s.Limiter, s.Frontier = now, p.cfg.Limiter.Snapshot(), p.discovery.frontier.Counts()
	p.mu.Lock()
	life := p.status
	p.mu.Unlock()
	if s.State, s.Reason = life.end, life.reason; s.State == EndNone {
		s.Reason = stalled
	}
	switch {
	case !life.finish.IsZero():
		s.ElapsedSeconds = life.finish.Sub(life.start).Seconds()
	case !life.start.IsZero():
		s.ElapsedSeconds = now.Sub(life.start).Seconds()
	}
	if x := p.cfg.Duplicates; x != nil {
		t := x.Totals()
		s.Duplicates = &t
	}
	s.Workers.Count = p.cfg.Concurrency
	if p.cfg.Round > 1 {
		s.Round = p.cfg.Round
	}
	return s
}

type (
	// Recent is what the crawl has finished last.
	Recent = sink.Last
	// Seen is a record in short.
	Seen = sink.Seen
)

// Recent returns what the crawl has finished last. Records are kept for it from the first call on. It may be called at
// any time.
func (p *Pipeline) Recent() Recent { return p.recent.Last() }

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

// stats are the live counters of a crawl. All are only ever added to.
type stats struct {
	full     atomic.Bool                  // the frontier has had no room for a link
	nofollow atomic.Int64                 // links not followed because their page says so
	out      [scope.NumCodes]atomic.Int64 // links out of scope

	mu      sync.Mutex // guards what follows
	n       Snapshot   // of its counters, the others
	visited int64      // records of URLs to which the host answered
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

// tally counts so many by a name, which may be none, and reports whether they are the first.
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
	if rec.Change != "" {
		s.n.Changes[rec.Change]++
	}
}

func (s *stats) outOfScope(v scope.Decision) { s.out[v.Code].Add(1) }

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

// Workers is how the fetching goroutines spend their time.
type Workers struct {
	Count       int     `json:"count"`
	BusySeconds float64 `json:"busy_seconds"` // fetching, summed over all
	WaitSeconds float64 `json:"wait_seconds"` // waiting for permits, summed over all
}

// Snapshot is the state of a crawl at one instant, and everything a person needs to know why it is as fast, or as
// slow, as it is.
type Snapshot struct {
	Time           time.Time `json:"time"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	State          End       `json:"state"`
	Reason         string    `json:"reason,omitempty"`

	Records     int64  `json:"records"`                // written
	Pages       int64  `json:"pages"`                  // pages with a 2xx status
	Errors      int64  `json:"errors"`                 // records of URLs that failed: no answer, one that cannot be used, or a status of 400 and above
	Requests    int64  `json:"requests"`               // made, robots.txt and retries included
	Answered    int64  `json:"answered"`               // requests a host answered with a status
	Failed      int64  `json:"failed"`                 // requests without an answer, or refused by the host's state: 429 and 5xx, not 404
	Retries     int64  `json:"retries"`                // fetches to be repeated
	OfURL       int64  `json:"of_url"`                 // refusals that were one URL's alone: others of its host were served
	Returned    int64  `json:"returned"`               // leases given back unused
	Refused     int64  `json:"refused"`                // URLs that robots.txt refuses
	Unruled     int64  `json:"unruled"`                // URLs given up because robots.txt cannot be had
	Unindexed   int64  `json:"unindexed"`              // records left out because their pages ask for it
	Rendered    int64  `json:"rendered,omitempty"`     // pages given to a browser
	Scripted    int64  `json:"scripted,omitempty"`     // pages that seem empty without scripts, in a crawl that runs none
	ScriptedURL string `json:"scripted_url,omitempty"` // the first of them
	Bytes       int64  `json:"bytes"`                  // of bodies, decoded
	WireBytes   int64  `json:"wire_bytes"`             // of bodies, as received

	Outcomes   map[string]int64 `json:"outcomes"`               // requests by class
	Helpers    map[string]int64 `json:"helpers,omitempty"`      // of Outcomes, requests for robots.txt and sitemaps
	OutOfScope map[string]int64 `json:"out_of_scope,omitempty"` // links by reason
	Dropped    map[string]int64 `json:"dropped,omitempty"`      // links there was no room for, or no budget, or that lead nowhere
	Suspected  map[string]int64 `json:"suspected,omitempty"`    // links that lead nowhere and were followed, as traps are only reported
	Trapped    int64            `json:"trapped,omitempty"`      // URLs that were accepted and then left for that

	// Duplicates are pages that repeat others. Nil: nobody looked for them.
	Duplicates *neardup.Totals `json:"duplicates,omitempty"`

	Round   int              `json:"round,omitempty"`   // of a crawl that visits again what it knows; zero in a first one
	Changes map[string]int64 `json:"changes,omitempty"` // records by how the page differs from the rounds before

	Workers  Workers                   `json:"workers"`
	Frontier frontier.Counts           `json:"frontier"`
	Hosts    []frontier.HostState      `json:"hosts,omitempty"` // the longest queues first, then the most pages
	Limiter  ratelimit.LimiterSnapshot `json:"limiter"`
}

const snapshotHosts = 50

// Snapshot tells the state of the crawl. It may be called at any time, from any goroutine; while the crawl runs
// it waits for Discovery's next free moment.
func (p *Pipeline) Snapshot() Snapshot {
	now, s := p.cfg.Clock.Now(), p.stats.snapshot()
	p.ask(func(d *discovery) { s.Hosts = d.frontier.Hosts(now, snapshotHosts) })
	s.Time, s.Limiter, s.Frontier = now, p.cfg.Limiter.Snapshot(), p.discovery.frontier.Counts()
	p.mu.Lock()
	life := p.status
	p.mu.Unlock()
	s.State, s.Reason = life.end, life.reason
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
	// Recent is what the crawl has dealt with last.
	Recent = sink.Last
	// Seen is a record of it in short.
	Seen = sink.Seen
)

// Recent is what was dealt with last. Records are kept for it from the first call on. It may be called at any time.
func (p *Pipeline) Recent() Recent { return p.recent.Last() }

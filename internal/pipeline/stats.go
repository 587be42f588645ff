package pipeline

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/scope"
)

// stats are the live counters of a crawl. All are only ever added to.
type stats struct {
	requests   atomic.Int64 // answered or failed, robots.txt included
	answered   atomic.Int64 // requests to which a host answered with a status
	classes    [outcome.Canceled + 1]atomic.Int64
	helpers    [outcome.Canceled + 1]atomic.Int64 // of classes, those for robots.txt and sitemaps
	wireBytes  atomic.Int64
	retries    atomic.Int64
	ofURL      atomic.Int64 // refusals of one URL while others were served
	returned   atomic.Int64 // leases given back because the host's situation had changed
	refused    atomic.Int64 // URLs that robots.txt refuses
	unruled    atomic.Int64 // URLs given up because robots.txt cannot be had
	records    atomic.Int64
	visited    atomic.Int64 // records of URLs to which the host answered
	pages      atomic.Int64 // records of pages with a 2xx status
	errors     atomic.Int64 // records of URLs that failed, see sink.Counts
	bytes      atomic.Int64
	out        [scope.NumCodes]atomic.Int64
	dropped    tally        // links there was no room for, or no budget, by reason
	full       atomic.Bool  // the frontier has had no room for a link
	trapped    tally        // links that lead nowhere, by reason
	left       atomic.Int64 // URLs not asked for, as those like them had nothing new
	nofollow   atomic.Int64 // links not followed because their page says so
	unindexed  atomic.Int64 // records left out because their page says so
	changes    [len(changeNames)]atomic.Int64
	workerBusy atomic.Int64 // nanoseconds of fetching
	workerWait atomic.Int64 // nanoseconds of waiting for a permit
}

// tally counts by name what is rare.
type tally struct {
	mu sync.Mutex // guards what follows
	n  map[string]int64
}

// add counts n, which may be none, and reports whether they are the first.
func (t *tally) add(name string, n int) (first bool) {
	if n == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[string]int64)
	}
	first = t.n[name] == 0
	t.n[name] += int64(n)
	return first
}

// into adds the counts to others.
func (t *tally) into(to map[string]int64) map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range t.n {
		to[name] += n
	}
	return to
}

func (s *stats) request(f *fetched) {
	s.requests.Add(1)
	s.classes[f.class].Add(1)
	if f.lease.Kind != frontier.Page {
		s.helpers[f.class].Add(1)
	}
	if f.resp != nil {
		s.answered.Add(1)
		s.wireBytes.Add(f.resp.WireBytes)
	}
}

// record counts a record.
func (s *stats) record(rec *sink.Record) {
	s.records.Add(1)
	s.bytes.Add(rec.Bytes)
	if rec.Status != 0 {
		s.visited.Add(1)
	}
	page, failed := sink.Counts(rec.Kind, rec.Status, rec.ErrorClass())
	if page {
		s.pages.Add(1)
	}
	if failed {
		s.errors.Add(1)
	}
	if i := slices.Index(changeNames[:], frontier.Change(rec.Change)); i >= 0 {
		s.changes[i].Add(1)
	}
}

func (s *stats) outOfScope(v scope.Decision) { s.out[v.Code].Add(1) }

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

	Records   int64 `json:"records"`    // written
	Pages     int64 `json:"pages"`      // pages with a 2xx status
	Errors    int64 `json:"errors"`     // records of URLs that failed: no answer, one that cannot be used, or a status of 400 and above
	Requests  int64 `json:"requests"`   // made, robots.txt and retries included
	Answered  int64 `json:"answered"`   // requests a host answered with a status
	Failed    int64 `json:"failed"`     // requests without an answer, or refused by the host's state: 429 and 5xx, not 404
	Retries   int64 `json:"retries"`    // fetches to be repeated
	OfURL     int64 `json:"of_url"`     // refusals that were one URL's alone: others of its host were served
	Returned  int64 `json:"returned"`   // leases given back unused
	Refused   int64 `json:"refused"`    // URLs that robots.txt refuses
	Unruled   int64 `json:"unruled"`    // URLs given up because robots.txt cannot be had
	Unindexed int64 `json:"unindexed"`  // records left out because their pages ask for it
	Bytes     int64 `json:"bytes"`      // of bodies, decoded
	WireBytes int64 `json:"wire_bytes"` // of bodies, as received

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

// snapshotHosts bounds the hosts a snapshot lists.
const snapshotHosts = 50

// Snapshot tells the state of the crawl. It may be called at any time, from any goroutine; while the crawl runs
// it waits for Discovery's next free moment.
func (p *Pipeline) Snapshot() Snapshot {
	now := p.cfg.Clock.Now()
	var s Snapshot
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
	p.stats.into(&s, p.cfg.Traps.Report)
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

// into fills a snapshot. With report links that lead nowhere were followed.
func (s *stats) into(to *Snapshot, report bool) {
	to.Pages, to.Errors, to.Unindexed = s.pages.Load(), s.errors.Load(), s.unindexed.Load()
	to.Records = s.records.Load() - to.Unindexed
	to.Requests, to.Answered = s.requests.Load(), s.answered.Load()
	to.OfURL, to.Unruled, to.Trapped = s.ofURL.Load(), s.unruled.Load(), s.left.Load()
	to.Retries, to.Returned, to.Refused = s.retries.Load(), s.returned.Load(), s.refused.Load()
	to.Bytes, to.WireBytes = s.bytes.Load(), s.wireBytes.Load()
	to.Workers.BusySeconds = time.Duration(s.workerBusy.Load()).Seconds()
	to.Workers.WaitSeconds = time.Duration(s.workerWait.Load()).Seconds()
	for c := range s.classes {
		switch class := outcome.Class(c); {
		case class == outcome.ClientError, class == outcome.Filtered, class == outcome.Canceled, class.Success():
		default:
			to.Failed += s.classes[c].Load()
		}
	}
	to.Outcomes = counted(s.classes[:], func(i int) string { return outcome.Class(i).String() })
	to.Helpers = counted(s.helpers[:], func(i int) string { return outcome.Class(i).String() })
	to.Changes = counted(s.changes[:], func(i int) string { return string(changeNames[i]) })
	to.OutOfScope = counted(s.out[:], func(i int) string { return scope.Code(i).String() })
	if n := s.nofollow.Load(); n > 0 {
		to.OutOfScope[reasonNofollow] = n
	}
	to.Dropped = s.dropped.into(make(map[string]int64))
	if report {
		to.Suspected = s.trapped.into(make(map[string]int64))
	} else {
		s.trapped.into(to.Dropped)
	}
}

// counted names the counters that are not zero.
func counted(counters []atomic.Int64, name func(int) string) map[string]int64 {
	m := make(map[string]int64)
	for i := range counters {
		if n := counters[i].Load(); n > 0 {
			m[name(i)] = n
		}
	}
	return m
}

// Recent is the last that the crawl has dealt with, the newest first.
type Recent struct {
	Errors []Seen `json:"errors"` // at most 50: those that Snapshot.Errors counts
	Pages  []Seen `json:"pages"`  // at most 20
}

// Seen is a record in short. Its texts are those of a stranger, cut to 300 bytes.
type Seen struct {
	At     time.Time `json:"at"`
	URL    string    `json:"url"`
	Title  string    `json:"title,omitempty"`
	Status int       `json:"status,omitempty"`
	Class  string    `json:"class,omitempty"` // of its error
	Error  string    `json:"error,omitempty"`
}

const (
	recentErrors = 50
	recentPages  = 20
	// seenText is the longest text kept of a record, in bytes: two lines of a screen.
	seenText = 300
)

// recent keeps the last records once somebody has asked for them, and until then nothing.
type recent struct {
	wanted atomic.Bool

	mu   sync.Mutex // guards what follows
	last Recent
}

// note keeps a record, if it is wanted.
func (r *recent) note(rec *sink.Record) {
	if !r.wanted.Load() {
		return
	}
	s := Seen{At: rec.FetchedAt, URL: cut(rec.URL), Title: cut(rec.Title), Status: rec.Status}
	_, failed := sink.Counts(rec.Kind, rec.Status, rec.ErrorClass())
	switch e := rec.Error; {
	case e != nil && !failed:
		return // it was left out
	case e != nil:
		s.Class, s.Error = e.Class, cut(e.Message)
	case failed:
		s.Class, s.Error = "status", http.StatusText(rec.Status)
	}
	list, most := &r.last.Pages, recentPages
	if failed {
		list, most = &r.last.Errors, recentErrors
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = slices.Insert((*list)[:min(len(*list), most-1)], 0, s)
}

// cut is a copy, so that it does not keep a whole page in memory.
func cut(text string) string {
	if len(text) > seenText {
		return strings.ToValidUTF8(text[:seenText], "") + "…"
	}
	return strings.Clone(text)
}

// Recent is what was dealt with last. Records are kept for it from the first call on. It may be called at any time.
func (p *Pipeline) Recent() Recent {
	r := &p.recent
	r.wanted.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	return Recent{append([]Seen{}, r.last.Errors...), append([]Seen{}, r.last.Pages...)}
}

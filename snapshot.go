package crawl

import (
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
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

	Records     int64  `json:"records"`                // written
	Pages       int64  `json:"pages"`                  // with a status of 2xx, robots.txt and sitemaps apart
	Errors      int64  `json:"errors"`                 // records of URLs that failed: no answer, an unusable one, or a status of 400 and above
	Requests    int64  `json:"requests"`               // made, robots.txt and retries included
	Answered    int64  `json:"answered"`               // requests that were answered with a status
	Failed      int64  `json:"failed"`                 // requests without an answer, or refused by the host's state: 429 and 5xx, not 404
	Retries     int64  `json:"retries"`                // requests to be repeated
	OfURL       int64  `json:"of_url"`                 // refusals that were one URL's alone: others of its host were served
	Returned    int64  `json:"returned"`               // URLs that were handed out and put back without a request
	Refused     int64  `json:"refused"`                // URLs that robots.txt refuses
	Unruled     int64  `json:"unruled"`                // URLs given up because robots.txt cannot be had
	Unindexed   int64  `json:"unindexed"`              // records left out because their pages ask for it; see OutputOptions.SkipNoindex
	Rendered    int64  `json:"rendered,omitempty"`     // pages given to a browser; see [RenderOptions]
	Scripted    int64  `json:"scripted,omitempty"`     // pages that seem empty without scripts, of a crawl that runs none
	ScriptedURL string `json:"scripted_url,omitempty"` // the first of them
	Bytes       int64  `json:"bytes"`                  // of bodies, decoded
	WireBytes   int64  `json:"wire_bytes"`             // of bodies, as received

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
		Rendered: s.Rendered, Scripted: s.Scripted, ScriptedURL: s.ScriptedURL,
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

// LimiterSnapshot is what is known of the pace of hosts, at one instant. Counts are since the beginning.
type LimiterSnapshot struct {
	Enabled      bool   `json:"enabled"`       // false for the strategy "off"
	Requests     uint64 `json:"requests"`      // permits granted
	Throttled    uint64 `json:"throttled"`     // of them, after a wait
	Denied       uint64 `json:"denied"`        // requests that an open circuit held back
	Retries      uint64 `json:"retries"`       // further tries of requests that had failed
	OverReleased uint64 `json:"over_released"` // releases of permits already released: a mistake in the program
	Evicted      uint64 `json:"evicted"`       // hosts whose state was put away
	OverCap      uint64 `json:"over_cap"`      // hosts taken in beyond 100,000, all others being asked

	Domains    int `json:"domains"`          // hosts that have a state
	Tombstones int `json:"tombstones"`       // hosts whose state was put away, and to which something is owed
	Open       int `json:"open"`             // hosts whose circuit is open
	HalfOpen   int `json:"half_open"`        // hosts whose circuit is half-open: one trial at a time goes out
	InFlight   int `json:"in_flight"`        // permits not released
	Waiting    int `json:"waiting"`          // calls that wait for a permit
	Groups     int `json:"groups,omitempty"` // addresses and registrable domains that are told apart
	Merged     int `json:"merged,omitempty"` // addresses whose hosts are limited as one

	// Caps are what all hosts together are held to; nil for nothing.
	Caps []CapSnapshot `json:"caps,omitempty"`
	// GroupEvents are the last times that hosts of an address were found to be limited as one, or no longer: 8 at
	// most, the oldest first.
	GroupEvents []Event `json:"group_events,omitempty"`
	// Top are the hosts used last, 50 at most, the latest first.
	Top []HostSnapshot `json:"top"`
}

// HostSnapshot is the pace of one host, at one instant. Rates are requests per second.
type HostSnapshot struct {
	Host             string  `json:"domain"`            // lower case, ASCII; with the port unless it is 80 or 443
	FillRate         float64 `json:"fill_rate"`         // the rate at present
	CeilingRPS       float64 `json:"ceiling_rps"`       // the most that options, ceilings and Crawl-delay let it be
	Tokens           float64 `json:"tokens"`            // requests that may go at once
	AvgLatencyMS     float64 `json:"avg_latency_ms"`    // of the last answers that were no failures, in milliseconds; zero before the first
	P95LatencyMS     float64 `json:"p95_latency_ms"`    // 95 % of them took no longer
	LatencyTargetMS  float64 `json:"latency_target_ms"` // what is expected of the next answer; zero where the strategy has no target
	ErrorRate        float64 `json:"error_rate"`        // failures in PolitenessOptions.StatsWindow, from 0 to 1
	State            string  `json:"state"`             // of the circuit: closed, open or half_open
	ConsecutiveFails int     `json:"consecutive_fails"` // failures in a row, as the circuit counts them
	InFlight         int     `json:"in_flight"`         // permits not released
	Waiting          int     `json:"waiting"`           // calls that wait for a permit
	NextPermitInMS   float64 `json:"next_permit_in_ms"` // for one who asks now, behind those who wait
	// LimitedBy is what that permit waits for, or what paces the host: none, start (nothing is learned yet), learned,
	// crawl_delay, retry_after, rule (options or a ceiling), breaker (the circuit), global, shared (the address or the
	// registrable domain), cap, quota, global_concurrency or global_bytes.
	LimitedBy   string  `json:"limited_by"`
	Reason      string  `json:"reason"`                 // the same as a sentence
	OperatorRPS float64 `json:"operator_rps,omitempty"` // the ceiling of SetCeiling; zero for none
	Events      []Event `json:"events,omitempty"`       // the last that changed it, 8 at most, the oldest first

	Caps  []CapSnapshot  `json:"caps,omitempty"`  // of the rule for the host; nil for none
	Group *GroupSnapshot `json:"group,omitempty"` // what it shares with others and is held by; nil for nothing
}

// CapSnapshot is a hard limit of the options, and how it stands.
type CapSnapshot struct {
	Limit    string  `json:"limit"`                // cap, quota, global_concurrency or global_bytes
	Kind     string  `json:"kind"`                 // how it counts, as [Cap.Kind]
	Permits  int64   `json:"permits"`              // requests, or bytes for global_bytes
	PerMS    float64 `json:"per_ms,omitempty"`     // the span, in milliseconds; zero for what is under way at a time
	Left     int64   `json:"left"`                 // permits that are there now; below zero is a debt
	NextInMS float64 `json:"next_in_ms,omitempty"` // until there is one; zero for now, or when that depends on a release
}

// GroupSnapshot is what a host shares with others.
type GroupSnapshot struct {
	Name      string  `json:"name"`       // "ip:192.0.2.1", or "site:example.com"
	Hosts     int     `json:"hosts"`      // how many share it
	Rate      float64 `json:"rate"`       // requests per second of all of them together
	Learned   bool    `json:"learned"`    // they refuse together and are paced as one; false: an option, or a trial
	ErrorRate float64 `json:"error_rate"` // refusals of all of them in the window, from 0 to 1; zero unless learned
	Reason    string  `json:"reason"`     // the same as a sentence
}

// Event is a change of how fast a host is asked, or whether; mere steps of a rate are none.
type Event struct {
	Time   time.Time `json:"time"`           // UTC, to the millisecond
	Domain string    `json:"host,omitempty"` // the host, or the group of merged and parted; empty within a HostSnapshot
	// Cause is why: refused, failures, forbidden, latency, trial_failed, recovered, measured, quota, searched, probed,
	// noise, connections, rebased, estimated, blocked, retry_after, crawl_delay, half_open, revived, merged or parted.
	Cause   string  `json:"cause"`
	State   string  `json:"state"`    // of the circuit, after it: closed, open or half_open
	FromRPS float64 `json:"from_rps"` // requests per second before
	ToRPS   float64 `json:"to_rps"`   // and after; zero while nothing but a trial may go out
	HoldMS  int64   `json:"hold_ms"`  // for how long only trials go out, in milliseconds, or zero; for crawl_delay, the least gap
	Text    string  `json:"text"`     // the same as a sentence, with its figures
	// Hosts are those whose answers led to it, for merged and parted: at most 256. Nil for other causes.
	Hosts []string `json:"hosts,omitempty"`
}

func limiterSnapshotOf(s ratelimit.LimiterSnapshot) LimiterSnapshot {
	return LimiterSnapshot{
		Enabled: s.Enabled, Requests: s.Requests, Throttled: s.Throttled, Denied: s.Denied, Retries: s.Retries,
		OverReleased: s.OverReleased, Evicted: s.Evicted, OverCap: s.OverCap,
		Domains: s.Domains, Tombstones: s.Tombstones, Open: s.Open, HalfOpen: s.HalfOpen, InFlight: s.InFlight,
		Waiting: s.Waiting, Groups: s.Groups, Merged: s.Merged,
		Caps: each(s.Caps, capSnapshotOf), GroupEvents: each(s.GroupEvents, eventOf), Top: each(s.Top, hostSnapshotOf),
	}
}

func hostSnapshotOf(d *ratelimit.DomainSnapshot) HostSnapshot {
	h := HostSnapshot{
		Host: d.Domain, FillRate: d.FillRate, CeilingRPS: d.CeilingRPS, Tokens: d.Tokens,
		AvgLatencyMS: d.AvgLatencyMS, P95LatencyMS: d.P95LatencyMS, LatencyTargetMS: d.LatencyTargetMS,
		ErrorRate: d.ErrorRate, State: d.State.String(), ConsecutiveFails: d.ConsecutiveFails,
		InFlight: d.InFlight, Waiting: d.Waiting, NextPermitInMS: d.NextPermitInMS, LimitedBy: d.LimitedBy.String(),
		Reason: d.Reason, OperatorRPS: d.OperatorRPS, Events: each(d.Events, eventOf), Caps: each(d.Caps, capSnapshotOf),
	}
	if d.Group != nil {
		h.Group = new(GroupSnapshot(*d.Group))
	}
	return h
}

func capSnapshotOf(c *ratelimit.CapSnapshot) CapSnapshot {
	return CapSnapshot{
		Limit: c.Limit.String(), Kind: string(c.Kind), Permits: c.Permits, PerMS: c.PerMS, Left: c.Left, NextInMS: c.NextInMS,
	}
}

func eventOf(e *ratelimit.Event) Event {
	return Event{
		Time: e.Time, Domain: e.Domain, Cause: e.Cause.String(), State: e.State.String(),
		FromRPS: e.FromRPS, ToRPS: e.ToRPS, HoldMS: e.HoldMS, Text: e.Text, Hosts: e.Hosts,
	}
}

// inner is the event as a console takes it. Words that are none of an event's are passed over.
func (e *Event) inner() ratelimit.Event {
	inner := ratelimit.Event{Time: e.Time, Domain: e.Domain, FromRPS: e.FromRPS, ToRPS: e.ToRPS, HoldMS: e.HoldMS, Text: e.Text, Hosts: e.Hosts}
	_, _ = inner.Cause.UnmarshalText([]byte(e.Cause)), inner.State.UnmarshalText([]byte(e.State))
	return inner
}

// each is a list with its elements converted; of nil, nil.
func each[A, B any](list []A, convert func(*A) B) []B {
	if list == nil {
		return nil
	}
	to := make([]B, len(list))
	for i := range list {
		to[i] = convert(&list[i])
	}
	return to
}

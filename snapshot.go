package crawl

import "time"

// Snapshot is the state of a crawl at one moment. In JSON it is a line of what `crawl --stats` writes. Counts are of
// this run. Empty maps and lists are nil.
type Snapshot struct {
	// Time is the moment, and ElapsedSeconds how long the crawl has run.
	Time           time.Time `json:"time"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	// State is running (also before the run), done (everything in scope was visited), limit (MaxPages or MaxTime was
	// reached), blocked (only hosts that refuse requests are left), unruled (no host answered for its robots.txt),
	// interrupted (Stop was called) or failed. Reason explains it in a sentence; it is empty while the crawl runs.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`

	Records     int64  `json:"records"`                // written
	Pages       int64  `json:"pages"`                  // responses with a status of 2xx, without robots.txt and sitemaps
	Errors      int64  `json:"errors"`                 // records of URLs that failed: no response, an unusable one, or a status of 400 or more
	Requests    int64  `json:"requests"`               // sent, with robots.txt and retries
	Answered    int64  `json:"answered"`               // requests with a response
	Failed      int64  `json:"failed"`                 // requests without a response, or with one that says the host is overloaded or failing: 429 and 5xx, not 404
	Retries     int64  `json:"retries"`                // requests that are to be repeated
	OfURL       int64  `json:"of_url"`                 // refusals of a single URL, while others of its host were served
	Returned    int64  `json:"returned"`               // URLs taken from the queue and put back without a request
	Refused     int64  `json:"refused"`                // URLs that robots.txt forbids
	Unruled     int64  `json:"unruled"`                // URLs given up because robots.txt could not be read
	Unindexed   int64  `json:"unindexed"`              // records left out because the page asks not to be indexed; see OutputOptions.SkipNoindex
	Rendered    int64  `json:"rendered,omitempty"`     // pages rendered by a browser; see [RenderOptions]
	Scripted    int64  `json:"scripted,omitempty"`     // pages that seem empty without scripts, in a crawl that renders none
	ScriptedURL string `json:"scripted_url,omitempty"` // the first of them
	Bytes       int64  `json:"bytes"`                  // of bodies, decoded
	WireBytes   int64  `json:"wire_bytes"`             // of bodies, as received

	Outcomes   map[string]int64 `json:"outcomes"`               // requests by outcome class
	Helpers    map[string]int64 `json:"helpers,omitempty"`      // those of Outcomes that were for robots.txt and sitemaps
	OutOfScope map[string]int64 `json:"out_of_scope,omitempty"` // links out of scope, by reason
	Dropped    map[string]int64 `json:"dropped,omitempty"`      // links dropped: no room, no budget, or links like them brought nothing new
	Suspected  map[string]int64 `json:"suspected,omitempty"`    // links like those of a trap that were followed; see ScopeOptions.ReportTraps
	Trapped    int64            `json:"trapped,omitempty"`      // queued URLs that were dropped as a trap

	// Duplicates counts pages that repeat others; see ExtractOptions.Duplicates. Nil means that they are not counted.
	Duplicates *struct {
		Exact int64 `json:"exact"` // the same bytes
		Near  int64 `json:"near"`  // nearly the same text
		// Clusters are the pages that are repeated most, at most ten.
		Clusters []struct {
			URL   string `json:"url"`   // the first page found
			Exact int64  `json:"exact"` // pages with the same bytes
			Near  int64  `json:"near"`  // other pages with nearly the same text
		} `json:"clusters,omitempty"`
	} `json:"duplicates,omitempty"`

	Round   int              `json:"round,omitempty"`   // of a crawl that visits its pages again, from 2; zero in the first round
	Changes map[string]int64 `json:"changes,omitempty"` // records by how the page differs from earlier rounds

	// Workers are the goroutines that fetch.
	Workers struct {
		Count       int     `json:"count"`        // goroutines
		BusySeconds float64 `json:"busy_seconds"` // time spent fetching, summed over all
		WaitSeconds float64 `json:"wait_seconds"` // time spent waiting for permits, summed over all
	} `json:"workers"`
	// Frontier counts URLs and hosts.
	Frontier struct {
		Queued int64 `json:"queued"` // URLs to be visited, with retries
		Leased int64 `json:"leased"` // URLs under way
		Known  int64 `json:"known"`  // URLs ever accepted, in all runs
		Hosts  int64 `json:"hosts"`  // hosts known at the moment
	} `json:"frontier"`
	// Hosts are at most 50: first those with the longest queues, then those with the most pages.
	Hosts []QueueSnapshot `json:"hosts,omitempty"`
	// Limiter has the rates of hosts and their reasons.
	Limiter LimiterSnapshot `json:"limiter"`
}

// QueueSnapshot is the queue of a host, and what it waits for.
type QueueSnapshot struct {
	Host         string    `json:"host"`               // lower case, ASCII; with the port unless it is 80 or 443
	Queued       int       `json:"queued"`             // URLs to be visited
	InFlight     int       `json:"in_flight"`          // requests under way
	Pages        int       `json:"pages"`              // URLs taken from the queue so far
	ServiceMS    float64   `json:"service_ms"`         // moving average of a request's time, in milliseconds
	TakenSeconds float64   `json:"taken_seconds"`      // seconds from the first request to the end of the latest
	Reason       string    `json:"reason,omitempty"`   // what it waits for, as [HostSnapshot.LimitedBy]; empty if it waits for nothing
	Until        time.Time `json:"until,omitzero"`     // when it is looked at again; zero if that depends on an event
	Failures     int       `json:"failures,omitempty"` // requests in a row that failed
	Trouble      string    `json:"trouble,omitempty"`  // outcome class of the last failed request; empty for none
	Blocked      bool      `json:"blocked"`            // the host refuses requests for now, or is down
	Excluded     bool      `json:"barred,omitempty"`   // [Crawler.Block] was called
}

// LimiterSnapshot has the rates of hosts at one moment. Counts are since the start.
type LimiterSnapshot struct {
	Enabled      bool   `json:"enabled"`       // false for the strategy "off"
	Requests     uint64 `json:"requests"`      // permits granted
	Throttled    uint64 `json:"throttled"`     // permits granted after a wait
	Denied       uint64 `json:"denied"`        // requests that an open circuit held back
	Retries      uint64 `json:"retries"`       // requests that repeat a failed one
	OverReleased uint64 `json:"over_released"` // releases of permits already released: a mistake in the program
	Evicted      uint64 `json:"evicted"`       // hosts whose state was evicted
	OverCap      uint64 `json:"over_cap"`      // states kept beyond 100,000, as all others were in use

	Domains    int `json:"domains"`          // hosts with a state
	Tombstones int `json:"tombstones"`       // hosts whose state was evicted, and of which something is kept, such as a Retry-After
	Open       int `json:"open"`             // hosts whose circuit is open
	HalfOpen   int `json:"half_open"`        // hosts whose circuit is half-open: one trial at a time is sent
	InFlight   int `json:"in_flight"`        // permits not released
	Waiting    int `json:"waiting"`          // calls that wait for a permit
	Groups     int `json:"groups,omitempty"` // addresses and registrable domains with state of their own
	Merged     int `json:"merged,omitempty"` // addresses whose hosts are paced as one

	// Caps are the bounds on all hosts together; nil for none.
	Caps []CapSnapshot `json:"caps,omitempty"`
	// GroupEvents are the last 8 times that hosts at one address were found to be limited as one or no longer, the
	// oldest first.
	GroupEvents []Event `json:"group_events,omitempty"`
	// Top are the hosts used last, at most 50, the latest first.
	Top []HostSnapshot `json:"top"`
}

// HostSnapshot is the state of one host at one moment. Rates are requests per second.
type HostSnapshot struct {
	Host             string  `json:"domain"`            // lower case, ASCII; with the port unless it is 80 or 443
	FillRate         float64 `json:"fill_rate"`         // the present rate
	CeilingRPS       float64 `json:"ceiling_rps"`       // the highest rate that options, ceilings and Crawl-delay allow
	Tokens           float64 `json:"tokens"`            // requests that may be sent at once
	AvgLatencyMS     float64 `json:"avg_latency_ms"`    // mean of the last successful responses, in milliseconds; zero before the first
	P95LatencyMS     float64 `json:"p95_latency_ms"`    // their 95th percentile
	LatencyTargetMS  float64 `json:"latency_target_ms"` // expected latency of the next response; zero if the strategy has no target
	ErrorRate        float64 `json:"error_rate"`        // failures in PolitenessOptions.StatsWindow, from 0 to 1
	State            string  `json:"state"`             // of the circuit: closed, open or half_open
	ConsecutiveFails int     `json:"consecutive_fails"` // failures in a row, as the circuit counts them
	InFlight         int     `json:"in_flight"`         // permits not released
	Waiting          int     `json:"waiting"`           // calls that wait for a permit
	NextPermitInMS   float64 `json:"next_permit_in_ms"` // milliseconds until a permit for a caller who asks now, behind those who wait
	// LimitedBy is what that permit waits for, or what sets the rate: none, start (nothing is learned yet), learned,
	// crawl_delay, retry_after, rule (options or a ceiling), breaker (the circuit), global, shared (the address or the
	// registrable domain), cap, quota, global_concurrency or global_bytes.
	LimitedBy   string  `json:"limited_by"`
	Reason      string  `json:"reason"`                 // LimitedBy as a sentence
	LimitRPS    float64 `json:"limit_rps,omitempty"`    // lowest rate that the host refused of late, or the limit that it tells; zero if unknown
	OperatorRPS float64 `json:"operator_rps,omitempty"` // the ceiling set by SetCeiling; zero for none
	Events      []Event `json:"events,omitempty"`       // the last 8, the oldest first

	Caps  []CapSnapshot  `json:"caps,omitempty"`  // of the rule for the host; nil for none
	Group *GroupSnapshot `json:"group,omitempty"` // the group whose budget binds the host; nil for none
}

// CapSnapshot is a hard limit of the options and its state.
type CapSnapshot struct {
	Limit    string  `json:"limit"`                // cap, quota, global_concurrency or global_bytes
	Kind     string  `json:"kind"`                 // how it counts, as [Cap.Kind]
	Permits  int64   `json:"permits"`              // requests, or bytes for global_bytes
	PerMS    float64 `json:"per_ms,omitempty"`     // the span in milliseconds; zero for a bound on requests in flight
	Left     int64   `json:"left"`                 // permits that are there now; below zero is a debt
	NextInMS float64 `json:"next_in_ms,omitempty"` // milliseconds until the next permit; zero for now, or if only a release brings it
}

// GroupSnapshot is what a host shares with others.
type GroupSnapshot struct {
	Name      string  `json:"name"`       // "ip:192.0.2.1", or "site:example.com"
	Hosts     int     `json:"hosts"`      // hosts that share it
	Rate      float64 `json:"rate"`       // requests per second of all of them together
	Learned   bool    `json:"learned"`    // the hosts were found to be limited as one; false for a cap of the options or a trial
	ErrorRate float64 `json:"error_rate"` // share of refusals in the window, from 0 to 1; zero unless learned
	Reason    string  `json:"reason"`     // the group's rate and its cause as a sentence
}

// Event is a change that matters in how fast a host is asked, or whether it is asked at all. A step of the rate that
// only goes on as before is no event.
type Event struct {
	Time   time.Time `json:"time"`           // UTC, to the millisecond
	Domain string    `json:"host,omitempty"` // the host, or the group of merged and parted; empty within a HostSnapshot
	// Cause is one of refused, failures, forbidden, latency, trial_failed, recovered, measured, quota, searched,
	// probed, noise, connections, estimated, blocked, retry_after, crawl_delay, half_open, revived, merged and parted.
	Cause   string  `json:"cause"`
	State   string  `json:"state"`    // of the circuit after the change: closed, open or half_open
	FromRPS float64 `json:"from_rps"` // requests per second before
	ToRPS   float64 `json:"to_rps"`   // requests per second after; zero while only trials are sent
	HoldMS  int64   `json:"hold_ms"`  // milliseconds for which only trials are sent; zero for none. With crawl_delay, the least gap between requests
	Text    string  `json:"text"`     // the event as a sentence, with its figures
	// Hosts are those whose answers led to it, at most 256, with the causes merged and parted. Nil for other causes.
	Hosts []string `json:"hosts,omitempty"`
}

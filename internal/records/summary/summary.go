// Package summary reads what a crawl has written and summarizes it.
//
// [Read] takes a file of records (JSON lines or CSV, plain or compressed) or the directory of a crawl with a state, and
// returns a [Summary]: statuses, broken links and the pages that have them, chains of redirects, duplicates, what
// robots.txt and the pages themselves demand, the slowest hosts and the largest pages. The crawl may be over,
// interrupted or running. [Summary.WriteHTML] makes a self-contained page of it; as JSON a Summary is for programs.
//
// Which pages link to a broken one can be determined only when it is known which pages are broken. So the file is read
// a second time if there are any. Memory does not grow with the file: everything that is kept per host, URL or media
// type has a bound ([Config]). What exceeds a bound is counted but not listed, and [Summary.Left] says so.
//
// A last line that is cut off is skipped, and so are lines that are no records; both are counted. A file without any
// record is an error. What pages say about themselves comes from servers: whoever prints a Summary must make it
// harmless, as WriteHTML does. A URL with two records, which is possible after a crash if records went to a pipe,
// counts twice.
package summary

import "time"

// Summary says how a crawl went. Lists begin with what matters most.
type Summary struct {
	Source Source `json:"source"`
	Crawl  *Crawl `json:"crawl,omitempty"` // what the state knows in addition; nil for a file

	// Records counts all records. URLs counts those of pages, whatever their result; Robots and Sitemaps count the
	// others. Pages and Failed count among URLs, as the crawl counts them.
	Records  int64 `json:"records"`
	URLs     int64 `json:"urls"`
	Pages    int64 `json:"pages"`
	Failed   int64 `json:"failed"`
	Robots   int64 `json:"robots"`
	Sitemaps int64 `json:"sitemaps"`

	From      time.Time `json:"from,omitzero"` // when the first request was sent; zero means that none was
	To        time.Time `json:"to,omitzero"`   // when the last request was sent
	Bytes     int64     `json:"bytes"`         // of all bodies, decoded
	WireBytes int64     `json:"wire_bytes"`    // of all bodies, as they were sent

	Statuses []Count `json:"statuses"`         // URLs by HTTP status, "none" if there was no response
	Errors   []Count `json:"errors,omitempty"` // URLs by error class
	Types    []Type  `json:"content_types"`
	Depths   []Count `json:"depths"`
	Sizes    Spread  `json:"size_bytes"`      // of pages with a response
	Latency  Spread  `json:"latency_ms"`      // of the whole requests of these pages
	Spent    []Spent `json:"spent,omitempty"` // what took the time of all requests, without waiting in the frontier
	Hosts    Hosts   `json:"hosts"`

	Slowest    []Page     `json:"slowest_pages,omitempty"`
	Largest    []Page     `json:"largest_pages,omitempty"`
	Broken     Broken     `json:"broken"`
	Redirects  Redirects  `json:"redirects"`
	Duplicates Duplicates `json:"duplicates"`
	Changes    Changes    `json:"changes"`
	Maps       Maps       `json:"sitemap_findings"`

	Refused       List  `json:"robots_refused"` // URLs that robots.txt forbids
	Filtered      List  `json:"filtered"`       // URLs whose bodies the settings filter out
	NoIndex       List  `json:"noindex"`        // pages that demand it for the whole page
	NoFollow      List  `json:"nofollow"`
	NoFollowLinks int64 `json:"nofollow_links"` // single links that are marked nofollow
	Untitled      List  `json:"untitled"`       // HTML pages, answered with 200 and indexable, without a title
	Truncated     List  `json:"truncated"`

	Left []string `json:"left_out,omitempty"` // what was counted and not listed, in words; empty if all is listed
}

// Source says what was read.
type Source struct {
	Path         string `json:"path"`                         // path of the file, or of the database without records
	Format       string `json:"format"`                       // jsonl, csv or state
	Damaged      int64  `json:"damaged_lines,omitempty"`      // lines that are no records
	FirstDamaged int64  `json:"first_damaged_line,omitempty"` // number of the first such line, from 1
	Cut          bool   `json:"cut_off,omitempty"`            // the end of the last line or compressed file is missing
	Links        bool   `json:"links"`                        // records had lists of links; if not, only the referrer of each record is known
}

// Crawl is what a state knows about a crawl.
type Crawl struct {
	Round  int       `json:"round"` // from 1
	Began  time.Time `json:"began,omitzero"`
	Queued int64     `json:"queued"`          // URLs still to be visited
	Known  int64     `json:"known"`           // URLs ever found
	Rates  []Rate    `json:"rates,omitempty"` // rates learned for hosts, the slowest first
}

// Rate is what a crawl has learned about a host.
type Rate struct {
	Host      string  `json:"host"`
	PerSecond float64 `json:"rate_per_second"`
	Pause     float64 `json:"pause_seconds,omitempty"` // pause after the last refusal; zero means that there was none
}

// Count is a name and how often it occurs.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"count"`
}

// Type counts the pages of a media type.
type Type struct {
	Name  string `json:"name"`
	Pages int64  `json:"pages"`
	Bytes int64  `json:"bytes"`
}

// Spread describes the distribution of values. Percentiles are within 5 percent.
type Spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Spent is a part of the time of all requests.
type Spent struct {
	On      string  `json:"on"`
	Seconds float64 `json:"seconds"`
}

// Hosts describes the hosts of the pages.
type Hosts struct {
	Total  int    `json:"total"`
	Beyond int64  `json:"urls_of_others,omitempty"` // URLs of hosts beyond [Config.MaxHosts], which are not in Total
	Listed []Host `json:"listed"`                   // the slowest ones, by the 95th percentile
}

// Host describes one host. Limit, Reason and Rate are what limited its requests last, according to a file of --stats;
// empty or zero if unknown.
type Host struct {
	Host    string  `json:"host"`
	URLs    int64   `json:"urls"`   // URLs that were requested
	Pages   int64   `json:"pages"`  // as Summary.Pages
	Failed  int64   `json:"failed"` // as Summary.Failed
	Bytes   int64   `json:"bytes"`
	Latency Spread  `json:"latency_ms"`
	Waited  float64 `json:"permit_wait_seconds"` // time that requests waited for the rate limiter
	Limit   string  `json:"limited_by,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Rate    float64 `json:"rate_per_second,omitempty"`
}

// Page is a URL with the figure by which it is listed: bytes or milliseconds.
type Page struct {
	URL    string  `json:"url"`
	Status int     `json:"status"`
	Value  float64 `json:"value"`
}

// List is a number of URLs and the first of them.
type List struct {
	Total int64    `json:"total"`
	URLs  []string `json:"urls,omitempty"`
}

// Broken lists the broken links.
type Broken struct {
	Total  int64        `json:"total"`
	Listed []BrokenLink `json:"listed,omitempty"`
}

// BrokenLink is a URL that is linked to but has no page.
type BrokenLink struct {
	URL       string   `json:"url"`
	Status    int      `json:"status,omitempty"`
	Class     string   `json:"class,omitempty"`     // error class
	Pages     int64    `json:"pages"`               // number of pages that link to it
	Referrers []string `json:"referrers,omitempty"` // the first of these pages
}

// Redirects counts the pages whose response was a redirect.
type Redirects struct {
	Total     int64   `json:"total"`
	Permanent int64   `json:"permanent"`        // 301 and 308: links to them can be corrected
	Chains    int64   `json:"chains"`           // chains of two and more redirects
	Loops     int64   `json:"loops"`            // chains that return to one of their URLs
	Listed    []Chain `json:"listed,omitempty"` // loops first, then the longest
}

// Chain is a redirect to a redirect, and so on. Status and Class say what is wrong with the last URL, if anything.
type Chain struct {
	URLs   []string `json:"urls"` // in order; the last one is the final target
	Loop   bool     `json:"loop,omitempty"`
	Status int      `json:"status,omitempty"`
	Class  string   `json:"class,omitempty"`
}

// Duplicates counts pages that repeat others.
type Duplicates struct {
	Exact  int64   `json:"exact"`
	Near   int64   `json:"near"`
	Groups []Group `json:"groups,omitempty"` // the largest first
}

// Group is a page and the pages that repeat it.
type Group struct {
	Of    string   `json:"of"`
	Total int64    `json:"total"` // pages that repeat it
	URLs  []string `json:"urls"`
}

// Changes counts differences from earlier rounds.
type Changes struct {
	Counts  []Count `json:"counts,omitempty"`
	Changed List    `json:"changed"`
	Gone    List    `json:"gone"`
	New     List    `json:"new"`
}

// Maps summarizes sitemaps and feeds.
type Maps struct {
	Total    int64 `json:"total"`
	URLs     int64 `json:"urls"`     // URLs that they name
	Dropped  int64 `json:"dropped"`  // URLs beyond the bounds of the protocol
	Problems int64 `json:"problems"` // problems in all of them
	Listed   []Map `json:"listed,omitempty"`
}

// Map is a sitemap that has problems or could not be fetched.
type Map struct {
	URL      string `json:"url"`
	Status   int    `json:"status,omitempty"`
	Format   string `json:"format,omitempty"`
	URLs     int64  `json:"urls"`
	Problems int64  `json:"problems"`
	Problem  string `json:"problem,omitempty"` // the first problem
}

// Package summary reads what a crawl has written and says how it went.
//
// [Read] takes a file of records (JSON lines or CSV, plain or compressed) or the directory of a crawl that is kept,
// and returns a [Summary]: what was answered, which links are broken and where they stand, redirects in their chains,
// repetitions, what robots.txt and the pages themselves ask for, the slowest hosts and the largest pages. The crawl
// may be over, interrupted or under way. [Summary.WriteHTML] makes one page of it that needs nothing else; as JSON a
// Summary is for programs.
//
// Which pages link to a broken one is known only once it is known which are broken, so the file is read a second time
// if there are any. Memory does not grow with the file: whatever is kept by host, URL or media type has a bound
// ([Config]), beyond which it is counted and not listed, and [Summary.Left] says so.
//
// A last line that is cut off is passed over, and so are lines that are no record; both are counted. A file without
// any record is refused. What pages say of themselves comes from strangers: who prints a Summary makes it harmless,
// as WriteHTML does. A URL that has two records, which can be after a crash if they went to a pipe, counts twice.
package summary

import "time"

// Summary is how a crawl went. Lists are sorted with what matters most first.
type Summary struct {
	Source Source `json:"source"`
	Crawl  *Crawl `json:"crawl,omitempty"` // what the state knows besides; nil for a file

	// Records are all, URLs those of pages, whatever came of them, Robots and Sitemaps those of the others. Pages and
	// Failed are those of URLs that are one, as the crawl counts them.
	Records  int64 `json:"records"`
	URLs     int64 `json:"urls"`
	Pages    int64 `json:"pages"`
	Failed   int64 `json:"failed"`
	Robots   int64 `json:"robots"`
	Sitemaps int64 `json:"sitemaps"`

	From      time.Time `json:"from,omitzero"` // when the first request was sent; zero: none was
	To        time.Time `json:"to,omitzero"`   // and the last
	Bytes     int64     `json:"bytes"`         // of all bodies, decompressed
	WireBytes int64     `json:"wire_bytes"`    // as they were sent

	Statuses []Count `json:"statuses"`         // URLs by their HTTP status, "none" without an answer
	Errors   []Count `json:"errors,omitempty"` // by the class of error
	Types    []Type  `json:"content_types"`
	Depths   []Count `json:"depths"`
	Sizes    Spread  `json:"size_bytes"`      // of pages with an answer
	Latency  Spread  `json:"latency_ms"`      // of their whole requests
	Spent    []Spent `json:"spent,omitempty"` // where the time of all requests went, but for the queue
	Hosts    Hosts   `json:"hosts"`

	Slowest    []Page     `json:"slowest_pages,omitempty"`
	Largest    []Page     `json:"largest_pages,omitempty"`
	Broken     Broken     `json:"broken"`
	Redirects  Redirects  `json:"redirects"`
	Duplicates Duplicates `json:"duplicates"`
	Changes    Changes    `json:"changes"`
	Maps       Maps       `json:"sitemap_findings"`

	Refused       List  `json:"robots_refused"` // URLs that robots.txt keeps back
	Filtered      List  `json:"filtered"`       // those whose bodies nobody wanted
	NoIndex       List  `json:"noindex"`        // pages that ask for it, as a whole
	NoFollow      List  `json:"nofollow"`
	NoFollowLinks int64 `json:"nofollow_links"` // single links that are marked
	Untitled      List  `json:"untitled"`       // HTML pages, answered with 200 and indexable, without a title
	Truncated     List  `json:"truncated"`

	Left []string `json:"left_out,omitempty"` // what was counted and not listed, in words; empty if all is here
}

// Source is what was read.
type Source struct {
	Path         string `json:"path"`                         // the file, or the database of a state without records
	Format       string `json:"format"`                       // jsonl, csv or state
	Damaged      int64  `json:"damaged_lines,omitempty"`      // lines that are no record
	FirstDamaged int64  `json:"first_damaged_line,omitempty"` // from 1
	Cut          bool   `json:"cut_off,omitempty"`            // the end is missing: the last line, or that of a compressed file
	Links        bool   `json:"links"`                        // there were lists of links; false: referrers are those that each record names
}

// Crawl is what a state knows.
type Crawl struct {
	Round  int       `json:"round"` // from 1
	Began  time.Time `json:"began,omitzero"`
	Queued int64     `json:"queued"`          // URLs still to visit
	Known  int64     `json:"known"`           // URLs ever found
	Rates  []Rate    `json:"rates,omitempty"` // that were learned of hosts, the slowest first
}

// Rate is what a crawl has learned of a host.
type Rate struct {
	Host      string  `json:"host"`
	PerSecond float64 `json:"rate_per_second"`
	Pause     float64 `json:"pause_seconds,omitempty"` // of the last refusal; zero means there was none
}

// Count is how many there are of something.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"count"`
}

// Type is what there is of a media type.
type Type struct {
	Name  string `json:"name"`
	Pages int64  `json:"pages"`
	Bytes int64  `json:"bytes"`
}

// Spread says how values are distributed; percentiles are within 5 percent.
type Spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Spent is a share of the time.
type Spent struct {
	On      string  `json:"on"`
	Seconds float64 `json:"seconds"`
}

// Hosts are those of the pages.
type Hosts struct {
	Total  int    `json:"total"`
	Beyond int64  `json:"urls_of_others,omitempty"` // URLs of hosts beyond [Config.MaxHosts], which are not in Total
	Listed []Host `json:"listed"`                   // the slowest by the 95th percentile
}

// Host is one of them. Limit, Reason and Rate are what held it back last, from a file of --stats; empty if unknown.
type Host struct {
	Host    string  `json:"host"`
	URLs    int64   `json:"urls"`   // asked for
	Pages   int64   `json:"pages"`  // as Summary.Pages
	Failed  int64   `json:"failed"` // as Summary.Failed
	Bytes   int64   `json:"bytes"`
	Latency Spread  `json:"latency_ms"`
	Waited  float64 `json:"permit_wait_seconds"` // for the rate limiter
	Limit   string  `json:"limited_by,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Rate    float64 `json:"rate_per_second,omitempty"`
}

// Page is a URL with the figure that brought it here: bytes or milliseconds.
type Page struct {
	URL    string  `json:"url"`
	Status int     `json:"status"`
	Value  float64 `json:"value"`
}

// List is URLs: how many, and the first of them.
type List struct {
	Total int64    `json:"total"`
	URLs  []string `json:"urls,omitempty"`
}

// Broken are the links that lead nowhere.
type Broken struct {
	Total  int64        `json:"total"`
	Listed []BrokenLink `json:"listed,omitempty"`
}

// BrokenLink is one URL without a page.
type BrokenLink struct {
	URL       string   `json:"url"`
	Status    int      `json:"status,omitempty"`
	Class     string   `json:"class,omitempty"`     // of the error
	Pages     int64    `json:"pages"`               // that link to it
	Referrers []string `json:"referrers,omitempty"` // the first of them
}

// Redirects are those that pages were answered with.
type Redirects struct {
	Total     int64   `json:"total"`
	Permanent int64   `json:"permanent"`        // 301 and 308: links to them can be mended for good
	Chains    int64   `json:"chains"`           // of two redirects and more
	Loops     int64   `json:"loops"`            // that come back
	Listed    []Chain `json:"listed,omitempty"` // loops first, then the longest
}

// Chain is a redirect to a redirect, and so on. Status and Class say what is wrong with its end, if anything.
type Chain struct {
	URLs   []string `json:"urls"` // the last is where it leads
	Loop   bool     `json:"loop,omitempty"`
	Status int      `json:"status,omitempty"`
	Class  string   `json:"class,omitempty"`
}

// Duplicates are pages that repeat others.
type Duplicates struct {
	Exact  int64   `json:"exact"`
	Near   int64   `json:"near"`
	Groups []Group `json:"groups,omitempty"` // the largest first
}

// Group is a page and those that repeat it.
type Group struct {
	Of    string   `json:"of"`
	Total int64    `json:"total"` // without the first
	URLs  []string `json:"urls"`
}

// Changes are against earlier rounds.
type Changes struct {
	Counts  []Count `json:"counts,omitempty"`
	Changed List    `json:"changed"`
	Gone    List    `json:"gone"`
	New     List    `json:"new"`
}

// Maps are sitemaps and feeds.
type Maps struct {
	Total    int64 `json:"total"`
	URLs     int64 `json:"urls"`     // they name
	Dropped  int64 `json:"dropped"`  // beyond the bounds of the protocol
	Problems int64 `json:"problems"` // in all of them
	Listed   []Map `json:"listed,omitempty"`
}

// Map is a sitemap with something wrong, or that could not be had.
type Map struct {
	URL      string `json:"url"`
	Status   int    `json:"status,omitempty"`
	Format   string `json:"format,omitempty"`
	URLs     int64  `json:"urls"`
	Problems int64  `json:"problems"`
	Problem  string `json:"problem,omitempty"` // the first
}

// Package summary reads what a crawl has written and says how it went.
//
// [Read] takes a file of records (JSON lines or CSV, plain or compressed with gzip) or the
// directory of a crawl that is kept, and returns a [Summary]: what was answered, which links
// are broken and where they stand, redirects in their chains, repetitions, what robots.txt
// and the pages themselves ask for, the slowest hosts and the largest pages. The crawl may be
// over, interrupted or under way. [Summary.WriteHTML] makes one page of it that needs nothing
// else; as JSON a Summary is for programs.
//
// # Twice through the file
//
// Which pages link to a broken one is known only once it is known which are broken. So the
// file is read a second time if there are any, and nothing of the first time is kept but what
// the summary says. A file that a crawl adds to meanwhile is read up to where it ended at
// first.
//
// # Bounds
//
// Memory does not grow with the file. Whatever is kept by host, URL or media type has a bound
// ([Config]), beyond which it is counted and not listed, and [Summary.Left] says so. With the
// defaults that is some tens of megabytes at most, and once the longest line.
//
// # What is damaged
//
// A last line that is cut off, by a crash or since the crawl is writing it, is passed over.
// So are lines that are no record; both are counted. A file without any record is refused.
// What pages say of themselves comes from strangers: a Summary holds it as it is, and who
// prints it makes it harmless, as WriteHTML does.
//
// A URL that has two records, which can be after a crash if they went to a pipe, counts
// twice.
package summary

import (
	"time"
)

// Summary is how a crawl went. Lists are sorted with what matters most first.
type Summary struct {
	Source Source `json:"source"`
	// Crawl is what the state knows besides; nil for a file.
	Crawl *Crawl `json:"crawl,omitempty"`

	// Records are all, URLs those of pages, whatever came of them, Robots and Sitemaps those of
	// the others. Pages and Failed are those of URLs that are one, as the crawl counts them.
	Records  int64 `json:"records"`
	URLs     int64 `json:"urls"`
	Pages    int64 `json:"pages"`
	Failed   int64 `json:"failed"`
	Robots   int64 `json:"robots"`
	Sitemaps int64 `json:"sitemaps"`
	// From and To are when the first and the last request were sent. Zero: none was.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Bytes are those of all bodies, decompressed, WireBytes as they were sent.
	Bytes     int64 `json:"bytes"`
	WireBytes int64 `json:"wire_bytes"`

	// Statuses count URLs by their HTTP status, "none" without an answer, and Errors by
	// the class of error.
	Statuses []Count `json:"statuses"`
	Errors   []Count `json:"errors,omitempty"`
	Types    []Type  `json:"content_types"`
	Depths   []Count `json:"depths"`
	// Sizes are of pages with an answer (bytes), Latency of their whole requests (ms).
	Sizes   Spread `json:"size_bytes"`
	Latency Spread `json:"latency_ms"`
	// Spent is where the time of all requests went (seconds): queue is left out, as it only
	// says how many URLs were known.
	Spent []Spent `json:"spent,omitempty"`
	Hosts Hosts   `json:"hosts"`

	Slowest []Page `json:"slowest_pages,omitempty"`
	Largest []Page `json:"largest_pages,omitempty"`

	Broken     Broken     `json:"broken"`
	Redirects  Redirects  `json:"redirects"`
	Duplicates Duplicates `json:"duplicates"`
	Changes    Changes    `json:"changes"`
	Maps       Maps       `json:"sitemap_findings"`

	// Refused are URLs that robots.txt keeps back, Filtered those whose bodies nobody wanted.
	Refused  List `json:"robots_refused"`
	Filtered List `json:"filtered"`
	// NoIndex and NoFollow are pages that ask for it, as a whole; NoFollowLinks are single
	// links that are marked.
	NoIndex       List  `json:"noindex"`
	NoFollow      List  `json:"nofollow"`
	NoFollowLinks int64 `json:"nofollow_links"`
	// Untitled are HTML pages, answered with 200 and indexable, that have no title.
	Untitled  List `json:"untitled"`
	Truncated List `json:"truncated"`

	// Left is what was counted and not listed, in words; empty if all is here.
	Left []string `json:"left_out,omitempty"`
}

// Source is what was read.
type Source struct {
	// Path is the file, or the database of a state without records that can be read.
	Path   string `json:"path"`
	Format string `json:"format"` // jsonl, csv or state
	// Damaged are lines that are no record; FirstDamaged is the number of the first, from 1.
	Damaged      int64 `json:"damaged_lines,omitempty"`
	FirstDamaged int64 `json:"first_damaged_line,omitempty"`
	// Cut says that the end is missing: the last line, or that of a compressed file.
	Cut bool `json:"cut_off,omitempty"`
	// Links says whether there were lists of links, without which referrers are only those
	// that each record names.
	Links bool `json:"links"`
}

// Crawl is what a state knows.
type Crawl struct {
	Round  int       `json:"round"` // from 1
	Began  time.Time `json:"began,omitzero"`
	Queued int64     `json:"queued"` // URLs still to visit
	Known  int64     `json:"known"`  // URLs ever found
	// Rates are what was learned of hosts, the slowest first.
	Rates []Rate `json:"rates,omitempty"`
}

// Rate is what a crawl has learned of a host.
type Rate struct {
	Host      string  `json:"host"`
	PerSecond float64 `json:"rate_per_second"`
	// Pause is how long the last refusal lasted (seconds); zero means none did.
	Pause float64 `json:"pause_seconds,omitempty"`
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
	Total int `json:"total"`
	// Beyond are the URLs of hosts beyond [Config.MaxHosts], which are not in Total.
	Beyond int64 `json:"urls_of_others,omitempty"`
	// Listed are the slowest by the 95th percentile.
	Listed []Host `json:"listed"`
}

// Host is one of them.
type Host struct {
	Host    string `json:"host"`
	URLs    int64  `json:"urls"`   // asked for
	Pages   int64  `json:"pages"`  // as Summary.Pages
	Failed  int64  `json:"failed"` // as Summary.Failed
	Bytes   int64  `json:"bytes"`
	Latency Spread `json:"latency_ms"`
	// Waited is how long its requests waited for their turn by the rate limiter (seconds).
	Waited float64 `json:"permit_wait_seconds"`
	// Limit and Reason are what held it back last, from a file of --stats; empty if unknown.
	Limit  string  `json:"limited_by,omitempty"`
	Reason string  `json:"reason,omitempty"`
	Rate   float64 `json:"rate_per_second,omitempty"`
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
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"`
	Class  string `json:"class,omitempty"` // of the error
	// Pages is how many link to it, Referrers are the first of them.
	Pages     int64    `json:"pages"`
	Referrers []string `json:"referrers,omitempty"`
}

// Redirects are those that pages were answered with.
type Redirects struct {
	Total int64 `json:"total"`
	// Permanent are 301 and 308: links to them can be mended for good.
	Permanent int64 `json:"permanent"`
	// Chains are those of two redirects and more, Loops those that come back.
	Chains int64   `json:"chains"`
	Loops  int64   `json:"loops"`
	Listed []Chain `json:"listed,omitempty"` // loops first, then the longest
}

// Chain is a redirect to a redirect, and so on.
type Chain struct {
	URLs []string `json:"urls"` // the last is where it leads
	Loop bool     `json:"loop,omitempty"`
	// Status and Class say what is wrong with the end; empty if nothing is known to be.
	Status int    `json:"status,omitempty"`
	Class  string `json:"class,omitempty"`
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

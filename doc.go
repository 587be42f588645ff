// Package crawl is Treadlight: a concurrent web crawler that learns how fast it may send requests to each host, stays
// just below that rate, and obeys robots.txt and every Retry-After.
//
// Two calls make a crawl:
//
//	c, err := crawl.New(crawl.Options{})
//	...
//	for page, err := range c.Crawl(ctx, "https://example.com/") {
//		...
//	}
//
// [Options] set what a crawl does. The zero value has good defaults, and [Load] reads Options from a settings file of
// the command. [Crawler.Run] is a crawl without a loop: [Options.Router] gives each page to a handler by the pattern of
// its URL, [Options.OnPage] gets every page, and [Options.Sinks] get the records, for example a file opened by
// [Records]. A [Page] has the response and methods that read it: text, fields, elements by CSS selector or XPath.
// [Page.Follow] adds a URL to the crawl, with a method, a body or values of the program's own, and [Page.Emit] writes
// an item of a type of the program, exactly once.
//
// # Terms
//
// A seed is a URL that the user gives. The scope decides which of the links found from there belong to the crawl. A URL
// is canonicalized: each resource has one spelling. The frontier holds the URLs that are not visited yet, in one queue
// per host. A record is what is written about a visited URL; every URL that entered the frontier and was taken out of
// it has one. An [Event] is a change of a host's rate, with its cause.
//
// # Hooks and replacements
//
// Hooks see and change requests and responses: [Options.OnRequest], OnResponse, OnError, OnSkip and OnEvent.
// [Options.Bodies] read large files as a stream. A [Fetcher] or an http.RoundTripper answers requests in place of the
// network, and an [Extractor] reads pages of other media types. Package crawltest has the tests that such types must
// pass, and a site and a clock for testing crawlers.
//
// # Politeness
//
// The default strategy, steer, raises the rate of a host until the host refuses, measures what it admits, and stays
// just below; [PolitenessOptions] names the other strategies. [Crawler.Snapshot] has, for each host, the reason of its
// rate as a sentence. A [Politeness] is shared by several crawls, clients and a program's own requests, so that each
// host has one state. [Client] is an http.Client with the same politeness. Package admit is for the other side: it
// limits the requests that an http.Handler receives.
//
// # Crawls that can be resumed
//
// A crawl with [Options.StateDir] saves its state on disk as it runs. Whatever ends it, a power failure included,
// [OpenState] opens that state to resume the crawl: what was recorded is not fetched again, no URL that was found is
// lost, and a sink that is [record.Durable] and was cut back to its [State.Position] has no record twice. [OpenAgain]
// starts a new round over a finished crawl, which asks for each page whether it has changed. [OpenArchive] stores
// requests and responses as WARC files. [Listen] serves a dashboard, metrics and an API that controls the crawl;
// [Crawler] has methods for the same.
//
// # What a program links
//
// This package links no database. A program that needs one imports a package of this module for its side effect, and
// the error without the import names it: sqlite for a state, for PolitenessOptions.Remember and for counts of package
// admit in a file; redis for a fleet and for counts of package admit in Redis; console for Listen; traces for
// Options.Traces; browser for Options.Render; maintext for [Page.MainText] and [Page.Markdown]. The packages limit,
// resilience and transport contain the limiters and policies that the crawler itself uses.
package crawl

// Package testsite serves a set of web hosts for testing crawlers: each has its own loopback
// address, pages, speed, limits and failures, and records the requests it gets. It measures
// the politeness of any crawler by what the hosts saw. docs/how-to/test-site.md has the scenario
// file, which [Parse] reads, and the report.
//
// Pages, links and texts are drawn from [Config.Seed]: a page is a function of (seed, host,
// number). Random failures and latencies are drawn by the number of the request on its host.
// Limits, days, outages and Retry-After follow the clock, counted from [New]; only the windows
// of [Host.Limits] begin with the hours of the day.
//
// A host records a request at arrival. The first of these that applies answers it:
//
//	outage    by time, robots.txt included: 503, a status, no answer, a reset, no listener
//	script    by page request number
//	ban       robots.txt included, after so many refusals: 403, or the connection dropped
//	limits    robots.txt included; a refused request changes no limiter
//	flaky     by page request number
//
// Everything else is served after the host's latency, which may grow with the load. Page i links
// to its children in a tree, then to random pages, then to media, redirects, missing pages and
// pages under /private/, each of which is linked from one page.
//
// The limiters are those of package limit. Memory is bounded: one bit per page and
// about a kilobyte per host, and 32 bytes for each request in the window of a log.
//
// Over sockets: [New], [Site.Listen] (after which [Site.URLs] are final), then [Site.Run] until its
// context ends. In a testing/synctest bubble: build the Site inside the bubble with
// [Config.Listen] set to Memory.Listen of package fetchtest and give the client its DialContext, or call
// [Site.Handler] directly. It does not speak TLS or HTTP/2.
package testsite

// Package testsite is a set of web hosts for whoever tests a crawler: each on its
// own loopback address, each with its own pages, pace and bad days, and each keeping
// a record of how it was treated.
//
// # What is the same every time
//
// Pages, links and texts are drawn from [Config.Seed]: the same seed is the same
// site, byte for byte (links to other hosts carry the port, so fix the port for
// that). Nothing is rendered ahead; a page is a function of (seed, host, number).
// What happens over time is drawn from the seed too, by the number of the request on
// its host: the seventh page asked for is the slow one, whichever page it is.
// Limits, outages and Retry-After follow the clock, counted from [New].
//
// # How a host decides
//
// A request is recorded at arrival and then meets, in this order, the reasons not
// to be answered; the first that applies answers it:
//
//	outage    by time, robots.txt included: 503, a status, silence, a reset, no listener
//	script    by page request number
//	limit     robots.txt included; a refused request leaves the limiter unchanged
//	flaky     by page request number
//
// Everything else is served after the host's latency. The page "/" leads to every
// other page: page i links to its children in a tree, then to random pages, then to
// media, redirects, missing pages and pages under /private/, each of which is
// linked from one page.
//
// # What a host remembers
//
// [Site.Report] has the figures a crawler is judged by, per host: rates, gaps,
// refusals, requests inside a Retry-After, robots.txt violations, pages served and
// pages served twice. Memory is bounded: one bit per page and about a kilobyte per
// host, however long the run.
//
// # How it is used
//
// Over sockets: [New], [Site.Listen] (after which [Site.URLs] are final), then
// [Site.Run] until its context ends. In a testing/synctest bubble: build the Site
// inside the bubble with [Config.Listen] set to [Memory.Listen] and give the client
// [Memory.DialContext], or call [Site.Handler] directly. Two sites can run in one
// process. [Zoo], [Uniform] and [HeadOfLine] are ready-made; [Parse] reads a file:
//
//	seed: 7
//	hosts:
//	  - name: limited
//	    pages: 51
//	    latency: {typical: 20ms, dist: lognormal, spread: 0.4}
//	    limit: {rate: 5, burst: 2}
//	    refusal: {status: 429, retry_after: seconds, wait: 2s}
//	  - name: moody
//	    script: [200, 200, 429, 503*3, 200]
//	    flaky: {probability: 0.1, kinds: [500, reset]}
//	    outages: [{after: 10s, for: 5s, mode: close-listener}]
//	    robots: {crawl_delay: 1s, disallow: [/private/]}
//
// It does not speak TLS or HTTP/2 and has no sitemap: it measures manners, not
// protocols.
package testsite

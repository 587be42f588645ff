// Package testsite serves a set of web hosts for testing crawlers: each has its own loopback
// address, pages, speed, limits and failures, and records the requests it gets. It measures
// the politeness of any crawler by what the hosts saw.
//
// # What is the same every time
//
// Pages, links and texts are drawn from [Config.Seed]: the same seed is the same site, byte
// for byte (links to other hosts carry the port, so fix the port for that). A page is a
// function of (seed, host, number). Random failures and latencies are drawn by the number of
// the request on its host: the seventh page requested is the slow one, whichever page it is.
// Limits, days, outages and Retry-After follow the clock, counted from [New]; only the windows
// of [Host.Limits] begin with the hours of the day.
//
// # How a host decides
//
// A host records a request at arrival. The first of these that applies answers it:
//
//	outage    by time, robots.txt included: 503, a status, no answer, a reset, no listener
//	script    by page request number
//	ban       robots.txt included, after so many refusals: 403, or the connection dropped
//	limits    robots.txt included; a refused request changes no limiter
//	flaky     by page request number
//
// Everything else is served after the host's latency, which may grow with the load. The
// page "/" leads to every other page: page i links to its children in a tree, then to
// random pages, then to media, redirects, missing pages and pages under /private/, each
// of which is linked from one page. Only the sitemap names listed pages.
//
// # Limits
//
// The limiters are those of packages limit and admission; see [Limiter]. They may be
// combined, shared by all hosts of one address ([Host.OneAddress]) and change their speed with
// the time of day ([Day]). A [Load] slows answers down. A refusal has any status and any form
// of Retry-After ([Refusal]), and too many of them may cause a [Ban].
//
// # What a host records
//
// [Site.Report] has, per host: rates, gaps, refusals, requests inside a Retry-After, robots.txt
// violations, pages served and pages served twice. Of a limited address, [Usage] adds how much
// of what it allows was used. Memory is bounded: one bit per page and about a kilobyte per
// host, and 32 bytes for each request in the window of a log. All clients count as one.
//
// # How it is used
//
// As a tool: `crawl testsite --scenario FILE --report FILE`. Over sockets: [New],
// [Site.Listen] (after which [Site.URLs] are final), then [Site.Run] until its context
// ends. In a testing/synctest bubble: build the Site inside the bubble with
// [Config.Listen] set to [Memory.Listen] and give the client [Memory.DialContext], or call
// [Site.Handler] directly. [Mixed], [Uniform] and [HeadOfLine] are ready-made; [Parse] reads a
// file, YAML or JSON:
//
//	seed: 7
//	hosts:
//	  - name: limited
//	    pages: 51
//	    latency: {typical: 20ms, dist: lognormal, spread: 0.4}
//	    limit: {rate: 5, burst: 2}
//	    refusal: {status: 429, retry_after: seconds, wait: 2s}
//	  - name: gateway
//	    count: 3
//	    one_address: true
//	    limits:
//	      - {kind: token-bucket, rate: 5, burst: 10}
//	      - {kind: fixed-window, requests: 200, window: 1m}
//	    day: {length: 4m, low: 0.3}
//	    ban: {after: 20, within: 1m, for: 5m}
//	    refusal: {retry_after: http-date, headers: ietf}
//	  - name: unreliable
//	    script: [200, 200, 429, 503*3, 200]
//	    flaky: {probability: 0.1, kinds: [500, reset]}
//	    outages: [{after: 10s, for: 5s, mode: close-listener}]
//	    robots: {crawl_delay: 1s, disallow: [/private/]}
//
// It does not speak TLS or HTTP/2.
package testsite

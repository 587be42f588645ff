// Package testsite is a set of web hosts for whoever tests a crawler: each on its
// own loopback address, each with its own pages, pace, limits and bad days, and each
// keeping a record of how it was treated. It is a benchmark for the politeness of any
// crawler: what it reports is what the hosts saw, and not what the crawler says of itself.
//
// # What is the same every time
//
// Pages, links and texts are drawn from [Config.Seed]: the same seed is the same
// site, byte for byte (links to other hosts carry the port, so fix the port for
// that). Nothing is rendered ahead; a page is a function of (seed, host, number).
// What happens over time is drawn from the seed too, by the number of the request on
// its host: the seventh page asked for is the slow one, whichever page it is.
// Limits, days, outages and Retry-After follow the clock, counted from [New]; only the
// quotas of package admission have windows that begin with the hours of the day.
//
// # How a host decides
//
// A request is recorded at arrival and then meets, in this order, the reasons not
// to be answered; the first that applies answers it:
//
//	outage    by time, robots.txt included: 503, a status, silence, a reset, no listener
//	script    by page request number
//	ban       robots.txt included, after so many refusals: 403, or the connection dropped
//	limits    robots.txt included; a refused request leaves all limiters unchanged
//	flaky     by page request number
//
// Everything else is served after the host's latency, which may grow with the load. The
// page "/" leads to every other page: page i links to its children in a tree, then to
// random pages, then to media, redirects, missing pages and pages under /private/, each
// of which is linked from one page. Listed pages are named by the host's sitemap and nothing
// else: an index that robots.txt names, and parts, every other of which is compressed.
//
// # Limits
//
// The limiters are those that guard real services, of packages classic and admission: leaky
// bucket with and without delay, token bucket, fixed and sliding windows, slots; see
// [Limiter]. They may be combined, be common to all hosts of one address
// ([Host.OneAddress]) and change their speed with the time of day ([Day]). A [Load] refuses
// nobody and answers later. A refusal has any status, says when to come again in any form
// or in none ([Refusal]), and may be one too many ([Ban]).
//
// # What a host remembers
//
// [Site.Report] has the figures a crawler is judged by, per host: rates, gaps,
// refusals, requests inside a Retry-After, robots.txt violations, pages served and
// pages served twice. Of a limited address, [Usage] adds how much of what it allows was
// used:
//
//   - possible: how many requests a client that knew the limits could have had admitted in
//     the time in which this one was there;
//   - used share: how many were admitted, as a share of that;
//   - reached: when 90 % of the long-run rate was used over a slice of 10 s for the first
//     time. Slices follow each other from the first request on, and are longer where 10 s
//     say little;
//   - converged: from which slice on it was 90 % in each, to the end.
//
// Memory is bounded: one bit per page and about a kilobyte per host, and what a limiter
// needs (of a log, 32 bytes for each request that fits into its window), however long the
// run. Nothing is kept by client: all clients are one.
//
// # How it is used
//
// As a tool: `crawl testsite --scenario FILE --report FILE`. Over sockets: [New],
// [Site.Listen] (after which [Site.URLs] are final), then [Site.Run] until its context
// ends. In a testing/synctest bubble: build the Site inside the bubble with
// [Config.Listen] set to [Memory.Listen] and give the client [Memory.DialContext], or call
// [Site.Handler] directly. Two sites can run in one process. [Zoo], [Uniform] and
// [HeadOfLine] are ready-made; [Parse] reads a file, YAML or JSON:
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
//	  - name: moody
//	    script: [200, 200, 429, 503*3, 200]
//	    flaky: {probability: 0.1, kinds: [500, reset]}
//	    outages: [{after: 10s, for: 5s, mode: close-listener}]
//	    robots: {crawl_delay: 1s, disallow: [/private/]}
//
// It does not speak TLS or HTTP/2 and has no sitemap: it measures manners, not
// protocols.
package testsite

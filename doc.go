// Package crawl is Treadlight: a concurrent web crawler that learns how fast each host
// may be asked, stays just under it, and obeys every Retry-After and robots.txt.
//
// Two calls make a crawl:
//
//	c, err := crawl.New(crawl.DefaultConfig())
//	...
//	for page, err := range c.Pages(ctx, "https://example.com/") {
//		...
//	}
//
// [Crawler.Run] does the same with a handler ([Config.OnPage]) or sinks
// ([Config.Sinks]) in place of the loop. A [Crawler] is one crawl; any number of them
// may run in one process, and they share nothing.
//
// # Nouns
//
// A seed is a URL the user names; the scope says which of the links found from there
// belong to the crawl. The frontier holds the URLs not yet visited, in one queue per
// host. The limiter holds what has been learned of each host: its rate, its latency,
// its breaker, and what it has asked of us. A record is what is written of a visited
// URL: every URL that entered the frontier and was not left over at the end has one.
//
// # The house
//
//	room                 what lives there
//	crawl (this one)     the public face; wires the rooms together
//	cmd/crawl            flags, terminal, exit codes
//	internal/config      defaults < file < environment < flags, as one tree
//	internal/pipeline    the four stages; canonical, scope, frontier, extract, sink
//	internal/fetch       HTTP client; robots.txt; test servers
//	internal/ratelimit   the adaptive engine; estimate, backoff, breaker, header, outcome
//	internal/clock       the one place where time is met
//
// A room imports only rooms below it in this list. Start reading at package pipeline.
//
// # What it does not do
//
// It runs no JavaScript, follows links of HTML only, and keeps its frontier in memory:
// a crawl that is interrupted begins again.
package crawl

// Package pipeline is the crawl: four stages, the channels between them, and the end.
//
// This is the page to read first. A crawl is a closed loop:
//
//	           leases               fetched               results
//	Discovery ────────▶ Extraction ─────────▶ Processing ─────────▶ Output
//	   ▲  ▲                 │                                         │
//	   │  └──── events ─────┘                                         │
//	   └──────────────────────────── acks ────────────────────────────┘
//
// Discovery (discovery.go) is one goroutine that owns the frontier, so nothing in it needs a lock. It takes in seeds
// and the links that come back with acknowledgements, and leases a URL of the host that may get a request next. A lease
// holds one of Concurrency slots until its request is over or has waited for its first byte for a second. For each
// lease there is an idle worker, or one more is started, so a lease never waits while the rate of its host changes.
//
// Extraction (extraction.go, feedback.go) has as many workers as were needed at once. A worker takes a permit from the
// rate limiter, fetches, and reports what happened. The limiter has the last word; it normally grants at once, because
// the frontier leases by its schedule. If the host has refused requests since, the lease goes back unused. A failure
// worth repeating becomes an entry of the frontier with a not-before time: no worker ever sleeps for a host. Package
// attribution decides whose a failure is. A Fetcher may have queues of its own; the permit is then taken behind them.
//
// Processing (processing.go, links.go, sitemaps.go) turns bytes into a record, by package web/content, and checks the
// links against the scope, because that work can use many cores. User handlers run here (page.go); a loop over pages is
// a handler too. The URLs of a sitemap, which may be 50,000, go back to Discovery in parts.
//
// Output (output.go) writes records to the sinks, and then acknowledges: the outcome and the links found go back to
// Discovery together, after the record is written. So a crash repeats a fetch but loses no URL.
//
// The gate (package frontier/gate) holds back queued URLs that robots.txt disallows, that the scope leaves out by now, or
// that turned out to be in a trap. Calls that change a running crawl are carried out by Discovery between two turns
// (control.go).
//
// # What survives
//
// With a [State] the crawl can be resumed after any end, kill -9 included. Output has flushed the sinks before it
// acknowledges, and sends their positions along. Discovery commits the outcomes, the links and the positions to the
// state as one batch, which becomes durable as a whole or not at all. A process that resumes the crawl truncates the
// sinks to the positions of the last batch and visits the URLs after it again. Handlers may see such a page twice.
//
// # Why it cannot deadlock
//
// A cycle of bounded channels can deadlock unless one member never waits for the next. Discovery is that member: the
// leases channel has room for every worker, and what Discovery has for Output is sent in the same select in which it
// receives. Every other stage may block on the one to its right, which is the back-pressure. While a state cannot keep
// up, Discovery takes no acknowledgements, so that after a while all other stages block, but not Discovery.
//
// # The end
//
// The frontier's count of queued and leased URLs is exact, and a lease counts until Output has acknowledged it. When
// both are zero, Discovery closes the leases channel and the stages end one after another. [Pipeline.Stop] and the end
// of Config.MaxTime stop the leasing. What is in progress may finish during most of Config.Grace (ending.go). Then its
// context ends: requests are canceled, the context of handlers ends, and what is neither processed nor written is
// dropped. The leases of all these go back to the frontier, so that a resume finds their URLs queued. Two things cannot
// be interrupted: a page that is being parsed, whose cost is bounded, and a sink that blocks. If the context of Run
// ends, all stages end at once.
package pipeline

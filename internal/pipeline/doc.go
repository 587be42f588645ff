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
// Discovery is one goroutine. It owns the frontier, so nothing in it needs a lock: it
// takes in seeds and the links that come back with acknowledgements, and leases the
// URL of the host that may be asked next. It hands out a lease when one of Concurrency slots
// is free, and a slot is free again when the request has come to its end, or has waited for
// its first byte for a second: see overdue.go. For each lease there is an idle worker, or one
// more is begun, so a lease never waits in a channel while its host's rate changes.
//
// Extraction is as many workers as were needed at once, MaxOut at most. A worker takes a permit from the rate limiter,
// which is the authority and normally grants at once because the frontier leased by
// the limiter's own schedule; fetches; and reports what happened. When the host has
// since said "not now", the lease goes back unused. A failure worth repeating becomes
// an entry of the frontier with a not-before time. No worker ever sleeps for a host. A
// failure while the host answers no URL is the host's and spends no try; one while it answers
// others is the URL's, and the limiter does not count it: see failure.go, and package
// attribution, which decides which it is.
//
// A Fetcher may have queues of its own, as bulkheads are. The permit is then taken behind
// the queue, so that what waited in it is paced like all else; a request that finds no
// place goes back to the frontier and its host rests a moment. For robots.txt the Fetcher
// may send another request after one that failed, with a permit of its own: see try.go.
//
// A robots.txt that has come names sitemaps, which Discovery queues for their host: a lease
// is for a page, a robots.txt or a sitemap. What a sitemap lists, 50,000 URLs perhaps, goes
// back in parts that Discovery takes in between its other work: see sitemaps.go, listed.go.
//
// Processing turns bytes into a record: links, title, metadata, digest. It also
// canonicalizes links and asks the scope, because that is work for many cores.
// User handlers run here.
//
// Output writes records to the sinks, and then acknowledges: the outcome and the links
// found go back to Discovery together, after the record is written. So a crash repeats
// a fetch but loses no URL.
//
// URLs that lead nowhere are left in three places: Discovery does not take in links that
// package trap refuses, the frontier's gate keeps back those that were taken in before it was
// known, and Processing has the trap detector learn from pages; see traps.go.
//
// # What survives
//
// With a [State] the crawl can be resumed after any end, kill -9 included. Output has
// flushed the sinks before it acknowledges, and passes on how far they are; Discovery tells
// the state of the outcomes, the links and the sinks' positions as one batch, which becomes
// durable as a whole or not at all. So whoever resumes cuts the sinks back to the positions
// of the last batch, and visits again what came after it: no record is lost and none is
// there twice. Handlers may see such a page a second time.
//
// # Why it cannot deadlock
//
// The stages form a cycle, and a cycle of bounded channels can deadlock unless one
// member never waits for the next. Discovery is that member: the leases channel has
// room for every worker, and what Discovery itself has for Output (URLs refused by
// robots.txt) is sent in the same select in which it receives. Every other stage may
// block on the one to its right, which is the back-pressure. A state that cannot keep up
// stops the acknowledgements, and so by and by everything to the left of them, but not
// Discovery, which hears that there is room again.
//
// # The end
//
// The frontier's count of queued and leased URLs is exact, and a lease counts until
// Output has acknowledged it. When both are zero, Discovery closes the leases channel
// and the stages end one after another, left to right. [Pipeline.Stop] and the end of
// Config.MaxTime stop leasing and let what is under way finish for most of Config.Grace. Then
// its context ends: requests are cancelled, handlers are told, and what is neither processed
// nor written is dropped. The leases of all these go back to the frontier, so that the crawl
// ends in the usual way, and a resume finds their URLs queued. Two things cannot be
// interrupted: a page that is being parsed, whose cost is bounded, and a sink that blocks. Run
// waits for them; a program may end without it. Ending the context of Run gives up at once.
package pipeline

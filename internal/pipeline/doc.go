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
// Discovery (discovery.go) is one goroutine that owns the frontier, so nothing in it needs a lock: it takes in seeds
// and the links that come back with acknowledgements, and leases the URL of the host that may be asked next. A lease
// holds one of Concurrency slots until its request is over or has waited for its first byte for a second. For each
// lease there is an idle worker, or one more is begun, so a lease never waits while its host's rate changes.
//
// Extraction (extraction.go, feedback.go) is as many workers as were needed at once. A worker takes a permit from the
// rate limiter, which is the authority and normally grants at once because the frontier leased by its schedule;
// fetches; and reports what happened. When the host has since said "not now", the lease goes back unused. A failure
// worth repeating becomes an entry of the frontier with a not-before time: no worker ever sleeps for a host. Whose a
// failure is decides package attribution. A Fetcher may have queues of its own: the permit is then taken behind them.
//
// Processing (processing.go, links.go, sitemaps.go) turns bytes into a record: links, title, metadata, digest. It also
// canonicalizes links and asks the scope, because that is work for many cores. User handlers run here. A robots.txt
// that has come names sitemaps: what one lists, 50,000 URLs perhaps, goes back in parts.
//
// Output (output.go) writes records to the sinks, and then acknowledges: the outcome and the links found go back to
// Discovery together, after the record is written. So a crash repeats a fetch but loses no URL.
//
// The gate (gate.go) keeps queued URLs back that robots.txt refuses, that the scope leaves out by now, or that were
// found to lead nowhere. What is asked of a crawl while it runs is done by Discovery between two turns (control.go).
//
// # What survives
//
// With a [State] the crawl can be resumed after any end, kill -9 included. Output has flushed the sinks before it
// acknowledges, and passes on how far they are; Discovery tells the state of the outcomes, the links and the sinks'
// positions as one batch, which becomes durable as a whole or not at all. So whoever resumes cuts the sinks back to the
// positions of the last batch, and visits again what came after it. Handlers may see such a page a second time.
//
// # Why it cannot deadlock
//
// A cycle of bounded channels can deadlock unless one member never waits for the next. Discovery is that member: the
// leases channel has room for every worker, and what Discovery has for Output is sent in the same select in which it
// receives. Every other stage may block on the one to its right, which is the back-pressure. A state that cannot keep
// up stops the acknowledgements, and so by and by everything to the left of them, but not Discovery.
//
// # The end
//
// The frontier's count of queued and leased URLs is exact, and a lease counts until Output has acknowledged it. When
// both are zero, Discovery closes the leases channel and the stages end one after another. [Pipeline.Stop] and the end
// of Config.MaxTime stop leasing and let what is under way finish for most of Config.Grace (ending.go). Then its
// context ends: requests are cancelled, handlers are told, and what is neither processed nor written is dropped. The
// leases of all these go back to the frontier, so that a resume finds their URLs queued. Two things cannot be
// interrupted: a page that is being parsed, whose cost is bounded, and a sink that blocks. Ending the context of Run
// gives up at once.
package pipeline

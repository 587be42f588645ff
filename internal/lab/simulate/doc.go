// Package simulate runs the politeness engine against model servers in virtual time: fifteen
// minutes of a crawl take a second, and the same seed gives the same result to the last digit.
//
// A [Scenario] is a host, or several at one address: a [Server] that decides about each request,
// a [Link] over which requests and answers travel, an [Offer] of URLs to fetch, and the capacity
// that a perfect client would use. [Scenarios] are the built-in ones, [Random] draws others. A
// [Simulation] is one run of a scenario under one configuration of the engine, with a [Result].
// A [Comparison] makes many, on all processors.
//
// One goroutine keeps a heap of events: a request reaches the server, an answer reaches the
// client. In between the driver does what the frontier does: with a URL to fetch it asks
// ReadyAt, acquires if that is now, and asks again at that time or at the next answer; of several
// ready hosts it takes the one whose last request is the oldest. A refused request is offered again
// until it is admitted; one that failed is tried four times. Both wait a second.
//
// [Oracle] is not a strategy: it knows the server, and sends when the next request would be admitted.
// It waits for the worst jitter, which costs much where jitter is longer than the spacing.
//
// Requests reach a server in the order of their arrival, and it knows nothing else of the client. The
// driver allocates nothing per request once its queues have grown.
package simulate

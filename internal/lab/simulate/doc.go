// Package simulate runs the politeness engine against model servers in virtual time: fifteen
// minutes of a crawl take a second, and the same seed gives the same result to the last digit.
//
// A [Scenario] is a host, or several at one address: a [Server] that decides about each request,
// a [Link] over which requests and answers travel, an [Offer] of URLs to fetch, and the capacity
// that a perfect client would use. [Scenarios] are the built-in ones, [Random] draws others. A
// [Simulation] is one run of a scenario under one configuration of the engine, with a [Result].
// A [Comparison] makes many, on all processors.
//
// # How a run goes
//
// One goroutine keeps a heap of events: a request reaches the server, an answer reaches the
// client. In between the driver does what the frontier does: with a URL to fetch it asks
// ReadyAt, acquires if that is now, and asks again at that time or at the next answer, whichever
// comes first; of several ready hosts it takes the one whose last request is the oldest. The
// whole engine is at work: bucket, breaker, obligations and strategy. Its clock is the run's,
// which moves only between events, and none of its timers fires.
//
// A refused request is offered again until it is admitted; one that failed is tried four times.
// Both wait a second.
//
// # The bound
//
// [Oracle] is not a strategy: it knows the server, asks its model when the next request
// would be admitted, and sends it then. What it reaches is possible without refusals. It waits
// for the worst jitter, which costs much where jitter is longer than the spacing and there is no
// burst: there a client that accepts refusals uses more.
//
// # What always holds
//
//   - A result depends on the scenario, the configuration and the seed alone.
//   - Requests reach a server in the order of their arrival, which jitter may change.
//   - A server knows nothing of the client but when its requests arrive.
//   - The driver allocates nothing per request once its queues have grown.
//
// It opens no connection and transfers no body. The hosts of a run are at one address; limits
// across addresses are for tests of the whole crawler.
package simulate

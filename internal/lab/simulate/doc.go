// Package simulate runs the politeness engine against model servers in virtual time: fifteen minutes of a crawl take a
// second, and the same seed always gives the same result to the last digit.
//
// A [Scenario] is a host, or several at one address: a [Server] that decides about each request, a [Link] over which
// requests and responses travel, an [Offer] of URLs to fetch, and the capacity that a perfect client would use.
// [Scenarios] are the built-in ones; [Random] draws others. A [Simulation] is one run of a scenario under one
// configuration of the engine, and gives a [Result]. A [Comparison] makes many runs, on all processors.
//
// One goroutine keeps a list of events, ordered by time: a request reaches the server, or a response reaches the
// client. Between events the driver does what the frontier does. If there is a URL to fetch, it calls ReadyAt, acquires
// a permit if that is now, and otherwise asks again at that time or at the next response. Of several ready hosts it
// takes the one whose last request is the oldest. A refused request is sent again until it is admitted; a failed one is
// tried four times. Both wait a second before the next try.
//
// [Oracle] is not a strategy: it knows the server, and sends a request when the server would admit it. It allows for
// the worst jitter, which costs much if jitter is longer than the spacing of requests.
//
// Requests reach a server in the order of their arrival, and the server knows nothing else about the client. The driver
// allocates nothing per request once its queues have grown.
package simulate

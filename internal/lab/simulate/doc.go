// Package simulate runs the politeness engine against model servers in virtual
// time: fifteen minutes of a crawl take a second, and the same seed gives the same
// result to the last digit.
//
// # Nouns
//
// A [Scenario] is a host, or several at one address: a [Server] that decides about each
// request, of all hosts or of each, a [Link] over which requests and answers travel, an
// [Offer] of URLs to fetch, and the capacity that a perfect client would use. A
// [Registry] has the built-in ones, to choose from by name, and takes others in: a
// Scenario of one's own is a literal. [Random] draws one that nobody has tuned for.
//
// A [Simulation] is one run of a scenario under one configuration of the engine and
// its [Result] is what came of it. A [Comparison] makes many, on all processors, and
// [Table] prints them. `crawl simulate` is both for the terminal.
//
// # How a run goes
//
// One goroutine keeps a heap of events: a request reaches the server, an answer
// reaches the client. In between the driver does what the frontier does: with a URL
// at hand it asks ReadyAt, acquires if that is now, and looks again at the time it
// was told or at the next answer, whichever comes first; of several hosts that may be
// asked the one goes first whose last request is the oldest. So the whole engine is at
// work, bucket, breaker, obligations and strategy, and nothing of it is imitated.
// The engine's clock is the run's. It moves only between events, and no timer of it
// fires: a request is acquired only when it need not wait.
//
// A request that was refused goes back until it is admitted; one that failed is tried
// four times. Both wait a second before they are offered again.
//
// # The bound
//
// The strategy [Clairvoyant] is no strategy: it knows the model, asks it when the
// next request would be admitted, and sends it then. What it reaches can be reached,
// and no more without being refused. It plans for jitter by waiting it out, which
// costs much where there is no burst allowance and more jitter than spacing: there
// a client that puts up with refusals uses more.
//
// # What always holds
//
//   - A result depends on the scenario, the configuration and the seed alone.
//   - Requests reach a server in the order of their arrival, which jitter may make
//     another than that of their sending.
//   - A server knows nothing of the client but when its requests arrive.
//   - The driver allocates nothing per request once its queues have grown.
//
// # What it does not do
//
// It opens no connection and transfers no body, so a fast strategy here may still be
// slow over TCP. The hosts of a run are at one address; addresses that share a limiter,
// and hosts that share a scheduler, are for tests with the real pipeline.
package simulate

// Package adaptive is the engine that learns how fast each host may be asked, for programs whose requests are not
// those of an http.Client: another protocol, a queue, a fleet of browsers. crawl.Client and crawl.New have it inside,
// and transport.Polite puts it around an http.RoundTripper.
//
// Before a request [Limiter.Acquire] waits for its turn at the domain, or fails at once with [ErrCircuitOpen]; after
// it [Limiter.Feedback] tells what came of it, and the permit is released. From statuses, latencies, errors and
// Retry-After the strategy of [Config] learns the rate; Limiter.Snapshot says of each domain what it is and why. Begin
// with [DefaultConfig], and have Limiter.Run run beside.
//
// Everything is safe for concurrent use. Programs test what they build of it in a bubble of
// testing/synctest, in which it goes by the bubble's time; Config.Clock stays nil.
//
// The types are aliases of those of [internal/ratelimit].
// Fields, with units, ranges and what zero means, and methods are told there:
//
//	go doc github.com/treadlight/crawl/internal/ratelimit.Config
//
// [internal/ratelimit]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit
package adaptive

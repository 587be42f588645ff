// Package transport has layers to put around an http.RoundTripper: [RateLimit] with any
// limiter of package limit, [Log] that shows nothing secret, [Hints] that tells what
// servers say of their limits, and every policy of package resilience. A [Middleware] is one
// layer, [Chain] puts several around a transport, and [Layers] has a place for each in the
// order that works. [Polite] has rates learned by package adaptive; crawl.Client is all of it
// at once.
//
// A [Client] is an http.Client with a helper for each verb, a [Factory] has clients by
// name, each built once with connections, circuits and limits of its own.
//
// What a layer holds, a permit or a place or a deadline, it holds until the body of the
// answer was read to its end or closed. A request is sent again only if it is
// [Repeatable]: its method is safe, or it has an Idempotency-Key or a context of
// [WithIdempotent].
//
// The types are aliases of those of [internal/fetch/transport].
// Fields, with units, ranges and what zero means, and methods are told there:
//
//	go doc github.com/treadlight/crawl/internal/fetch/transport.ClientConfig
//
// [internal/fetch/transport]: https://pkg.go.dev/github.com/treadlight/crawl/internal/fetch/transport
package transport

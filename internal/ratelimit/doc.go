// Package ratelimit is the adaptive engine: it learns how fast each host may be
// asked and lets nobody ask faster.
//
// # Nouns
//
// A domain ([Domain]) is a URL's host and the unit of politeness. For each domain
// there is one state under one lock: a token bucket whose fill rate follows a
// strategy (additive increase, multiplicative decrease), an average and a p95 of
// the latency, a window of errors, a circuit breaker, and obligations: Retry-After,
// Crawl-delay, the user's rules. A [Permit] is the right to send one request and
// [Feedback] is what became of it.
//
// # The life of a request
//
//	permit, err := limiter.Acquire(ctx, host) // waits for the host's turn
//	if err != nil {
//		return err // ErrCircuitOpen, ErrTooManyWaiters, or ctx's error
//	}
//	defer permit.Release()
//	// … send it, read it, and whatever the end was:
//	limiter.Feedback(host, ratelimit.Feedback{StatusCode: code, Latency: latency, SentAt: sent})
//
// Acquire grants at the latest of these instants: the bucket has a token; the last
// grant lies MinDelay and Crawl-delay back; Retry-After is over; the bucket of all
// domains has a token. A scheduler asks [AdaptiveRateLimiter.ReadyAt] for that
// instant beforehand and so never has anyone wait.
//
// # The life of a state
//
// It is made by the first call for its domain, at Config.InitialRPS. It is evicted
// when it has been idle for DomainStateTTL ([AdaptiveRateLimiter.Run]) or when there
// are more than MaxDomains and it is the longest unused, but never while a permit is
// out or somebody waits. What it owes stays behind in a tombstone of 56 bytes, from
// which it is made again: eviction is no way round an obligation.
//
// # What always holds
//
//   - Grants of a domain in any span are at most its capacity and the sum of its
//     rate over the span. Tokens are integers, so nothing is lost or won by rounding.
//   - Two grants of a domain are never closer than its spacing, and none falls into
//     a Retry-After, in whatever order the feedback came.
//   - Who waits is served in the order of arrival. A waiter who gives up gives his
//     place up with it, and nothing else has to be given back.
//   - The rate is cut once per congestion: what had been sent before a cut neither
//     cuts again nor raises.
//   - A breaker judges only what was sent since its last change of state, counts
//     only overload, and never an order to wait or a caller who gave up.
//   - A ready Acquire, a Release and a Feedback allocate nothing, and no hook is
//     called and no clock waited for with a lock held.
//
// # What it does not do
//
// It sends nothing, reads no header ([header] does) and retries nothing; it has no
// goroutine but the one in which its owner calls Run; and it keeps nothing on disk.
//
// [header]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit/header
package ratelimit

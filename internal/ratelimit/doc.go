// Package ratelimit is the adaptive engine: it learns how fast each host may be asked and lets nobody ask faster.
//
//	permit, err := limiter.Acquire(ctx, host) // waits for the host's turn
//	if err != nil {
//		return err // ErrCircuitOpen, ErrTooManyWaiters, or ctx's error
//	}
//	defer permit.Release()
//	// … send it, read it, and whatever the end was:
//	limiter.Feedback(host, ratelimit.Feedback{StatusCode: code, Latency: latency, SentAt: sent})
//
// # State
//
// A domain ([Domain]) is a URL's host. Each has one state under one lock: a token bucket, the
// strategy that sets its rate and is its circuit breaker (package control), latencies, a window
// of errors, and obligations: Retry-After, an exhausted quota, Crawl-delay, the user's rules.
//
// It is made by the first call for its domain and evicted when it has been idle for DomainStateTTL or is the longest
// unused of more than MaxDomains, but never while a permit is out or somebody waits. What it owes stays in a
// tombstone, which [AdaptiveRateLimiter.Remember] and [AdaptiveRateLimiter.Recall] carry to a later crawl: what was
// learned counts for a day, an obligation until it ends.
//
// # When a request may go
//
// Acquire grants at the latest of these instants: the bucket has a token; MinDelay and Crawl-delay have passed since
// the last grant; Retry-After is over; each cap has room; each budget that the domain shares has a token. A scheduler
// asks [AdaptiveRateLimiter.ReadyAt] beforehand, so that nobody waits in Acquire.
//
// Domains share budgets: all of them GlobalRPS, GlobalConcurrency and GlobalBytes; those at one address, or of one
// registrable domain, a cap of the user. Where the hosts at an address turn out to have one common limit, which an
// experiment finds, one strategy paces them together. With Config.Fleet the budgets are those of several processes. A
// cap or quota of a [HostRule] is a limiter of package limit, taken with the rest of a grant or not at all.
//
// # What always holds
//
//   - In any span a domain is granted at most its capacity and the sum of its rate. Tokens are
//     integers: nothing is lost or won by rounding.
//   - Two grants of a domain are never closer than its spacing, and none falls into a
//     Retry-After or exceeds a cap, whatever was learned, evicted or in which order it came.
//   - Callers are served in the order of arrival. Who gives up has taken nothing.
//   - One congestion cuts the rate once: a response to a request from before a cut neither cuts
//     nor raises. A breaker counts only overload, of requests sent since its last change of state.
//   - A ready Acquire, a Release and a Feedback allocate nothing, unless there is an event to
//     keep; no hook is called and no clock waited for with a lock held.
package ratelimit

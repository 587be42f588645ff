// Package ratelimit is the adaptive engine: it learns how fast each host may be
// asked and lets nobody ask faster.
//
// # Nouns
//
// A domain ([Domain]) is a URL's host and the unit of politeness. For each domain
// there is one state under one lock: a token bucket, the strategy that sets its fill
// rate and is its circuit breaker ([control] has them all), an average and a p95 of the
// latency, a window of errors, and obligations: Retry-After, a quota that is used up,
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
// grant lies MinDelay and Crawl-delay back; Retry-After is over; each cap has room; each
// budget that the domain shares with others has a token. A scheduler asks [AdaptiveRateLimiter.ReadyAt] for that
// instant beforehand and so never has anyone wait.
//
// # What domains share
//
// Beside the budget of all domains there are those of groups: of an address, which
// [AdaptiveRateLimiter.SetAddress] tells, and of a registrable domain. A group holds
// its members to the user's cap; and where the hosts at an address turn out to be
// limited as one, which is found by experiment, a strategy of the group's own paces
// them together and takes their refusals and orders to wait upon itself, until a
// member is refused alone. DomainSnapshot.Group says so.
//
// # What the user caps
//
// Learning has no bound that a user could name, so there are hard ones beside it: of each
// domain of a rule a cap, a quota and the requests that are out at a time; of all domains
// their rate, the requests that are out, and the bytes per second, charged by
// [AdaptiveRateLimiter.ChargeBytes] when they have come. Each but the rate is decided by a
// limiter of package [classic] and taken together with the rest of a grant or not at all.
// ReadyAt knows them all, so a scheduler has nobody wait for a cap either. A quota that is
// used up is [LimitQuota], which a scheduler treats as a host that refuses: it may last a day.
//
// # What processes share
//
// With a Config.Fleet the budgets of all domains, of addresses and of registrable domains are those of several
// processes: their tokens are charged to a key of [SharedTokens], some at a
// time and ahead of their use, by the goroutines of [AdaptiveRateLimiter.Run]. No grant waits for a trip; one that
// has no token waits as for any other budget, under the same name. In any span W all processes together
// grant at most rate × (W + 1/2 s) and what a quarter of a second brings, or one; so do bytes, and
// what has come beyond them is owed. Of requests that are out each process has a share
// ([AdaptiveRateLimiter.ShareSlots]). What is learned of an address is each process's own.
//
// # The life of a state
//
// It is made by the first call for its domain, at Config.InitialRPS. It is evicted
// when it has been idle for DomainStateTTL ([AdaptiveRateLimiter.Run]) or when there
// are more than MaxDomains and it is the longest unused, but never while a permit is
// out or somebody waits. What it owes stays behind in a tombstone of 64 bytes at most,
// from which it is made again: eviction is no way round an obligation. A crawl leaves
// what it knows to the next one in the same form: [AdaptiveRateLimiter.Remember] tells
// it and [AdaptiveRateLimiter.Recall] makes tombstones of it. What was learned is
// believed for a day, an obligation until it ends.
//
// # Why a rate is what it is
//
// A [DomainSnapshot] says it in a sentence, and has the last [Event] values of the
// domain: what the host refused or ordered, what the strategy made of that, how the
// breaker moved. Config.OnEvent is called with each of them as it happens, and with those
// of groups: which domains are paced as one from now on, and why.
//
// What the user has laid down may change meanwhile: see [AdaptiveRateLimiter.SetRules].
//
// # What always holds
//
//   - Grants of a domain in any span are at most its capacity and the sum of its
//     rate over the span. Tokens are integers, so nothing is lost or won by rounding.
//   - Two grants of a domain are never closer than its spacing, and none falls into
//     a Retry-After, in whatever order the feedback came.
//   - Who waits is served in the order of arrival. A waiter who gives up gives his
//     place up with it, and nothing else has to be given back.
//   - No domain is granted more than a cap of its allows, whatever was learned of it
//     and however often its state was evicted meanwhile.
//   - The rate is cut once per congestion: what had been sent before a cut neither
//     cuts again nor raises.
//   - A breaker judges only what was sent since its last change of state, counts
//     only overload, and never an order to wait or a caller who gave up.
//   - A ready Acquire, a Release and a Feedback allocate nothing, unless there is an
//     event to keep, and no hook is called and no clock waited for with a lock held.
//
// # What it does not do
//
// It sends nothing, reads no header ([header] does) and retries nothing; it has no
// goroutine but the one in which its owner calls Run, and those of that; and it keeps nothing on disk
// ([memory] does).
//
// [classic]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit/classic
// [control]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit/control
// [memory]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit/memory
// [header]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit/header
package ratelimit

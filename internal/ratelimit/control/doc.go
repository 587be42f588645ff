// Package control decides how many requests per second a host gets, and when it gets the next request after a refusal
// or an outage.
//
// A [Strategy] judges one host. A [Maker] makes it; [Find] returns what is known of a strategy by its name. A [Plan] is
// what a strategy wants from now on, an [Observation] the outcome of one request. An [Event] is a change of plan with
// its [Cause], written for people. A [Memory] is what is kept of a host after its strategy is dropped.
//
// # Invariants
//
//   - A call depends only on its arguments and on the earlier calls: it reads no clock, uses no randomness and never
//     waits.
//   - Plan, Sent and Observe allocate nothing per request. They allocate only when a host needs more state than
//     before, such as at its first event or its first quota header.
//   - While a host is paused (an open or half-open circuit, a refusal), only one request is sent: the trial. The owner
//     too sends nothing before the end of a Retry-After, whatever the plan says.
//   - An outcome that says nothing of the host, such as a request that its caller canceled, changes no estimate.
//   - The state of a strategy is bounded and small: there are many hosts, and most get few requests.
//
// A strategy is not safe for concurrent use; its owner calls it under the host's lock.
//
// # Where each idea is
//
//	control.go   the contract: Strategy, Plan, Observation, Memory; the table of strategies
//	event.go     causes, and events as sentences
//	guard.go     the classic circuit breaker, put around each law
//	aimd.go      the law: additive increase, multiplicative decrease
//	gradient.go  the law: the rate follows the latency
//	fixed.go     the law: the rate of the user
//
// The default strategy, steer, searches for the limit of a host and stays below it; see package steer.
//
// # What it does not do
//
// It grants no request, keeps no token bucket and sees one host at a time. The user's rates, Crawl-delay, waiting, and
// limits that hosts share are the task of the owner, package ratelimit.
package control

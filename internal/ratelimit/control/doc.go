// Package control decides how fast a host may be asked, and when it may be asked again
// after a refusal or an outage.
//
// A [Strategy] is the judgement on one host, of which [Find] knows a [Maker] by name. A
// [Plan] is what it wants from now on, and an [Observation] what became of one request.
// An [Event] is a change of plan with its [Cause], for people. A [Memory] is what is kept
// of a host that is forgotten otherwise.
//
// # What always holds
//
//   - A call depends on its arguments and the earlier ones alone: no clock is read, no
//     randomness is used and nothing waits. Plan, Sent and Observe allocate nothing
//     but what is needed from a host's first event on, or its first word of a quota.
//   - While a host is held one request at most goes out: the trial. That nothing goes out
//     while an order to wait runs is seen to by the owner too, whatever a plan says.
//   - What says nothing of the host, such as a caller who gave up, teaches nothing.
//   - A strategy is bounded in size: hosts are many, and most are seen but briefly.
//
// A strategy is not safe for concurrent use; its owner calls it under the host's lock.
//
// # Where each idea is
//
//	control.go   the contract: Strategy, Plan, Observation, Memory; the table of strategies
//	event.go     causes, and events in words
//	guard.go     the classic circuit breaker, around the laws: one in each of the other files
//
// The default, steer, searches for the limit of a host and stays below it: package steer.
//
// # What it does not do
//
// It grants nothing, keeps no bucket and sees one host at a time: rates of the user,
// Crawl-delay, waiting and what hosts share are the owner's, package ratelimit.
package control

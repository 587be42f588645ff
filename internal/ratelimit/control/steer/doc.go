// Package steer is the strategy of that name: it finds the rate that a host bears and stays just below
// it, with as few refusals as that takes.
//
// # One belief
//
// Of the host's ceiling an interval is kept: lo is the highest rate that is proven, hi the lowest that was
// refused of late, infinite before the first refusal. A refusal lowers hi, and lo where it comes at a rate
// that was believed proven; a rate that goes well for long enough raises lo; time moves hi up again, since
// limits change. Where much less evidence contradicts much more, the old belief is kept for a while, and
// comes back if nothing else speaks against it.
//
// # One rule
//
// The next rate is the one that promises the most pages in ten minutes: what it gains, by the chance that
// the ceiling is above it, less the pause that a refusal costs, by the chance that it is below. So steps are
// bold while little is known, small near the ceiling, rare where a refusal costs a minute, and there are
// none while the budget of refusals is empty, which answers and time fill.
//
// # Estimators
//
// Each knows one cause of a limit and none of the others, nor the controller. They are fed a [Sample] of
// each answer, and say what they make of it by an [Estimate] or a finding. The controller applies that:
//
//	refill.go       between two refusals a bucket admits what it sustains: the mean of that cycle
//	window.go       a host that refuses for longer than a bucket needs for a token counts over a window:
//	                what two such refusals have in common is its length and what it admits
//	hint.go         quotas that headers tell, spread over the time until they are whole
//	block.go        a run of 403: the rate stays under what was blocked
//	connections.go  a bound on the requests in flight
//	queueing.go     answers that wait at the host: its capacity
//	health.go       failures that do not depend on the rate: it tries a slower one, and looks
//
// The plan is the slowest rate, the latest time and the fewest requests in flight of them. What only bounds
// the plan for now (hints, queues, connections) leaves the belief alone.
//
// # A pause
//
// After a refusal, or failures beyond the usual, nothing goes out for a while: as long as the host ordered if
// it did, else ever longer up to a quarter of the pause so far, and then one trial. When that is answered the
// pause is judged, once and in one place (resume). The first long pause out of the blue teaches nothing, since
// it may be an outage, unless a host that says that it refuses does so for minutes, or at a rate well above what is
// proven, which such a pause leaves as it was; failures that no limiter answers with teach nothing unless they come again
// at once.
//
// # Where the rest is
//
//	steer.go     the calls of the contract; the ways up: search, decide, prove
//	belief.go    the interval, the rule, drift, doubt and budget
//	pause.go     refusals, trials, the end of a pause
//	mode.go      the machine: one table, mode and event to mode
//	history.go   what was admitted when, over 25 minutes, in 96 bytes or 192
//	tally.go     what a second of the host's own clock admitted
//	usage.go     whether the rate is used, and what a late timer makes up
//	tuning.go    the constants, and which estimators take part
//	estimate.go  Sample and Estimate
//	explain.go   the plan's reason in words
//
// What was measured, what was tried and what is out of reach stands in docs/explanation/controller.md.
package steer

// Package steer is the strategy of that name: it finds the rate that a host tolerates and stays just below it, with few
// refusals.
//
// # One belief
//
// The controller keeps an interval for the host's ceiling, in requests per second: lo is the highest rate that is
// proven, hi the lowest rate that was refused of late (infinite before the first refusal). A refusal lowers hi, and
// lowers lo if lo had been thought to hold at that rate. A faster rate that goes well for long enough raises lo. Time
// raises hi again, since limits change. When little evidence contradicts much, lo stays, but counts for less.
//
// # One rule
//
// The next rate is the one that promises the most pages in ten minutes: the gain times the chance that the ceiling is
// above the rate, minus the pause after a refusal times the chance that it is below. So steps are long while little is
// known, short near the ceiling and rare where a refusal costs a minute. No faster rate is tried while the budget of
// refusals, which responses and time refill, is empty, or while few URLs wait.
//
// # Estimators
//
// An estimator knows one cause of a limit, and neither the others nor the controller. It observes a [Sample] of each
// response and answers with an [Estimate] or a finding, which the controller applies:
//
//	refill.go       a bucket admits, between two refusals, what it sustains: the mean of that cycle
//	window.go       a host that refuses for longer than a bucket needs for a token counts over a window:
//	                each such pause, a spell, bounds its rate, and the bounds of two are intersected
//	hint.go         a quota in the headers is a tank: it is used as fast as its told level shows that it fills
//	block.go        a run of 403 is a block: the rate stays under what was blocked
//	connections.go  a host may bound the requests in flight
//	queueing.go     responses that wait in a queue at the host show its capacity
//	health.go       failures may not depend on the rate: it tries a slower one and compares
//
// The plan is the slowest rate, the latest time and the fewest requests in flight of these. Estimators that bound the
// plan only for now (hint, queueing, connections) leave the belief alone.
//
// # A pause
//
// A refusal, or more failures than usual, begins a pause: nothing is sent for as long as the host orders, else for
// ever longer waits of up to a quarter of the pause so far; then comes one trial. Its success ends the pause, which is
// judged once, in Steer.resume. The first long pause that nothing explains teaches nothing, since it may be an outage,
// unless the host says that it refuses and the pause lasts over two minutes, or a 429 was to be expected: see
// Steer.expected. Failures that no limiter answers with teach nothing unless they come again soon.
//
// # Where the rest is
//
//	steer.go     the calls of the contract, and the ways up: search, decide, prove
//	belief.go    the interval, the rule, drift and budget
//	pause.go     refusals, trials, the end of a pause
//	mode.go      the state machine: one table, from mode and event to mode
//	history.go   how much was admitted when, as a curve of sixteen points
//	tally.go     how much the host admitted in a second of its own clock
//	usage.go     whether requests use the rate, and how late grants are made up for
//	tuning.go    the constants, and which estimators take part
//	estimate.go  Sample and Estimate
//	explain.go   the plan's reason in words
//
// docs/explanation/controller.md says what was measured, what was tried and what is out of reach.
package steer

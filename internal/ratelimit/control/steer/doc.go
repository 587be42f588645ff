// Package steer is the strategy of that name: it finds the rate that a host bears and stays just below
// it, with as few refusals as that takes.
//
// # One belief
//
// Of the host's ceiling an interval is kept, on a logarithmic scale: lo is the highest rate that is proven,
// hi the lowest that was refused of late. Before the first refusal hi is infinite. A refusal lowers hi, and
// lo where it comes at a rate that was believed proven; a rate that goes well for long enough raises lo;
// time moves hi up again, since limits change, the slower the oftener a refusal was no news.
//
// # One rule
//
// The next rate is the one that promises the most pages in ten minutes: what it gains, by the chance that
// the ceiling is above it, less the pause that a refusal costs, by the chance that it is below. So steps are
// bold while little is known, small near the ceiling, rare where a refusal costs a minute, and there are
// none while the budget of refusals is empty, which answers and time fill.
//
// # What a pause teaches
//
// After a refusal nothing goes out for a while, as long as the host ordered if it did, and then one trial
// does. When that is answered the pause is judged, once and in one place (resume):
//
//   - Between two refusals a bucket admits what it sustains, so the mean of that cycle is at most the
//     ceiling, and it is the ceiling where the bucket was never full (refill.go).
//   - A host that refuses for longer than a bucket needs for its next token counts over a window; what two
//     such refusals have in common is its length and what it admits (window.go).
//   - The first long refusal that nobody explains teaches nothing: it may be an outage. Failures that no
//     limiter answers with never do, unless they come again at once.
//   - A 5xx in an otherwise good time is tried out: at a lower rate, and at half of that. Who fails there as
//     often fails at any rate (health.go).
//   - A run of 403 is a block: the rate stays under what was blocked (block.go).
//
// # Estimators
//
// Each knows one cause of a limit and none of the others. They see the same [Sample] of each answer and say
// an [Estimate]; the plan is the slowest rate, the latest time and the fewest requests in flight of them:
//
//	window.go       quotas over a span of time, told by none
//	hint.go         quotas that headers tell
//	queueing.go     answers that wait at the host
//	connections.go  a bound on the requests in flight
//
// # Where the rest is
//
//	steer.go    the calls of the contract; the ways up: search, decide, probe
//	belief.go   the interval, the rule, drift and budget
//	mode.go     the machine: one table, mode and event to mode
//	pause.go    refusals, trials, the end of a pause
//	history.go  what was admitted when, over 25 minutes, in 96 bytes or 192
//	tally.go    what a second of the host's own clock admitted
//	usage.go    whether the rate is used, and what a late timer makes up
//	tuning.go   constants that several parts share
//	explain.go  the plan's reason in words
//
// What was measured, what was tried and what is out of reach stands in docs/explanation/controller.md.
package steer

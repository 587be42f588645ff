// Package control decides how fast a host may be asked, and when it may be asked again
// after a refusal or an outage.
//
// # Nouns
//
// A [Strategy] is the judgement on one host, of which [Find] knows a [Maker] by name. A
// [Plan] is what it wants from now on, and an [Observation] what became of one request.
// An [Event] is a change of plan with its [Cause], for people. A [Memory] is what is kept
// of a host that is forgotten otherwise.
//
// Of the strategy steer:
//
//	ceiling  the rate that the host is believed to sustain
//	cruise   the rate 3 % below it, where a crawl spends its time
//	cycle    from one refused request to the next, and what was admitted in between
//	window   the span over which a quota counts
//	hold     a pause: nothing goes out, then one trial does
//	trial    the one request that ends a hold, or makes it longer
//	budget   the refusals that may be risked: answers and time fill it, refusals empty it
//	peace    a time without any upward move, the price of a pause
//
// # Three sentences carry it
//
// A bucket: between two refusals a limiter has admitted just what it sustains, since it
// was empty at both; so what a cycle admitted, over its length, is the ceiling, whatever
// the burst and however the rate went up and down.
//
// A quota: a host that refuses for longer than a bucket needs for its next token, or
// says that it will, counts over a window; its ceiling is what one window admitted.
//
// A price: what is learned from above costs refusals, and a pause costs more; so each
// refusal is paid from the budget, and a pause buys thirty times what it lost in peace.
//
// # The life of a host under steer
//
// Each line is a mode, what is done in it, and what ends it.
//
//   - searching: nothing is known, and the rate grows by 65 % per step (a second, or two
//     round trips), only while it is used. A refusal, failures or a run of 403 → held.
//     Answers begin to queue → draining. The most that the owner allows is reached →
//     cruising there, which is no knowledge of the host: the search goes on once it is more.
//   - held: nothing goes out for as long as the host ordered, and for a least pause. Then
//     a trial does. It fails → held for longer: up to Config.Breaker.OpenFor, of a host that
//     is down up to a third of what it took so far; up to a quarter of it if the host refuses
//     in words; up to an hour if it is a block. It succeeds → the pause is judged (ceiling.go),
//     and on to cruising, or to ramping if it took two seconds or more and was not one of some
//     seconds that the host ordered and kept to, nor of a block whose count is known; after an
//     outage, which teaches nothing of the ceiling, a search goes on at half its rate. It is
//     lost → another after the least pause.
//   - ramping: from half of cruise or less, doubling with each step → cruising. A host
//     that is remembered begins here, at a quarter, and its ceiling is then climbed.
//   - cruising: under the ceiling, creeping upward, the faster the longer nothing was
//     refused. A ceiling that is a rough guess is climbed instead, a second and slower
//     search. A refusal → held. A probe is due → probing. Answers queue in two windows
//     in a row → draining.
//   - probing: 3 % more, doubled with each step, until more was admitted than a burst
//     allowance hides and the rate has doubled → cruising, with the new ceiling. A
//     refusal → held; the next probe then comes the later, if this one found nothing.
//     Where a refusal has meant a pause there is creep alone, unless the ceiling fell far
//     below what it was of late.
//   - draining: at 70 % of what the host got done, until its answers are as quick as
//     usual → cruising. If half the rate makes them no quicker, they are not slow on
//     our account: the slower is the usual from then on, and what was believed before
//     is believed again.
//
// Two things go on beside the modes. After failures that no word of the host explains,
// the rate is lowered as an experiment: what fails as often at 70 % is a broken page and
// no limit (noise.go). And where the host tells its quota, that sets the pace, if it is
// the slower: what is left until the reset or, with a window that is told too, the average of
// the limit as long as what is left lasts at it (quota.go).
//
// # What always holds
//
//   - A call depends on its arguments and the earlier ones alone: no clock is read, no
//     randomness is used and nothing waits. Plan, Sent and Observe allocate nothing
//     but what is needed from a host's first event on, or its first word of a quota (trouble.go).
//   - In a hold one request at most goes out: the trial. That nothing goes out while an
//     order to wait runs is seen to by the owner too, whatever a plan says.
//   - What was sent before a hold began is a part of it: it neither lowers the rate again
//     nor raises it.
//   - No upward move begins without a refusal's worth of budget, in peace or during an
//     experiment, and none goes on while the rate there is goes unused: a rate that
//     nobody uses proves nothing.
//   - A pause is judged once and in one place, and a ceiling that is guessed is marked as
//     such until a cycle measured it.
//   - What says nothing of the host, such as a caller who gave up, teaches nothing.
//   - A strategy is bounded in size: hosts are many, and most are seen but briefly.
//
// A strategy is not safe for concurrent use; its owner calls it under the host's lock.
//
// # Where each idea is
//
//	control.go   the contract: Strategy, Plan, Observation, Memory, the names
//	event.go     causes, and events in words
//	steer.go     steer: the modes, and what an answer does to each part
//	ceiling.go   what a pause teaches: bucket, quota, block, guess
//	window.go    the length and the content of a quota's window
//	bucket.go    a bucket behind orders, or one that was full: two refusals are two equations
//	search.go    the ways up: search, climb, creep, probe; budget and peace
//	hold.go      the pause, the trial and the way back; a 403 that means "later"
//	noise.go     broken pages told from overload
//	queue.go     the latency guard: a queue is met before anything is refused
//	quota.go     the host's own word
//	tally.go     what a second of the host's own clock admitted
//	flight.go    requests in flight: Little's law, hosts that bound connections, and
//	             what a sender makes up for whose machine was late
//	history.go   what was admitted when, over 25 minutes, in 96 bytes or 192
//	trouble.go   what only hosts need that have had an event
//	explain.go   the plan's reason in words
//	guard.go     the classic circuit breaker, around the laws that follow
//	aimd.go      a step up per prompt answer, down by a factor at overload
//	gradient.go  up while answers are prompt, down as they slow: for one's own servers
//	fixed.go     the rate that the user gave
//
// What each part buys, what was tried and what is out of reach is told in
// docs/explanation/controller.md, with the sources of the ideas.
//
// # What it does not do
//
// It grants nothing, keeps no bucket and sees one host at a time: rates of the user,
// Crawl-delay, waiting and what hosts share are the owner's, package ratelimit. It takes
// a block page with status 200 for a page, and one host's limits for one: a limit per
// path is found as if it were the host's. After a costly pause a limit that has been
// raised is noticed late, at the end of the peace. What a limit is cannot be found
// without a refusal, unless the host says it.
package control

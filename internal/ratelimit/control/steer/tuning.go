package steer

// Tuning are the constants that were chosen by what they do. What is given by a protocol, or is the size of
// an array, stands beside its code. docs/explanation/controller.md tells what half and twice of each do.
type Tuning struct {
	Growth  float64 // of the search, in logarithms per second: 1/s to 1000/s in 14 s, and not far beyond a limit
	Margin  float64 // share of what is proven that is left unused: jitter
	Near    float64 // share by which two rates may differ that are one: what a count of some dozens can tell
	Horizon float64 // seconds over which a faster rate has to pay for its risk: a third of ten minutes, since a page that is refused is worth three
	Fixed   float64 // seconds that any refusal costs, however short its pause
	Used    float64 // share of a rate that must have been sent for it to be proven
	Climb   float64 // longest step up, as a factor: a refusal soon above says more than one far above
	Fall    float64 // share of a refused rate that lo falls to at most at once

	Drift        float64 // logarithm by which the lowest refused rate moves up
	DriftTime    float64 // in so many seconds at the least,
	DriftCosts   float64 // in so many pauses of a refusal,
	DriftAnswers float64 // and in so many answers: limits change, but rarely
	Confirm      float64 // factor of that after each refusal that was no news
	WellHalf     float64 // seconds in which half of a rate that once went well is forgotten

	CreditStart     float64 // refusals that may be risked at first,
	CreditMax       float64 // and at most
	CreditPerAnswer float64 // refusals that an answer earns: a quarter of a percent
	CreditPerSecond float64 // and that time earns, for hosts that answer rarely
	Trial           float64 // refusals that a failed trial costs: it was waited for

	Burst     float64 // requests that a limiter may have saved: the bursts of servers' examples are 5 to 50
	Cycle     float64 // answers between two refusals that make a mean
	TooMany   float64 // times what a window admits is more than one that slides by halves does
	BlockWait float64 // seconds before the first trial of a block: such hosts block for ten by default

	Slower     float64 // share of a rate at which it failed that an experiment tries
	Event      float64 // evidence, as a logarithm of odds, that makes failures an event,
	NoisyEvent float64 // of a host that is known to fail at random,
	ProbeEvent float64 // and in a probe, where a limit is likely
	Noise      float64 // evidence that a slower rate fails too,
	Limit      float64 // and that it does not

	LatencyRatio float64 // times as slow as usual is slow,
	LatencyZ     float64 // if by so many standard errors
	LatencyFloor float64 // and so many seconds: a near host's answers vary by the scheduler's doing
	Draining     float64 // share of what a host gets done that it is asked for while its queue empties
	ToldMargin   float64 // share of the pace of a told window that slides that is left unused

	Without Part // what is left out, for experiments
}

// DefaultTuning is what hosts get.
var DefaultTuning = Tuning{
	Growth: .5, Margin: .015, Near: .03, Horizon: 200, Fixed: .5, Used: .85, Climb: 1.5, Fall: .6,
	Drift: .06, DriftTime: 60, DriftCosts: 60, DriftAnswers: 800, Confirm: .7, WellHalf: 1200,
	CreditStart: 5, CreditMax: 8, CreditPerAnswer: 1. / 400, CreditPerSecond: 1. / 900, Trial: .1,
	Burst: 25, Cycle: 10, TooMany: 1.3, BlockWait: 10.05,
	Slower: .7, Event: 8, NoisyEvent: 11, ProbeEvent: 3, Noise: 4, Limit: 2.5,
	LatencyRatio: 2, LatencyZ: 4, LatencyFloor: .05, Draining: .75, ToldMargin: .02,
}

// Part is a set of estimators.
type Part uint8

// The estimators, by the cause that each knows.
const (
	Refill      Part = 1 << iota // what a bucket admits between two refusals
	Windows                      // quotas over a span of time, told by none
	Quotas                       // told by headers
	Queues                       // answers that wait at the host
	Connections                  // a bound on the requests in flight
	Blocks                       // runs of 403
	Health                       // failures that do not depend on the rate
	Use                          // of the rate, by the sender itself
)

// has reports whether an estimator takes part.
func (t *Tuning) has(p Part) bool { return t.Without&p == 0 }

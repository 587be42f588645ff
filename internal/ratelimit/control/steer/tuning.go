package steer

// Tuning holds the constants that were chosen by what they do. A constant that a protocol gives, or that is the size of
// an array, stands beside its code. A table in docs/explanation/controller.md gives the effect of half and twice each
// value, and where the value is from. Rates are in requests per second, logarithms are natural, and a share is between
// 0 and 1.
type Tuning struct {
	// Growth is the logarithm by which a search raises the rate per second: .5 leads from 1/s to 1000/s in 14 s, and
	// not far beyond a limit before its refusal is known.
	Growth float64
	// Margin is the share of what is proven that is left unused, so that jitter does not exceed the limit.
	Margin float64
	// Near is the share by which two rates may differ and still count as one: what a count of a thousand can tell.
	Near float64
	// Horizon is the seconds over which a faster rate has to pay for its risk: a third of ten minutes, since a refused
	// page counts as much as three pages gained.
	Horizon float64
	// Used is the share of a rate that must have been admitted for the rate to be proven; found with the prototype.
	Used float64
	// Climb is the longest step up, as a factor: a refusal soon above what is proven tells more than one far above.
	Climb float64
	// Fall is the share of a refused rate below which one refusal never lowers lo; found in the simulator.
	Fall float64

	// Drift is the logarithm by which hi rises in 60 pauses (see driftPauses) or in DriftAnswers requests, whichever
	// takes longer: limits change, but rarely.
	Drift float64
	// DriftAnswers is in requests at the present rate: with half as many, more requests are refused.
	DriftAnswers float64
	// Confirm is the factor by which each refusal that told nothing new slows the drift: such a limit seems to be fixed.
	Confirm float64
	// WellHalf is the seconds in which half of the best rate of the past is forgotten, as in the controller before.
	WellHalf float64

	// CreditStart is how many refusals may be risked at first. More uses more of a new host's limit, and is refused more.
	CreditStart float64
	// CreditMax is how many refusals may be risked at most, however long nothing was refused; found with the prototype.
	CreditMax float64
	// CreditPerAnswer is the refusals that each response earns: about a quarter of a percent may be refused.
	CreditPerAnswer float64
	// CreditPerSecond is the refusals that each second earns: four an hour, for hosts that respond rarely.
	CreditPerSecond float64
	// Trial is the refusals that a failed trial costs: little, since it was waited for.
	Trial float64

	// Burst is the requests that a limiter may have saved up: the examples in servers' documentation allow 5 to 50.
	Burst float64
	// Cycle is how many responses between two refusals make a mean: ten have a standard error of a third. Where fewer
	// URLs wait no faster rate is tried.
	Cycle float64
	// TooMany is the multiple of what a window should admit, or of its rate, from which it is refuted: a counter that
	// slides by halves of its window admits less than that.
	TooMany float64

	// Slower is the share of the rate that failed at which an experiment on failures begins.
	Slower float64
	// Event is the evidence that makes failures an event, as the logarithm of the odds that the host refuses: 3,000 to 1.
	Event float64
	// ProbeEvent is Event in a probe, where a limit is likely: 20 to 1.
	ProbeEvent float64
	// Limit is the evidence, as a logarithm of odds, that a slower rate does not fail: 12 to 1. An error of 8 % is cheap,
	// since it costs one more experiment.
	Limit float64

	// Draining is the share of the rate that is used while a host's queue empties: of 1.2 times the capacity, it leaves a
	// tenth of the host free. Less empties the queue sooner, and leaves more unused.
	Draining float64

	// Without are the estimators that are left out, for experiments; zero means none.
	Without Part
}

// DefaultTuning holds the constants that every host gets.
var DefaultTuning = Tuning{
	Growth: .5, Margin: .015, Near: .03, Horizon: 200, Used: .85, Climb: 1.5, Fall: .6,
	Drift: .06, DriftAnswers: 800, Confirm: .7, WellHalf: 1200,
	CreditStart: 5, CreditMax: 8, CreditPerAnswer: 1. / 400, CreditPerSecond: 1. / 900, Trial: .1,
	Burst: 25, Cycle: 10, TooMany: 1.3,
	Slower: .7, Event: 8, ProbeEvent: 3, Limit: 2.5, Draining: .75,
}

// Part is a set of estimators, by bits. The zero Part is the empty set.
type Part uint8

// The estimators, each named by the cause that it knows.
const (
	Refill      Part = 1 << iota // refill: what a bucket admits between two refusals
	Windows                      // window: quotas over a span of time that no header tells
	Quotas                       // hint: quotas that headers tell
	Queues                       // queueing: responses that wait in a queue at the host
	Connections                  // connections: a bound on the requests in flight
	Blocks                       // block: runs of 403
	Health                       // health: failures that do not depend on the rate
	Use                          // usage: whether the sender uses the rate
)

// has reports whether an estimator takes part.
func (t *Tuning) has(p Part) bool { return t.Without&p == 0 }

package steer

// Tuning is what several parts share of the constants; each estimator has its own beside it.
type Tuning struct {
	Growth   float64 // of the search, in logarithms per second: 1/s to 1000/s in 14 s, and not far beyond a limit
	Margin   float64 // share of what is proven that is left unused: jitter
	Near     float64 // share by which two rates may differ that are one: what a count of some dozens can tell
	Horizon  float64 // seconds over which a faster rate has to pay for its risk
	Fixed    float64 // seconds that any refusal costs, however short its pause
	Aversion float64 // how many pages a page is worth that a refusal costs
	Used     float64 // share of a rate that must have been sent for it to be proven

	Drift        float64 // logarithm by which the lowest refused rate moves up
	DriftTime    float64 // in so many seconds at the least,
	DriftCosts   float64 // in so many pauses of a refusal,
	DriftAnswers float64 // and in so many answers: limits change, but seldom
	Confirm      float64 // factor of that after each refusal that was no news
	WellHalf     float64 // seconds in which half of a rate that once went well is forgotten

	CreditStart     float64 // refusals that may be risked at first,
	CreditMax       float64 // and at most
	CreditPerAnswer float64 // refusals that an answer earns: a quarter of a percent
	CreditPerSecond float64 // and that time earns, for hosts that answer seldom
	Trial           float64 // refusals that a failed trial costs: it was waited for
	Fall            float64 // share of a refused rate that lo falls to at most at once

	Climb      float64 // longest step up, as a factor
	Slower     float64 // of a rate at which it failed, what an experiment tries
	Event      float64 // evidence, as a logarithm of odds, that makes failures an event,
	NoisyEvent float64 // of a host that is known to fail at random,
	ProbeEvent float64 // and in a probe, where a limit is likely
	Noise      float64 // evidence that a slower rate fails too,
	Limit      float64 // and that it does not

	Without Part // what is left out, for experiments
}

// Part is a set of estimators.
type Part uint8

// The estimators, by the cause that each knows.
const (
	Windows     Part = 1 << iota // quotas over a span of time, told by none
	Quotas                       // told by headers
	Queues                       // answers that wait at the host
	Connections                  // a bound on the requests in flight
	Blocks                       // runs of 403
	Use                          // of the rate, by the sender itself
)

// Parts are the names of single estimators.
func Parts() map[Part]string {
	return map[Part]string{Windows: "windows", Quotas: "told quotas", Queues: "queues", Connections: "connections", Blocks: "blocks", Use: "use of the rate"}
}

// has reports whether an estimator takes part.
func (t *Tuning) has(p Part) bool { return t.Without&p == 0 }

// DefaultTuning is what hosts get.
var DefaultTuning = Tuning{
	Growth: .5, Margin: .015, Near: .03, Horizon: 600, Fixed: .5, Aversion: 3, Used: .85,
	Drift: .06, DriftTime: 60, DriftCosts: 60, DriftAnswers: 800, Confirm: .7, WellHalf: 1200,
	CreditStart: 5, CreditMax: 8, CreditPerAnswer: 1. / 400, CreditPerSecond: 1. / 900, Trial: .25, Fall: .6,
	Climb: 1.5, Slower: .7, Event: 8, NoisyEvent: 11, ProbeEvent: 3, Noise: 4, Limit: 2.5,
}

package steer

// Tuning is every constant of the controller.
type Tuning struct {
	Growth                           float64 // of the search, per second
	Margin                           float64
	Near                             float64 // two rates that near are one
	Horizon                          float64 // seconds
	Fixed                            float64 // seconds that any refusal costs
	Aversion                         float64 // weight of a refusal's cost
	Used                             float64 // share of a rate that must be used to be proven
	Drift, DriftTime, DriftCosts     float64
	DriftAnswers                     float64
	WellHalf                         float64 // seconds
	Confirm                          float64 // factor of the drift after a refusal that was no news
	CreditStart, CreditMax           float64
	CreditPerAnswer, CreditPerSecond float64
	Fall                             float64
	Trial                            float64
}

// DefaultTuning is what hosts get.
var DefaultTuning = Tuning{
	Growth: .5, Margin: .015, Near: .03, Horizon: 600, Fixed: .5, Aversion: 3, Used: .85,
	Drift: .06, DriftTime: 60, DriftCosts: 60, DriftAnswers: 800, WellHalf: 1200,
	CreditStart: 5, CreditMax: 8, CreditPerAnswer: 1. / 400, CreditPerSecond: 1. / 900,
	Confirm: .7, Fall: .6, Trial: .25,
}

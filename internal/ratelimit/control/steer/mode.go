package steer

// Mode is what the controller does at present.
type Mode uint8

// The modes.
const (
	Search  Mode = iota // growing exponentially: nothing was refused yet
	Cruise              // just below what is proven
	Probe               // a faster rate is tried
	Recover             // back to cruise, step by step
	Wait                // nothing goes out; then one trial
)

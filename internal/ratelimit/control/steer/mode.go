package steer

import "github.com/treadlight/crawl/internal/clock"

// Mode is what the controller does at present.
type Mode uint8

// The modes.
const (
	Search  Mode = iota // growing exponentially: nothing was refused yet
	Cruise              // just below what is proven
	Probe               // a faster rate is tried
	Recover             // back to cruise, step by step
	Wait                // nothing goes out; then one trial
	modes
)

// Event is what may change the mode.
type Event uint8

// The events.
const (
	Refused   Event = iota // a refusal or an outage
	Bounded                // all that the owner allows goes well
	Raised                 // the owner allows more than what ended the search
	Promising              // a faster rate is worth its risk
	Settled                // a pause was judged, a probe is over, the rate is back
	Returning              // what is believed of the host lies above what it is asked
	Restarted              // nothing is believed of it after all
	events
)

// next is the mode after each event. It stays as it is where that is what stands there.
var next = [modes][events]Mode{
	//        Refused Bounded Raised  Promising Settled Returning Restarted
	Search:  {Wait, Cruise, Search, Search, Cruise, Recover, Search},
	Cruise:  {Wait, Cruise, Search, Probe, Cruise, Recover, Search},
	Probe:   {Wait, Probe, Probe, Probe, Cruise, Recover, Search},
	Recover: {Wait, Recover, Recover, Recover, Cruise, Recover, Search},
	Wait:    {Wait, Wait, Wait, Wait, Cruise, Recover, Search},
}

// on is the one place where the mode changes.
func (s *Steer) on(now clock.Instant, e Event) {
	s.mode, s.stepAt = next[s.mode][e], now
}

package steer

import "github.com/treadlight/crawl/internal/clock"

// Mode is what the controller does at present. The zero Mode is Search.
type Mode uint8

// The modes.
const (
	Search  Mode = iota // the rate grows exponentially: nothing was refused yet
	Cruise              // the rate is just below what is proven
	Probe               // a faster rate is tried
	Recover             // the rate doubles step by step until it is that of Cruise
	Wait                // a pause: nothing is sent, and then one trial
	modes               // number of modes
)

// Event is what may change the mode. It is not the [control.Event] that people read.
type Event uint8

// The events.
const (
	Refused   Event = iota // a refusal, a block or too many failures: a pause begins
	Bounded                // the search reached the highest rate that the owner allows
	Raised                 // the owner allows more than the rate at which the search ended
	Promising              // a faster rate is worth its risk: a probe begins
	Settled                // a pause was judged, a probe ended, or the rate is back at that of Cruise
	Returning              // the belief allows a faster rate than is sent at: go back to it in steps
	Restarted              // a pause taught nothing and no limit is known: search again
	events                 // number of events
)

// next is the mode after each event, by the mode before. Where a row holds its own mode the event changes nothing.
var next = [modes][events]Mode{
	//        Refused Bounded Raised  Promising Settled Returning Restarted
	Search:  {Wait, Cruise, Search, Search, Cruise, Recover, Search},
	Cruise:  {Wait, Cruise, Search, Probe, Cruise, Recover, Search},
	Probe:   {Wait, Probe, Probe, Probe, Cruise, Recover, Search},
	Recover: {Wait, Recover, Recover, Recover, Cruise, Recover, Search},
	Wait:    {Wait, Wait, Wait, Wait, Cruise, Recover, Search},
}

// on changes the mode by an event; nothing else does. It restarts the clock of growth, drift and ramp.
func (s *Steer) on(now clock.Instant, e Event) {
	s.mode, s.stepAt = next[s.mode][e], now
}

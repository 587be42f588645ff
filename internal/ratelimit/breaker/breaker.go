// Package breaker is the circuit breaker of hosts: closed, open, half-open.
//
// A closed breaker lets calls pass and records their results. Too many failures open it; while it is open it refuses
// all calls. After a while it is half-open and lets a few probes pass, one at a time: enough successes close it, and
// the first failure opens it again. Only results of calls that began since the last change of state count.
//
// [Breaker.Allow] returns a [Ticket]. [Breaker.Record] ends it with a result, [Breaker.Drop] without one. A probe whose
// ticket is not ended counts as lost after [Config.ProbeTimeout].
//
// A Breaker takes no lock and reads no clock: its owner serializes the calls, passes the instants, and measures the
// error rate over a window of its own.
package breaker

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/enum"
)

// State is the state of a breaker. The zero State is [Closed].
type State uint8

// The states.
const (
	Closed   State = iota // calls pass
	Open                  // calls are refused
	HalfOpen              // probes pass
)

var names = []string{"closed", "open", "half_open"}

func (s State) String() string { return enum.Name(names, "state", s) }

// MarshalText returns the name, which JSON then shows.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the state with that name.
func (s *State) UnmarshalText(text []byte) error { return enum.Parse(names, "breaker state", text, s) }

// Config says when a breaker changes its state. Breakers share it by pointer; after [Config.Validate] it must not
// change.
type Config struct {
	ErrorRate    float64       // share of failures that opens it, in (0, 1]; zero means 0.5
	MinSamples   int           // number of results from which the rate counts; zero means 10
	Consecutive  int           // number of failures in a row that opens it; zero means 5
	OpenFor      time.Duration // time from open to half-open; zero means 15s
	Probes       int           // number of successes that closes it again, up to 65535; zero means 2
	ProbeTimeout time.Duration // time after which a probe counts as lost; zero means OpenFor
}

// Validate replaces zero fields by defaults, and returns an error if a field is out of range.
func (c *Config) Validate() error {
	c.ErrorRate = cmp.Or(c.ErrorRate, 0.5)
	c.MinSamples, c.Consecutive, c.Probes = cmp.Or(c.MinSamples, 10), cmp.Or(c.Consecutive, 5), cmp.Or(c.Probes, 2)
	c.OpenFor = cmp.Or(c.OpenFor, 15*time.Second)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, c.OpenFor)
	switch {
	case !(c.ErrorRate > 0 && c.ErrorRate <= 1):
		return fmt.Errorf("breaker: ErrorRate = %v: want a share in (0, 1]", c.ErrorRate)
	case c.MinSamples < 0:
		return fmt.Errorf("breaker: MinSamples = %d: want 1 or more", c.MinSamples)
	case c.Consecutive < 0:
		return fmt.Errorf("breaker: Consecutive = %d: want 1 or more", c.Consecutive)
	case c.OpenFor < 0:
		return fmt.Errorf("breaker: OpenFor = %v: want a positive duration", c.OpenFor)
	case c.Probes < 0 || c.Probes > math.MaxUint16:
		return fmt.Errorf("breaker: Probes = %d: want 1 to %d", c.Probes, math.MaxUint16)
	case c.ProbeTimeout < 0:
		return fmt.Errorf("breaker: ProbeTimeout = %v: want a positive duration", c.ProbeTimeout)
	}
	return nil
}

const never = clock.Instant(math.MinInt64)

// Ticket stands for one call that was allowed. The zero Ticket stands for no call.
type Ticket struct {
	generation uint32
	probe      uint32 // number of the probe; zero means that the call is none
}

// Number returns the probe's number, for owners that cannot keep a ticket; zero if the call is no probe.
func (t Ticket) Number() uint32 { return t.probe }

// Breaker is the state of one circuit breaker. Its owner serializes all calls.
type Breaker struct {
	cfg         *Config
	since       clock.Instant // when the state last changed
	sent        clock.Instant // when the probe in flight was let through
	generation  uint32        // grows with every change of state, from 1
	probe       uint32        // number of the latest probe
	out         uint32        // number of the probe in flight; zero means none
	consecutive uint32        // failures in a row
	successes   uint16        // successful probes since it is half-open
	state       State
}

// New returns a closed breaker. It keeps cfg, which must have passed Validate.
func New(cfg *Config) Breaker { return Breaker{cfg: cfg, since: never, generation: 1} }

// State returns the state at now: an open breaker whose OpenFor has passed is half-open.
func (b *Breaker) State(now clock.Instant) State {
	if b.state == Open && now >= b.openEnd() {
		return HalfOpen
	}
	return b.state
}

// Consecutive returns the number of failures in a row.
func (b *Breaker) Consecutive() int { return int(b.consecutive) }

// Counts reports whether the result of a ticket still counts: the state has not changed since.
func (b *Breaker) Counts(t Ticket) bool { return t.generation == b.generation }

// Until returns when the last open time ends or ended. ok is false unless the breaker is open, or half-open after that.
func (b *Breaker) Until() (until clock.Instant, ok bool) {
	if b.state == Closed {
		return 0, false
	}
	return b.openEnd(), b.state == Open
}

func (b *Breaker) openEnd() clock.Instant { return b.since.AddClamped(b.cfg.OpenFor) }

// Ready reports whether Allow would allow a call at now. If not, retryAt is when it will, unless a result comes before.
// Ready changes nothing.
func (b *Breaker) Ready(now clock.Instant) (retryAt clock.Instant, ok bool) {
	switch {
	case b.state == Open:
		retryAt = b.openEnd()
	case b.state == HalfOpen && b.out != 0:
		retryAt = b.sent.AddClamped(b.cfg.ProbeTimeout)
	default:
		return now, true
	}
	return retryAt, now >= retryAt
}

// Allow returns a ticket for a call at now. If ok is false, the call is refused, and may be tried again at retryAt.
func (b *Breaker) Allow(now clock.Instant) (t Ticket, retryAt clock.Instant, ok bool) {
	if b.state == Closed {
		return Ticket{generation: b.generation}, now, true
	}
	if retryAt, ok = b.Ready(now); !ok {
		return Ticket{}, retryAt, false
	}
	if b.state == Open {
		b.change(now, HalfOpen)
	}
	b.probe = max(b.probe+1, 1) // 0 stands for no probe, so the number never wraps round to it
	b.out, b.sent = b.probe, now
	return Ticket{b.generation, b.probe}, now, true
}

// TicketAt returns the ticket of a call that began at sent, for owners that did not keep it. If the call began before
// the last change of state, or while no call was allowed, ok is false and the result does not count.
func (b *Breaker) TicketAt(sent clock.Instant) (t Ticket, ok bool) {
	if b.state == Open || sent < b.since {
		return Ticket{}, false
	}
	t.generation = b.generation
	if b.state == HalfOpen && b.out != 0 && sent >= b.sent {
		t.probe = b.out
	}
	return t, true
}

// Record ends a ticket with the result of its call. errorRate is the owner's error rate over samples results, including
// this one. Record reports whether the state changed. Tickets from before the last change are ignored. The result of a
// probe that counted as lost is used, but leaves a newer probe in flight.
func (b *Breaker) Record(now clock.Instant, t Ticket, failed bool, errorRate float64, samples int) (changed bool) {
	if !b.Counts(t) {
		return false
	}
	b.Drop(t)
	if failed {
		b.consecutive += min(1, math.MaxUint32-b.consecutive)
	} else {
		b.consecutive = 0
	}
	next := b.judge(failed, errorRate, samples)
	if next == b.state {
		return false
	}
	b.change(now, next)
	return true
}

// judge returns the state to which a result leads. It counts the successes of probes.
func (b *Breaker) judge(failed bool, errorRate float64, samples int) State {
	switch {
	case b.state == HalfOpen && failed:
		return Open
	case b.state == HalfOpen:
		b.successes++
		if int(b.successes) >= b.cfg.Probes {
			return Closed
		}
	case int(b.consecutive) >= b.cfg.Consecutive,
		samples >= b.cfg.MinSamples && errorRate >= b.cfg.ErrorRate:
		return Open
	}
	return b.state
}

// Drop ends a ticket without a result. If it is that of the probe in flight, the next probe may pass. The ticket may
// already have ended.
func (b *Breaker) Drop(t Ticket) {
	if b.Counts(t) && t.probe == b.out {
		b.out = 0
	}
}

// Lose ends the probe with that number without a result, if it is still in flight.
func (b *Breaker) Lose(probe uint32) { b.Drop(Ticket{b.generation, probe}) }

// Trip opens the breaker at now. To restore a breaker that was open, pass the instant at which it had opened.
func (b *Breaker) Trip(now clock.Instant) { b.change(now, Open) }

// Force changes the state at now, whatever it was.
func (b *Breaker) Force(now clock.Instant, to State) { b.change(now, to) }

func (b *Breaker) change(now clock.Instant, to State) {
	b.state, b.since, b.successes, b.out = to, now, 0, 0
	b.generation++
	if to == Closed {
		b.consecutive = 0
	}
}

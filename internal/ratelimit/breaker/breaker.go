// Package breaker is the circuit breaker of hosts: closed, open, half-open.
//
// A closed breaker lets calls pass and listens to their results. Too many failures open it; while it is open nobody
// calls. After a while it is half-open and lets a few probes out, one at a time: enough successes close it, the first
// failure opens it again. Only the results of calls begun since the last change of state count.
//
// [Breaker.Allow] hands out a [Ticket]. [Breaker.Record] ends it with a verdict, [Breaker.Drop]
// without one. A probe of which nothing comes back counts as lost after [Config.ProbeTimeout].
//
// A Breaker takes no lock and reads no clock: its owner serialises the calls, passes the
// instants, and counts the error rate over a window of his own.
package breaker

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/enum"
)

// State is where a breaker stands. The zero State is [Closed].
type State uint8

// The states.
const (
	Closed   State = iota // calls pass
	Open                  // calls are refused
	HalfOpen              // probes pass
)

var names = []string{"closed", "open", "half_open"}

func (s State) String() string { return enum.Name(names, "state", s) }

// MarshalText writes the name, so that JSON shows it.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name back.
func (s *State) UnmarshalText(text []byte) error { return enum.Parse(names, "breaker state", text, s) }

// Config says when a breaker changes its state. Breakers share it by pointer; after [Config.Validate] it must not
// change.
type Config struct {
	ErrorRate    float64       // share of failures that opens, in (0, 1]; zero means 0.5
	MinSamples   int           // results below which the rate is not looked at; zero means 10
	Consecutive  int           // failures in a row that open; zero means 5
	OpenFor      time.Duration // from open to half-open; zero means 15s
	Probes       int           // successes that close again, up to 65535; zero means 2
	ProbeTimeout time.Duration // after which a probe counts as lost; zero means OpenFor
}

// Validate puts defaults where a field is zero and rejects what is out of range.
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

// Ticket is one allowed call. The zero Ticket belongs to no call.
type Ticket struct {
	generation uint32
	probe      uint32 // which probe it is; zero for none
}

// Probe reports whether the call is a probe of a half-open breaker.
func (t Ticket) Probe() bool { return t.probe != 0 }

// Number is a probe's number, for owners who cannot keep a ticket; zero for no probe.
func (t Ticket) Number() uint32 { return t.probe }

// Breaker is the machine. Its owner serialises all calls.
type Breaker struct {
	cfg         *Config
	since       clock.Instant // of the last change of state
	sent        clock.Instant // when the probe that is out went
	generation  uint32        // grows with every change of state, from 1
	probe       uint32        // number of the latest probe
	out         uint32        // the probe that is out; zero for none
	consecutive uint32        // failures in a row
	successes   uint16        // of probes, since half-open
	state       State
}

// New returns a closed breaker. It keeps cfg, which must have passed Validate.
func New(cfg *Config) Breaker { return Breaker{cfg: cfg, since: never, generation: 1} }

// State is the state at now: an open breaker whose time is over is half-open.
func (b *Breaker) State(now clock.Instant) State {
	if b.state == Open && now >= b.openEnd() {
		return HalfOpen
	}
	return b.state
}

// Consecutive is the number of failures in a row.
func (b *Breaker) Consecutive() int { return int(b.consecutive) }

func (b *Breaker) counts(t Ticket) bool { return t.generation == b.generation }

// Until is the end of the last open time; ok is false unless the breaker is open, or half-open after it.
func (b *Breaker) Until() (until clock.Instant, ok bool) {
	if b.state == Closed {
		return 0, false
	}
	return b.openEnd(), b.state == Open
}

func (b *Breaker) openEnd() clock.Instant { return b.since.AddClamped(b.cfg.OpenFor) }

// Ready reports whether Allow would allow a call at now and, if not, from when on without a result. It changes
// nothing.
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

// Allow asks for a call at now. If it is not ok, ask again at retryAt.
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
	b.probe = max(b.probe+1, 1) // zero means no probe, also after 2^32 of them
	b.out, b.sent = b.probe, now
	return Ticket{b.generation, b.probe}, now, true
}

// TicketAt is the ticket of a call begun at sent, for results without theirs. It is not ok, and the result does not
// count, if the call began before the last change of state or while nothing was allowed.
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

// Record takes the result of a call at now, with the owner's error rate over samples results, this one included, and
// reports whether the state changed. Tickets from before the last change are ignored. A probe counted as lost gives
// its verdict, but frees no other's slot.
func (b *Breaker) Record(now clock.Instant, t Ticket, failed bool, errorRate float64, samples int) (changed bool) {
	if !b.counts(t) {
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

// judge is the state that a result leads to. It counts the successes of probes.
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

// Drop ends a ticket without a verdict, and frees a probe's slot. It may be called for an ended ticket.
func (b *Breaker) Drop(t Ticket) {
	if b.counts(t) && t.probe == b.out {
		b.out = 0
	}
}

// Lose ends the probe of that number without a verdict, if it is still out.
func (b *Breaker) Lose(probe uint32) { b.Drop(Ticket{b.generation, probe}) }

// Trip opens the breaker at now, also to restore one, at its old instant.
func (b *Breaker) Trip(now clock.Instant) { b.change(now, Open) }

func (b *Breaker) change(now clock.Instant, to State) {
	b.state, b.since, b.successes, b.out = to, now, 0, 0
	b.generation++
	if to == Closed {
		b.consecutive = 0
	}
}

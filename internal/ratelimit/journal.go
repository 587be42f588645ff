package ratelimit

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// keptEvents is how many events of a domain are kept: the last few pauses with what
// ended them, in 128 bytes.
const keptEvents = 8

// journal is the last events of one domain. Most domains never have one. It grows by two
// events at a time: with two it takes 64 bytes, and with all that are kept 160.
type journal struct {
	events     []entry // once there are keptEvents, a ring
	oldest     uint8   // its place in the ring
	unreported uint8   // of the latest, to OnEvent
	reporting  bool    // someone tells, and will tell what comes meanwhile
}

// note adds an event, the ninth in place of the first.
func (j *journal) note(e control.Event) {
	switch n := len(j.events); {
	case n == keptEvents:
		j.events[j.oldest] = entryOf(&e)
		j.oldest = (j.oldest + 1) % keptEvents
	case n == cap(j.events):
		j.events = append(make([]entry, 0, n+2), j.events...)
		fallthrough
	default:
		j.events = append(j.events, entryOf(&e))
	}
	j.unreported = min(j.unreported+1, keptEvents)
}

// at is an event, the oldest being 0.
func (j *journal) at(i int) control.Event {
	return j.events[(int(j.oldest)+i)%keptEvents].event()
}

// last appends the latest n events to list, in order, or as many as there are.
func (j *journal) last(n int, list []control.Event) []control.Event {
	if j == nil {
		return list
	}
	for i := max(len(j.events)-n, 0); i < len(j.events); i++ {
		list = append(list, j.at(i))
	}
	return list
}

// latest is the newest event of a cause, or none.
func (j *journal) latest(c control.Cause) (e control.Event, ok bool) {
	if j == nil {
		return e, false
	}
	for newer := range j.events {
		if e = j.at(len(j.events) - 1 - newer); e.Cause == c {
			return e, true
		}
	}
	return control.Event{}, false
}

// entry is an event as it is kept, in half its memory: the time to the millisecond, rates
// in five decimal figures, and no number. From the lowest bits on:
//
//	at    40 time in milliseconds, rounded up; to which more than 34 years are as 34
//	low   24 of the hold
//	high   7 of the hold
//	from  20 rate before
//	to    20 rate after
//	cause  5
//	state  2
//	status 10
type entry struct{ lo, hi uint64 }

const (
	atBits, rateBits, causeBits, stateBits = 40, 20, 5, 2

	lowHoldBits, highHoldBits = 64 - atBits, 7

	fromShift   = highHoldBits
	toShift     = fromShift + rateBits
	causeShift  = toShift + rateBits
	stateShift  = causeShift + causeBits
	statusShift = stateShift + stateBits
)

// entryOf rounds the time up, so that what was sent before the event is not after it.
func entryOf(e *control.Event) entry {
	at := min(uint64(max(e.At, 0)+clock.Instant(time.Millisecond-1))/uint64(time.Millisecond), 1<<atBits-1)
	hold := encodeHold(e.Hold)
	return entry{
		lo: at | hold<<atBits,
		hi: hold>>lowHoldBits | encodeRate(e.From)<<fromShift | encodeRate(e.To)<<toShift |
			uint64(e.Cause)<<causeShift | uint64(e.State)<<stateShift | uint64(e.Status)<<statusShift,
	}
}

func (n entry) event() control.Event {
	field := func(shift, bits int) uint64 { return n.hi >> shift & (1<<bits - 1) }
	return control.Event{
		At:   clock.Instant(n.lo&(1<<atBits-1)) * clock.Instant(time.Millisecond),
		Hold: decodeHold(n.lo>>atBits | field(0, highHoldBits)<<lowHoldBits),
		From: decodeRate(field(fromShift, rateBits)), To: decodeRate(field(toShift, rateBits)),
		Cause: control.Cause(field(causeShift, causeBits)), State: breaker.State(field(stateShift, stateBits)),
		Status: uint16(n.hi >> statusShift),
	}
}

// inSeconds marks a hold that is too long to count in milliseconds: twelve days.
const inSeconds = 1 << (lowHoldBits + highHoldBits - 1)

func encodeHold(d time.Duration) uint64 {
	d = max(d, 0)
	if ms := uint64((min(d, longest) + time.Millisecond/2) / time.Millisecond); ms < inSeconds {
		return ms
	}
	return inSeconds | min(uint64(d/time.Second), inSeconds-1)
}

func decodeHold(code uint64) time.Duration {
	if code&inSeconds == 0 {
		return time.Duration(code) * time.Millisecond
	}
	return time.Duration(code&(inSeconds-1)) * time.Second
}

// A rate is kept as five decimal figures and how many of them are behind the point, so that
// what was set as 0.3 is told as 0.3. It counts from a hundred-thousandth to ten million.
const (
	figureBits  = 17
	mostFigures = 99_999
)

var powersOfTen = [...]float64{1e5, 1e4, 1e3, 1e2, 1e1, 1, 1e-1, 1e-2}

func encodeRate(r float32) uint64 {
	if !(r > 0) {
		return 0
	}
	for i, by := range powersOfTen {
		if figures := math.Round(float64(r) * by); figures <= mostFigures {
			return uint64(i)<<figureBits | uint64(figures)
		}
	}
	return uint64(len(powersOfTen)-1)<<figureBits | mostFigures
}

func decodeRate(code uint64) float32 {
	return float32(float64(code&(1<<figureBits-1)) / powersOfTen[code>>figureBits])
}

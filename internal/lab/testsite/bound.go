package testsite

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// law is the bound that one limit puts on how many requests can be admitted: first at
// once and rate per second of its clock, whatever the client does.
type law struct {
	name        string // for people
	first, rate float64
	// window, if set, is of windows that begin together for all: what counts is how many of
	// them are touched, and first is what each admits.
	window, offset time.Duration
	plain          bool // it does not change with the day
}

// laws are all limits of an address. What all of them allow is no more than what each does.
type laws []law

// lawsOf are the laws of a host. What limits how many are open limits how many there are
// per second too: no more than there is room for, each taking as long as it takes on
// average. That is no bound if an answer takes no time.
func lawsOf(h *Host, epoch time.Time) laws {
	all := shortLaws(h)
	for i := range h.Limits {
		switch l := &h.Limits[i]; l.Kind {
		case kindLeaky:
			all = append(all, rateLaw(l.Kind, l.Rate, 1+l.Burst))
		case kindToken:
			all = append(all, rateLaw(l.Kind, l.Rate, l.capacity()))
		case kindFixed:
			all = append(all, fixedLaw(l.Requests, l.Window, sinceBoundary(epoch, l.Window)))
		case kindSliding, kindLog:
			name := fmt.Sprintf("%s %d per %v", l.Kind, l.Requests, l.Window)
			all = append(all, law{name: name, first: float64(l.Requests), rate: float64(l.Requests) / l.Window.Seconds()})
		case kindSlots:
			all = append(all, heldLaw(l.Kind, l.Concurrent, h.Latency.mean()))
		}
	}
	return all
}

// shortLaws are those of Limit and Load.
func shortLaws(h *Host) (all laws) {
	if l := &h.Limit; l.Rate > 0 {
		all = append(all, rateLaw(kindLeaky, l.Rate, 1+l.Burst))
	}
	if l := &h.Limit; l.Requests > 0 {
		all = append(all, fixedLaw(l.Requests, l.Window, 0))
	}
	if n := h.Limit.Concurrent; n > 0 {
		all = append(all, heldLaw(kindSlots, n, h.Latency.mean()))
	}
	if h.Load.Rate > 0 {
		all = append(all, rateLaw("queue", h.Load.Rate, 1))
	}
	if n := h.Load.Workers; n > 0 {
		all = append(all, heldLaw("workers", n, h.Latency.mean()))
	}
	return all
}

func rateLaw(name string, rate float64, first int) law {
	return law{name: fmt.Sprintf("%s %g/s", name, rate), first: float64(first), rate: rate}
}

func heldLaw(name string, n int, mean time.Duration) law {
	l := law{name: fmt.Sprintf("%s %d", name, n), first: float64(n), rate: math.Inf(1), plain: true}
	if mean > 0 {
		l.rate = float64(n) / mean.Seconds()
	}
	return l
}

// sinceBoundary is how long before t the latest of windows that begin with 1970 began.
func sinceBoundary(t time.Time, window time.Duration) time.Duration {
	return time.Duration(t.UnixMicro()%window.Microseconds()) * time.Microsecond
}

func fixedLaw(requests int, window, offset time.Duration) law {
	n := float64(requests)
	name := fmt.Sprintf("%s %d per %v", kindFixed, requests, window)
	return law{name: name, first: n, rate: n / window.Seconds(), window: window, offset: offset}
}

// most is what the law allows from one instant to another, both included.
func (l *law) most(d *day, from, to clock.Instant) float64 {
	if !l.plain {
		from, to = d.of(from), d.of(to)
	}
	if l.window > 0 {
		number := func(at clock.Instant) int64 { return int64(at.Add(l.offset)) / int64(l.window) }
		return l.first * float64(number(to)-number(from)+1)
	}
	if math.IsInf(l.rate, 1) {
		return l.rate
	}
	return l.first + l.rate*to.Sub(from).Seconds()
}

// most is what a client who knows all laws beforehand can have admitted at most.
func (ls laws) most(d *day, from, to clock.Instant) float64 {
	least := math.Inf(1)
	for i := range ls {
		least = min(least, ls[i].most(d, from, to))
	}
	return least
}

// rate is what all laws allow per second in the long run, at full speed; 0 if that is
// not bounded.
func (ls laws) rate() float64 { return finite(ls.tightest().rate) }

// finite is 0 for what is not bounded.
func finite(rate float64) float64 {
	if math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

func (ls laws) tightest() *law {
	least := &law{rate: math.Inf(1), plain: true}
	for i := range ls {
		if ls[i].rate < least.rate {
			least = &ls[i]
		}
	}
	return least
}

// window is the longest time in which a quota may be used up at once: a shorter look at
// how much of it is used says nothing.
func (ls laws) window() time.Duration {
	var longest time.Duration
	for i := range ls {
		longest = max(longest, ls[i].window)
		if l := &ls[i]; l.window == 0 && !l.plain {
			longest = max(longest, time.Duration(l.first/l.rate*float64(time.Second)))
		}
	}
	return longest
}

// long is the mean rate over whole days; 0 if it is not bounded.
func (ls laws) long(d *day) float64 {
	least := math.Inf(1)
	for i := range ls {
		rate := ls[i].rate
		if !ls[i].plain {
			rate *= d.mean()
		}
		least = min(least, rate)
	}
	return finite(least)
}

// mean is how long an answer takes on average, its body included.
func (l *Latency) mean() time.Duration {
	mean := float64(l.Typical)
	if l.Dist == distLognormal {
		mean *= math.Exp(l.Spread * l.Spread / 2) // of a lognormal distribution
	}
	return time.Duration(mean) + l.Body
}

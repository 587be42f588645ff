package control

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Strategy decides how fast one host may be asked, and whether it may be asked at all. There is one value per host; its
// owner serialises the calls. A call depends on its arguments and the earlier calls only: it reads no clock and no
// randomness, so the same history gives the same plan.
//
// A strategy only proposes. The owner enforces Retry-After, Crawl-delay and the user's rules whatever the plan says.
type Strategy interface {
	// Plan returns what the strategy wants from now on. The owner calls it after each other call, and before a grant if
	// the Review time of the last plan has come.
	Plan(now clock.Instant) Plan
	// Sent tells the strategy that the owner granted a request at now, after which inFlight permits are in use. If the
	// request is the trial of a paused host, Sent returns the trial's number, otherwise zero.
	Sent(now clock.Instant, inFlight int) (trial uint32)
	// Lost tells the strategy that the permit of a trial was released without an outcome. Calling it for a trial whose
	// outcome was observed has no effect.
	Lost(now clock.Instant, trial uint32)
	// Observe tells the strategy the outcome of a request.
	Observe(now clock.Instant, o Observation)
	// Memory returns what is worth keeping of the host until it comes back.
	Memory(now clock.Instant) Memory
	// Explain says in a few words what the plan rests on.
	Explain(now clock.Instant) string
	// Limit returns the lowest rate that the host is known not to tolerate, from its refusals or from what it tells, in
	// requests per second; zero if none is known. It is for people: the plan already respects it.
	Limit(now clock.Instant) float64
	// Failures returns the number of failures in a row.
	Failures() int
}

// Plan is what a strategy wants. Every field but Rate may be zero.
type Plan struct {
	Rate      float64       // requests per second; the owner keeps it between floor and ceiling
	NotBefore clock.Instant // the earliest next grant; zero means no bound
	Review    clock.Instant // when the owner calls Plan again before a grant; zero means before every grant
	InFlight  int           // no grant while that many permits are in use; zero means no bound
	// CatchUp is how late a grant may be without delaying the grants after it; the owner makes up at most one request.
	// Zero means that a late grant delays all that follow.
	CatchUp time.Duration
	Target  time.Duration // the latency expected of the next response; zero if the strategy expects none
	// State is Open while nothing may be sent before NotBefore, and HalfOpen if one trial may be sent from NotBefore
	// on. While that trial is in flight, NotBefore is when it counts as lost.
	State breaker.State
	// Event is the latest change of the plan that is worth telling.
	Event Event
}

// Observation is the outcome of one request as its sender saw it.
type Observation struct {
	SentAt clock.Instant
	// Class is the outcome. A class that says nothing of the host, such as Canceled, ends a trial without a verdict.
	Class     outcome.Class
	Forbidden bool // the status was 403
	// Lifted reports that this URL was answered 403 before, and now is not: the 403s of this host end after a while.
	Lifted         bool
	Latency        time.Duration    // from sending the request to the headers of the response
	RetryAfter     time.Duration    // how long the host orders to wait, capped by the owner; zero if it did not say
	Quota          header.Quota     // what the quota headers say; zero if there were none
	Second         uint8            // second of the minute of the response's Date header, from 1 to 61; zero means unknown
	InFlight       int              // permits in use, that of this request included
	Floor, Ceiling float64          // bounds of the rate at present, in requests per second
	Window         *estimate.Window // recent outcomes of the host, kept by the owner; the strategy adds to it
}

// Memory is what is kept of a host, in few bytes. The zero Memory means that nothing is known.
type Memory struct {
	Rate  float32       // requests per second that the host tolerated; zero means unknown
	Pause time.Duration // what one refusal cost of late; zero means unknown
	Held  clock.Instant // end of the present pause: from then on one trial may be sent; zero if the host is not paused
}

// Config holds the settings that the strategies of all hosts share. It must not change after New.
type Config struct {
	Increase float64       // requests per second that aimd adds for a prompt success
	Decrease float64       // factor, in (0, 1), by which aimd and gradient multiply the rate at a sign of overload
	Latency  time.Duration // latency that the user expects; the target of aimd begins with it
	Degrade  float64       // latency as a multiple of the target from which aimd takes it for a sign of overload
	// Breaker configures the circuit breaker of aimd, gradient and fixed. Of it steer uses OpenFor only: the longest
	// time that steer by itself waits between two trials of an outage.
	Breaker breaker.Config
}

// Host is what is known of a host before its first request to this strategy.
type Host struct {
	Start, Floor, Ceiling float64 // requests per second
	Memory                Memory
}

// The names of the strategies, as the configuration spells them.
const (
	NameSteer    = "steer"
	NameAIMD     = "aimd"
	NameGradient = "gradient"
	NameFixed    = "fixed"
)

// Maker makes the strategy of one host at now.
type Maker func(cfg *Config, now clock.Instant, h Host) Strategy

// Info is what other packages need to know of a strategy. The setting, its flag, the help, the reference and the
// simulator are generated from it.
type Info struct {
	Name string
	Help string // how the rate changes, in a few words
	// Learns reports that the rate is what the host tolerates: it is worth remembering, and the engine looks for hosts
	// that share a limit.
	Learns bool
	Make   Maker // nil for steer, whose package imports this one
}

var strategies = []Info{
	{NameSteer, "searches for the limit of the host and stays below it", true, nil},
	{NameAIMD, "a step up at each fast success, down by a factor at overload", true, AIMD},
	{NameGradient, "up while responses are fast, down as they slow", true, Gradient},
	{NameFixed, "stays at --rate", false, Fixed},
}

// AIMD is the [Maker] of the strategy aimd.
func AIMD(cfg *Config, _ clock.Instant, h Host) Strategy { return guard(cfg, h, newAIMD(cfg, h)) }

// Gradient is the [Maker] of the strategy gradient.
func Gradient(cfg *Config, _ clock.Instant, h Host) Strategy {
	return guard(cfg, h, newGradient(cfg, h))
}

// Fixed is the [Maker] of the strategy fixed.
func Fixed(cfg *Config, _ clock.Instant, h Host) Strategy {
	return guard(cfg, h, &fixed{rate: h.known()})
}

// Strategies returns all strategies, the default first.
func Strategies() []Info { return slices.Clone(strategies) }

// Names returns the names of all strategies, in the order of [Strategies].
func Names() []string {
	names := make([]string, len(strategies))
	for i := range strategies {
		names[i] = strategies[i].Name
	}
	return names
}

// Find returns the strategy of that name. It fails if there is none, and the error lists the names.
func Find(name string) (Info, error) {
	for _, info := range strategies {
		if info.Name == name {
			return info, nil
		}
	}
	return Info{}, fmt.Errorf("%q: want one of %s", name, strings.Join(Names(), ", "))
}

// known returns the rate to begin with: the remembered rate between floor and ceiling, or Start if none is remembered.
func (h Host) known() float64 {
	if h.Memory.Rate > 0 {
		return min(max(float64(h.Memory.Rate), h.Floor), h.Ceiling)
	}
	return h.Start
}

const (
	forever = clock.Instant(1<<62 - 1)
	never   = -forever
)

func seconds(d time.Duration) float64 { return d.Seconds() }

func duration(s float64) time.Duration {
	return time.Duration(min(max(s, 0), longest) * float64(time.Second))
}

const longest = 1e8 // seconds, three years

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

// Strategy decides how fast one host may be asked, and whether it may be asked at
// all. There is a value per domain; its owner serialises the calls. A call depends on
// nothing but its arguments and what the earlier ones left: no clock is read and no
// randomness, so the same history gives the same plan.
//
// A strategy only proposes. Retry-After, Crawl-delay and the rules of the user hold
// whatever it says.
type Strategy interface {
	// Plan is what the strategy wants from now on. It is asked after each other call,
	// and before a grant if the last plan's time is over.
	Plan(now clock.Instant) Plan
	// Sent tells of a grant at now, after which inFlight permits are in use. If the
	// grant is the trial of a host that is held, trial is its number, else zero.
	Sent(now clock.Instant, inFlight int) (trial uint32)
	// Lost tells that the permit of a trial came back without an answer. It may be told
	// of a trial that has had its answer.
	Lost(now clock.Instant, trial uint32)
	// Observe tells what became of a request.
	Observe(now clock.Instant, o Observation)
	// Memory is what is worth knowing of the host when it comes back.
	Memory(now clock.Instant) Memory
	// Explain says in a few words what the plan rests on.
	Explain(now clock.Instant) string
	// Failures is the number of failures in a row.
	Failures() int
}

// Plan is a strategy's wish. Only Rate must be set.
type Plan struct {
	Rate      float64       // requests per second; the owner keeps it between floor and ceiling
	NotBefore clock.Instant // no grant earlier; zero for no such wish
	Review    clock.Instant // ask again before a grant from here on; zero for at every grant
	InFlight  int           // no grant while that many permits are in use; zero for no bound
	CatchUp   time.Duration // a grant may be that late without the next being late, by one request at most; zero for not at all
	Target    time.Duration // latency that is expected of the next answer; zero where that is nothing to the strategy
	// State is Open while nobody may pass before NotBefore, and HalfOpen when one trial
	// may pass from NotBefore on: while that is out, NotBefore is when it counts as lost.
	State breaker.State
	Event Event // the latest thing that changed the plan for a reason worth telling
}

// Observation is one request as its sender saw it.
type Observation struct {
	SentAt         clock.Instant
	Class          outcome.Class // Canceled and others that say nothing of the host end a trial without a verdict
	Forbidden      bool          // the status was 403
	Lifted         bool          // a 403 was what its URL came to before
	Latency        time.Duration
	RetryAfter     time.Duration // capped; zero if the server did not say
	Quota          header.Quota  // zero if the server did not say
	Second         uint8         // of the host's clock, the same in all answers of one; zero for not known
	InFlight       int           // permits in use, this request's included
	Floor, Ceiling float64       // what the rate may be at present, in requests per second
	Window         *estimate.Window
}

// Memory is what a strategy knows of a host in few bytes. The zero Memory is nothing.
type Memory struct {
	Rate  float32       // requests per second that the host tolerated; zero for not known
	Pause time.Duration // longest pause that one refusal cost; zero for none
	Held  clock.Instant // no grant but a trial from here on; zero for a host that is not held
}

// Config is what the strategies of all hosts share. It must not change after New.
type Config struct {
	Increase float64       // requests per second that AIMD adds for a prompt success
	Decrease float64       // factor of the rate at a sign of overload, in (0, 1)
	Latency  time.Duration // that the user expects of an answer; AIMD's target begins with it
	Degrade  float64       // latency over its target that is a sign of overload
	// Breaker is that of the classic strategies; its OpenFor also bounds the pauses
	// between trials that nobody ordered of a steer.
	Breaker breaker.Config
}

// Host is what is known of a host before its first request.
type Host struct {
	Start, Floor, Ceiling float64 // requests per second
	Memory                Memory
}

// The names of the strategies, as a configuration spells them.
const (
	NameSteer    = "steer"
	NameAIMD     = "aimd"
	NameGradient = "gradient"
	NameFixed    = "fixed"
)

// Maker makes the strategy of one host.
type Maker func(cfg *Config, now clock.Instant, h Host) Strategy

// Info is all that others have to know of a strategy. The setting, its flag, the help, the
// reference and the simulator are made of it.
type Info struct {
	Name   string
	Help   string // what the rate does, in a few words
	Learns bool   // the rate is what the host tolerates: it is worth remembering, and hosts that share a limit are looked for
}

var strategies = []Info{
	{NameSteer, "searches for the limit of the host and stays below it", true},
	{NameAIMD, "a step up at each fast success, down by a factor at overload", true},
	{NameGradient, "up while responses are fast, down as they slow", true},
	{NameFixed, "stays at --rate", false},
}

// AIMD is the [Maker] of that strategy.
func AIMD(cfg *Config, _ clock.Instant, h Host) Strategy { return guard(cfg, h, newAIMD(cfg, h)) }

// Gradient is the [Maker] of that strategy.
func Gradient(cfg *Config, _ clock.Instant, h Host) Strategy {
	return guard(cfg, h, newGradient(cfg, h))
}

// Fixed is the [Maker] of that strategy.
func Fixed(cfg *Config, _ clock.Instant, h Host) Strategy {
	return guard(cfg, h, &fixed{rate: h.known()})
}

// Strategies are the strategies there are, the default first.
func Strategies() []Info { return slices.Clone(strategies) }

// Names are their names, in that order.
func Names() []string {
	names := make([]string, len(strategies))
	for i := range strategies {
		names[i] = strategies[i].Name
	}
	return names
}

// Find returns the strategy with that name.
func Find(name string) (Info, error) {
	for _, info := range strategies {
		if info.Name == name {
			return info, nil
		}
	}
	return Info{}, fmt.Errorf("%q: want one of %s", name, strings.Join(Names(), ", "))
}

// known is the rate to begin with: what is remembered, or the start of a stranger.
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

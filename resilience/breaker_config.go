package resilience

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// BreakerConfig says when a [Breaker] opens and closes. The zero BreakerConfig is a
// breaker that five failures in a row open for 15 s and that one success closes.
type BreakerConfig struct {
	Name string // in errors and events; zero means none

	Window      Window  // of calls that a closed breaker looks back on; zero means failures in a row
	Failures    int     // in a row that open it, for the consecutive window alone; zero means 5
	FailureRate float64 // share of failed calls in the window that opens it, in (0, 1]; zero means 0.5
	MinCalls    int     // in the window below which no share is looked at; zero means 10, or all of a smaller count window

	// SlowCall makes a call slow that takes so long or longer until its result; the use
	// of the value is not counted. A slow call extends a run of failures, and a slow
	// probe has failed. Zero means that no call is slow.
	SlowCall time.Duration
	SlowRate float64 // share of slow calls in the window that opens it, in (0, 1]; zero means 1

	SuccessThreshold int // successes of probes that close it, up to 65535; zero means 1
	HalfOpenMax      int // probes that may be out at the same time, up to 1024; zero means 1

	BreakFor time.Duration // from open to half-open; zero means 15s
	// Break, if set, is asked after each trip how long the breaker stays open; trips is
	// 1 for the first since it was last closed. It is called with no lock held and must
	// give the same answer every time. What it returns below 0 is 0. Nil means BreakFor.
	Break        func(trips int) time.Duration
	ProbeTimeout time.Duration // after which a probe that has not come back is lost; zero means BreakFor

	Clock clock.Clock // zero means the system clock
	Hub   *Hub        // hears of changes of state; zero means nobody does
}

const (
	// maxProbes bounds what a half-open breaker lets out: more are no probes.
	maxProbes = 1024
	// defaultBreak is that of package breaker, which the engine uses too: the tree has
	// one answer to how long a callee is left in peace.
	defaultBreak = 15 * time.Second
	// defaultMinCalls is the least number of calls whose share of failures says more
	// than its parts: below ten, one call is a tenth or more.
	defaultMinCalls = 10
	// defaultFailures in a row are an accident once in 3,000 times for a callee that
	// fails one call in five.
	defaultFailures = 5
)

func (c *BreakerConfig) settle() error {
	run := c.Window.kind == byRun
	if run && (c.FailureRate != 0 || c.SlowRate != 0 || c.MinCalls != 0) {
		return breakerError("Window", c.Window, "CountWindow or TimeWindow beside FailureRate, SlowRate or MinCalls")
	}
	if !run && c.Failures != 0 {
		return breakerError("Failures", c.Failures, "0 beside a window of calls, which opens by FailureRate")
	}
	if c.SlowCall == 0 && c.SlowRate != 0 {
		return breakerError("SlowRate", c.SlowRate, "a SlowCall beside it")
	}
	if c.MinCalls > c.Window.calls && c.Window.kind == byCount {
		return breakerError("MinCalls", c.MinCalls, fmt.Sprintf("no more than the %d of the window", c.Window.calls))
	}
	c.fill(run)
	return c.check(run)
}

func (c *BreakerConfig) fill(run bool) {
	if run {
		setDefault(&c.Failures, defaultFailures)
	} else {
		setDefault(&c.FailureRate, 0.5)
		setDefault(&c.MinCalls, defaultMinCalls)
		if c.Window.kind == byCount {
			c.MinCalls = min(c.MinCalls, c.Window.calls)
		}
		setDefault(&c.SlowRate, 1)
	}
	setDefault(&c.SuccessThreshold, 1)
	setDefault(&c.HalfOpenMax, 1)
	setDefault(&c.BreakFor, defaultBreak)
	setDefault(&c.ProbeTimeout, c.BreakFor)
	if c.Clock == nil {
		c.Clock = clock.System()
	}
}

func (c *BreakerConfig) check(run bool) error {
	switch {
	case run && c.Failures < 1:
		return breakerError("Failures", c.Failures, "1 or more")
	case !run && !(c.FailureRate > 0 && c.FailureRate <= 1):
		return breakerError("FailureRate", c.FailureRate, "a share in (0, 1]")
	case !run && c.MinCalls < 1:
		return breakerError("MinCalls", c.MinCalls, "1 or more")
	case !run && !(c.SlowRate > 0 && c.SlowRate <= 1):
		return breakerError("SlowRate", c.SlowRate, "a share in (0, 1]")
	case c.SlowCall < 0:
		return breakerError("SlowCall", c.SlowCall, "a positive duration")
	case c.SuccessThreshold < 1 || c.SuccessThreshold > math.MaxUint16:
		return breakerError("SuccessThreshold", c.SuccessThreshold, "1 to 65535")
	case c.HalfOpenMax < 1 || c.HalfOpenMax > maxProbes:
		return breakerError("HalfOpenMax", c.HalfOpenMax, "1 to 1024")
	case c.BreakFor < 0:
		return breakerError("BreakFor", c.BreakFor, "a positive duration")
	case c.ProbeTimeout < 0:
		return breakerError("ProbeTimeout", c.ProbeTimeout, "a positive duration")
	}
	return nil
}

func breakerError(field string, value any, want string) error {
	return fmt.Errorf("breaker: %s = %v: want %s", field, value, want)
}

// machine is the part of the configuration that the breaker of the tree knows. Of its
// two ways to open the one that is not asked for is out of reach.
func (c *BreakerConfig) machine() *breaker.Config {
	m := &breaker.Config{
		ErrorRate: 1, MinSamples: math.MaxInt, Consecutive: c.Failures,
		OpenFor: c.BreakFor, Probes: c.SuccessThreshold, ProbeTimeout: c.ProbeTimeout,
	}
	if c.Window.kind != byRun {
		m.MinSamples, m.Consecutive = 1, math.MaxInt
	}
	return m
}

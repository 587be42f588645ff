package ratelimit

import (
	"maps"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// strategy decides how fast one host may be asked. There is a value per domain, of
// any size; the domain's lock serialises the calls, and a call depends on nothing
// but its arguments and what the earlier ones left: it reads no clock and no
// randomness, so the same history gives the same plan.
//
// A strategy only proposes. Retry-After, Crawl-delay, the rules of the user and
// the breaker hold whatever it says.
type strategy interface {
	// plan is what the strategy wants from now on. It is asked after an observation,
	// and before a grant if the last plan's time is over.
	plan(now clock.Instant) plan
	// sent tells of a grant at now, after which inFlight permits are in use.
	sent(now clock.Instant, inFlight int)
	// observe tells what became of a request.
	observe(now clock.Instant, o observation)
}

// plan is a strategy's wish. Only rate must be set.
type plan struct {
	rate      rate          // the engine keeps it between floor and ceiling
	notBefore clock.Instant // no grant earlier; zero for no such wish
	inFlight  int           // no grant while that many permits are in use; zero for no bound
	review    clock.Instant // ask again before a grant from here on; zero for at every grant
}

// observation is one request as the engine saw it.
type observation struct {
	cfg            *Config // shared by all domains; must not be changed
	sentAt         clock.Instant
	class          outcome.Class // never Canceled: that teaches nothing
	latency        time.Duration
	target         time.Duration // the latency that is expected of this host, without this answer
	retryAfter     time.Duration // capped; zero if the server did not say
	quota          header.Quota  // zero if the server did not say
	floor, ceiling rate          // what the rate may be at present
}

// StrategyAIMD is the name of additive increase, multiplicative decrease.
const StrategyAIMD = "aimd"

// strategies are all there are, by the name under which Config.Strategy asks for
// them. Each makes the value of one domain, which begins at the rate start.
var strategies = map[string]func(start rate) strategy{
	StrategyAIMD: func(start rate) strategy { return &aimd{rate: start, cutAt: never} },
}

func strategyNames() []string { return slices.Sorted(maps.Keys(strategies)) }

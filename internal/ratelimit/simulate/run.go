package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Simulation is one run: a scenario under a configuration.
type Simulation struct {
	Scenario Scenario
	// Config is the engine's; its Clock is replaced, and a MaxRPS above the
	// scenario's lowered. It must be Enabled. A Strategy of [Clairvoyant] uses MaxRPS
	// and nothing else.
	Config ratelimit.Config
	Seed   uint64 // of all randomness; zero is a seed like any other
	// OnSecond, if set, is told of every second of the run when it is over. Nil means
	// nobody is.
	OnSecond func(Second)
	// OnEvent, if set, is told of every grant and every answer. Nil means nobody is.
	OnEvent func(Event)
}

// Event is a grant, or an answer's arrival at the client.
type Event struct {
	At       time.Duration       // from the run's begin
	Feedback *ratelimit.Feedback // what the engine was told; valid during the call; nil for a grant
	RPS      float64             // the planned rate, up to 100 ms old
}

// Run runs a scenario under a configuration without anyone watching. It fails if one
// of them is out of range.
func Run(sc Scenario, cfg ratelimit.Config, seed uint64) (Result, error) {
	return Simulation{Scenario: sc, Config: cfg, Seed: seed}.Run()
}

// Run runs the simulation to its end. It starts no goroutine, and simulations may
// run at the same time. It fails if the scenario or the configuration is out of range.
func (s Simulation) Run() (Result, error) { return s.RunContext(context.Background()) }

// RunContext is Run until ctx ends: then it fails with the error of ctx, what it has
// told so far being all there is. It notices within a second of the run, which takes
// milliseconds.
func (s Simulation) RunContext(ctx context.Context) (Result, error) {
	s.Scenario.setDefaults()
	if err := s.Scenario.validate(); err != nil {
		return Result{}, err
	}
	cfg := s.Config
	if !cfg.Enabled {
		return Result{}, errors.New("simulate: Config.Enabled = false: want true; an engine that is off sends as fast as the run is computed")
	}
	if cfg.MaxRPS == 0 {
		cfg.MaxRPS = ratelimit.DefaultConfig().MaxRPS // the capacity that counts depends on it
	}
	if limit := s.Scenario.MaxRPS; limit > 0 && cfg.MaxRPS > limit {
		cfg.MaxRPS = limit
		cfg.InitialRPS = min(cfg.InitialRPS, limit)
		cfg.MinRPS = min(cfg.MinRPS, limit)
	}
	s.Config = cfg
	d := &driver{
		Simulation: s, end: clock.Instant(s.Scenario.Duration),
		server: s.Scenario.New(s.Scenario.random(s.Seed, "server")),
		way:    way{Link: s.Scenario.Link, rnd: s.Scenario.random(s.Seed, "link")},
		stalls: stalls{Stalls: s.Scenario.Stalls, rnd: s.Scenario.random(s.Seed, "stalls")},
	}
	var err error
	if d.client, err = s.client(&d.clock); err != nil {
		return Result{}, err
	}
	d.meter = newMeter(&s.Scenario, cfg.MaxRPS)
	if err := d.run(ctx); err != nil {
		return Result{}, err
	}
	return d.meter.result(&s), nil
}

func (s *Simulation) client(clk *virtual) (client, error) {
	cfg := s.Config
	if cfg.Strategy == Clairvoyant {
		if cfg.MaxRPS <= 0 {
			return nil, fmt.Errorf("simulate: Config.MaxRPS = %v: want requests per second, such as 2000", cfg.MaxRPS)
		}
		return &clairvoyant{
			model: s.Scenario.New(s.Scenario.random(s.Seed, "server")), // an equal one
			lead:  s.Scenario.Link.RTT / 2, guard: s.Scenario.Link.guard(), gap: seconds(1 / cfg.MaxRPS),
		}, nil
	}
	cfg.Clock = clk
	l, err := ratelimit.New(cfg)
	if err != nil {
		return nil, err
	}
	return &engine{limiter: l, ctx: newImpatient(clk)}, nil
}

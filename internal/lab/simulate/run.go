package simulate

import (
	"context"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Simulation is one run: a scenario under a configuration.
type Simulation struct {
	Scenario Scenario
	// Config is that of the engine; its Clock is replaced, and its MaxRPS is lowered to the scenario's if it is higher.
	// It must be Enabled. A Strategy of [Oracle] uses MaxRPS and nothing else.
	Config   ratelimit.Config
	Seed     uint64       // of all randomness; zero is a seed like any other
	OnSecond func(Second) // called after every second of the run, unless it is nil
	onAnswer func(at time.Duration, fb *ratelimit.Feedback)
}

// Run runs the simulation to its end, or until ctx ends, which it notices within a second of the run, that is, within
// milliseconds. It starts no goroutine, and simulations may run concurrently. It fails if the configuration is out of
// range.
func (s Simulation) Run(ctx context.Context) (Result, error) {
	s.Scenario.setDefaults()
	cfg := s.Config
	if limit := s.Scenario.MaxRPS; limit > 0 && cfg.MaxRPS > limit {
		cfg.MaxRPS = limit
		cfg.InitialRPS = min(cfg.InitialRPS, limit)
		cfg.MinRPS = min(cfg.MinRPS, limit)
	}
	s.Config = cfg
	d := &driver{
		Simulation: s, end: clock.Instant(s.Scenario.Duration),
		way:    way{Link: s.Scenario.Link, rnd: s.Scenario.random(s.Seed, "link")},
		stalls: stalls{Stalls: s.Scenario.Stalls, rnd: s.Scenario.random(s.Seed, "stalls")},
	}
	if s.Scenario.Hosts > 1 {
		d.merged = Never
		d.Config.OnEvent = func(e ratelimit.Event) {
			if e.Cause == control.CauseMerged {
				d.merged = min(d.merged, time.Duration(d.clock.now))
			}
		}
	}
	var err error
	if d.sites, err = d.Simulation.sites(&d.clock); err != nil {
		return Result{}, err
	}
	d.meter = newMeter(&s.Scenario, cfg.MaxRPS)
	if err := d.run(ctx); err != nil {
		return Result{}, err
	}
	r := d.meter.result(&s)
	if s.Scenario.Hosts > 1 {
		r.Merged, r.Evenness = d.merged, evenness(d.sites)
	}
	return r, nil
}

// server returns the server of the i-th host. Each call returns an equal one.
func (s *Simulation) server(i int) Server {
	part := "server"
	if i > 0 {
		part += strconv.Itoa(i)
	}
	return s.Scenario.New(s.Scenario.random(s.Seed, part))
}

func (s *Simulation) sites(clk *virtual) ([]*site, error) {
	client, err := s.clients(clk)
	if err != nil {
		return nil, err
	}
	sites := make([]*site, s.Scenario.Hosts)
	for i := range sites {
		sites[i] = &site{lookAt: clock.Instant(i) * clock.Instant(s.Scenario.Joins), client: client(i), server: s.server(i)}
		if i > 0 && i < s.Scenario.Hosts-s.Scenario.Apart {
			sites[i].server = sites[0].server
		}
	}
	return sites, nil
}

func (s *Simulation) clients(clk *virtual) (func(i int) client, error) {
	cfg := s.Config
	if cfg.Strategy == Oracle {
		return s.oracles(), nil
	}
	cfg.Clock = clk
	l, err := ratelimit.New(cfg)
	if err != nil {
		return nil, err
	}
	return func(i int) client {
		e := &engine{host: hostName(i), limiter: l, ctx: newImpatient(clk)}
		if s.Scenario.Hosts > 1 {
			l.SetAddress(e.host, address)
		}
		return e
	}, nil
}

// oracles returns the clients that know the servers. Hosts that share a server share one client.
func (s *Simulation) oracles() func(i int) client {
	sc := &s.Scenario
	shared := sc.Hosts - sc.Apart
	var common *oracle
	return func(i int) client {
		if i > 0 && i < shared {
			return common
		}
		c := &oracle{
			model: s.server(i), // equal to that of the site
			lead:  sc.Link.RTT / 2, guard: sc.Link.guard(), gap: seconds(1 / s.Config.MaxRPS),
		}
		if i == 0 {
			c.gap /= time.Duration(max(1, shared))
			common = c
		}
		return c
	}
}

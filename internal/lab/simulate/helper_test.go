package simulate

import (
	"context"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Run makes a run that nothing observes.
func Run(sc Scenario, cfg ratelimit.Config, seed uint64) (Result, error) {
	return Simulation{Scenario: sc, Config: cfg, Seed: seed}.Run(context.Background())
}

func flat(rps float64) func(time.Duration) float64 { return always(rps).at }

func nginx(name string, rps float64) Scenario {
	return (&spec{Scenario: Scenario{Name: name}, Limit: limit{Kind: "leaky", Rate: always(rps)}}).scenario()
}

func compare(scs []Scenario, cfgs []Named, seeds int) ([]Row, error) {
	return Comparison{Scenarios: scs, Configs: cfgs, Seeds: seeds}.Run(context.Background())
}

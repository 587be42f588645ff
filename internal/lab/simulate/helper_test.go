package simulate

import (
	"context"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Run is a run that nothing watches.
func Run(sc Scenario, cfg ratelimit.Config, seed uint64) (Result, error) {
	return Simulation{Scenario: sc, Config: cfg, Seed: seed}.Run(context.Background())
}

// flat is a capacity that does not change.
func flat(rps float64) func(time.Duration) float64 { return always(rps).at }

// nginx is a distant host with a bucket that has no room for a burst.
func nginx(name string, rps float64) Scenario {
	return (&spec{Scenario: Scenario{Name: name}, Limit: limit{Kind: "leaky", Rate: always(rps)}}).scenario()
}

// compare is a comparison with the seeds 1 to seeds.
func compare(scs []Scenario, cfgs []Named, seeds int) ([]Row, error) {
	return Comparison{Scenarios: scs, Configs: cfgs, Seeds: seeds}.Run(context.Background())
}

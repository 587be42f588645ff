package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Scenario is a host, or several at one address, and the link to it. It may be copied, and any number of runs of it may
// be made concurrently if its functions allow that.
type Scenario struct {
	Name        string        // short, such as "S1a"; empty means that it cannot be selected by name
	Doc         string        // one line that describes the host; empty means that nothing is printed
	Duration    time.Duration // of the run, a minute or more; zero means 15 minutes
	MaxRPS      float64       // the client's ceiling; zero means the configuration's
	MaxInFlight int           // requests at once, of all hosts; zero means 4096
	Timeout     time.Duration // how long the client waits for a response; zero means 10s
	Link        Link          // zero means no delay
	Stalls      Stalls        // zero means that the client's machine is never busy
	Offer       Offer         // of each host; zero means that all URLs are available at once
	Hosts       int           // number of domains at the address, up to 1000; zero means one
	// Apart is how many of them, the last ones, have a server of their own, equal to the one that the others share.
	// Zero means that all share one.
	Apart int
	Joins time.Duration // time between the first requests to one host and to the next; zero means none
	// Capacity returns the requests per second that the hosts together admit at t in the long run. If it is zero over a
	// whole second, that is an outage. It must be set.
	Capacity func(t time.Duration) float64 `yaml:"-"`
	// New returns a server for a run. All its randomness must come from rnd. It must be set.
	New func(rnd *rand.Rand) Server `yaml:"-"`
}

// The bounds of a Scenario's Duration.
const (
	MinDuration = time.Minute + time.Second // the first minute, and a second of steady state
	MaxDuration = 24 * time.Hour            // a run takes some 50 bytes a second
)

func (sc *Scenario) setDefaults() {
	sc.Duration, sc.Timeout = sc.Length(), cmp.Or(sc.Timeout, 10*time.Second)
	sc.MaxInFlight = cmp.Or(sc.MaxInFlight, 4096) // exceeded only by a queue that grows without bound
	sc.Hosts = max(sc.Hosts, 1)
}

// admits returns the part of the capacity at t that can be used with at most ceiling requests per second to each host.
// Each server has an equal part of the capacity.
func (sc *Scenario) admits(ceiling float64, t time.Duration) float64 {
	apart := float64(sc.Apart)
	shared := float64(max(1, sc.Hosts)) - apart
	servers := apart + min(1, shared)
	each := sc.Capacity(t) / servers
	return apart*min(ceiling, each) + min(shared*ceiling, each)
}

// Length returns how long a run takes: Duration, or what zero means.
func (sc *Scenario) Length() time.Duration { return cmp.Or(sc.Duration, 15*time.Minute) }

// random returns the source of randomness for a part of a run. Each part has its own, so that none depends on how often
// another draws.
func (sc *Scenario) random(seed uint64, part string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(sc.Name + "/" + part)) // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Oracle is the name of the client that knows the server, used in place of a strategy's.
const Oracle = "oracle"

// Config returns the configuration under which strategies are compared. It allows no bursts, begins at one request per
// second, and has bounds so wide that only the strategy matters.
func Config(strategy string) ratelimit.Config {
	c := ratelimit.DefaultConfig()
	c.Strategy = strategy
	c.InitialRPS, c.MinRPS, c.MaxRPS = 1, 0.1, 2000
	c.TokenBucketCapacity = 1
	c.MaxRetryAfter = 24 * time.Hour
	return c
}

// Names returns the names of scenarios.
func Names(scs []Scenario) []string {
	names := make([]string, len(scs))
	for i := range scs {
		names[i] = scs[i].Name
	}
	return names
}

// Select returns copies of those of scs whose names match any of the patterns of [path.Match], each once and in the
// order of the patterns. Without a pattern it returns all of them. "R7" is the scenario that [Random] draws from seed
// 7. It fails with an [UnknownError] if a pattern matches nothing, and with [path.ErrBadPattern] if one is malformed.
func Select(scs []Scenario, patterns ...string) ([]Scenario, error) {
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	var picked []Scenario
	for _, p := range patterns {
		found, err := match(scs, p)
		if err != nil {
			return nil, err
		}
		for _, sc := range found {
			if !slices.ContainsFunc(picked, func(p Scenario) bool { return p.Name == sc.Name }) {
				picked = append(picked, sc)
			}
		}
	}
	return picked, nil
}

func match(scs []Scenario, pattern string) ([]Scenario, error) {
	if seed, ok := drawnBy(pattern); ok {
		return []Scenario{Random(seed)}, nil
	}
	if _, err := path.Match(pattern, ""); errors.Is(err, path.ErrBadPattern) {
		return nil, fmt.Errorf("simulate: scenario pattern %q: %w", pattern, err)
	}
	var found []Scenario
	for _, sc := range scs {
		if ok, _ := path.Match(pattern, sc.Name); ok { // the pattern was checked above
			found = append(found, sc)
		}
	}
	if len(found) == 0 {
		return nil, &UnknownError{pattern}
	}
	return found, nil
}

// drawnBy returns the seed from which [Random] draws the scenario with that name: R and the number without leading
// zeros.
func drawnBy(name string) (seed uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "R")
	if !ok {
		return 0, false
	}
	seed, err := strconv.ParseUint(digits, 10, 64)
	return seed, err == nil && strconv.FormatUint(seed, 10) == digits
}

// UnknownError is a pattern that matches no scenario.
type UnknownError struct{ Pattern string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("simulate: no scenario matches %q", e.Pattern)
}

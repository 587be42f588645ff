package simulate

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// TestNoise: random failures occur at any rate, so the host is crawled as fast as its limiter or the settings allow.
func TestNoise(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.03, 0.1, 0.3} {
		for _, status := range []int{http.StatusInternalServerError, unavailable} {
			for _, ceiling := range []float64{5, 20, 100} {
				for _, limited := range []bool{false, true} {
					t.Run(fmt.Sprintf("%g %% of %d, at most %g/s, limiter %v", 100*share, status, ceiling, limited), func(t *testing.T) {
						t.Parallel()
						sc := Scenario{
							Name: "noise", Link: Link{RTT: 20 * time.Millisecond, Jitter: 0.1}, MaxRPS: ceiling, Duration: 6 * time.Minute,
							Capacity: func(time.Duration) float64 { return ceiling * (1 - share) },
							New: func(rnd *rand.Rand) Server {
								var s Server = &pages{rnd: rnd, median: 20 * time.Millisecond, sigma: 0.3}
								if limited {
									s = &leaky{rate: always(ceiling), burst: ceiling, status: tooMany}
								}
								return &flaky{Server: s, share: share, status: []int{status}, rnd: rnd}
							},
						}
						if limited {
							sc.MaxRPS = 0
						}
						const seeds = 16
						sum := 0.0
						for seed := range uint64(seeds) {
							r, err := Run(sc, Config("steer"), seed+1)
							require.NoError(t, err)
							sum += min(1, r.Steady.Utilisation())
							require.Less(t, r.Steady.RefusedShare(), 0.01)
						}
						least := 0.9
						switch {
						case limited && share > 0.2:
							least = 0.7
						case limited && ceiling == 5: // an experiment takes a minute there
							least = 0.75
						case share > 0.2:
							least = 0.85
						case limited:
							least = 0.88
						}
						require.GreaterOrEqual(t, sum/seeds, least)
					})
				}
			}
		}
	}
}

// troubled fails at random for a while. After that only its limiter answers.
type troubled struct {
	flaky
	until clock.Instant
}

func (s *troubled) Serve(now clock.Instant) Answer {
	if now < s.until {
		return s.flaky.Serve(now)
	}
	return s.Server.Serve(now)
}

// TestNoiseEnds: a limiter is not overrun for long if its refusals look like failures that were found to be random.
func TestNoiseEnds(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{6, 30} {
		for _, share := range []float64{0.1, 0.25, 0.4} {
			sc := Scenario{
				Name: "noise that ends", Link: Link{RTT: 20 * time.Millisecond, Jitter: 0.1}, MaxRPS: 100, Duration: 10 * time.Minute,
				Capacity: func(time.Duration) float64 { return rate },
				New: func(rnd *rand.Rand) Server {
					limiter := &leaky{rate: always(rate), burst: 2, status: unavailable}
					return &troubled{flaky{Server: limiter, share: share, status: []int{unavailable}, rnd: rnd}, clock.Instant(time.Minute)}
				},
			}
			for seed := range uint64(4) {
				r, err := Run(sc, Config("steer"), seed+1)
				require.NoError(t, err)
				require.Less(t, r.Steady.RefusedShare(), 0.2, "%g/s, %g, seed %d", rate, share, seed+1)
			}
		}
	}
}

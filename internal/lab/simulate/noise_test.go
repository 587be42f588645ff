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
						if share > 0.2 {
							least = 0.85
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

// behind is a limiter before a back end that fails when it is asked for more than it can do.
type behind struct {
	*leaky
	backend *leaky
}

func (s behind) Serve(now clock.Instant) Answer {
	if a := s.leaky.Serve(now); a.Refused {
		return a
	}
	return s.backend.Serve(now)
}

func (s behind) Next(now clock.Instant) clock.Instant {
	return max(s.leaky.Next(now), s.backend.Next(now))
}

// TestOverloadBehindALimiter: failures of a host whose limiter answers 429 are hardly that limiter's, yet a back end
// that does half of what the limiter admits from the second minute on is spared all the same.
func TestOverloadBehindALimiter(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{4, 20, 100} {
		for _, status := range []int{http.StatusInternalServerError, unavailable} {
			capacity := steps{{0, 1e6}, {2 * time.Minute, rate / 2}}
			sc := Scenario{
				Name: "overload", Link: Link{RTT: 20 * time.Millisecond, Jitter: 0.1}, Duration: 10 * time.Minute,
				Capacity: func(at time.Duration) float64 { return min(rate, capacity.at(at)) },
				New: func(*rand.Rand) Server {
					return behind{&leaky{rate: always(rate), burst: rate, status: tooMany}, &leaky{rate: capacity, burst: 3, status: status}}
				},
			}
			const seeds = 4
			used, refused := 0.0, 0.0
			for seed := range uint64(seeds) {
				r, err := Run(sc, Config("steer"), seed+1)
				require.NoError(t, err)
				used += r.Steady.Utilisation() / seeds
				refused += r.Steady.RefusedShare() / seeds
			}
			require.Greater(t, used, .7, "%g/s, %d", rate, status)
			require.Less(t, refused, .04, "%g/s, %d", rate, status)
		}
	}
}

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/lab/simulate"
)

// nightly is a host of one's own: it is closed for the first ten seconds of every
// minute and says so.
type nightly struct{}

func (nightly) Serve(now clock.Instant) simulate.Answer {
	if in := time.Duration(now) % time.Minute; in < 10*time.Second {
		return simulate.Answer{Status: http.StatusServiceUnavailable, Refused: true, RetryAfter: 10*time.Second - in}
	}
	return simulate.Answer{Status: http.StatusOK, Delay: 20 * time.Millisecond}
}

func (nightly) Next(now clock.Instant) clock.Instant {
	if in := time.Duration(now) % time.Minute; in < 10*time.Second {
		return now.Add(10*time.Second - in)
	}
	return now
}

func Example() {
	sc := simulate.Scenario{
		Name: "nightly", Duration: 5 * time.Minute, MaxRPS: 10,
		Link: simulate.Link{RTT: 10 * time.Millisecond},
		Capacity: func(t time.Duration) float64 {
			if t%time.Minute < 10*time.Second {
				return 0
			}
			return 10
		},
		New: func(*rand.Rand) simulate.Server { return nightly{} },
	}
	r, err := simulate.Run(sc, simulate.Config(simulate.Oracle), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f %% used, %d refused, %d sent inside Retry-After\n", 100*r.Steady.Utilisation(), r.Steady.Refused, r.InsideRetryAfter)
	// Output: 100 % used, 0 refused, 0 sent inside Retry-After
}

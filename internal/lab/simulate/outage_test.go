package simulate

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type trouble struct {
	name string
	says Answer
}

var troubles = []trouble{
	{"500", Answer{Status: http.StatusInternalServerError}},
	{"502", Answer{Status: http.StatusBadGateway}},
	{"no answer", Answer{Status: http.StatusOK, Delay: time.Hour}},
	{"connection refused", Answer{Err: syscall.ECONNREFUSED}},
	{"503", Answer{Status: unavailable}},
	{"503 with an order", Answer{Status: unavailable, RetryAfter: 5 * time.Second}},
	{"429", Answer{Status: tooMany}},
}

type cell struct {
	trouble
	begin, length time.Duration
	ceiling       float64
	limit         float64 // of an nginx in front of it; zero means none
}

func (c cell) String() string {
	return fmt.Sprintf("%s from %v for %v, at most %g/s, nginx %g/s", c.name, c.begin, c.length, c.ceiling, c.limit)
}

func (c cell) run(t *testing.T, out bool) (admitted, sent []int) {
	sc := Scenario{
		Name: "outage", Link: Link{RTT: 60 * time.Millisecond, Jitter: 0.1}, MaxRPS: c.ceiling,
		Capacity: func(time.Duration) float64 { return c.ceiling },
		Duration: max(c.begin+c.length+max(10*time.Second, c.length/2)+20*time.Second, MinDuration),
		New: func(rnd *rand.Rand) Server {
			var s Server = &pages{rnd: rnd, median: 20 * time.Millisecond, sigma: 0.3}
			if c.limit > 0 {
				s = &leaky{rate: always(c.limit), burst: 20, status: unavailable}
			}
			if out {
				s = &outage{Server: s, when: spans{{c.begin, c.begin + c.length}}, says: c.says}
			}
			return s
		},
	}
	_, err := Simulation{Scenario: sc, Config: Config("steer"), Seed: 1, OnSecond: func(s Second) {
		admitted, sent = append(admitted, s.Admitted), append(sent, s.Granted)
	}}.Run(t.Context())
	require.NoError(t, err)
	return admitted, sent
}

// back returns how long after the end of the outage 90 % of the rate without the outage is reached, over three seconds,
// and how many requests the host got after its first four.
func (c cell) back(t *testing.T) (d time.Duration, trials int) {
	with, sent := c.run(t, true)
	without, _ := c.run(t, false)
	end := int((c.begin + c.length) / time.Second)
	for _, n := range sent[min(end, int(c.begin/time.Second)+4):end] {
		trials += n
	}
	sum := func(s []int) (n int) {
		for _, v := range s {
			n += v
		}
		return n
	}
	const span = 3
	for i := end; i+span <= len(with); i++ {
		if float64(sum(with[i:i+span])) >= 0.9*float64(sum(without[i:i+span]))-1 {
			return time.Duration(i-end) * time.Second, trials
		}
	}
	return Never, trials
}

// late are the outages after which the rate is known to come back late: by up to two seconds if the client needs its
// own timeout to notice the outage, and by more if a search is interrupted that was about to meet a limit which answers
// in the same way, so that a second pause is needed to tell them apart.
var late = map[string]bool{
	"429 from 12s for 1m0s, at most 100/s, nginx 50/s":               true,
	"429 from 12s for 20s, at most 100/s, nginx 50/s":                true,
	"503 from 12s for 1m0s, at most 100/s, nginx 50/s":               true,
	"503 from 12s for 20s, at most 100/s, nginx 50/s":                true,
	"503 from 12s for 4s, at most 100/s, nginx 50/s":                 true,
	"503 with an order from 12s for 1m0s, at most 100/s, nginx 50/s": true,
	"503 with an order from 12s for 20s, at most 100/s, nginx 50/s":  true,
	"no answer from 12s for 4s, at most 100/s, nginx 50/s":           true,
}

// TestOutages: failures say nothing about the rate, unless they recur at it. A run with an outage has its rate back
// within half the outage's length, or ten seconds, and meanwhile sends at most one request in two seconds. A search is
// not over after two seconds, so there the rate to come back to is 10/s, otherwise 100/s.
func TestOutages(t *testing.T) {
	t.Parallel()
	for _, tr := range troubles {
		for _, begin := range []time.Duration{2 * time.Second, 12 * time.Second, time.Minute} {
			for _, length := range []time.Duration{4 * time.Second, 20 * time.Second, time.Minute} {
				for _, limit := range []float64{0, 50} {
					c := cell{tr, begin, length, 10, limit / 10}
					if begin > 2*time.Second {
						c.ceiling, c.limit = 100, limit
					}
					t.Run(c.String(), func(t *testing.T) {
						t.Parallel()
						back, trials := c.back(t)
						require.Equal(t, late[c.String()], back > max(10*time.Second, length/2)+tr.says.RetryAfter, "back %v after its end", orNever(back))
						require.LessOrEqual(t, float64(trials), length.Seconds()/2, "requests while it was down")
					})
				}
			}
		}
	}
}

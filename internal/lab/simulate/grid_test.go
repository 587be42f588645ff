package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// gridTrouble is a way in which a host is away.
type gridTrouble struct {
	name string
	says Answer
}

func gridTroubles() []gridTrouble {
	return []gridTrouble{
		{"500", Answer{Status: 500}},
		{"502", Answer{Status: 502}},
		{"503", Answer{Status: unavailable}},
		{"503 Retry-After 5", Answer{Status: unavailable, RetryAfter: 5 * time.Second}},
		{"429", Answer{Status: tooMany}},
		{"timeout", Answer{Status: 200, Delay: time.Hour}},
		{"connection refused", Answer{Err: syscall.ECONNREFUSED}},
	}
}

// gridCell is one outage.
type gridCell struct {
	gridTrouble
	begin, length time.Duration
	ceiling       float64
	limit         float64 // of an nginx before it; zero for none
}

func (c gridCell) String() string {
	return fmt.Sprintf("%s from %v for %v, at most %g/s, nginx %g/s", c.name, c.begin, c.length, c.ceiling, c.limit)
}

// run is what was admitted in each second, with the outage or without.
func (c gridCell) run(strategy string, out bool, seed uint64) (admitted, sent []int, err error) {
	end := c.begin + c.length + max(10*time.Second, c.length/2) + 70*time.Second
	sc := Scenario{Name: "outage", Link: Link{RTT: 60 * time.Millisecond, Jitter: 0.1}, Capacity: func(time.Duration) float64 { return c.ceiling }}
	sc.New = func(rnd *rand.Rand) Server {
		var s Server = &pages{rnd: rnd, median: 20 * time.Millisecond, sigma: .3}
		if c.limit > 0 {
			s = &leaky{rate: always(c.limit), burst: 20, status: unavailable}
		}
		if out {
			s = &outage{Server: s, when: spans{{c.begin, c.begin + c.length}}, says: c.says}
		}
		return s
	}
	sc.Duration, sc.MaxRPS = max(end, MinDuration), c.ceiling
	sim := Simulation{Scenario: sc, Config: Config(strategy), Seed: seed, OnSecond: func(s Second) {
		admitted, sent = append(admitted, s.Admitted), append(sent, s.Granted)
	}}
	_, err = sim.Run(context.Background())
	return admitted, sent, err
}

// back is how long after its end 90 % of the rate without it is back, over spans of three seconds.
func (c gridCell) back(strategy string, seed uint64) (time.Duration, int, error) {
	with, sent, err := c.run(strategy, true, seed)
	without, _, err2 := c.run(strategy, false, seed)
	if err = errors.Join(err, err2); err != nil {
		return 0, 0, err
	}
	end := int((c.begin + c.length) / time.Second)
	trials := 0
	for i := int(c.begin/time.Second) + 4; i < end; i++ {
		trials += sent[i]
	}
	const span = 3
	for i := end; i+span <= min(len(with), len(without)); i++ {
		a, b := 0, 0
		for j := i; j < i+span; j++ {
			a, b = a+with[j], b+without[j]
		}
		if float64(a) >= .9*float64(b)-1 {
			return time.Duration(i-end) * time.Second, trials, nil
		}
	}
	return Never, trials, nil
}

func TestOutageGrid(t *testing.T) {
	strategy := os.Getenv("STRATEGY")
	if strategy == "" {
		strategy = "steer"
	}
	var cells []gridCell
	for _, tr := range gridTroubles() {
		for _, begin := range []time.Duration{2, 12, 60, 600} {
			for _, length := range []time.Duration{4, 20, 60} {
				for _, c := range [][2]float64{{5, 0}, {10, 0}, {100, 0}, {200, 50}} {
					cells = append(cells, gridCell{tr, begin * time.Second, length * time.Second, c[0], c[1]})
				}
			}
		}
	}
	if os.Getenv("STRATEGY") == "" {
		t.Skip("336 outages, for who sets STRATEGY")
	}
	lines := make([]string, len(cells))
	var g errgroup.Group
	g.SetLimit(2)
	for i, c := range cells {
		g.Go(func() error {
			d, trials, err := c.back(strategy, 1)
			most := max(10*time.Second, c.length/2)
			if c.says.RetryAfter > 0 {
				most += c.says.RetryAfter
			}
			if d > most || d == Never {
				lines[i] = fmt.Sprintf("%v: back after %v", c, orNever(d))
			}
			if float64(trials) > c.length.Seconds()/2 {
				lines[i] += fmt.Sprintf(" %v: %d trials", c, trials)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, l := range lines {
		if l != "" {
			failed++
			t.Log(strings.TrimSpace(l))
		}
	}
	t.Logf("%d of %d", failed, len(cells))
}

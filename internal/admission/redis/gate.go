package redis

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

// ErrOpen is the error of a decision for which Redis was not asked, because it did not
// answer lately.
var ErrOpen = fmt.Errorf("redis: the breaker is open: %w", admission.ErrNotCharged)

const (
	// gates is how many breakers there are for a cluster. Nodes have slots in long rows,
	// so most sixteenths are of one node, and sixteen are few enough to open quickly.
	gates = 16

	// slots is how many a cluster has, by the protocol.
	slots = 1 << 14

	// errorSpan is over how long the share of errors is counted: long enough for the
	// minimum of samples on a quiet service, short enough that an hour of success does
	// not hide a failure.
	errorSpan  = 10 * time.Second
	errorWidth = time.Second

	// inFlight is how many questions are under way at a time at the first gate, which is
	// the only one without a cluster, and inFlightEach at the others. The client queues 1024 on a
	// connection and then blocks beyond any deadline, so all of them are fewer. A server
	// decides about 100 in a millisecond.
	inFlight     = 256
	inFlightEach = 48

	// hearing is how long after a reply the server is taken to be there. Connections
	// seldom vanish within a second of use.
	hearing = time.Second

	// silent is no instant, but before all of them.
	silent int64 = math.MinInt64
)

// gate is a breaker with its lock, and the places for what has passed it.
type gate struct {
	places chan struct{}
	heard  atomic.Int64 // the instant of the last reply, or silent

	mu      sync.Mutex // guards what follows
	breaker breaker.Breaker
	errors  estimate.Window
	late    clock.Instant // when the last question was found to be late
}

func (g *gate) init(cfg *breaker.Config, places int) error {
	var err error
	g.places = make(chan struct{}, places)
	g.heard.Store(silent)
	g.breaker, g.late = breaker.New(cfg), math.MinInt64
	g.errors, err = estimate.NewWindow(errorSpan, errorWidth)
	return err
}

func (g *gate) allow(now clock.Instant) (breaker.Ticket, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, _, ok := g.breaker.Allow(now)
	return t, ok
}

func (g *gate) drop(t breaker.Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breaker.Drop(t)
}

// lateFor reports whether a question sent at an instant that is late now says something new:
// those that were under way together say the same thing once. A burst is served late by a
// server that is there.
func (g *gate) lateFor(sent, now clock.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sent < g.late {
		return false
	}
	g.late = now
	return true
}

// record counts a result and reports whether it opened the breaker.
func (g *gate) record(now clock.Instant, t breaker.Ticket, failed bool) (opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.errors.Add(now, failed)
	c := g.errors.Sum(now)
	if !g.breaker.Record(now, t, failed, c.ErrorRate(), c.Total) {
		return false
	}
	g.errors.Reset() // so that what opened it does not open it again
	return failed
}

func (g *gate) state(now clock.Instant) breaker.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaker.State(now)
}

// hears reports whether the last question was answered, and that not long ago.
func (g *gate) hears(now clock.Instant) bool {
	heard := g.heard.Load()
	return heard != silent && now.Sub(clock.Instant(heard)) < hearing
}

// gateOf is the gate of a stored key: in a cluster that of its slot, and else the first.
func (r *Repository) gateOf(key string) *gate {
	c := r.link.client.Load()
	if c == nil || !c.cluster {
		return &r.gates[0]
	}
	return &r.gates[gateIndex(c, key)]
}

func gateIndex(c *client, key string) int {
	cmd := c.B().Exists().Key(key).Build()
	return int(cmd.Slot() % slots / (slots / gates))
}

package resilience

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

// HedgeConfig configures a [Hedge].
type HedgeConfig[T any] struct {
	Name string // in errors and events; zero means none

	// Delay is how long a call may take before another is started beside it. With a
	// Quantile it holds until there are 20 latencies to go by. Zero means 2 s.
	Delay time.Duration
	// Quantile takes for the delay that share, in (0, 1), of the latencies of the last
	// 64 first calls: with 0.95 one call in twenty is hedged, however fast the callee
	// is at the time. Zero means that the delay is fixed.
	Quantile    float64
	MaxAttempts int // bounds the calls, the first included, from 2 to 16. Zero means 2
	// Budget is what further calls are taken from; share it with the retry around. Zero
	// means no bound.
	Budget *Budget

	Classify Classifier[T] // a Failure starts the next call at once; nil means DefaultClassifier
	Bind     Bind[T]       // of the value to the context of its call; nil means that it ends with Execute
	Discard  func(T)       // frees a value that nobody gets, on any goroutine; nil means nothing to free

	// Clock dates events. Delays and latencies are in the time of contexts, the system's,
	// which in a synctest test is that of the bubble. Zero means the system clock.
	Clock clock.Clock
	Hub   *Hub // hears of further calls; zero means nobody does
}

const (
	// defaultHedgeDelay is longer than nearly every answer of a web server that works:
	// without figures of the callee only stragglers are hedged.
	defaultHedgeDelay = 2 * time.Second
	// maxHedges bounds what one call may become at the callee.
	maxHedges = 16
)

func (c *HedgeConfig[T]) settle() error {
	setDefault(&c.Delay, defaultHedgeDelay)
	setDefault(&c.MaxAttempts, 2)
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	switch {
	case c.Delay < 0:
		return fmt.Errorf("hedge: Delay = %v: want a positive duration", c.Delay)
	case !(c.Quantile >= 0 && c.Quantile < 1):
		return fmt.Errorf("hedge: Quantile = %v: want a share in (0, 1), or 0 for a fixed delay", c.Quantile)
	case c.MaxAttempts < 2 || c.MaxAttempts > maxHedges:
		return fmt.Errorf("hedge: MaxAttempts = %d: want 2 to %d", c.MaxAttempts, maxHedges)
	}
	return nil
}

// Hedge is a [Policy] against the slow tail: a call that takes long gets a second one
// beside it, and the first good result is the result. It is for calls that may be made
// twice; whether one may is for the caller to know.
//
// The first call runs on the caller's goroutine, so that one which comes back in time,
// as nearly all do, costs next to nothing. Further ones run on goroutines of their own.
// Each has a context of its own. Once there is a winner the contexts of the others end,
// with a cause that says so, and what they still bring is discarded. Execute waits for
// none of them but the first, which has to honour its context, as ever. The winner's
// context lives as long as its value.
type Hedge[T any] struct {
	cfg    HedgeConfig[T]
	clk    clock.Clock // of delays: that of contexts
	epoch  time.Time
	pace   hedgePace
	work   hedgeWork
	timers sync.Pool    // of *hedgeTimer
	over   *realContext // of contexts that ended before anybody waited for them
}

// HedgeStatistics are totals, and what is going on now.
type HedgeStatistics struct {
	Calls   uint64        `json:"calls"`   // of Execute
	Hedges  uint64        `json:"hedges"`  // further calls started
	Won     uint64        `json:"won"`     // by a further call
	Failed  uint64        `json:"failed"`  // calls of Execute of which every call failed
	Denied  uint64        `json:"denied"`  // further calls that the budget had none for
	Panics  uint64        `json:"panics"`  // of further calls that had lost by then
	Running int           `json:"running"` // goroutines, those of losers included
	Delay   time.Duration `json:"delay"`   // until the next further call
}

// NewHedge returns the policy, or an error that names the field to mend.
func NewHedge[T any](cfg HedgeConfig[T]) (*Hedge[T], error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	h := &Hedge[T]{cfg: cfg, clk: clock.System(), over: endedContext()}
	h.pace.delay.Store(int64(cfg.Delay))
	h.epoch = h.clk.Now()
	return h, nil
}

// Execute runs fn, and again beside it what has not come back in time or has failed. It
// returns the first result that is no Failure. If all of them are, it returns the value
// of the last if that has one, and the error of the only one if there was but one, else
// a [HedgeError]. A panic and a runtime.Goexit of a call go on in the caller, unless the
// call had already lost.
func (h *Hedge[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		return refuse[T](callerErr(ctx))
	}
	if !h.work.enter() {
		return refuse[T](ErrClosed)
	}
	c := &hedgeCall[T]{h: h, ctx: ctx, fn: fn, begun: h.now(), started: 1, running: 1, first: scopeContext{Context: ctx, over: h.over}}
	defer c.leave()
	c.arm()
	h.cfg.Budget.Note()
	r := hedgeResult[T]{}
	r.value, r.err = fn(&c.first)
	if h.cfg.Quantile > 0 {
		c.took = h.now().Sub(c.begun)
	}
	c.held, c.judging = r, true // where leave finds it if the classifier panics
	r.classification = h.cfg.Classify.judge(ctx, r.value, r.err)
	c.judging = false
	c.finish(r)
	return c.outcome()
}

func (h *Hedge[T]) now() clock.Instant { return clock.Instant(h.clk.Since(h.epoch)) }

// Statistics is a copy of one instant.
func (h *Hedge[T]) Statistics() HedgeStatistics {
	s := h.work.statistics()
	s.Delay = h.pace.current()
	return s
}

// Close makes later calls fail with [ErrClosed] and waits until those that run have
// ended, the losers among them too; it cancels none. It must not be called by fn.
func (h *Hedge[T]) Close() error {
	h.work.close()
	return nil
}

const (
	// paceSamples is how many latencies a quantile needs: below twenty the p95 is the
	// slowest call there was.
	paceSamples = 20
	// paceEvery is after how many latencies the quantile is found again. It needs a
	// sort, and eight of 64 do not move it by much.
	paceEvery = 8
)

type hedgePace struct {
	delay atomic.Int64 // in nanoseconds, more than 0

	mu    sync.Mutex // guards what follows
	tail  estimate.Quantile
	fresh int // latencies since the delay was found
}

func (p *hedgePace) current() time.Duration { return time.Duration(p.delay.Load()) }

// add takes the latency of a first call. One that was cut short because another won
// counts with the time it had: leaving it out would leave out just the slow ones, so that
// the quantile would sink and ever more calls would be hedged.
func (p *hedgePace) add(latency time.Duration, quantile float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail.Add(latency, estimate.Samples)
	p.fresh++
	if n := p.tail.Len(); n < paceSamples || p.fresh < paceEvery {
		return
	}
	p.fresh = 0
	p.delay.Store(int64(max(p.tail.At(quantile), 1)))
}

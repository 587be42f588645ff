package ratelimit

import (
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/limit"
)

// unhurried makes rules under which nobody waits for the engine; see ample.
func unhurried(r *rules) {
	r.start, r.floor, r.ceiling, r.capacity = 1e9*perSecond, 1e9*perSecond, 1e9*perSecond, 1000*token
}

// A capped host's grant costs no memory either.
func TestHotPathWithCapsAllocatesNothing(t *testing.T) {
	for _, kind := range limit.Kinds() {
		spec := limit.Spec{Kind: kind, Permits: 1e9, Per: time.Second}
		switch kind {
		case limit.KindConcurrency:
			spec.Per = 0
		case limit.KindSlidingWindowLog:
			spec.Per = time.Millisecond // or the log would grow all the while
		}
		c := DefaultConfig()
		c.Strategy = control.NameFixed
		c.GlobalConcurrency, c.GlobalBytes = 1000, 1<<40
		c.Hosts = []HostRule{{Match: "*", Cap: spec, Quota: limit.Spec{Permits: 1e9, Per: 24 * time.Hour}, MaxInFlight: 1000}}
		l := mustNew(t, c)
		unhurried(&l.laid.Load().hosts[0].rules)
		ctx := t.Context()
		visit := func() {
			p, err := l.Acquire(ctx, host)
			if err != nil {
				return
			}
			l.Feedback(host, Feedback{StatusCode: 200, Latency: 20 * time.Millisecond})
			l.ChargeBytes(1000)
			p.Release()
			l.ReadyAt(host, 1, 1)
		}
		for range 5000 { // a log grows to what is in view
			visit()
		}
		if n := testing.AllocsPerRun(1000, visit); n != 0 {
			t.Errorf("%s: a grant allocates %v times, want 0", kind, n)
		}
	}
}

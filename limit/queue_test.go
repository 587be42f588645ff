package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

type caller struct {
	comes, patience time.Duration
	n               int64
	left            clock.Instant // when it was served or gave up
	served          bool
}

// TestLineAgainstModels plays random callers against the plain models: each is served in the order of arrival, at the
// first nanosecond at which those before it have left and there is room, and leaves no trace when it gives up.
func TestLineAgainstModels(t *testing.T) {
	for _, m := range models() {
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				g := grants{permits: rapid.Int64Range(1, 6).Draw(rt, "permits"), per: time.Duration(rapid.Int64Range(1, 1000).Draw(rt, "per"))}
				g.burst = g.permits
				var callers []*caller
				for at := time.Duration(0); len(callers) < 12; at += time.Duration(rapid.Int64Range(1, 300).Draw(rt, "gap")) {
					callers = append(callers, &caller{
						comes: at, n: rapid.Int64Range(1, g.permits).Draw(rt, "n"),
						patience: time.Duration(rapid.SampledFrom([]int64{0, 1, 50, 200, 1000, 1e6, 1e6, 1e6}).Draw(rt, "patience")),
					})
				}
				var verdict error
				synctest.Test(t, func(t *testing.T) { verdict = playLine(t, m, g, callers) })
				if verdict != nil {
					rt.Fatal(verdict)
				}
			})
		})
	}
}

func playLine(t *testing.T, m modelled, g grants, callers []*caller) error {
	l := &core{}
	set, err := newSettings(Spec{Permits: g.permits, Per: g.per}, nil)
	if err != nil {
		return err
	}
	l.init(set, m.alg(g))
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			time.Sleep(c.comes)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(c.patience, cancel).Stop()
			c.served = l.AcquireN(ctx, c.n) == nil
			c.left = clock.Instant(clock.System().Since(set.epoch))
		})
	}
	wg.Wait()
	if l.line.n != 0 || l.line.head != nil {
		return errors.New("somebody is left in the line")
	}
	return judgeLine(m.model(g), callers)
}

func judgeLine(mod model, callers []*caller) error {
	free := clock.Instant(0) // when the line was first without those before
	for i, c := range callers {
		free = max(free, clock.Instant(c.comes))
		switch {
		case !c.served && c.left != clock.Instant(c.comes+c.patience):
			return fmt.Errorf("caller %d gave up at %d, not at its time", i, c.left)
		case !c.served && free < c.left-1 && mod.fits(c.left-1, c.n):
			return fmt.Errorf("caller %d gave up at %d, but there was room before", i, c.left)
		case c.served && !mod.fits(c.left, c.n):
			return fmt.Errorf("caller %d was served %d at %d, where there is no room", i, c.n, c.left)
		case c.served && c.left < free:
			return fmt.Errorf("caller %d was served at %d, before those who came first", i, c.left)
		case c.served && c.left > free && mod.fits(c.left-1, c.n):
			return fmt.Errorf("caller %d was served %d at %d, and could have been before; first since %d", i, c.n, c.left, free)
		}
		if c.served {
			mod.grant(c.left, c.n)
		}
		free = max(free, c.left)
	}
	return nil
}

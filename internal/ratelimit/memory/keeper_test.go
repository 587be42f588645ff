package memory_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

// slowPlace takes a second to save, and then fails if it is told to.
type slowPlace struct {
	memory.Place
	failing bool
	saved   int
}

func (p *slowPlace) Save(ctx context.Context, _ iter.Seq[ratelimit.HostMemory]) error {
	if err := clock.Sleep(ctx, clock.System(), time.Second); err != nil {
		return err
	}
	if p.failing {
		return errors.New("no room")
	}
	p.saved++
	return nil
}

// A save that the end of a crawl breaks off is no trouble: the last one makes it good. One that
// fails is told once while the crawl runs, and once at its end.
func TestKeeperSaysWhatIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		failing     bool
		told, saved int
	}{{false, 0, 1}, {true, 2, 0}} {
		synctest.Test(t, func(t *testing.T) {
			l, err := ratelimit.New(ratelimit.DefaultConfig())
			require.NoError(t, err)
			var said bytes.Buffer
			place, pauses := &slowPlace{failing: tc.failing}, make(chan struct{}, 1)
			k := &memory.Keeper{Places: []memory.Place{place}, Limiter: l, Clock: clock.System(), Log: slog.New(slog.NewTextHandler(&said, nil)), Pauses: pauses}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); k.Run(ctx) }()
			pauses <- struct{}{} // it saves at once
			if tc.failing {
				time.Sleep(10 * time.Minute)
			} else {
				time.Sleep(500 * time.Millisecond)
			}
			end()
			<-done
			k.SaveLast(context.WithoutCancel(ctx))
			require.Equal(t, tc.told, strings.Count(said.String(), "level=WARN"), said.String())
			require.Equal(t, tc.saved, place.saved)
		})
	}
}

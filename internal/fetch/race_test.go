package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

type way struct {
	after time.Duration
	err   error
}

type roads struct {
	ways map[string]way

	mu    sync.Mutex
	tried []string
	most  int // attempts at a time
	now   int
	open  int
}

func (r *roads) dial(ctx context.Context, a netip.Addr) (net.Conn, error) {
	r.mu.Lock()
	r.tried = append(r.tried, a.String())
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
	}()
	w := r.ways[a.String()]
	if err := clock.Sleep(ctx, clock.System(), w.after); err != nil && w.after > 0 {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	near, far := net.Pipe()
	_ = far.Close()
	return &counted{near, r}, nil
}

type counted struct {
	net.Conn
	r *roads
}

func (c *counted) Close() error {
	c.r.mu.Lock()
	c.r.open--
	c.r.mu.Unlock()
	return c.Conn.Close()
}

func list(names ...string) (out []netip.Addr) {
	for _, s := range names {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestRace(t *testing.T) {
	down, lost := errors.New("down"), errors.New("lost")
	const six1, six2, four1, four2 = "2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"
	for name, tc := range map[string]struct {
		addrs []netip.Addr
		ways  map[string]way
		tried []string
		took  time.Duration
		err   error
	}{
		"one":                     {list(four1), map[string]way{four1: {after: time.Second}}, []string{four1}, time.Second, nil},
		"the first at once":       {list(six1, four1), nil, []string{six1}, 0, nil},
		"the first is slow":       {list(six1, four1), map[string]way{six1: {after: time.Hour}}, []string{six1, four1}, 300 * time.Millisecond, nil},
		"the first is a bit slow": {list(six1, four1), map[string]way{six1: {after: 400 * time.Millisecond}, four1: {after: time.Second}}, []string{six1, four1}, 400 * time.Millisecond, nil},
		"the first is down":       {list(six1, four1), map[string]way{six1: {err: down}}, []string{six1, four1}, 0, nil},
		"IPv4 preferred":          {list(four1, six1), map[string]way{four1: {err: down}}, []string{four1, six1}, 0, nil},
		"one after another":       {list(four1, four2), map[string]way{four1: {err: down}}, []string{four1, four2}, 0, nil},
		"of one version":          {list(four1, four2), map[string]way{four1: {after: time.Hour}}, []string{four1, four2}, 300 * time.Millisecond, nil},
		"all down":                {list(six1, four1), map[string]way{six1: {err: down}, four1: {err: lost}}, []string{six1, four1}, 0, down},
		"all of one down":         {list(four1, four2), map[string]way{four1: {err: lost}, four2: {err: down}}, []string{four1, four2}, 0, lost},
		"all slow":                {list(six1, four1), map[string]way{six1: {after: time.Hour}, four1: {after: time.Hour}}, []string{six1, four1}, 10 * time.Second, context.DeadlineExceeded},
		"mixed": {
			list(six1, four1, six2, four2),
			map[string]way{six1: {after: time.Hour}, six2: {after: time.Hour}, four1: {after: time.Second, err: down}},
			[]string{six1, four1, six2, four2},
			2500 * time.Millisecond, nil, // when the share of six1 is over
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				r := &roads{ways: tc.ways}
				begin := time.Now()
				c, err := race(ctx, tc.addrs, r.dial)
				require.ErrorIs(t, err, tc.err)
				require.Equal(t, tc.took, time.Since(begin))
				require.Equal(t, tc.tried, r.tried)
				require.LessOrEqual(t, r.most, 2, "no host gets more than two at a time")
				if err == nil {
					require.Equal(t, 1, r.open)
					require.NoError(t, c.Close())
				}
				require.Zero(t, r.open, "the loser is closed")
			})
		})
	}
}

// TestRaceEndsTogether: both arrive in the same instant, and one of them stays.
func TestRaceEndsTogether(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			r := &roads{ways: map[string]way{"2001:db8::1": {after: time.Second}, "192.0.2.1": {after: 700 * time.Millisecond}}}
			c, err := race(t.Context(), list("2001:db8::1", "192.0.2.1"), r.dial)
			require.NoError(t, err)
			require.Equal(t, 1, r.open)
			require.NoError(t, c.Close())
		})
	}
}

func TestRaceWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		r := new(roads)
		for _, addrs := range [][]netip.Addr{list("192.0.2.1"), list("192.0.2.1", "2001:db8::1")} {
			_, err := race(ctx, addrs, r.dial)
			require.ErrorIs(t, err, cause)
		}
		require.Empty(t, r.tried)
	})
}

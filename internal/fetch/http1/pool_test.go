package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slow answers every request after a second.
func slow(c net.Conn, _ string) bool {
	time.Sleep(time.Second)
	return say(c, page)
}

func TestRequestsWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, nil)
		begin := time.Now()
		done := make([]time.Duration, 7)
		var all sync.WaitGroup
		for i := range done {
			all.Go(func() {
				body, err := get(tr, wait(t.Context()), "a.test", "/")
				require.NoError(t, err)
				require.Equal(t, "page", body)
				done[i] = time.Since(begin)
			})
			synctest.Wait() // so that it is behind those before it
		}
		all.Wait()
		for i, at := range done {
			require.Equal(t, time.Duration(i/2+1)*time.Second, at, "request %d", i)
		}
		require.Equal(t, 2, s.dials())
		require.Equal(t, 2, s.most)
	})
}

func TestWhoGivesUpWaitingCostsNobody(t *testing.T) {
	errGone := errors.New("gone")
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, func(c *Config) { c.MaxPerHost = 1 })
		begin := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		ends := make([]time.Duration, 4)
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range ends {
			all.Go(func() {
				w := wait(t.Context())
				if i == 1 || i == 2 {
					w = wait(ctx)
				}
				_, errs[i] = get(tr, w, "a.test", "/")
				ends[i] = time.Since(begin)
			})
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		cancel(errGone)
		all.Wait()
		require.Equal(t, []error{nil, errGone, errGone, nil}, errs)
		require.Equal(t, []time.Duration{time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}, ends)
		require.Equal(t, 1, s.dials())
	})
}

// TestTurnAndEndAtOnce lets turns and cancellations come at the same instants, on healthy
// connections and on such as die, for one place to be lost or given twice.
func TestTurnAndEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(func(c net.Conn, path string) bool {
			time.Sleep(time.Second)
			return path == "/" && say(c, page)
		})}
		tr := s.transport(t, nil)
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%9+1)*time.Second)
				defer cancel()
				path := "/"
				if i%5 == 0 {
					path = "/die"
				}
				w := wait(ctx)
				_, err := get(tr, w, fmt.Sprint("host", i%2), path)
				require.False(t, err == nil && path == "/die")
			})
		}
		all.Wait()
		require.LessOrEqual(t, s.most, 4)
		for _, h := range tr.pool.hosts {
			require.Empty(t, h.waiters)
			require.Len(t, h.idle, h.open, "a place is lost")
		}
		body, err := get(tr, wait(t.Context()), "host0", "/")
		require.NoError(t, err)
		require.Equal(t, "page", body)
	})
}

func TestTheOldestAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, func(c *Config) { c.MaxIdle = 2 })
		ask := func(host string) bool {
			w := wait(t.Context())
			_, err := get(tr, w, host, "/")
			require.NoError(t, err)
			return w.reused
		}
		require.False(t, ask("a"))
		require.False(t, ask("b"))
		require.True(t, ask("a"))
		require.False(t, ask("c"))
		require.Equal(t, 2, s.kept())
		require.True(t, ask("a"), "it was used after b")
		require.False(t, ask("b"))
		require.Len(t, tr.pool.hosts, 2)
	})
}

func TestKeptForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, nil)
		begin := time.Now()
		for _, host := range []string{"a", "b"} {
			_, err := get(tr, wait(t.Context()), host, "/") // kept at 1s, and at 31s
			require.NoError(t, err)
			time.Sleep(29 * time.Second)
		}
		for _, step := range []struct {
			at   time.Duration
			kept int
		}{{91*time.Second - 1, 2}, {91*time.Second + 1, 1}, {121*time.Second - 1, 1}, {121*time.Second + 1, 0}} {
			time.Sleep(step.at - time.Since(begin))
			require.Equal(t, step.kept, s.kept(), "%v after the start", step.at)
		}
		require.Empty(t, tr.pool.hosts)
	})
}

func TestCloseWhileRequestsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, nil)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := get(tr, wait(t.Context()), "a", "/")
				require.NoError(t, err, "what is under way, or waits, goes on")
			})
		}
		time.Sleep(1500 * time.Millisecond)
		tr.CloseIdleConnections()
		all.Wait()
		synctest.Wait()
		require.Zero(t, s.kept())
		_, err := get(tr, wait(t.Context()), "a", "/")
		require.NoError(t, err)
		require.Zero(t, s.kept(), "nothing is kept from now on")
	})
}

func TestDeadConnectionsAreNotLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(func(c net.Conn, _ string) bool {
			say(c, page)
			return false
		})}
		tr := s.transport(t, nil)
		for range 3 {
			w := wait(t.Context())
			_, err := get(tr, w, "a", "/")
			require.NoError(t, err)
			require.False(t, w.reused)
			time.Sleep(time.Second)
		}
	})
}

func TestADialThatFailsLeavesNothing(t *testing.T) {
	refused := errors.New("refused")
	tr := New(Config{
		Dial:           func(context.Context, string, string) (net.Conn, error) { return nil, refused },
		MaxHeaderBytes: bound, MaxPerHost: 1, MaxIdle: 1, IdleTimeout: time.Minute,
	})
	for range 3 { // more than there are places
		_, err := get(tr, wait(t.Context()), "a", "/")
		require.ErrorIs(t, err, refused)
	}
	require.Empty(t, tr.pool.hosts)
}

// TestATurnThatComesTooLate gives a turn to somebody who is about to leave.
func TestATurnThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, nil)
		_, err := get(tr, wait(t.Context()), "a", "/")
		require.NoError(t, err)
		p, key := &tr.pool, hostKey{host: "a"}
		h := p.hosts[key]
		late := func() chan *conn {
			turn := make(chan *conn, 1)
			h.waiters = append(h.waiters, turn)
			return turn
		}

		c, err := p.take(key, wait(t.Context()))
		require.NoError(t, err)
		turn := late()
		p.put(c)
		p.leave(key, h, turn)
		require.Len(t, h.idle, 1, "the connection is lost")

		c, err = p.take(key, wait(t.Context()))
		require.NoError(t, err)
		turn = late()
		c.discard()
		p.drop(key)
		p.leave(key, h, turn)
		require.Empty(t, p.hosts, "the place is lost")
	})
}

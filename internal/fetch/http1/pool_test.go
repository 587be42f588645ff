package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func slow(c net.Conn, _ string) bool {
	time.Sleep(time.Second)
	return say(c, page)
}

func withSite(t *testing.T, serve func(net.Conn, int), change func(*Config), test func(*testing.T, *site, *Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: serve}
		test(t, s, s.transport(t, change))
	})
}

func TestRequestsWaitInTurn(t *testing.T) {
	withSite(t, requests(slow), nil, func(t *testing.T, s *site, tr *Transport) {
		begin := time.Now()
		done := make([]time.Duration, 7)
		var all sync.WaitGroup
		for i := range done {
			all.Go(func() {
				require.Equal(t, "page", must(get(tr, wait(t.Context()), "a.test", "/")))
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
	withSite(t, requests(slow), func(c *Config) { c.MaxPerHost = 1 }, func(t *testing.T, s *site, tr *Transport) {
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
	serve := requests(func(c net.Conn, path string) bool {
		time.Sleep(time.Second)
		return path == "/" && say(c, page)
	})
	withSite(t, serve, nil, func(t *testing.T, s *site, tr *Transport) {
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
			require.Zero(t, h.users)
			require.True(t, h.places.TryAcquire(2), "a place is lost")
			h.places.Release(2)
		}
		require.Equal(t, "page", must(get(tr, wait(t.Context()), "host0", "/")))
	})
}

func TestTheOldestAreClosed(t *testing.T) {
	withSite(t, requests(slow), func(c *Config) { c.MaxIdle = 2 }, func(t *testing.T, s *site, tr *Transport) {
		ask := func(host string) bool {
			w := wait(t.Context())
			must(get(tr, w, host, "/"))
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
	withSite(t, requests(slow), nil, func(t *testing.T, s *site, tr *Transport) {
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
	withSite(t, requests(slow), nil, func(t *testing.T, s *site, tr *Transport) {
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
		must(get(tr, wait(t.Context()), "a", "/"))
		require.Zero(t, s.kept(), "nothing is kept from now on")
	})
}

func TestDeadConnectionsAreNotLent(t *testing.T) {
	serve := requests(func(c net.Conn, _ string) bool {
		say(c, page)
		return false
	})
	withSite(t, serve, nil, func(t *testing.T, _ *site, tr *Transport) {
		for range 3 {
			w := wait(t.Context())
			must(get(tr, w, "a", "/"))
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

var errEnough = errors.New("enough")

// TestTheContextEndsEveryPhase lets the context end after a second, whatever is waited for: at
// once, with its cause, and with nothing left of the connection.
func TestTheContextEndsEveryPhase(t *testing.T) {
	never := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for name, serve := range map[string]func(net.Conn, int){
		"write": func(c net.Conn, _ int) { // takes three bytes
			_, _ = io.ReadFull(c, make([]byte, 3))
			time.Sleep(time.Minute)
		},
		"first byte": func(c net.Conn, _ int) { never(c) },
		"header": requests(func(c net.Conn, _ string) bool {
			say(c, "HTTP/1.1 200 OK\r\nX-Half: ")
			never(c)
			return false
		}),
		"hints": requests(func(c net.Conn, _ string) bool {
			for say(c, "HTTP/1.1 103 Early Hints\r\n\r\n") {
				time.Sleep(300 * time.Millisecond)
			}
			return false
		}),
		"body": requests(func(c net.Conn, _ string) bool {
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			never(c)
			return false
		}),
		"chunk": requests(func(c net.Conn, _ string) bool {
			say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
			never(c)
			return false
		}),
	} {
		t.Run(name, func(t *testing.T) {
			withSite(t, serve, nil, func(t *testing.T, s *site, tr *Transport) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errEnough) })
				begin := time.Now()
				body, err := get(tr, wait(ctx), "a", "/")
				require.ErrorIs(t, err, errEnough)
				require.Equal(t, time.Second, time.Since(begin))
				require.Contains(t, []string{"", "half"}, body)
				require.Zero(t, s.kept())
				require.Empty(t, tr.pool.hosts)
			})
		})
	}
}

func TestTheContextEndsTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(site)
		tr := s.transport(t, func(c *Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errEnough)
		defer cancel()
		_, err := get(tr, wait(ctx), "a", "/")
		require.ErrorIs(t, err, errEnough)
	})
}

// TestAnEndThatComesLate ends the wait at the instant at which the answer is complete: the
// answer may be whole, but nobody else gets the connection, which is being closed.
func TestAnEndThatComesLate(t *testing.T) {
	withSite(t, requests(slow), nil, func(t *testing.T, _ *site, tr *Transport) {
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = get(tr, wait(ctx), "a", "/")
			cancel()
			require.Equal(t, "page", must(get(tr, wait(t.Context()), "a", "/")))
		}
	})
}

// TestAfterTheEnd ends the context when the answer has been read, as callers do.
func TestAfterTheEnd(t *testing.T) {
	withSite(t, requests(slow), nil, func(t *testing.T, _ *site, tr *Transport) {
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			w := wait(ctx)
			must(get(tr, w, "a", "/"))
			require.Equal(t, i > 0, w.reused)
			cancel()
			synctest.Wait()
		}
	})
}

func TestABodyIsClosedEarly(t *testing.T) {
	serve := requests(func(c net.Conn, _ string) bool {
		return say(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100000))
	})
	withSite(t, serve, nil, func(t *testing.T, s *site, tr *Transport) {
		resp := must(wait(t.Context()).do(tr, &Request{Host: "a", Target: "/"}))
		require.Positive(t, must(resp.Body.Read(make([]byte, 10))))
		for range 2 { // the second time does nothing
			require.NoError(t, resp.Body.Close())
			_, err := resp.Body.Read(make([]byte, 10))
			require.ErrorIs(t, err, errBodyClosed)
			require.Zero(t, s.kept())
		}
	})
}

// TestTLSDoesNotWaitToSayGoodbye gives up an answer whose server reads nothing any more.
func TestTLSDoesNotWaitToSayGoodbye(t *testing.T) {
	cert := certificate()
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: func(c net.Conn, _ int) {
			// A ticket would fill the pipe, which holds nothing, while the client writes.
			secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
			if req, err := http.ReadRequest(bufio.NewReader(secure)); err != nil || req == nil {
				return
			}
			_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			time.Sleep(time.Minute) // and reads nothing
		}}
		tr := s.transport(t, func(c *Config) { c.DialTLS = handshake(s.dial) })
		for name, early := range map[string]bool{"closed": true, "ended": false} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errEnough)
			begin := time.Now()
			resp := must(wait(ctx).do(tr, &Request{TLS: true, Host: "a", Target: "/"}))
			if !early {
				_, err := io.ReadAll(resp.Body)
				require.ErrorIs(t, err, errEnough)
				begin = begin.Add(time.Second)
			}
			require.NoError(t, resp.Body.Close())
			require.Zero(t, time.Since(begin), name)
			cancel()
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errEnough = errors.New("enough")

// TestTheWatchEndsEveryPhase lets the wait end after a second, whatever is waited for: at
// once, with its cause, and with nothing left of the connection.
func TestTheWatchEndsEveryPhase(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) {
				s := &site{serve: serve}
				tr := s.transport(t, nil)
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

func TestTheWatchEndsTheDial(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, nil)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = get(tr, wait(ctx), "a", "/")
			cancel()
			body, err := get(tr, wait(t.Context()), "a", "/")
			require.NoError(t, err)
			require.Equal(t, "page", body)
		}
	})
}

// TestAfterTheEnd ends the context when the answer has been read, as callers do.
func TestAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(slow)}
		tr := s.transport(t, nil)
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			w := wait(ctx)
			_, err := get(tr, w, "a", "/")
			require.NoError(t, err)
			require.Equal(t, i > 0, w.reused)
			cancel()
			synctest.Wait()
		}
	})
}

func TestABodyIsClosedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{serve: requests(func(c net.Conn, _ string) bool {
			return say(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100000))
		})}
		tr := s.transport(t, nil)
		resp, err := tr.Do(&Request{Host: "a", Target: "/"}, wait(t.Context()))
		require.NoError(t, err)
		n, err := resp.Body.Read(make([]byte, 10))
		require.NoError(t, err)
		require.Positive(t, n)
		for range 2 { // the second time does nothing
			require.NoError(t, resp.Body.Close())
			_, err = resp.Body.Read(make([]byte, 10))
			require.ErrorIs(t, err, errBodyClosed)
			require.Zero(t, s.kept())
		}
	})
}

// TestTLSDoesNotWaitToSayGoodbye gives up an answer whose server reads nothing any more.
func TestTLSDoesNotWaitToSayGoodbye(t *testing.T) {
	cert := certificate(t)
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
			resp, err := tr.Do(&Request{TLS: true, Host: "a", Target: "/"}, wait(ctx))
			require.NoError(t, err)
			if !early {
				_, err = io.ReadAll(resp.Body)
				require.ErrorIs(t, err, errEnough)
				begin = begin.Add(time.Second)
			}
			require.NoError(t, resp.Body.Close())
			require.Zero(t, time.Since(begin), name)
			cancel()
		}
	})
}

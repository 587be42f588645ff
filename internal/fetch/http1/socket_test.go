package http1

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func certificate() tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, &key.PublicKey, key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func handshake(dial dialer) dialer {
	cfg := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(raw, cfg)
		return secure, secure.HandshakeContext(ctx)
	}
}

func listen(t *testing.T, serve func(c *net.TCPConn)) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// real is a Transport for real connections, closed before what listens is.
func real(t *testing.T) *Transport {
	t.Helper()
	dial := new(net.Dialer).DialContext
	tr := New(Config{
		Dial: dial, DialTLS: handshake(dial),
		MaxHeaderBytes: bound, MaxPerHost: 4, MaxIdle: 4, IdleTimeout: time.Minute,
	})
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// eventually is for what the system does in its own time.
func eventually(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 10*time.Second, time.Millisecond)
}

func ask(t *testing.T, tr *Transport, secure bool, addr string) (reused bool) {
	t.Helper()
	w := wait(t.Context())
	resp := must(w.do(tr, &Request{TLS: secure, Host: addr, Target: "/"}))
	require.Equal(t, http.StatusOK, resp.StatusCode)
	b := make([]byte, 8)
	n, err := resp.Body.Read(b)
	require.Equal(t, "page", string(b[:n]))
	for err == nil {
		_, err = resp.Body.Read(b)
	}
	require.NoError(t, resp.Body.Close())
	return w.reused
}

func only(t *testing.T, tr *Transport) *conn {
	t.Helper()
	tr.pool.mu.Lock()
	defer tr.pool.mu.Unlock()
	require.Equal(t, 1, tr.pool.idle.Len())
	return tr.pool.idle.Front().Value.(*conn)
}

// TestKeptSocketsThatAreNoGood lets the server do something to a kept connection that makes
// it unusable, and waits until it has arrived: nothing of it may reach the next request.
func TestKeptSocketsThatAreNoGood(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, act := range map[string]func(*net.TCPConn) error{
		"closed":      func(c *net.TCPConn) error { return c.Close() },
		"half closed": func(c *net.TCPConn) error { return c.CloseWrite() },
		"reset":       func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
		"unasked":     func(c *net.TCPConn) error { _, err := c.Write([]byte(evil)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			acted := make(chan error, 2)
			now := make(chan struct{}, 2)
			addr := listen(t, func(c *net.TCPConn) {
				requests(slowlyNot)(onceThen{c, func() {
					<-now
					acted <- act(c)
				}}, 0)
			})
			tr := real(t)
			require.False(t, ask(t, tr, false, addr))
			c := only(t, tr)
			require.True(t, c.alive())
			now <- struct{}{}
			require.NoError(t, <-acted)
			eventually(t, func() bool { return !c.alive() })
			require.False(t, ask(t, tr, false, addr))
			now <- struct{}{}
		})
	}
}

func slowlyNot(c net.Conn, _ string) bool { return say(c, page) }

// onceThen acts when the answer has been written.
type onceThen struct {
	net.Conn
	act func()
}

func (o onceThen) Write(b []byte) (int, error) {
	n, err := o.Conn.Write(b)
	o.act()
	return n, err
}

// TestTLSConnectionsAreKept counts the handshakes of many requests, whose tickets for
// resumption arrive when they like.
func TestTLSConnectionsAreKept(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			var handshakes atomic.Int32
			cfg := &tls.Config{Certificates: []tls.Certificate{certificate()}, MaxVersion: version}
			addr := listen(t, func(c *net.TCPConn) {
				handshakes.Add(1)
				requests(slowlyNot)(tls.Server(c, cfg), 0)
			})
			tr := real(t)
			for i := range 50 {
				require.Equal(t, i > 0, ask(t, tr, true, addr))
			}
			require.EqualValues(t, 1, handshakes.Load())
		})
	}
}

// glued writes what it is given when it is told to, all at once.
type glued struct {
	net.Conn
	text []byte
	hold bool
}

func (g *glued) Write(b []byte) (int, error) {
	if !g.hold {
		return g.Conn.Write(b)
	}
	g.text = append(g.text, b...)
	return len(b), nil
}

// TestWhatTLSHasReadAhead sends an answer and one more record with it, which the client's
// TLS reads together with the first: the system no longer knows of it.
func TestWhatTLSHasReadAhead(t *testing.T) {
	for name, more := range map[string]func(*tls.Conn){
		"unasked": func(c *tls.Conn) { say(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil") },
		"goodbye": func(c *tls.Conn) { _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &tls.Config{Certificates: []tls.Certificate{certificate()}}
			addr := listen(t, func(c *net.TCPConn) {
				g := &glued{Conn: c}
				secure := tls.Server(g, cfg)
				in := bufio.NewReader(secure)
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				g.hold = true
				say(secure, page)
				more(secure)
				_ = c.SetWriteDeadline(time.Time{}) // TLS writes nothing after a goodbye
				_, _ = c.Write(g.text)
				_, _ = in.ReadByte() // until the client is gone
			})
			tr := real(t)
			for range 5 {
				require.False(t, ask(t, tr, true, addr))
			}
		})
	}
}

package fetchtest_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func TestMemoryConnects(t *testing.T) {
	var m fetchtest.Memory
	ln, err := m.Listen("127.0.0.1:0")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", ln.Addr().String())
	accepted := make(chan net.Conn)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	near, err := m.DialContext(t.Context(), "tcp", "127.0.0.1:8080")
	require.NoError(t, err)
	far := <-accepted
	require.Equal(t, near.LocalAddr(), far.RemoteAddr())
	require.Equal(t, near.RemoteAddr(), far.LocalAddr())

	go func() { _, _ = far.Write([]byte("hello")) }()
	buf := make([]byte, 5)
	_, err = near.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf))

	require.NoError(t, far.Close())
	_, err = near.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.Equal(t, outcome.Network, outcome.Of(0, err), "a client takes it for a network")
	require.NoError(t, near.Close())
	require.NoError(t, ln.Close())
	require.NoError(t, ln.Close(), "closing twice is fine")
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestMemoryRefuses(t *testing.T) {
	var m fetchtest.Memory
	_, err := m.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, outcome.Network, outcome.Of(0, err))
	_, err = m.DialContext(t.Context(), "tcp", "example.test:80")
	require.Error(t, err)

	ln, err := m.Listen("127.0.0.1:1")
	require.NoError(t, err)
	_, err = m.Listen("127.0.0.1:1")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody accepts, so this decides
	_, err = m.DialContext(ctx, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ln.Close())
}

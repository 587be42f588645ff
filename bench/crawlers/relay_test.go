package crawlers_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// startRelay puts a server a round trip away: it returns an address that leads there. All connections end with the test.
func startRelay(t *testing.T, server string, rtt time.Duration) (near string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return // closed below
			}
			all.Go(func() {
				far, err := net.Dial("tcp", server)
				if err != nil {
					near.Close()
					return
				}
				relay(ctx, near, far, rtt)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		ln.Close()
		all.Wait()
	})
	return ln.Addr().String()
}

// relay passes on what each side sends half a round trip later, until both have ended
// or ctx does, and closes both. What the near side sends at first waits a whole round
// trip more, which is what the handshake would have taken.
func relay(ctx context.Context, near, far net.Conn, rtt time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})
	open := time.Now().Add(rtt)
	var both sync.WaitGroup
	both.Go(func() { carry(ctx, cancel, far, near, open, rtt/2) })
	both.Go(func() { carry(ctx, cancel, near, far, open, rtt/2) })
	both.Wait()
	if stop() { // else they are closed already
		near.Close()
		far.Close()
	}
}

// chunk is what was read at once, and when it arrives on the other side.
type chunk struct {
	due  time.Time
	data []byte
}

// inFlight bounds the chunks under way in one direction. A crawl has a handful; more
// would be a sender that does not wait for answers, and that is slowed down.
const inFlight = 256

// carry takes from src to dst what comes, delayed, in order. The end of src is passed
// on too; a dst that takes nothing more ends the connection, through cancel.
func carry(ctx context.Context, cancel func(), dst, src net.Conn, open time.Time, delay time.Duration) {
	chunks := make(chan chunk, inFlight)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer close(chunks)
		for {
			data := make([]byte, 4096) // most requests and answers here are a few hundred bytes
			n, err := src.Read(data)
			at := time.Now()
			if at.Before(open) {
				at = open
			}
			select {
			case chunks <- chunk{due: at.Add(delay), data: data[:n]}: // of no data, if this is the end
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if clock.Sleep(ctx, clock.System(), time.Until(c.due)) != nil {
			return
		}
		if _, err := dst.Write(c.data); err != nil {
			cancel()
			return
		}
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	} else {
		dst.Close()
	}
}

// TestRelay holds the delays to the instant: a first answer is two round trips away, as
// over TCP, and the next ones one.
func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 100 * time.Millisecond
		client, near := net.Pipe()
		far, server := net.Pipe()
		var all sync.WaitGroup
		all.Go(func() { relay(t.Context(), near, far, rtt) })
		all.Go(func() { // a server that echoes until its client is gone
			defer server.Close()
			io.Copy(server, server)
		})
		for _, want := range []time.Duration{2 * rtt, rtt, rtt} {
			sent := time.Now()
			_, err := client.Write([]byte("ask"))
			require.NoError(t, err)
			answer := make([]byte, 3)
			_, err = io.ReadFull(client, answer)
			require.NoError(t, err)
			require.Equal(t, "ask", string(answer))
			require.Equal(t, want, time.Since(sent))
		}
		require.NoError(t, client.Close())
		all.Wait()
	})
}

// TestRelayEnds shows that a relay ends with its context, whoever is silent.
func TestRelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := net.Pipe()
		far, server := net.Pipe()
		defer server.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { relay(ctx, near, far, time.Second) })
		synctest.Wait()
		cancel()
		all.Wait()
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// served is a console on a network in memory, inside a bubble.
type served struct {
	*rig
	network fetchtest.Memory
	client  *http.Client
	end     context.CancelFunc
	ended   chan error
}

const at = "127.0.0.1:8080"

func serve(t *testing.T, change func(*Config, *Crawl)) *served {
	t.Helper()
	s := &served{ended: make(chan error, 1)}
	s.rig = newRig(t, at, "", func(cfg *Config, c *Crawl) {
		cfg.Clock = clock.System() // that of the bubble
		if change != nil {
			change(cfg, c)
		}
	})
	l, err := s.network.Listen(at)
	require.NoError(t, err)
	var ctx context.Context
	ctx, s.end = context.WithCancel(t.Context())
	go func() { s.ended <- s.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: s.network.DialContext}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return s
}

// serving runs a test with a console, in a bubble, and ends it.
func serving(t *testing.T, change func(*Config, *Crawl), test func(t *testing.T, s *served)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, change)
		test(t, s)
		s.end()
		require.NoError(t, <-s.ended)
	})
}

// listen opens the stream and returns its lines.
func (s *served) listen(t *testing.T, headers ...string) (*bufio.Scanner, *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/api/events", http.NoBody)
	require.NoError(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := s.client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return bufio.NewScanner(res.Body), res
}

// next is the next message of a stream, its lines joined by spaces.
func next(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	var message []string
	for lines.Scan() && lines.Text() != "" {
		message = append(message, lines.Text())
	}
	require.NoError(t, lines.Err())
	return strings.Join(message, " ")
}

// A stream carries events with their numbers, breaks long silences, outlives the time that
// requests have, and says when it is over.
func TestStream(t *testing.T) {
	serving(t, nil, func(t *testing.T, s *served) {
		s.Event(ratelimit.Event{Domain: "before.test"})
		lines, res := s.listen(t)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		synctest.Wait()
		s.Event(ratelimit.Event{Domain: "a.test", Text: "one\nline"})
		message := next(t, lines)
		require.Contains(t, message, "id: 2 event: limiter data: {")
		require.Contains(t, message, `"host":"a.test"`)
		require.Contains(t, message, `one\nline`)
		begun := time.Now()
		for range 8 {
			require.Equal(t, ": alive", next(t, lines))
		}
		require.Equal(t, 8*heartbeat, time.Since(begun))
		s.Event(ratelimit.Event{Domain: "b.test"})
		require.Contains(t, next(t, lines), "id: 3 ")
		s.end()
		require.Equal(t, "event: end data: {}", next(t, lines))
	})
}

// Who reads slowly loses events and is told how many, in their place; who comes again too.
func TestSlowReader(t *testing.T) {
	serving(t, nil, func(t *testing.T, s *served) {
		lines, res := s.listen(t)
		synctest.Wait()
		const sent = streamQueue + 100
		for range sent { // nobody reads: a net.Pipe keeps nothing
			s.Event(ratelimit.Event{Domain: "a.test"})
		}
		time.Sleep(writeTimeLimit / 2)
		seen, lost := 0, 0
		for seen+lost < sent {
			message := next(t, lines)
			require.NotEmpty(t, message)
			if n := 0; strings.Contains(message, "event: lost") {
				_, err := fmt.Sscanf(message[strings.Index(message, "data:"):], `data: {"lost":%d}`, &n)
				require.NoError(t, err)
				lost += n
			} else if strings.Contains(message, "event: limiter") {
				seen++
				require.Contains(t, message, fmt.Sprintf("id: %d ", seen+lost), "in order")
			}
		}
		require.GreaterOrEqual(t, seen, streamQueue)
		require.GreaterOrEqual(t, lost, 50)
		require.Equal(t, fmt.Sprint(lost), s.value(t, "treadlight_console_lost_events_total"))
		require.NoError(t, res.Body.Close())

		lines, res = s.listen(t, "Last-Event-ID: 300")
		require.Equal(t, fmt.Sprintf(`id: %d event: lost data: {"lost":%d}`, sent, sent-300), next(t, lines))
		require.NoError(t, res.Body.Close())
		lines, _ = s.listen(t, "Last-Event-ID: 99999") // of another process
		require.Equal(t, ": alive", next(t, lines))
		s.end()
		require.Equal(t, "event: end data: {}", next(t, lines))
	})
}

// A reader that reads nothing more is let go, and so is the end of the crawl.
func TestDeadReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil)
		s.listen(t)
		synctest.Wait()
		for range streamQueue {
			s.Event(ratelimit.Event{Domain: strings.Repeat("a", 100)})
		}
		synctest.Wait()
		require.Equal(t, 1, s.streams.count())
		time.Sleep(writeTimeLimit + time.Second)
		require.Zero(t, s.streams.count())

		s.listen(t)
		for range streamQueue {
			s.Event(ratelimit.Event{Domain: strings.Repeat("a", 100)})
		}
		synctest.Wait()
		begun := time.Now()
		s.end()
		require.NoError(t, <-s.ended)
		require.LessOrEqual(t, time.Since(begun), shutdownTime)
	})
}

// As many listen as may; the next one is told so, and counted.
func TestTooManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil)
		for range maxStreams {
			_, res := s.listen(t)
			require.Equal(t, 200, res.StatusCode)
		}
		_, res := s.listen(t)
		require.Equal(t, 503, res.StatusCode)
		require.Equal(t, "5", res.Header.Get("Retry-After"))
		synctest.Wait()
		require.Equal(t, "1", s.value(t, `treadlight_console_refused_requests_total{reason="streams"}`))
		require.Equal(t, fmt.Sprint(maxStreams), s.value(t, "treadlight_console_event_streams"))
		s.end()
		require.NoError(t, <-s.ended)
		require.Zero(t, s.streams.count())
	})
}

// An order that takes its time, as a disk does, is let finish when that is soon, and is
// called off at the end of the crawl when it is not.
func TestEndWaitsForAnswers(t *testing.T) {
	for _, takes := range []time.Duration{shutdownTime / 2, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, func(_ *Config, c *Crawl) {
				c.Checkpoint = func(ctx context.Context) error { return clock.Sleep(ctx, clock.System(), takes) }
			})
			answered := make(chan int, 1)
			go func() {
				res, err := s.client.Post("http://"+at+"/api/checkpoint", "application/json", http.NoBody)
				if err != nil {
					answered <- 0
					return
				}
				_ = res.Body.Close()
				answered <- res.StatusCode
			}()
			synctest.Wait()
			begun := time.Now()
			s.end()
			require.NoError(t, <-s.ended)
			if takes < shutdownTime {
				require.Equal(t, 200, <-answered)
			} else {
				require.NotEqual(t, 200, <-answered)
			}
			require.LessOrEqual(t, time.Since(begun), shutdownTime)
		})
	}
}

// A slow order outlives the time that clients have to write theirs.
func TestSlowOrder(t *testing.T) {
	serving(t, func(_ *Config, c *Crawl) {
		c.Checkpoint = func(ctx context.Context) error { return clock.Sleep(ctx, clock.System(), 2*readTimeout) }
	}, func(t *testing.T, s *served) {
		res, err := s.client.Post("http://"+at+"/api/checkpoint", "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		require.NoError(t, res.Body.Close())
	})
}

// Who writes slowly, too much, or nothing keeps no connection.
func TestHostileClients(t *testing.T) {
	for name, c := range map[string]struct {
		sends   string
		within  time.Duration
		answers string
	}{
		"nothing":          {"", headerTimeout, ""},
		"half a header":    {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", headerTimeout, ""},
		"half a body":      {"POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", readTimeout, "HTTP/1.1 400"},
		"a long header":    {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", readTimeout, "HTTP/1.1 431"},
		"no Host":          {"GET /healthz HTTP/1.0\r\n\r\n", readTimeout, "421"},
		"another protocol": {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", readTimeout, "400"},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, nil, func(t *testing.T, s *served) {
				conn, err := s.network.DialContext(t.Context(), "tcp", at)
				require.NoError(t, err)
				begun := time.Now()
				go func() { _, _ = io.WriteString(conn, c.sends) }()
				answer, _ := io.ReadAll(conn) // its error is one of the ways to end
				require.LessOrEqual(t, time.Since(begun), c.within+time.Second)
				require.Contains(t, string(answer), c.answers)
				require.Empty(t, s.did)
				require.NoError(t, conn.Close())
			})
		})
	}
}

// A socket that fails ends the service with its error.
func TestServeFails(t *testing.T) {
	a, err := endpoint.ParseAddress("0")
	require.NoError(t, err)
	l, a, err := a.Listen()
	require.NoError(t, err)
	require.NotZero(t, a.Port())
	_, _, err = a.Listen()
	require.Error(t, err, "the port is taken")
	require.NoError(t, l.Close())
	g := newRig(t, "8080", "", nil)
	require.ErrorIs(t, g.Serve(t.Context(), l), net.ErrClosed)
}

// However many connections are silent, slow to send or slow to read, a probe and the dashboard
// are answered at once, and the streams that are read go on.
func TestSlowConnectionsHoldUpNobody(t *testing.T) {
	const many = 5 * maxConns
	order := "POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
	probe := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, c := range map[string]struct {
		sends string
		reads bool
	}{
		"silent":                        {"", true},
		"half a header":                 {probe[:30], true},
		"silent after a request":        {probe, true},
		"half a header after a request": {probe + probe[:30], true},
		"half a body":                   {order, true},
		"an answer is not read":         {probe, false},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, nil, func(t *testing.T, s *served) {
				lines, _ := s.listen(t)
				begun := time.Now()
				var open atomic.Int64
				for range many {
					conn, err := s.network.DialContext(t.Context(), "tcp", at)
					require.NoError(t, err)
					defer conn.Close()
					go func() { _, _ = io.WriteString(conn, c.sends) }()
					if c.reads {
						open.Add(1)
						go func() {
							_, _ = io.Copy(io.Discard, conn)
							open.Add(-1)
						}()
					}
				}
				synctest.Wait()
				require.LessOrEqual(t, open.Load(), int64(2*maxConns), "those with a request and those without")
				for _, path := range []string{"/healthz", "/", "/api/snapshot"} {
					res, err := s.client.Get("http://" + at + path)
					require.NoError(t, err)
					require.NoError(t, res.Body.Close())
					if !strings.HasPrefix(c.sends, probe) && c.sends != order { // those have used up what an address may ask for
						require.Equal(t, 200, res.StatusCode, path)
					}
				}
				require.Less(t, time.Since(begun), time.Second)
				s.Event(ratelimit.Event{Domain: "a.test"})
				require.Contains(t, next(t, lines), `"host":"a.test"`, "the stream goes on")
			})
		})
	}
}

package ratelimit

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// answer is one line of a server's script.
type answer struct {
	status     int
	after      time.Duration
	retryAfter string
}

// scripted serves the script over in-memory connections, a request a line, and is a
// transport to it: real HTTP in a bubble's time. What comes after the script is 200.
func scripted(t *testing.T, script []answer) *http.Client {
	next := make(chan answer, len(script))
	for _, a := range script {
		next <- a
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := answer{status: http.StatusOK}
		select {
		case a = <-next:
		default:
		}
		time.Sleep(a.after)
		if a.retryAfter != "" {
			w.Header().Set("Retry-After", a.retryAfter)
		}
		w.WriteHeader(a.status)
	})
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go serve(far, handler)
		return near, nil
	}
	tr := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// serve answers one request on the connection and closes it.
func serve(conn net.Conn, h http.Handler) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	rec := &recorder{header: http.Header{"Content-Length": {"0"}, "Connection": {"close"}}}
	h.ServeHTTP(rec, req)
	res := &http.Response{StatusCode: rec.status, ProtoMajor: 1, ProtoMinor: 1, Header: rec.header, Body: http.NoBody}
	_ = res.Write(conn)
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// visit is one request as a worker makes it: permit, request, feedback, release.
func visit(ctx context.Context, l *AdaptiveRateLimiter, client *http.Client) error {
	p, err := l.Acquire(ctx, host)
	if err != nil {
		return err
	}
	defer p.Release()
	fb := Feedback{SentAt: time.Now()}
	res, err := client.Get("http://" + host + "/")
	fb.Latency = time.Since(fb.SentAt)
	if fb.Err = err; err == nil {
		fb.StatusCode = res.StatusCode
		fb.RetryAfter, _ = header.RetryAfterOf(res.Header, time.Now(), time.Hour)
		_ = res.Body.Close()
	}
	l.Feedback(host, fb)
	return nil
}

// The blueprint's script against a real HTTP exchange: where the rate goes and when
// each request is sent, to the nanosecond.
func TestScriptedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, simplest())
		client := scripted(t, []answer{
			{status: 200},
			{status: 200, after: 3 * time.Second},
			{status: 429},
			{status: 200},
			{status: 503, retryAfter: "30"},
			{status: 200},
			{status: 301},
		})
		begin := time.Now()
		for i, want := range []struct {
			done time.Duration
			rate float64
		}{
			{0, 1.1},
			{909090910 + 3*time.Second, 0.55}, // a token at 1.1/s, then slow
			// During the slow answer a token came in. 429: from here on at 0.275/s.
			{909090910 + 3*time.Second, 0.275},
			{909090910 + 3*time.Second + 3636363637, 0.375},
			{909090910 + 3*time.Second + 3636363637 + 2666666667, 0.1875},
			{909090910 + 3*time.Second + 3636363637 + 2666666667 + 30*time.Second, 0.2875},
			{909090910 + 3*time.Second + 3636363637 + 2666666667 + 30*time.Second + 3478260870, 0.3875},
		} {
			require.NoError(t, visit(t.Context(), l, client))
			d, _ := l.Inspect(host)
			require.Equal(t, want.done, time.Since(begin), "request %d", i)
			require.Equal(t, want.rate, d.FillRate, "request %d", i)
		}
	})
}

// A server that breaks for a while: the breaker is open within five seconds of the
// first failure, probes every fifteen, and closes by itself when the server is back.
func TestBreakerAgainstAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simplest()
		c.InitialRPS, c.MinRPS = 4, 1
		l := mustNew(t, c)
		var script []answer
		for range 6 { // five to open, one probe
			script = append(script, answer{status: 500})
		}
		client := scripted(t, script)
		begin := time.Now()
		type event struct {
			at    time.Duration
			state string
		}
		var events []event
		for range 9 {
			err := visit(t.Context(), l, client)
			if open, denied := errors.AsType[*CircuitOpenError](err); denied {
				time.Sleep(time.Until(open.Until))
				continue
			}
			require.NoError(t, err)
			d, _ := l.Inspect(host)
			events = append(events, event{time.Since(begin), d.State.String() + " " + strconv.Itoa(d.ConsecutiveFails)})
		}
		require.Equal(t, []event{
			{0, "closed 1"},
			{500 * time.Millisecond, "closed 2"},
			{1500 * time.Millisecond, "closed 3"},
			{2500 * time.Millisecond, "closed 4"},
			{3500 * time.Millisecond, "open 5"},
			{18500 * time.Millisecond, "open 6"},
			{33500 * time.Millisecond, "half_open 0"},
		}, events[:7])
	})
}

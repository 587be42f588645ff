package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// exchange is the state of one Fetch. firstByte may run late, after a cancellation, so it touches only an atomic.
type exchange struct {
	c      *Client
	trace  httptrace.ClientTrace // what transports report
	timer  *time.Timer           // the watchdog
	cause  atomic.Pointer[timeoutError]
	ctx    context.Context // the caller's context, also ended by the watchdog
	cancel context.CancelCauseFunc

	req       *Request
	capture   int64         // bytes of the response to capture; zero means none
	request   *http.Request // the request as sent; nil without hooks
	objection error         // the error of Config.OnResponse
	condition bool          // the request has a condition, such as If-None-Match
	// limit bounds the whole request, counted from start, and tooLong is the cause when it is exceeded. Both come from
	// the Config, or from a [Stream].
	limit   time.Duration
	tooLong *timeoutError

	caller context.Context // the context given to Fetch
	via    context.Context // the context that came through the policies; nil without policies
	start  time.Time
	passed passage      // the way through the policies; zero if there are none
	first  atomic.Int64 // nanoseconds from start to the first byte; zero until then

	recorder *recorder // of the current attempt; nil if nothing is captured

	connected bool // the current attempt has a connection
	reused    bool
	tries     int   // connections on which the current attempt was put: 0 or 1
	replayed  error // set if net/http was about to send the request again, and was prevented
	conn      *conn
	began     int64         // writes begun on conn before this attempt
	written   int64         // bytes written on conn before this attempt
	got       time.Duration // from start until the connection was ready
}

func (c *Client) begin(ctx context.Context, req *Request) *exchange {
	x := &exchange{c: c, req: req, caller: ctx, start: now(), limit: c.cfg.Timeout, tooLong: c.tooLong}
	x.trace = httptrace.ClientTrace{GotConn: x.gotConn, GotFirstResponseByte: x.firstByte}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.cause.Store(c.tooLong)
	//nolint:forbidigo // a watchdog ends a wait; nothing waits on it
	x.timer = time.AfterFunc(c.cfg.Timeout, func() { x.cancel(x.cause.Load()) })
	return x
}

func (x *exchange) end() {
	x.timer.Stop()
	x.cancel(nil)
}

// sent returns the context in which requests are sent: that of the policies, if there are any.
func (x *exchange) sent() context.Context {
	if x.via != nil {
		return x.via
	}
	return x.ctx
}

// traced returns the same context for net/http's transport, which calls the hooks in it and may add others to them.
func (x *exchange) traced() context.Context {
	trace := x.trace
	return httptrace.WithClientTrace(x.sent(), &trace)
}

// ended returns why the request must end, or nil.
func (x *exchange) ended() error {
	if gone := x.caller.Err(); gone != nil {
		return gone
	}
	if over, ok := errors.AsType[*timeoutError](context.Cause(x.ctx)); ok {
		return over
	}
	return nil
}

func (x *exchange) alive() { x.arm(x.c.cfg.BodyTimeout, x.c.stalled) }

// arm sets the watchdog to end the request after d with this cause, or when the limit of the whole request is reached.
// One timer serves all phases.
func (x *exchange) arm(d time.Duration, cause *timeoutError) {
	if left := x.limit - since(x.start); left <= d {
		d, cause = max(left, 0), x.tooLong
	}
	x.cause.Store(cause)
	x.timer.Reset(d)
}

// attempt resets the state of the connection before a new attempt. Nothing was sent on the previous one.
func (x *exchange) attempt() {
	x.connected, x.reused = false, false
	x.tries, x.conn, x.got, x.replayed = 0, nil, 0, nil
	x.first.Store(0)
	if x.cause.Load() != x.c.tooLong {
		x.arm(x.c.cfg.Timeout, x.c.tooLong)
	}
}

// replayError prevents net/http from sending a request again without a permit.
type replayError struct{}

func (replayError) Error() string {
	return "the connection was lost, or the server did not look at the request: it may be sent again"
}

func (replayError) Class() outcome.Class { return outcome.Network }

func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	if x.tries > 0 && !x.idle() {
		x.keepBack(info.Conn)
		return
	}
	x.tries = 1
	x.connected, x.reused = true, info.Reused
	x.got = since(x.start)
	if x.conn = inner(info.Conn); x.conn != nil {
		x.began, x.written = x.conn.began.Load(), x.conn.written.Load()
	}
	x.arm(x.c.cfg.HeaderTimeout, x.c.silent)
}

// keepBack ends a request before net/http writes it to another connection. HTTP/2 checks the context before it writes.
// For HTTP/1.1 the connection is closed, which is only for this request.
func (x *exchange) keepBack(c net.Conn) {
	x.replayed = replayError{}
	x.cancel(replayError{})
	if over, ok := c.(*tls.Conn); ok && over.ConnectionState().NegotiatedProtocol == "h2" {
		return
	}
	if in := inner(c); in != nil {
		c = in
	}
	_ = c.Close() // nothing was written to it
}

func (x *exchange) firstByte() { x.first.Store(max(1, int64(since(x.start)))) }

func (x *exchange) answered() bool { return x.first.Load() > 0 }

// unsent reports whether a kept connection failed before it took a byte. The transport has waited for its writer to
// end, so the count is final.
func (x *exchange) unsent() bool {
	return x.reused && x.tries == 1 && !x.answered() && x.conn != nil && x.conn.written.Load() == x.written
}

// idle reports whether no write was even attempted on the connection.
func (x *exchange) idle() bool {
	return !x.answered() && x.conn != nil && x.conn.began.Load() == x.began
}

// sends returns how many times the request may have reached the host.
func (x *exchange) sends() int {
	if x.connected && x.idle() {
		return 0
	}
	return x.tries
}

// head sets the fields of res that are known when the header has arrived. The time to connect does not count as latency
// of the host.
func (x *exchange) head(res *Response) {
	res.SentAt = x.start.Add(x.got)
	res.Timings.FirstByte = max(0, time.Duration(x.first.Load())-x.got)
	res.Timings.Reused = x.reused
}

// finish sets the timings of res.
func (x *exchange) finish(res *Response, headed time.Duration) {
	res.Sends = x.sends()
	res.Timings.Total = since(x.start)
	res.Timings.Body = res.Timings.Total - headed
	if x.conn != nil {
		res.RemoteAddr = x.conn.remote
		if !x.reused {
			res.Timings.DNS, res.Timings.Connect, res.Timings.TLS = x.conn.dns, x.conn.connect, x.conn.tls
		}
	}
}

func (x *exchange) op(err error) Op {
	if p, ok := errors.AsType[*phaseError](err); ok {
		return p.op
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return OpDNS
	}
	switch {
	case x.passed.refused():
		return OpPolicy
	case !x.connected:
		return OpConnect
	case x.idle():
		return OpSend
	}
	return OpHeader
}

// explain replaces the error of a cancellation by its cause: the caller or the watchdog. Call it when the error occurs,
// because either may act later, too.
func (x *exchange) explain(err error) error {
	if why := x.ended(); why != nil {
		return why // replayed may still be written to
	}
	return cmp.Or(x.replayed, err)
}

func (x *exchange) failure(op Op, rawURL string, err error) *Error {
	e := newError(op, rawURL, err)
	e.Sends, e.Took = x.sends(), since(x.start)
	e.Stale = errors.Is(err, replayError{}) || op == OpHeader && x.reused && (!x.answered() && e.class == outcome.Network || e.class == outcome.Protocol)
	return e
}

func now() time.Time { return clock.System().Now() }

func since(t time.Time) time.Duration { return clock.System().Since(t) }

package fetch

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/fetch/http1"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Op is the phase of a request in which it failed.
type Op string

// The phases in the order in which a request goes through them.
const (
	OpRequest Op = "request" // the request itself cannot be sent
	OpPolicy  Op = "policy"  // a policy did not let it pass, or not again
	OpDNS     Op = "dns"     // the name was being looked up
	OpConnect Op = "connect" // a connection was being made, or waited for
	OpProxy   Op = "proxy"   // a proxy was to make it, or has refused the request
	OpTLS     Op = "tls"     // the TLS handshake was under way
	OpSend    Op = "send"    // connected, and nothing had left yet
	OpHeader  Op = "header"  // the request had left, the header was not complete
	OpHook    Op = "hook"    // the program's own code refused the request or the answer, or failed: see [HookError]
	OpFilter  Op = "filter"  // the header was there, and the body is not wanted
	OpBody    Op = "body"    // the body was being read
	OpDecode  Op = "decode"  // the body is not what Content-Encoding says
)

// Error is why a request did not end with a whole answer, with its class for outcome.Of.
type Error struct {
	Op  Op     // the phase
	URL string // that was asked for, without user information and secret-looking query parameters
	// Stale says that a kept connection died without a byte of answer, or answered with no HTTP: most often it was
	// closed as idle at the same instant, so it says little about host and URL. The request may have been seen, so
	// another try costs a permit. Over HTTP/2 it is a stream that the server did not look at.
	Stale bool
	Sends int           // how many times the request may have reached the host since the last permit: once, or not at all
	Took  time.Duration // from the call of Fetch to the failure
	Err   error

	class outcome.Class
}

var _ outcome.Classed = (*Error)(nil)

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.URL, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Class is what the failure means.
func (e *Error) Class() outcome.Class { return e.class }

// Timeout reports whether a time limit was met, as net.Error has it.
func (e *Error) Timeout() bool { return e.class == outcome.Timeout }

// Unconnected reports whether nothing listens at the address or no route leads there; not a slow connection, nor one
// that ended in the TLS handshake.
func (e *Error) Unconnected() bool {
	return (e.Op == OpConnect || e.Op == OpProxy) && e.class == outcome.Network
}

func newError(op Op, rawURL string, err error) *Error {
	return &Error{Op: op, URL: redact.URL(rawURL), Err: err, class: classify(op, err)}
}

// Causes that have no type of their own elsewhere.
var (
	errClosed    = errors.New("the client is closed")
	errBadURL    = errors.New("not an absolute http or https URL")
	errTooLarge  = errors.New("the body is larger than the bound")
	errWireLarge = fmt.Errorf("the encoded body is longer than the decoded one may be: %w", errTooLarge)
	errRatio     = errors.New("the body decodes to absurdly more than was sent")
	errUpgrade   = errors.New("switched to another protocol unasked")
	errStatus    = errors.New("the status code is below 100")
)

// classify adds to outcome.Of what the phase shows: which reader failed, and that errors of the handshake are TLS.
func classify(op Op, err error) outcome.Class {
	if errors.Is(err, errClosed) || op == OpPolicy {
		return outcome.Canceled
	}
	if op == OpFilter || op == OpHook {
		return outcome.Filtered
	}
	if errors.Is(err, errRatio) {
		return outcome.Bomb
	}
	if errors.Is(err, errTooLarge) || headerTooLarge(err) {
		return outcome.TooLarge
	}
	if op == OpDecode {
		return outcome.Decode
	}
	if errors.Is(err, errStatus) {
		return outcome.ServerError
	}
	class := outcome.Of(0, err)
	if op == OpTLS && class == outcome.Protocol || op != OpBody && isAlert(err) {
		return outcome.TLS
	}
	return class
}

// headerTooLarge knows the errors for a header beyond the bound, net/http's two untyped ones included.
func headerTooLarge(err error) bool {
	if _, ok := errors.AsType[*http1.HeaderTooLargeError](err); ok {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") ||
		strings.Contains(text, "response header list larger than advertised limit")
}

// isAlert reports a TLS alert, which crypto/tls wraps as a network error. In TLS 1.3 the demand for a client's
// certificate comes after the handshake.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// phaseError carries the phase of a failed dial through the transport.
type phaseError struct {
	op  Op
	err error
}

func (e *phaseError) Error() string { return e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// timeoutError is the cause with which a request's watchdog cancels it.
type timeoutError struct {
	text  string
	limit time.Duration
}

func (e *timeoutError) Error() string   { return fmt.Sprintf("%s in %v", e.text, e.limit) }
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true } // completes net.Error

var _ net.Error = (*timeoutError)(nil)

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

// The phases, in the order in which a request passes them.
const (
	OpRequest Op = "request" // the request itself cannot be sent
	OpPolicy  Op = "policy"  // a policy did not let the request pass, or not again
	OpDNS     Op = "dns"     // the name lookup failed
	OpConnect Op = "connect" // no connection could be made, or the wait for one ended
	OpProxy   Op = "proxy"   // a proxy could not connect, or has refused the request
	OpTLS     Op = "tls"     // the TLS handshake failed
	OpSend    Op = "send"    // connected, but nothing was sent
	OpHeader  Op = "header"  // something was sent, but the header did not arrive completely
	OpHook    Op = "hook"    // the program's own code refused the request or the response, or failed; see [HookError]
	OpFilter  Op = "filter"  // the header arrived, and the body is not wanted
	OpBody    Op = "body"    // the body did not arrive completely, or is too large
	OpDecode  Op = "decode"  // the body does not decode as Content-Encoding says
)

// Error says why a request ended without a whole response. Its class is for outcome.Of.
type Error struct {
	Op  Op     // the phase in which it failed
	URL string // the requested URL, without user information and secret-looking query parameters
	// Stale says that a kept connection ended without a byte of the response, or that the bytes were not HTTP. Most
	// often the server had closed it as idle at the same instant, so it says little about host and URL. The host may
	// have seen the request, so another attempt needs a permit. Over HTTP/2 it is a stream that the server did not
	// process.
	Stale bool
	Sends int           // how many times the request may have reached the host since the last permit: 0 or 1
	Took  time.Duration // from the call of Fetch to the failure
	Err   error

	class outcome.Class
}

var _ outcome.Classed = (*Error)(nil)

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.URL, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Class returns the class of the failure.
func (e *Error) Class() outcome.Class { return e.class }

// Timeout reports whether a time limit was exceeded, as in net.Error.
func (e *Error) Timeout() bool { return e.class == outcome.Timeout }

// Unconnected reports whether nothing listens at the address or no route leads there. It is false for a connection that
// was slow, or that failed in the TLS handshake.
func (e *Error) Unconnected() bool {
	return (e.Op == OpConnect || e.Op == OpProxy) && e.class == outcome.Network
}

func newError(op Op, rawURL string, err error) *Error {
	return &Error{Op: op, URL: redact.URL(rawURL), Err: err, class: classify(op, err)}
}

// Errors that no other package has a type for.
var (
	errClosed    = errors.New("the client is closed")
	errBadURL    = errors.New("not an absolute http or https URL")
	errTooLarge  = errors.New("the body is larger than the bound")
	errWireLarge = fmt.Errorf("the encoded body is longer than the decoded one may be: %w", errTooLarge)
	errRatio     = errors.New("the body decodes to absurdly more than was sent")
	errUpgrade   = errors.New("switched to another protocol unasked")
	errStatus    = errors.New("the status code is below 100")
)

// classify returns the class of an error. It adds what the phase shows to outcome.Of: which reader failed, and that
// errors of the handshake are TLS errors.
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

// headerTooLarge reports whether an error says that the header is too large. Two such errors of net/http have no type.
func headerTooLarge(err error) bool {
	if _, ok := errors.AsType[*http1.HeaderTooLargeError](err); ok {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") ||
		strings.Contains(text, "response header list larger than advertised limit")
}

// isAlert reports whether an error is a TLS alert, which crypto/tls wraps as a network error. In TLS 1.3 the server
// requests a client certificate after the handshake, so the alert may come later.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// phaseError carries the phase of a failed connection attempt through the transport.
type phaseError struct {
	op  Op
	err error
}

func (e *phaseError) Error() string { return e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// timeoutError is the cause with which the watchdog cancels a request.
type timeoutError struct {
	text  string
	limit time.Duration
}

func (e *timeoutError) Error() string   { return fmt.Sprintf("%s in %v", e.text, e.limit) }
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true } // required by net.Error

var _ net.Error = (*timeoutError)(nil)

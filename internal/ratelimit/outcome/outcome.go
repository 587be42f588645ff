// Package outcome gives the result of a request one meaning for the whole program.
//
// [Of] turns a status or an error into a [Class]; no other code interprets either. The limiter, the breaker, the retry
// decision, the record and the metrics all use the class, so they cannot disagree. A class answers two questions.
// [Class.Transient]: may the same request succeed later? [Class.Overload]: does it show a host in trouble? A 500 is a
// sign of trouble that another attempt rarely cures.
package outcome

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/treadlight/crawl/internal/ratelimit/enum"
)

// Class says what became of a request. The zero Class is [Unknown].
type Class uint8

// The classes, in the order in which they are counted and printed.
const (
	Unknown       Class = iota // nothing has happened yet
	OK                         // 2xx, and 3xx that are no redirects
	Redirect                   // 301, 302, 303, 307, 308
	ClientError                // 4xx except 408, 420, 425 and 429: the response is final
	Throttled                  // 429 and 420: try later
	Unavailable                // 503: overloaded, or try later
	Gateway                    // 502, 504: something behind the host failed
	ServerError                // every other 5xx
	Timeout                    // no connection, header or body in time; 408 and 425
	Network                    // refused, reset, unreachable, closed early
	DNS                        // the name could not be looked up for now
	NoHost                     // the name does not exist
	TLS                        // certificate or handshake refused
	Protocol                   // the response is not HTTP
	Decode                     // the body is not encoded as Content-Encoding says
	TooLarge                   // header or body beyond the bound
	Bomb                       // a body that decodes to absurdly more than was sent
	Filtered                   // a body that, by the header, is not wanted; it was not read
	AddressDenied              // the address is in a range to which this program does not connect
	Proxy                      // the proxy failed, which tells nothing about the host
	Canceled                   // this program gave up, which tells nothing about the host
)

var names = []string{
	"unknown", "ok", "redirect", "client_error", "throttled", "unavailable", "gateway", "server_error",
	"timeout", "network", "dns", "no_host", "tls", "protocol", "decode", "too_large", "bomb", "filtered", "address_denied", "proxy", "canceled",
}

func (c Class) String() string { return enum.Name(names, "class", c) }

// MarshalText returns the name, which JSON then shows.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c to the class with that name.
func (c *Class) UnmarshalText(text []byte) error { return enum.Parse(names, "outcome class", text, c) }

// Transient reports whether the same request may succeed later: after timeouts, network errors, temporary failures of
// lookups and proxies, 429, 502, 503 and 504.
func (c Class) Transient() bool {
	switch c {
	case Throttled, Unavailable, Gateway, Timeout, Network, DNS, Proxy:
		return true
	}
	return false
}

// Declined reports whether this program did not read the whole of a good response, because of a bound or a filter of
// its own. The host has done its part.
func (c Class) Declined() bool { return c == TooLarge || c == Bomb || c == Filtered }

// Overload reports whether the class shows a host in trouble and so counts for the breaker: 429, every 5xx, timeouts
// and network errors.
func (c Class) Overload() bool { return c.Transient() && c != Proxy || c == ServerError }

// Answered reports whether the host responded with a status.
func (c Class) Answered() bool { return c >= OK && c <= ServerError }

// Success reports whether the response is what was requested, or a redirect to it.
func (c Class) Success() bool { return c == OK || c == Redirect }

// Classed is an error that knows its class. It is for code that knows more than the error's type shows, as the body
// reader knows that a gzip stream was cut off.
type Classed interface {
	error
	Class() Class
}

// Of returns the class of a request that ended with this status or error. An error takes precedence: a 200 whose body
// broke off is not OK. A status of zero without an error is Unknown.
func Of(status int, err error) Class {
	if err != nil {
		return ofError(err)
	}
	switch status {
	case 0:
		return Unknown
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return Redirect
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return Timeout
	case http.StatusTooManyRequests, enhanceYourCalm:
		return Throttled
	case http.StatusServiceUnavailable:
		return Unavailable
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return Gateway
	}
	switch status / 100 {
	case 1:
		return Protocol
	case 2, 3:
		return OK
	case 4:
		return ClientError
	}
	return ServerError // also for numbers that are no status code: RFC 9110 section 15
}

func ofError(err error) Class {
	if c, ok := errors.AsType[Classed](err); ok {
		return c.Class()
	}
	if errors.Is(err, context.Canceled) {
		return Canceled
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return NoHost
		}
		return DNS
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return Timeout
	}
	if isTLS(err) {
		return TLS
	}
	if isNetwork(err) {
		return Network
	}
	return Protocol
}

func isTLS(err error) bool {
	return is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) || is[tls.AlertError](err) ||
		is[x509.HostnameError](err) || is[x509.UnknownAuthorityError](err)
}

// isNetwork reports whether err means that the host, or the way to it, could not go on: an error of the system's
// network functions, or a connection that ended before the message did.
func isNetwork(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		is[*net.OpError](err) || is[syscall.Errno](err) || is[streamError](err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// streamError is the form of net/http's error for an HTTP/2 stream that the host has reset, as it would reset the
// connection with HTTP/1. The type of net/http is not exported, but errors.As copies it into any struct with these
// fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error returns the number of the stream. Only errors.As makes values of this type.
func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset with code %d", e.StreamID, e.Code)
}

// enhanceYourCalm is a status with which some servers throttle, as others do with the younger 429. It is registered for
// nothing else.
const enhanceYourCalm = 420

// Waits says which requests the Retry-After of a response delays.
type Waits uint8

// The values of Waits.
const (
	WaitsNone    Waits = iota // none: it is recorded and not obeyed
	WaitsHost                 // all requests to the host
	WaitsTarget               // only the request for the target of a redirect
	WaitsIfBlock              // all requests to the host if it blocks the client, otherwise none
)

// RetryAfter returns which requests the Retry-After of a response with this status delays. RFC 9110 section 10.2.3
// defines it for 503 and redirects, RFC 6585 for 429. Servers that fail send it with other 5xx, and those that block a
// client with 403. With any other status it tells nothing about the host: some servers add it to every response, others
// to a 404.
func RetryAfter(status int) Waits {
	switch class := Of(status, nil); {
	case class == Throttled, status/100 == 5:
		return WaitsHost
	case class == Redirect:
		return WaitsTarget
	case Forbidden(status):
		return WaitsIfBlock
	}
	return WaitsNone
}

// Forbidden reports whether the status is 403. A single one is a page that is not public; a run of them shows that the
// host does not want the client at all, at least at this pace.
func Forbidden(status int) bool { return status == http.StatusForbidden }

package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/fetch/resolve"
)

// Bounds and defaults of [Config]. Times are as in browsers and net/http, sizes ten times what real sites need.
const (
	defaultUserAgent      = "Treadlight"
	defaultConnectTimeout = 10 * time.Second
	tlsTimeout            = 10 * time.Second
	defaultHeaderTimeout  = 20 * time.Second
	defaultBodyTimeout    = 15 * time.Second
	defaultTimeout        = 30 * time.Second
	defaultMaxBody        = 10 << 20

	defaultMaxHeaderBytes  = 256 << 10 // servers rarely send more than 64 KiB
	defaultMaxConnsPerHost = 8
	maxIdle                = 1000             // of more connections, the oldest have mostly been closed by their servers
	idleTimeout            = 90 * time.Second // longer than the pause between two polite requests
)

// Config says how a [Client] behaves. The zero Config fetches from the public Internet with the defaults below. Sizes
// are in bytes.
type Config struct {
	UserAgent string      // sent with every request. Empty means "Treadlight"
	Header    http.Header // sent with every request; replaces Accept, Accept-Encoding and User-Agent if it has them

	ConnectTimeout time.Duration // bounds the name lookup and the connection together. Zero means 10s
	HeaderTimeout  time.Duration // bounds the wait for the whole header after the request was sent. Zero means 20s
	BodyTimeout    time.Duration // bounds the time between two reads of a body. Zero means 15s
	Timeout        time.Duration // bounds the request from the call of Fetch to the end of the body. Zero means 30s

	MaxBody        int64 // bounds the decoded body; more is not read. Zero means 10 MiB
	MaxHeaderBytes int64 // bounds the header, informational responses included. Zero means 256 KiB

	MaxConnsPerHost int // connections to one host, kept ones included; more calls of Fetch wait. Zero means 8

	HTTP2       bool             // offers HTTP/2 over TLS. False means HTTP/1.1 only
	Insecure    bool             // accepts any TLS certificate. False verifies certificates
	RootCAs     *x509.CertPool   // verify the certificates of servers and of https proxies. Nil means those of the system
	Certificate *tls.Certificate // presented to servers that request one, if Trusted allows the host

	// Proxy, if set, carries every request (http, https, socks5 or socks5h) of hosts without a proxy in Access. Target
	// addresses are checked if they are literal. Names are checked by a lookup here, which may differ from the proxy's,
	// except with socks5h or AllowPrivate. The proxy itself may have a private address. Nil means no proxy; the
	// environment is not consulted.
	Proxy *url.URL
	// ProxyFor, if set, replaces Proxy. It returns the proxy for the scheme and host of a URL; nil means none. It must
	// be safe for concurrent use.
	ProxyFor func(*url.URL) (*url.URL, error)
	Access   *access.Table // settings of single hosts. Nil means none
	// Trusted, if set, reports whether credentials may be sent to a host (as in a URL: lower case, without a default
	// port), over TLS or in the clear. Only such hosts get the credential fields of Header and the Certificate.
	// Credentials of Access are sent to their hosts over TLS, and in the clear only if Trusted allows that. It must be
	// safe for concurrent use. Nil trusts all hosts.
	Trusted func(authority string, tls bool) bool
	// Withheld, if set, is called by Fetch's goroutine when Trusted has prevented that credentials of Access are sent
	// to a host.
	Withheld func(authority string)
	Cookies  cookies.Keeper    // stores cookies and returns those to send. Nil means that only those of Header are sent
	Resolver *resolve.Resolver // finds addresses. The Client does not close it. Nil means a new one

	// AllowPrivate allows connections of any host to private and loopback addresses. False allows only those of
	// Openings. Link-local addresses and those of cloud metadata are connected to only if Openings has the address
	// itself, or the user has entered it in the Resolver.
	AllowPrivate bool
	// Openings are the allowed private addresses. The Client passes the lookup results of seed names to it. Nil means
	// none.
	Openings *reach.Openings

	// DialContext, if set, replaces the dialer and its check of addresses. It is for in-memory networks in tests.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport, if set, sends the requests instead of the Client's own connections, with all that belongs to these:
	// proxies, the resolver, the check of addresses. Time limits end the context of the request, which it must obey.
	Transport http.RoundTripper
	// OnRequest, if set, may change the header, the path and the query of each request before it is sent. It is called
	// by Fetch's goroutine, once the request has its permit. If it returns an error, nothing is sent and Fetch fails
	// with a [HookError].
	OnRequest func(*http.Request) error
	// OnResponse, if set, gets the header of each response after OnHeader, and is called by Fetch's goroutine. If it
	// returns an error, the body is not read and Fetch returns a [HookError] with the Response.
	OnResponse func(*http.Response) error
	// Chain, if set, puts policies around the transport. New calls it once. Its result must send each request at most
	// once.
	Chain func(http.RoundTripper) http.RoundTripper
	// Repeating, if set, is used instead of Chain for requests with an Again. Its result may send such a request
	// several times, one after another.
	Repeating func(http.RoundTripper) http.RoundTripper
}

func (c Config) withDefaults() (Config, error) {
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	for _, err := range []error{
		fill("ConnectTimeout", &c.ConnectTimeout, defaultConnectTimeout),
		fill("HeaderTimeout", &c.HeaderTimeout, defaultHeaderTimeout), fill("BodyTimeout", &c.BodyTimeout, defaultBodyTimeout),
		fill("Timeout", &c.Timeout, defaultTimeout),
		fill("MaxBody", &c.MaxBody, defaultMaxBody), fill("MaxHeaderBytes", &c.MaxHeaderBytes, defaultMaxHeaderBytes),
		fill("MaxConnsPerHost", &c.MaxConnsPerHost, defaultMaxConnsPerHost),
		c.checkHeader(),
	} {
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func fill[T ~int | ~int64](name string, value *T, zero T) error {
	if *value < 0 {
		return fmt.Errorf("fetch: Config.%s is %v: use a positive value, or zero for %v", name, *value, zero)
	}
	*value = cmp.Or(*value, zero)
	return nil
}

// checkHeader returns an error for headers that net/http would refuse in every request.
func (c *Config) checkHeader() error {
	if !httpguts.ValidHeaderFieldValue(c.UserAgent) {
		return fmt.Errorf("fetch: Config.UserAgent %q cannot be a header value: remove control characters", c.UserAgent)
	}
	for name, values := range c.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("fetch: Config.Header has the name %q: use letters, digits and hyphens", name)
		}
		if http.CanonicalHeaderKey(name) == "Host" {
			return fmt.Errorf("fetch: Config.Header has %s: the URL decides the host, remove it", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("fetch: Config.Header has a bad value for %s: remove control characters", name)
			}
		}
	}
	if c.Transport != nil && (c.Proxy != nil || c.ProxyFor != nil) {
		return errors.New("fetch: Config.Transport replaces the connections that Config.Proxy is for: set one of them")
	}
	if c.Proxy == nil {
		return nil
	}
	return checkProxy("Proxy", c.Proxy)
}

func checkProxy(field string, u *url.URL) error {
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		if u.Hostname() != "" {
			return nil
		}
	}
	return fmt.Errorf("fetch: Config.%s is %s: use http://, https:// or socks5:// and a host", field, u.Redacted())
}

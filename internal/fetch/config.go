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

// Bounds and defaults of [Config]: times as in browsers and net/http, sizes ten times what real sites need.
const (
	defaultUserAgent      = "Treadlight"
	defaultConnectTimeout = 10 * time.Second
	tlsTimeout            = 10 * time.Second
	defaultHeaderTimeout  = 20 * time.Second
	defaultBodyTimeout    = 15 * time.Second
	defaultTimeout        = 30 * time.Second
	defaultMaxBody        = 10 << 20

	defaultMaxHeaderBytes  = 256 << 10 // servers seldom send more than 64 KiB
	defaultMaxConnsPerHost = 8
	maxIdle                = 1000             // beyond it the oldest have mostly been closed by their servers
	idleTimeout            = 90 * time.Second // longer than the pause between two polite requests
)

// Config says how a [Client] behaves. The zero Config fetches from the public Internet with the defaults below. Sizes
// are in bytes.
type Config struct {
	UserAgent string      // sent with every request. Empty means "Treadlight"
	Header    http.Header // sent with every request, over Accept, Accept-Encoding and User-Agent where it names them

	ConnectTimeout time.Duration // bounds the lookup of the name and the connection together. Zero means 10s
	HeaderTimeout  time.Duration // bounds the wait for the whole header once the request is sent. Zero means 20s
	BodyTimeout    time.Duration // bounds the silence between two reads of a body. Zero means 15s
	Timeout        time.Duration // bounds the request from the call of Fetch to the end of the body. Zero means 30s

	MaxBody        int64 // bounds the decoded body; what lies beyond is not read. Zero means 10 MiB
	MaxHeaderBytes int64 // bounds the header, informational answers included. Zero means 256 KiB

	MaxConnsPerHost int // connections to one host, kept ones included; a Fetch beyond it waits. Zero means 8

	HTTP2       bool             // offers HTTP/2 where the server speaks TLS. False means HTTP/1.1 only
	Insecure    bool             // accepts any TLS certificate. False means certificates are verified
	RootCAs     *x509.CertPool   // verify the certificates of servers and of https proxies. Nil means those of the system
	Certificate *tls.Certificate // shown to the servers that ask for one, if Trusted says so of them

	// Proxy, if set, carries every request (http, https, socks5 or socks5h) without a proxy in Access. Targets are
	// checked if they are literal addresses, and by a lookup here, which may differ from the proxy's, except with
	// socks5h or AllowPrivate. Its own address may be private. Nil: none; the environment is not consulted.
	Proxy *url.URL
	// ProxyFor, if set, replaces Proxy, by scheme and host; a nil result is none. It must be safe for concurrent use.
	ProxyFor func(*url.URL) (*url.URL, error)
	Access   *access.Table // what is special about single hosts. Nil means nothing is
	// Trusted, if set, reports whether a host (as in a URL: lower case, without a default port) was named for
	// credentials, over TLS or in the clear. Only those get credential fields of Header, and Certificate; Access's own
	// go over TLS, and in the clear only if named so. It must be safe for concurrent use. Nil trusts all.
	Trusted func(authority string, tls bool) bool
	// Withheld, if set, is called by Fetch's goroutine when Trusted has kept credentials of Access from a host.
	Withheld func(authority string)
	Cookies  cookies.Keeper    // keeps what answers set, and sends it back. Nil means no cookies but those of Header
	Resolver *resolve.Resolver // finds addresses. It stays its owner's to close. Nil means one of its own

	// AllowPrivate lets any host lead to a private or loopback address; else only Openings may. Link-local and cloud
	// metadata addresses need an opening of the address itself or the user's entry in the Resolver.
	AllowPrivate bool
	// Openings are the user's exceptions. The Client tells them what names of seeds lead to. Nil: none.
	Openings *reach.Openings

	// DialContext, if set, replaces the dialler and its check of addresses, for in-memory networks in tests.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport, if set, sends the requests in place of the Client's own connections, with whatever else there is for them:
	// proxies, the resolver, the check of addresses. Bounds of time end the request's context, which it must heed.
	Transport http.RoundTripper
	// OnRequest, if set, may change the header and the path and query of each request before it is sent, on Fetch's
	// goroutine, with its permit. An error has nothing sent, and Fetch fail with a [HookError].
	OnRequest func(*http.Request) error
	// OnResponse, if set, is shown the header of each answer after OnHeader, on Fetch's goroutine. An error has the body not
	// read, and Fetch fail with a [HookError] beside the Response.
	OnResponse func(*http.Response) error
	// Chain, if set, puts policies around the transport, once. It must send each request at most once.
	Chain func(http.RoundTripper) http.RoundTripper
	// Repeating, if set, is Chain for requests with an Again: it may send one several times in sequence.
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

// checkHeader refuses at construction what net/http would refuse in every request.
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

package crawl

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// ErrCircuitOpen is the error of requests of a [PoliteClient] to a host whose circuit is open:
// it failed or refused so often that it is left alone for a while. It says until when.
var ErrCircuitOpen = ratelimit.ErrCircuitOpen

// ErrClientClosed is the error of requests made through a [PoliteClient] that is closed,
// and of those that were under way when it was.
var ErrClientClosed = polite.ErrClosed

// LimiterSnapshot is what has been learned of hosts, at one instant.
type LimiterSnapshot = ratelimit.LimiterSnapshot

// ClientConfig says how a [PoliteClient] behaves. The zero ClientConfig is usable: it begins with one request per
// second at each host and learns up to ten. Rates are requests per second.
type ClientConfig struct {
	// UserAgent is sent with requests that have none. Empty means Treadlight and where to
	// read about it; a program that is on its own for long should say whom to write to.
	UserAgent string

	// Strategy decides how the rate follows what a host does, as ratelimit.strategy of the
	// settings does. Empty means "steer".
	Strategy string
	// InitialRPS is the rate of a host nothing is known of. Zero means 1, or MaxRPS if that is less.
	InitialRPS float64
	// MinRPS is the least the rate of a host falls to. Zero means 0.1, or InitialRPS if that is less.
	MinRPS float64
	// MaxRPS is the most it rises to, up to 1e6. Zero means 10, or InitialRPS if that is more.
	MaxRPS float64
	// GlobalRPS bounds the rate of all hosts together. Zero means no such bound.
	GlobalRPS float64
	// MinDelay is the least time between two requests to one host. Zero means none.
	MinDelay time.Duration
	// MaxRetryAfter caps the wait that a host may ask for. Zero means 1h.
	MaxRetryAfter time.Duration

	// Resilience is the JSON document of the policies around each request; the sections
	// are Retry, Timeout, CircuitBreaker, Bulkhead, BulkheadIsolation, Hedging and Fallback.
	// Nil means three retries with growing pauses, and 30 s for each attempt.
	Resilience []byte
	// ResilienceFile has the document in a file, which is followed while it changes: requests
	// under way end on the policies they began on, and a document that is no good changes
	// nothing. It excludes Resilience. Empty means that there is no file.
	ResilienceFile string
	// OnReload, if set, is called after the file has changed: with nil, or with why the document in it is not used. It
	// must not close the client, whose Close waits for it. Nil means that Log is told, if it is set.
	OnReload func(error)
	// Fallback makes the answer in place of one with a status of the document's Fallback
	// section, or of an error. It may read res, which is nil beside an error, and must not
	// return it. Nil is an error if the document has the section.
	Fallback func(req *http.Request, res *http.Response, err error) (*http.Response, error)

	// Limit, if set, has a limiter of the program's own beside what is learned (of package limit; the type is that of
	// the public package transport): each try takes a permit of it before its turn at the host, and has it until the
	// end of the body. The limiter stays its owner's to close; one may bound several clients. Nil means none.
	Limit *transport.Policy
	// Circuits, if set, has the circuit of the document's CircuitBreaker section under its name, where others can
	// share it and health checks ask for it (ListenConfig.Ready, or its Handler). A file that changes its settings is
	// refused then. Nil has it be the client's alone. The circuits of single hosts are in the [PoliteClient.Snapshot].
	Circuits *resilience.Breakers
	// Hub, if set, is told what the policies do: retries, timeouts, circuits that open and close, what a bulkhead or
	// Limit refuses, hedges and fallbacks. It stays its owner's to close. Nil means that nobody is told.
	Hub *resilience.Hub

	// Timeout bounds a request from its beginning to the end of its body: redirects, retries, and the waits for its
	// turn among them. Zero leaves that to the request's context.
	Timeout time.Duration
	// Transport sends the requests. It stays the caller's, who closes its connections. Nil
	// means one of the client's own, with bounds on time and size, and at most 8 connections
	// to a host; it connects to the public Internet only, see AllowPrivate.
	Transport http.RoundTripper
	// AllowPrivate lets the client's own transport connect to private and loopback addresses. False means that such a
	// request fails, and a redirect too, with an error that is a transport.AddressError. It never connects to a
	// link-local address, or one where a cloud keeps secrets for its machines.
	AllowPrivate bool

	// OnEvent, if set, is called with what changes the pace of a host, by the goroutines that make requests. It must
	// not block, and not close the client. Nil means that nobody wants to know.
	OnEvent func(Event)
	// Log has a line of each request, in which nothing secret stands, and of each reload.
	// Nil means that nothing is logged.
	Log *slog.Logger
}

// PoliteClient is an http.Client that asks no host faster than it likes. It learns that from every answer, waits for
// the turn of each request, and for as long as Retry-After or a used-up quota asks. Everything http.Client can do
// works, and the Client inside may be given to whatever wants one.
//
// A request that meets a host whose circuit is open fails at once. One that would have to wait beyond its context's
// deadline fails at once too, so a deadline is all there is to bound the waits. Requests whose method is safe are
// tried again; others only with an Idempotency-Key. A redirect is a request like any other, with a turn of its own;
// only what net/http itself sends again, after a kept connection died before an answer, has none.
//
// Close ends it. It is safe for concurrent use, and one per program is enough: a second
// one would learn anew, and ask hosts beside the first.
type PoliteClient struct {
	*http.Client

	inner *polite.Client
}

// Client builds a client that is adaptive and polite, and resilient as its configuration
// says. The error names the field that makes no sense, or what is wrong in the document.
//
// It starts a goroutine that forgets hosts not asked for long, and another one that follows
// the file if there is one; [PoliteClient.Close] ends both.
//
// # Why robots.txt is not consulted
//
// robots.txt speaks to programs that find their URLs by following links (RFC 9309, section 1). This client follows
// none: it asks for what the program names, as an API client or a feed reader does, and a rule meant for crawlers
// would break those. A program that does follow links wants a [Crawler], which obeys it.
func Client(cfg ClientConfig) (*PoliteClient, error) {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, config.Product+" (+"+Homepage+")")
	c, err := polite.New(polite.Config(cfg))
	if err != nil {
		return nil, err
	}
	return &PoliteClient{c.HTTP, c}, nil
}

// Snapshot tells what has been learned of hosts, and why each is asked as fast as it is.
func (c *PoliteClient) Snapshot() LimiterSnapshot { return c.inner.Snapshot() }

// Close ends the requests under way with [ErrClientClosed], those that wait for their turn too, and the connections of
// the client's own transport; a body that is being read breaks off as if its request was cancelled. Later requests
// fail. It waits for the goroutines that the client has started; those that make requests are their callers'. It may
// be called again.
func (c *PoliteClient) Close() error { return c.inner.Close() }

package crawl

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// ErrClientClosed is the error of requests made through a closed [Client], and of those that were under way when it was
// closed.
var ErrClientClosed = polite.ErrClosed

// ErrRobots is the error of requests of a [Client] that robots.txt forbids, or whose robots.txt cannot be read; see
// [ClientConfig.ObeyRobots]. They were not sent.
var ErrRobots = polite.ErrRobots

// ClientConfig configures a [Client]. The zero ClientConfig sends one request per second to each host at first and
// learns rates up to ten.
type ClientConfig struct {
	// UserAgent is sent with requests that have none. Empty means Treadlight and its home page; a program that runs
	// unattended should name a contact.
	UserAgent string

	// Politeness sets how fast requests are sent to a host. Its Retries and their delays apply if neither Resilience
	// nor ResilienceFile is set. IgnoreRobots, and fields of Hosts that do not concern the rate, are refused.
	Politeness PolitenessOptions
	// Shared, if set, has the rates of hosts and is shared with other clients and crawls. Then of Politeness only
	// MaxCrawlDelay, MaxRetryAfter, Retries and their delays may be set. The caller closes it. Nil means that the
	// client has its own.
	Shared *Politeness
	// ObeyRobots requests the robots.txt of each origin and obeys it, Crawl-delay included: a request that it forbids
	// fails with [ErrRobots], and so does one whose robots.txt cannot be read for now. The name looked up in it is the
	// first word of UserAgent without its version. False does not request it: robots.txt is for programs that find URLs
	// by following links (RFC 9309, section 1), and not for one that requests URLs it knows, such as those of an API or
	// a feed.
	ObeyRobots bool

	// Resilience is the JSON document of the policies around each request, with the sections Retry, Timeout,
	// CircuitBreaker, Bulkhead, BulkheadIsolation, Hedging and Fallback. Nil means Politeness.Retries (three by
	// default) with growing delays, and 30 s for each attempt.
	Resilience []byte
	// ResilienceFile is a file with that document. It is reloaded when it changes: requests under way end with the
	// policies they began with, and an invalid document changes nothing. It cannot be combined with Resilience. Empty
	// means no file.
	ResilienceFile string
	// OnReload, if set, is called after the file has changed, with nil or with the reason why its document is not used.
	// It must not close the client, because Close waits for it. Nil means that the Log says so.
	OnReload func(error)
	// Fallback makes the answer in place of an error, or of a response with a status of the document's Fallback
	// section. It may read res, which is nil after an error, and must not return it. It must be set if the document has
	// that section.
	Fallback func(req *http.Request, res *http.Response, err error) (*http.Response, error)

	// Limit, if set, is a limiter of the program's own (of package limit) beside what is learned: each attempt takes a
	// permit of it before that of the host, and holds it until the end of the body. The caller closes the limiter;
	// several clients may share one. Nil means none.
	Limit *transport.Policy
	// Circuits, if set, holds the circuit of the document's CircuitBreaker section under its name, so that others can
	// share it and health checks can ask for it (ListenConfig.Ready, or its Handler). Then a reload that changes its
	// settings is refused. Nil means that the circuit belongs to the client alone. The circuits of single hosts are in
	// [Client.Snapshot].
	Circuits *resilience.Breakers
	// Hub, if set, receives the events of the policies: retries, timeouts, changes of circuits, refusals by a bulkhead
	// or by Limit, hedges and fallbacks. The caller closes it. Nil means none.
	Hub *resilience.Hub

	// Timeout bounds a request from its start to the end of its body, with redirects, retries and waits for permits.
	// Zero means that only the request's context bounds it.
	Timeout time.Duration
	// Transport sends the requests; the caller closes its connections. Nil means a transport of the client's own, with
	// bounds on time and size and at most 8 connections to a host, which connects to public addresses only; see
	// AllowPrivate.
	Transport http.RoundTripper
	// AllowPrivate lets the client's own transport connect to private and loopback addresses. False makes such a
	// request or redirect fail with a transport.AddressError. It never connects to a link-local address or to a cloud's
	// metadata address.
	AllowPrivate bool

	// OnEvent, if set, is called with each change of a host's rate, on the goroutines that make requests; with Shared,
	// with the changes of all that share it. It must not block and must not close the client. Nil means none.
	OnEvent func(Event)
	// Log receives one line per request, without secrets, and one per reload. Nil means none.
	Log *slog.Logger
}

// Client is an http.Client that learns from every answer how fast it may send requests to a host: each request waits
// for a permit, and for the end of a Retry-After or of a used-up quota. It can do everything that an http.Client can,
// and the http.Client inside may be passed to code that wants one. Bodies are streamed.
//
// A request to a host whose circuit is open fails at once with [ErrCircuitOpen]; a retry waits for the circuit once. A
// request that would have to wait beyond its context's deadline, or beyond Timeout, fails at once too, so a deadline is
// enough to bound all waits. Requests with a safe method are retried after 408, 425, 429, 502, 503, 504 and network
// errors; others only if they have an Idempotency-Key. After the last retry, or if a retry could not come in time, the
// response is returned with a nil error, whatever its status. A 429 also slows the requests that follow it to the same
// host. A redirect needs a permit of its own. What net/http itself sends again, because a kept connection was closed
// before an answer, does not.
//
// Close ends it. It is safe for concurrent use. Two clients learn separately, and together ask a host twice as often,
// unless they share a [Politeness].
type Client struct {
	*http.Client

	inner *polite.Client
}

// NewClient returns a client. The error names the field that is wrong, or says what is wrong in the document.
//
// It starts a goroutine that watches the file, if there is one, and without Shared those of [NewPoliteness].
// [Client.Close] ends them.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, config.Product+" (+"+assembly.Homepage+")")
	settings, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	r := &settings.RateLimit
	pc := polite.Config{
		UserAgent: cfg.UserAgent, Pace: paceOf(&settings), MaxRetryAfter: r.MaxRetryAfter, Retries: r.RetryMaxAttempts,
		RetryBaseDelay: r.RetryBaseDelay, RetryMaxDelay: r.RetryMaxDelay,
		MaxCrawlDelay: settings.Robots.MaxCrawlDelay, ObeyRobots: cfg.ObeyRobots,
		Resilience: cfg.Resilience, ResilienceFile: cfg.ResilienceFile, OnReload: cfg.OnReload, Fallback: cfg.Fallback,
		Limit: cfg.Limit, Circuits: cfg.Circuits, Hub: cfg.Hub,
		Timeout: cfg.Timeout, Transport: cfg.Transport, AllowPrivate: cfg.AllowPrivate, Log: cfg.Log,
	}
	if cfg.Shared != nil {
		pc.Shared = cfg.Shared.inner
	}
	if cfg.OnEvent != nil {
		pc.OnEvent = func(e ratelimit.Event) { cfg.OnEvent(assembly.Convert[Event](&e)) }
	}
	c, err := polite.New(pc)
	if err != nil {
		return nil, err
	}
	return &Client{c.HTTP, c}, nil
}

func (c *ClientConfig) settings() (s config.Config, err error) {
	o := &c.Politeness
	_, own := config.SetPoliteness(o)
	switch {
	case o.IgnoreRobots:
		return s, fmt.Errorf("ClientConfig.Politeness.IgnoreRobots is set, and robots.txt is not asked for unless ObeyRobots is: remove it")
	case len(o.Hosts) > 0 && own != "" && own[:5] == "Hosts":
		return s, fmt.Errorf("ClientConfig.Politeness.%s is for crawls: give a client of its own to such a host, or remove it", own)
	case (o.Retries != 0 || o.RetryBaseDelay != 0 || o.RetryMaxDelay != 0) && (c.Resilience != nil || c.ResilienceFile != ""):
		return s, fmt.Errorf("ClientConfig.Politeness.%s is set beside a document of policies, which has a section Retry: remove one of them", own)
	case c.Shared != nil:
		if err := o.besideShared("ClientConfig"); err != nil {
			return s, err
		}
	}
	s, _, err = config.FromProgram("ClientConfig", &Options{Politeness: *o})
	return s, err
}

// Snapshot returns what was learned of hosts, and the reason of each host's rate; with Shared, all that it knows.
func (c *Client) Snapshot() LimiterSnapshot {
	return assembly.Convert[LimiterSnapshot](c.inner.Snapshot())
}

// Close ends the requests under way, also those that wait for a permit, with [ErrClientClosed], and closes the
// connections of the client's own transport. A body that is being read fails as if its request was canceled. Later
// requests fail. Close waits for the goroutines that the client has started. It may be called again.
func (c *Client) Close() error { return c.inner.Close() }

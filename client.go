package crawl

import (
	"cmp"
	"encoding/json"
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

// ErrClientClosed is the error of requests made through a [Client] that is closed,
// and of those that were under way when it was.
var ErrClientClosed = polite.ErrClosed

// ErrRobots is the error of requests of a [Client] that robots.txt forbids, or whose robots.txt cannot be had, see
// [ClientConfig.ObeyRobots]. They were not sent.
var ErrRobots = polite.ErrRobots

// ClientConfig says how a [Client] behaves. The zero ClientConfig is usable: it begins with one request per
// second at each host and learns up to ten.
type ClientConfig struct {
	// UserAgent is sent with requests that have none. Empty means Treadlight and where to
	// read about it; a program that is on its own for long should say whom to write to.
	UserAgent string

	// Politeness says how fast hosts are asked. Its Retries and their delays hold where no policies are given
	// (Resilience); IgnoreRobots and what Hosts have beside the pace have no meaning and are refused.
	Politeness PolitenessOptions
	// Shared, if set, has the pace of hosts, with others that share it; then Politeness may only have MaxCrawlDelay,
	// MaxRetryAfter, Retries and their delays. It stays its owner's to close. Nil: the client paces by itself.
	Shared *Politeness
	// ObeyRobots has the client ask for the robots.txt of each origin and obey it, Crawl-delay included: a request that it
	// forbids fails with [ErrRobots], and so does one whose file cannot be had for now. The name looked for in it is the
	// first word of UserAgent without its version. False: robots.txt speaks to programs that find their URLs by
	// following links (RFC 9309, section 1), and is not asked for; a program that asks for what it knows, as of an API
	// or a feed, leaves it so.
	ObeyRobots bool

	// Resilience is the JSON document of the policies around each request; the sections
	// are Retry, Timeout, CircuitBreaker, Bulkhead, BulkheadIsolation, Hedging and Fallback.
	// Nil means Politeness.Retries (three) with growing pauses, and 30 s for each attempt.
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
	// refused then. Nil has it be the client's alone. The circuits of single hosts are in the [Client.Snapshot].
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

	// OnEvent, if set, is called with what changes the pace of a host, by the goroutines that make requests; of Shared,
	// those of all that share it. It must not block, and not close the client. Nil means that nobody wants to know.
	OnEvent func(Event)
	// Log has a line of each request, in which nothing secret stands, and of each reload.
	// Nil means that nothing is logged.
	Log *slog.Logger
}

// Client is an http.Client that asks no host faster than it likes. It learns that from every answer, waits for
// the turn of each request, and for as long as Retry-After or a used-up quota asks. Everything http.Client can do
// works, and the http.Client inside may be given to whatever wants one. Bodies come as they arrive, and nothing is
// kept of them.
//
// A request that meets a host whose circuit is open fails at once, with [ErrCircuitOpen]; another try of one that has failed
// waits for the circuit, once. One that would have to wait beyond its context's deadline fails at once too, so a deadline
// is all there is to bound the waits. Requests whose method is safe are tried again after 408, 425, 429, 502, 503, 504 and
// failures of the network; others only with an Idempotency-Key. A redirect is a request like any other, with a turn of its
// own; only what net/http itself sends again, after a kept connection died before an answer, has none.
//
// Close ends it. It is safe for concurrent use. A second client learns anew and asks hosts beside the first, unless
// they share a [Politeness].
type Client struct {
	*http.Client

	inner *polite.Client
}

// NewClient builds a client that is adaptive and polite, and resilient as its configuration
// says. The error names the field that makes no sense, or what is wrong in the document.
//
// It starts a goroutine that follows the file if there is one, and without Shared those of [NewPoliteness];
// [Client.Close] ends them.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg.UserAgent = cmp.Or(cfg.UserAgent, config.Product+" (+"+assembly.Homepage+")")
	settings, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	r := &settings.RateLimit
	if cfg.Resilience == nil && cfg.ResilienceFile == "" {
		cfg.Resilience = defaultPolicies(r)
	}
	maxCrawlDelay := settings.Robots.MaxCrawlDelay
	pc := polite.Config{
		UserAgent: cfg.UserAgent, Pace: paceOf(&settings), MaxRetryAfter: r.MaxRetryAfter,
		MaxCrawlDelay: maxCrawlDelay, ObeyRobots: cfg.ObeyRobots,
		Resilience: cfg.Resilience, ResilienceFile: cfg.ResilienceFile, OnReload: cfg.OnReload, Fallback: cfg.Fallback,
		Limit: cfg.Limit, Circuits: cfg.Circuits, Hub: cfg.Hub,
		Timeout: cfg.Timeout, Transport: cfg.Transport, AllowPrivate: cfg.AllowPrivate, Log: cfg.Log,
	}
	if cfg.Shared != nil {
		pc.Shared = cfg.Shared.inner
	}
	if cfg.OnEvent != nil {
		pc.OnEvent = func(e ratelimit.Event) { cfg.OnEvent(eventOf(&e)) }
	}
	c, err := polite.New(pc)
	if err != nil {
		return nil, err
	}
	return &Client{c.HTTP, c}, nil
}

func (c *ClientConfig) settings() (s config.Config, err error) {
	o := &c.Politeness
	_, own := o.given()
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

// defaultPolicies are for requests to any number of hosts: a circuit or a bulkhead of all of them would let one host
// that fails hold up the others, and each has a circuit of its own in the limiter.
func defaultPolicies(r *config.RateLimit) []byte {
	type object = map[string]any
	document := object{"Timeout": object{"Seconds": 30}}
	if r.RetryMaxAttempts > 0 {
		document["Retry"] = object{"MaxRetries": r.RetryMaxAttempts, "Backoff": object{
			"BaseMs": r.RetryBaseDelay.Milliseconds(), "MaxDelayMs": r.RetryMaxDelay.Milliseconds(),
		}}
	}
	text, _ := json.Marshal(document) // of numbers and texts
	return text
}

// Snapshot tells what has been learned of hosts, and why each is asked as fast as it is; of Shared, all of it.
func (c *Client) Snapshot() LimiterSnapshot { return limiterSnapshotOf(c.inner.Snapshot()) }

// Close ends the requests under way with [ErrClientClosed], those that wait for their turn too, and the connections of
// the client's own transport; a body that is being read breaks off as if its request was cancelled. Later requests
// fail. It waits for the goroutines that the client has started; those that make requests are their callers'. It may
// be called again.
func (c *Client) Close() error { return c.inner.Close() }

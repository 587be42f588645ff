package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/transport"
)

// ErrCircuitOpen is the error of requests to a host whose circuit is open: the host failed or refused so often that it
// gets no requests for a while. Nothing was sent. The [transport.RejectedError] that wraps it says for how long.
var ErrCircuitOpen = ratelimit.ErrCircuitOpen

// ErrTooManyWaiters is the error of a request to a host for which ten thousand others wait. Nothing was sent.
var ErrTooManyWaiters = ratelimit.ErrTooManyWaiters

// Politeness has the rates and obligations of hosts, one state per host for everything that shares it: crawls by
// [Options.Shared], clients by [ClientConfig.Shared], and a program's own code by [Politeness.Acquire] and
// [Politeness.Feedback] or by [Politeness.Transport]. All of them together are as polite as one crawl: a permit is for
// one request, no permit is granted within a Retry-After, and two requests to a host are never closer than its spacing.
// Permits of a host are granted in the order in which they are asked for.
//
// It keeps the states of the 100,000 hosts used last and forgets a host after [PolitenessOptions.DomainStateTTL],
// except an obligation such as a Retry-After. It is safe for concurrent use.
type Politeness struct{ inner *polite.Shared }

// NewPoliteness returns a Politeness to share. With [PolitenessOptions.Remember] it starts with what the file contains,
// and saves what it learns once a minute, soon after a host asks for a pause, and at Close. A save merges, so several
// processes may share the file, and a process that is killed leaves the last save. The file is an SQLite database: the
// program must import github.com/treadlight/crawl/sqlite. NewPoliteness starts two goroutines, which Close ends.
//
// Fields that concern the requests of one crawl or client are refused here, because they are set there: IgnoreRobots,
// MaxCrawlDelay, Retries, RetryBaseDelay, RetryMaxDelay, and of Hosts the headers, credentials and proxies. The error
// names the field, or says what is wrong with the file.
func NewPoliteness(options PolitenessOptions) (*Politeness, error) {
	if _, own := config.SetPoliteness(&options); own != "" {
		return nil, fmt.Errorf("PolitenessOptions.%s is about the requests of one crawl or client: set it there, and leave it out here", own)
	}
	settings, _, err := config.FromProgram("PolitenessOptions", &Options{Politeness: options})
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "PolitenessOptions.Politeness.", "PolitenessOptions."))
	}
	inner, err := polite.NewShared(paceOf(&settings))
	if err != nil {
		return nil, fmt.Errorf("PolitenessOptions: %w", err)
	}
	return &Politeness{inner}, nil
}

func paceOf(s *config.Config) polite.SharedConfig {
	return polite.SharedConfig{Limiter: assembly.LimiterConfig(s), Remember: s.RateLimit.Remember}
}

// besideShared returns an error if these options cannot be combined with a shared politeness.
func (o *PolitenessOptions) besideShared(root string) error {
	if pace, _ := config.SetPoliteness(o); pace != "" {
		return fmt.Errorf("%s.Politeness.%s is set beside Shared, which has the pace of hosts: set it in NewPoliteness, and leave it out here", root, pace)
	}
	return nil
}

// Permit is the right to send one request. It is safe for concurrent use.
type Permit struct{ release func() }

// Release ends the request. Call it once the answer is read, after [Politeness.Feedback]. A permit that is never
// released counts as a request in flight for ever. From one that is released without feedback nothing is learned. A
// second call does nothing.
func (p *Permit) Release() { p.release() }

// Acquire waits until one request may be sent to a host, given by name or as a URL; http and https of a host count as
// one. A redirect and a retry each need a permit of their own.
//
// It fails at once if waiting would be in vain: with a [transport.RejectedError], which says when to try again and
// wraps [ErrCircuitOpen], or context.DeadlineExceeded if the permit would come after ctx's deadline; or with
// [ErrTooManyWaiters]. It also returns ctx's error. A call that fails has taken nothing.
func (p *Politeness) Acquire(ctx context.Context, host string) (*Permit, error) {
	host = polite.Host(host)
	if host == "" {
		return nil, errors.New("Acquire: the host is empty: give its name or a URL with one")
	}
	permit, err := p.inner.Acquire(ctx, host)
	if err == nil {
		return &Permit{sync.OnceFunc(permit.Release)}, nil
	}
	if wait, ok := p.inner.RetryIn(err); ok {
		return nil, &transport.RejectedError{Host: host, RetryAfter: wait, Err: err}
	}
	return nil, err
}

// Feedback is the result of one request.
type Feedback struct {
	// StatusCode is the status of the answer. Zero means that there was none.
	StatusCode int
	// Latency is the time from sending the request to the header of the answer.
	Latency time.Duration
	// Err says why there was no whole answer, and counts before the status. The error of a canceled context teaches
	// nothing. Nil means that the answer is whole.
	Err error
	// RetryAfter is how long no request is to be sent from now on, whatever the status. Zero means what Header says.
	RetryAfter time.Duration
	// Header is the header of the answer. Its Retry-After and quotas (RateLimit, X-RateLimit-Remaining and the like)
	// are obeyed. Nil means none.
	Header http.Header
	// SentAt is when the request was sent. Zero means Latency ago.
	SentAt time.Time
	// Retry says that the request repeats one that failed. It is only counted.
	Retry bool
}

// Feedback reports the result of a request, before its permit is released. The host's rate, circuit and obligations
// follow from it. The host is a name or a URL.
func (p *Politeness) Feedback(host string, fb Feedback) {
	p.inner.Report(polite.Host(host), ratelimit.Feedback{
		StatusCode: fb.StatusCode, Latency: fb.Latency, Err: fb.Err, RetryAfter: fb.RetryAfter, SentAt: fb.SentAt, Retry: fb.Retry,
	}, fb.Header)
}

// ReadyAt returns when a permit for a host, by name or URL, would be granted if it was asked for now, and what it would
// wait for, as in [HostSnapshot.LimitedBy]. It returns the zero time and "none" if it would be granted at once. It
// takes nothing.
func (p *Politeness) ReadyAt(host string) (at time.Time, limitedBy string) {
	at, why := p.inner.ReadyAt(polite.Host(host), 0, 0)
	return at, why.String()
}

// SetCrawlDelay sets the least time between two requests to a host, by name or URL, as its robots.txt asks. If crawls
// or clients that share p have set another one, the longest counts. At most a minute is obeyed. Zero or less removes
// it.
func (p *Politeness) SetCrawlDelay(host string, d time.Duration) {
	p.inner.SetCrawlDelay(polite.Host(host), d)
}

// SetCeiling sets the most requests per second to a host, by name or URL, in place of MaxRPS and MinDelay. What the
// host asks for is obeyed as before. Zero removes it. The error says what is wrong with rps, or that 4,096 hosts have a
// ceiling.
func (p *Politeness) SetCeiling(host string, rps float64) error {
	return p.inner.SetCeiling(polite.Host(host), rps)
}

// SetAddress tells the address of a host, given by name or URL, so that it is paced together with other hosts at that
// address. Crawls, clients and [Politeness.Transport] call it themselves.
func (p *Politeness) SetAddress(host string, addr netip.Addr) {
	p.inner.SetAddress(polite.Host(host), addr)
}

// Transport returns a transport that paces the requests of an http.Client, or serves as RateLimit of
// [transport.Layers]. Each request waits for its permit; its result is reported, and the permit is released when the
// body is closed or read to the end. A nil next means http.DefaultTransport.
func (p *Politeness) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport //nolint:forbidigo // what nil means to net/http
	}
	return p.inner.Middleware()(next)
}

// Subscribe calls fn with each change of a host's rate, in order for each host, on the goroutines that make requests.
// It must not block. A call may still run when off has returned.
func (p *Politeness) Subscribe(fn func(Event)) (off func()) {
	return p.inner.Subscribe(func(e ratelimit.Event) { fn(assembly.Convert[Event](&e)) })
}

// Snapshot sums up what is known of hosts. It looks at every host, one at a time.
func (p *Politeness) Snapshot() LimiterSnapshot {
	return assembly.Convert[LimiterSnapshot](p.inner.Snapshot())
}

// Host returns what is known of a host, given by name or URL. known is false if no state of it is kept; h then says
// what it would start with.
func (p *Politeness) Host(host string) (h HostSnapshot, known bool) {
	d, known := p.inner.Inspect(polite.Host(host))
	return assembly.Convert[HostSnapshot](&d), known
}

// Save writes what is known of hosts to the file now. Without a file it does nothing.
func (p *Politeness) Save(ctx context.Context) error { return p.inner.Save(ctx) }

// Close saves and ends the goroutines. Close crawls and clients that share p first: they would go on, but what they
// learn afterwards is not saved. It may be called again.
func (p *Politeness) Close() error { return p.inner.Close() }

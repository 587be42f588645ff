package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/transport"
)

// ErrCircuitOpen is the error of requests to a host whose circuit is open: it failed or refused so often that it is
// left alone for a while. Nothing was sent. The [transport.RejectedError] around it says for how long.
var ErrCircuitOpen = ratelimit.ErrCircuitOpen

// ErrTooManyWaiters is the error of a request that would have been the ten thousand and first to wait for its turn at
// one host. Nothing was sent.
var ErrTooManyWaiters = ratelimit.ErrTooManyWaiters

// Politeness is what a process knows of hosts and owes to them, in one place: one state per host for all that ask.
// Several crawls share it by [Options.Shared], clients by [ClientConfig.Shared], and a program's own code by
// [Politeness.Acquire] and [Politeness.Feedback], or [Politeness.Transport]. What holds for one crawl holds for all
// of them together: one permit is one request; none goes out within a Retry-After, whoever was given it; and two
// requests to a host are never closer than its gap. Permits of a host go in the order in which they are asked for.
//
// It keeps the 100,000 hosts that were asked last, forgets a host after [PolitenessOptions.DomainStateTTL], but never
// what it owes to one. It is safe for concurrent use.
type Politeness struct{ inner *polite.Shared }

// NewPoliteness makes a politeness for several to share. With [PolitenessOptions.Remember] it begins with what the file
// knows, and saves what it learns there once a minute, soon after a host has asked for a pause, and at Close; a save
// merges, so that processes may share the file, and a kill leaves the one before. It starts two goroutines, which Close
// ends. The file is an SQLite database: the program imports github.com/treadlight/crawl/sqlite.
//
// The fields that are about the requests of one crawl or client are set there and refused here: IgnoreRobots,
// MaxCrawlDelay, Retries, RetryBaseDelay, RetryMaxDelay, and of Hosts the headers, credentials and proxies. The error
// names the field, or says what is wrong with the file.
func NewPoliteness(options PolitenessOptions) (*Politeness, error) {
	if _, own := options.given(); own != "" {
		return nil, fmt.Errorf("PolitenessOptions.%s is about the requests of one crawl or client: set it there, and leave it out here", own)
	}
	settings, err := options.settings("PolitenessOptions")
	if err != nil {
		return nil, err
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

// settings are those of a crawl with these options. The error names the fields, as those of root.
func (o *PolitenessOptions) settings(root string) (config.Config, error) {
	s, _, err := config.FromProgram(root, &Options{Politeness: *o})
	if err != nil {
		return s, errors.New(strings.ReplaceAll(err.Error(), root+".Politeness.", root+"."))
	}
	return s, nil
}

// ofAsker are the options that are about the requests of one crawl or client, and not about the pace of a host.
// MaxRetryAfter is about both.
var ofAsker = map[string]bool{
	"IgnoreRobots": true, "MaxCrawlDelay": true, "Retries": true, "RetryBaseDelay": true, "RetryMaxDelay": true,
	"Headers": true, "Auth": true, "Proxy": true, "Cert": true, "Key": true,
}

// given is the first field that is set of those about the pace of hosts, and of the others; empty for none.
func (o *PolitenessOptions) given() (pace, own string) {
	note := func(base string, v reflect.Value) {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch {
			case v.Field(i).IsZero() || name == "Hosts" || name == "Match" || name == "MaxRetryAfter":
			case ofAsker[name] && own == "":
				own = base + name
			case !ofAsker[name] && pace == "":
				pace = base + name
			}
		}
	}
	note("", reflect.ValueOf(*o))
	for i := range o.Hosts {
		note(fmt.Sprintf("Hosts[%d].", i), reflect.ValueOf(o.Hosts[i]))
	}
	return pace, own
}

// besideShared is why options cannot be set beside a shared politeness; nil if they can.
func (o *PolitenessOptions) besideShared(root string) error {
	if pace, _ := o.given(); pace != "" {
		return fmt.Errorf("%s.Politeness.%s is set beside Shared, which has the pace of hosts: set it in NewPoliteness, and leave it out here", root, pace)
	}
	return nil
}

// Permit is the right to send one request. It is safe for concurrent use.
type Permit struct {
	inner    ratelimit.Permit
	released atomic.Bool
}

// Release ends the request: call it once the answer is read, after [Politeness.Feedback]. A permit that is never
// released counts as a request under way for ever; one that is released without feedback has taught nothing. A second
// call does nothing.
func (p *Permit) Release() {
	if !p.released.Swap(true) {
		p.inner.Release()
	}
}

// Acquire waits for the turn of one request to a host, given by its name or by a URL; http and https of a host are one.
// A permit is for one request: a redirect and a retry want one each.
//
// It fails at once where waiting is in vain: with a [transport.RejectedError], which is [ErrCircuitOpen], or
// context.DeadlineExceeded if the turn comes after ctx's deadline, and says when to come again; with
// [ErrTooManyWaiters]; and with ctx's error. Who gets an error has taken nothing.
func (p *Politeness) Acquire(ctx context.Context, host string) (*Permit, error) {
	host = hostOf(host)
	if host == "" {
		return nil, errors.New("Acquire: the host is empty: give its name or a URL with one")
	}
	permit, err := p.inner.Acquire(ctx, host)
	if err == nil {
		return &Permit{inner: permit}, nil
	}
	rejected := &transport.RejectedError{Host: host, Err: err}
	if open, ok := errors.AsType[*ratelimit.CircuitOpenError](err); ok {
		rejected.RetryAfter = max(0, p.inner.Until(open.Until))
		return nil, rejected
	}
	if wait, ok := errors.AsType[*ratelimit.WaitError](err); ok {
		rejected.RetryAfter = wait.Wait
		return nil, rejected
	}
	return nil, err
}

// hostOf is the name of the host of a URL, or of a host.
func hostOf(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
		if i := strings.IndexAny(s, "/?#"); i >= 0 {
			s = s[:i]
		}
		s = s[strings.LastIndexByte(s, '@')+1:]
	}
	return ratelimit.Domain(s)
}

// Feedback is what came of one request.
type Feedback struct {
	// StatusCode is that of the answer. Zero means that there was none.
	StatusCode int
	// Latency is from the sending of the request to the header of the answer.
	Latency time.Duration
	// Err is why there was no answer, or not a whole one. It goes before the status. That of a context that was
	// cancelled teaches nothing. Nil means that the answer is whole.
	Err error
	// RetryAfter is how long the host is not to be asked from now on, whatever the status. Zero means what Header says.
	RetryAfter time.Duration
	// Header is that of the answer, whose Retry-After and quotas (RateLimit, X-RateLimit-Remaining and the like) are
	// obeyed. Nil means that it said nothing.
	Header http.Header
	// SentAt is when the request was sent. Zero means Latency ago.
	SentAt time.Time
	// Retry says that an earlier try of the same request had failed. It is only counted.
	Retry bool
}

// Feedback tells what came of a request, before its permit is released: the pace of the host, its circuit, and what is
// owed to it follow. The host is a name or a URL.
func (p *Politeness) Feedback(host string, fb Feedback) {
	p.inner.Report(hostOf(host), ratelimit.Feedback{
		StatusCode: fb.StatusCode, Latency: fb.Latency, Err: fb.Err, RetryAfter: fb.RetryAfter, SentAt: fb.SentAt, Retry: fb.Retry,
	}, fb.Header)
}

// ReadyAt is when a request to a host, by name or URL, could go if it was asked for now, and what it waits for, as in
// [HostSnapshot.LimitedBy]. It is the zero time, and "none", if it could go at once. It takes nothing.
func (p *Politeness) ReadyAt(host string) (at time.Time, limitedBy string) {
	at, why := p.inner.ReadyAt(hostOf(host), 0, 0)
	return at, why.String()
}

// SetCrawlDelay has two requests to a host, by name or URL, be at least d apart, as its robots.txt asks. The longest
// that the program and the crawls and clients beside it have been asked for counts. Up to a minute is obeyed. Zero or
// less takes the program's back.
func (p *Politeness) SetCrawlDelay(host string, d time.Duration) {
	p.inner.SetCrawlDelay(hostOf(host), d)
}

// SetCeiling has a host, by name or URL, be asked at most rps times a second from now on, in place of MaxRPS and
// MinDelay. What the host asks for holds as before. Zero takes it back. The error says what is wrong with rps, or that
// four thousand hosts have a ceiling of their own.
func (p *Politeness) SetCeiling(host string, rps float64) error {
	return p.inner.SetCeiling(hostOf(host), rps)
}

// SetAddress tells at which address a host, by name or URL, was met, so that it is paced with the others there. Crawls,
// clients and [Politeness.Transport] do so by themselves.
func (p *Politeness) SetAddress(host string, addr netip.Addr) {
	p.inner.SetAddress(hostOf(host), addr)
}

// Transport paces the requests of an http.Client, or of one of [transport.Layers], whose RateLimit it is: each waits
// for its turn, and what comes of it is fed back, its permit being released when the body is closed or read to its end.
// Nil means http.DefaultTransport.
func (p *Politeness) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport //nolint:forbidigo // what nil means to net/http
	}
	return p.inner.Middleware()(next)
}

// Subscribe has fn called with what changes the pace of a host, in order for each host, by the goroutines that make
// requests. It must not block. A call may still be under way when off has returned.
func (p *Politeness) Subscribe(fn func(Event)) (off func()) {
	return p.inner.Subscribe(func(e ratelimit.Event) { fn(eventOf(&e)) })
}

// Snapshot sums up what is known of hosts, at about one instant. It looks at every host.
func (p *Politeness) Snapshot() LimiterSnapshot { return limiterSnapshotOf(p.inner.Snapshot()) }

// Host is what is known of one host, by name or URL. It is not known if it was not asked lately; what is told then is
// what it would begin with.
func (p *Politeness) Host(host string) (h HostSnapshot, known bool) {
	d, known := p.inner.Inspect(hostOf(host))
	return hostSnapshotOf(&d), known
}

// Save writes what is known of hosts to the file now. Without one it does nothing.
func (p *Politeness) Save(ctx context.Context) error { return p.inner.Save(ctx) }

// Close saves, and ends what runs beside. Close crawls and clients first: they go on by what is known, but what they
// learn from then on is not saved. It may be called again.
func (p *Politeness) Close() error { return p.inner.Close() }

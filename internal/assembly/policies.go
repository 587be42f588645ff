package assembly

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
	"github.com/treadlight/crawl/transport"
)

// policies are the policies around the requests of a crawl. A crawl without policies has no such layers, and its
// requests go straight to the transport.
type policies struct {
	page   transport.Middleware // nil if there is no policy around a page
	robots transport.Middleware // nil if robots.txt is requested like pages

	made     *binder.Policies[*http.Response]
	hub      *resilience.Hub // of the events of the policies; nil if they are not logged
	most     int             // how many requests may be in the policies at a time; zero means no bound
	mostHost int             // the same per host
}

// leastPools is the least number of hosts with a bulkhead of their own: enough for the hosts with requests in flight
// and, so that their figures last for a while, some more.
const leastPools = 1024

// newPolicies builds the policies of the settings. The limiter has the circuit breaker of each host, and a crawl has
// neither hedges nor fallbacks: package config says why.
func newPolicies(cfg *Config) (*policies, error) {
	m := cmp.Or(cfg.Resilience, new(binder.Model))
	c := new(policies)
	layers := transport.Layers{}
	if cfg.Log != nil && cfg.Log.Enabled(context.Background(), slog.LevelDebug) {
		c.hub = new(resilience.Hub)
		layers.Log = transport.Log(transport.LogConfig{Logger: cfg.Log, Level: slog.LevelDebug, FailLevel: slog.LevelDebug})
	}
	p, err := binder.Bind( //nolint:bodyclose // no request has been made yet
		&binder.Model{Retry: m.Retry, Timeout: m.Timeout, Bulkhead: m.Bulkhead, BulkheadIsolation: m.BulkheadIsolation},
		binder.Options[*http.Response]{
			Deps:      binder.Deps{Keys: max(leastPools, cfg.Concurrency), Hub: c.hub},
			Transient: againAtOnce(clock.System()), //nolint:bodyclose // a function over responses, not one
			Bind:      transport.Bind, Discard: transport.Discard, Key: transport.HostFrom,
		})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	c.made = p
	if b := m.Bulkhead; b != nil {
		c.most = b.MaxConcurrency
		if b.QueueTimeout != 0 {
			c.most += b.MaxQueue
		}
	}
	if b := m.BulkheadIsolation; b != nil {
		c.mostHost = b.MaxConcurrency
		if b.QueueTimeout != 0 {
			c.mostHost += b.MaxQueue
		}
	}
	layers.Isolation, layers.Bulkhead, layers.AttemptTimeout = p.Isolation, p.Bulkhead, p.Timeout
	if len(layers.Order()) > 0 {
		c.page = layers.PageChain
	}
	if p.Retry != nil {
		layers.Retry = p.Retry
		c.robots = layers.Chain
	}
	return c, nil
}

// logTo logs the events of the policies: each retry, time-out and refusal. Call it when the crawl runs, as a hub with a
// listener has a goroutine.
func (p *policies) logTo(log *slog.Logger) {
	p.hub.Any(func(e resilience.Event) {
		log.Debug("policy", slog.String("event", (*redact.Redactor)(nil).Text(fmt.Sprintf("%T%+v", e, e))))
	})
}

// againAtOnce classifies which failures of robots.txt are worth another try after a pause. A worker waits during that
// pause, so the retry is not for hosts that want to be left alone: those wait in the frontier, where waiting costs
// nothing, and what they say applies to their pages too. A malformed Retry-After is ignored.
func againAtOnce(clk clock.Clock) resilience.Classifier[*http.Response] {
	return func(res *http.Response, err error) resilience.Classification {
		if err == nil {
			throttled := outcome.Of(res.StatusCode, nil) == outcome.Throttled
			if wait, _ := header.RetryAfterOf(res.Header, clk.Now(), 0); wait > 0 {
				throttled = throttled || outcome.RetryAfter(res.StatusCode) == outcome.WaitsHost
			}
			if throttled {
				return resilience.Success
			}
		}
		return transport.TransientClassifier(res, err)
	}
}

// bound limits the requests to what the bulkheads take in, queues included: a request that would be rejected at once is
// better off in the frontier.
func (p *policies) bound(pc *pipeline.Config) {
	if p.most > 0 {
		pc.Concurrency = min(pc.Concurrency, p.most)
	}
	if p.mostHost > 0 {
		pc.PerHost = min(pc.PerHost, p.mostHost)
	}
	pc.Queues = p.most > 0 || p.mostHost > 0
}

func (p *policies) close() {
	_ = p.made.Close() // closing them cannot fail
	_ = p.hub.Close()
}

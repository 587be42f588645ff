package assembly

import (
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

// policies are the policies around the requests of a crawl. A crawl without any has no layers either, and its requests
// go straight to the transport.
type policies struct {
	page   transport.Middleware // nil if there is nothing around a page
	robots transport.Middleware // nil if robots.txt is asked for as pages are

	made     *binder.Policies[*http.Response]
	hub      *resilience.Hub // of what the policies do; nil if nobody is told
	most     int             // requests that may be in the policies at a time; zero: no bound
	mostHost int             // and those for one host
}

// leastPools is how many hosts have a bulkhead of their own at least: that of hosts which are being asked and, so that
// their figures last a while, some more.
const leastPools = 1024

// newPolicies builds the policies of the settings. The limiter has the circuit of each host, and a crawl has neither
// hedges nor fallbacks: package config says why.
func newPolicies(cfg *Config) (*policies, error) {
	m := cfg.Resilience
	if m == nil {
		m = new(binder.Model)
	}
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

// logTo logs what the policies do: each retry, time-out and refusal. It is for the time in which the crawl runs, as a
// hub with a listener has a goroutine.
func (p *policies) logTo(log *slog.Logger) {
	p.hub.Any(func(e resilience.Event) {
		log.Debug("policy", slog.String("event", (*redact.Redactor)(nil).Text(fmt.Sprintf("%T%+v", e, e))))
	})
}

// againAtOnce tells the failures of robots.txt after which another try is worth its pause. A worker makes that pause,
// so it is not for hosts that want to be left alone: they wait in the frontier, where waiting is free, and what they
// say holds for their pages too. A malformed Retry-After asks for nothing.
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

// bound has no more requests made than bulkheads take in, their queues included: one that would be sent away at once is
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
	_ = p.made.Close() // they have nothing that could fail to close
	_ = p.hub.Close()
}

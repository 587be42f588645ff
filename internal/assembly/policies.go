package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
	"github.com/treadlight/crawl/transport"
)

// policies are the policies around the requests of a crawl. A crawl without any has no layers
// either, and its requests go straight to the transport.
type policies struct {
	page   transport.Middleware // nil if there is nothing around a page
	robots transport.Middleware // nil if robots.txt is asked for as pages are

	made     *binder.Policies[*http.Response]
	hub      *resilience.Hub // of what the policies do; nil if nobody is told
	most     int             // requests that may be in the policies at a time; zero: no bound
	mostHost int             // and those for one host
}

// newPolicies builds the policies of the settings. The limiter has the circuit of each host,
// and a crawl has neither hedges nor fallbacks: package config says why.
func newPolicies(cfg *Config) (*policies, error) {
	m := cfg.Resilience
	if m == nil {
		m = new(binder.Model)
	}
	hub := policyHub(cfg.Log)
	p, err := binder.Bind( //nolint:bodyclose // no request has been made yet
		&binder.Model{Retry: m.Retry, Timeout: m.Timeout, Bulkhead: m.Bulkhead, BulkheadIsolation: m.BulkheadIsolation},
		binder.Options[*http.Response]{
			Deps:      binder.Deps{Keys: max(leastPools, cfg.Concurrency), Hub: hub},
			Transient: againAtOnce(clock.System()), //nolint:bodyclose // a function over responses, not one
			Bind:      transport.Bind, Discard: transport.Discard, Key: transport.HostFrom,
		})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	c := &policies{made: p, hub: hub}
	if b := m.Bulkhead; b != nil {
		c.most = room(b.MaxConcurrency, b.MaxQueue, b.QueueTimeout)
	}
	if b := m.BulkheadIsolation; b != nil {
		c.mostHost = room(b.MaxConcurrency, b.MaxQueue, b.QueueTimeout)
	}
	layers := transport.Layers{
		Log: requestLog(cfg.Log), Isolation: p.Isolation, Bulkhead: p.Bulkhead, AttemptTimeout: p.Timeout,
	}
	if len(layers.Order()) > 0 {
		c.page = layers.PageChain
	}
	if p.Retry != nil {
		layers.Retry = p.Retry
		c.robots = layers.Chain
	}
	return c, nil
}

// leastPools is how many hosts have a bulkhead of their own at least: that of hosts which
// are being asked and, so that their figures last a while, some more.
const leastPools = 1024

// requestLog logs each request at the level of debugging, if anybody is told at that.
func requestLog(log *slog.Logger) transport.Middleware {
	if log == nil || !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	return transport.Log(transport.LogConfig{Logger: log, Level: slog.LevelDebug, FailLevel: slog.LevelDebug})
}

// policyHub is the hub of a crawl's policies; nil if nobody is told at the level of debugging.
func policyHub(log *slog.Logger) *resilience.Hub {
	if log == nil || !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	return new(resilience.Hub)
}

// logTo logs what the policies do: each retry, time-out and refusal. It is for the time in
// which the crawl runs, as a hub with a listener has a goroutine.
func (p *policies) logTo(log *slog.Logger) {
	p.hub.Any(func(e resilience.Event) {
		log.Debug("policy", slog.String("event", (*redact.Redactor)(nil).Text(fmt.Sprintf("%T%+v", e, e))))
	})
}

// againAtOnce tells the failures of robots.txt after which another try is worth its pause.
// A worker makes that pause, so it is not for hosts that want to be left alone: they wait
// in the frontier, where waiting is free, and what they say holds for their pages too.
func againAtOnce(clk clock.Clock) resilience.Classifier[*http.Response] {
	return func(res *http.Response, err error) resilience.Classification {
		if err == nil && (outcome.Of(res.StatusCode, nil) == outcome.Throttled || wish(res, clk) > 0) {
			return resilience.Success
		}
		return transport.TransientClassifier(res, err)
	}
}

// wish is the Retry-After of an answer that binds its host; a malformed one asks for nothing.
func wish(res *http.Response, clk clock.Clock) time.Duration {
	if outcome.RetryAfter(res.StatusCode) != outcome.WaitsHost {
		return 0
	}
	d, _ := header.RetryAfterOf(res.Header, clk.Now(), 0)
	return d
}

// room is how many requests a bulkhead takes in, those in its queue included.
func room(places, queue int, timeout time.Duration) int {
	if timeout == 0 {
		return places
	}
	return places + queue
}

// bound has no more requests made than bulkheads take in: one that would be sent away at
// once is better off in the frontier.
func (p *policies) bound(pc *pipeline.Config) {
	if p.most > 0 {
		pc.Concurrency = min(pc.Concurrency, p.most)
	}
	if p.mostHost > 0 {
		pc.PerHost = min(pc.PerHost, p.mostHost)
	}
	pc.Queues = p.most > 0 || p.mostHost > 0
}

// close ends the policies after the last request.
func (p *policies) close() {
	_ = p.made.Close() // they have nothing that could fail to close
	_ = p.hub.Close()
}

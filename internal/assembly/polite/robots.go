package polite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/web/robots"
)

// ErrRobots is the error of a request that robots.txt forbids, or whose robots.txt cannot be fetched. Nothing was sent.
var ErrRobots = errors.New("robots.txt forbids it")

// gate lets requests pass that robots.txt allows. It requests the file of an origin at the origin's first request,
// through next, so that it is paced and retried like others.
type gate struct {
	next   http.RoundTripper
	agent  string
	cache  *robots.Cache
	member *Member
	clk    clock.Clock

	mu    sync.Mutex
	under map[string]chan struct{} // origins whose file is being fetched: at most as many as there are requests
}

func newGate(next http.RoundTripper, agent string, m *Member) (*gate, error) {
	token, _, _ := strings.Cut(agent, " ")
	cache, err := robots.New(robots.Config{Agent: token})
	if err != nil {
		return nil, fmt.Errorf("UserAgent %q begins with no name that robots.txt could have: %w", agent, err)
	}
	return &gate{next: next, agent: agent, cache: cache, member: m, clk: m.shared.keeper.Clock, under: make(map[string]chan struct{})}, nil
}

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if u := req.URL; u != nil && u.Path != "/robots.txt" && (u.Scheme == "http" || u.Scheme == "https") {
		if err := g.check(req.Context(), u); err != nil {
			if req.Body != nil {
				_ = req.Body.Close() // nobody could handle the error
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the transport.
func (g *gate) CloseIdleConnections() {
	if idle, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// check returns nil if robots.txt allows a URL.
func (g *gate) check(ctx context.Context, u *url.URL) error {
	origin := strings.ToLower(u.Scheme + "://" + u.Host)
	for ctx.Err() == nil {
		now := g.clk.Now()
		e := g.cache.Lookup(origin, now)
		if e.Due(now) {
			if g.fetch(ctx, origin) {
				continue
			}
			e = g.cache.Lookup(origin, now)
		}
		switch {
		case e.Rules != nil:
			if v := e.Rules.Check(u.RequestURI()); !v.Allowed {
				return fmt.Errorf("%w: %s", ErrRobots, v.Reason)
			}
			return nil
		case e.State != robots.Pending:
			return fmt.Errorf("%w: the file of %s cannot be had until %s: %s", ErrRobots, origin, e.RetryAt.Format(time.TimeOnly), e.Reason)
		}
		g.mu.Lock()
		under := g.under[origin]
		g.mu.Unlock()
		if under == nil {
			continue // the request has just ended
		}
		select {
		case <-under:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

func (g *gate) fetch(ctx context.Context, origin string) bool {
	g.mu.Lock()
	begun := g.cache.Begin(origin, g.clk.Now())
	if begun {
		g.under[origin] = make(chan struct{})
	}
	g.mu.Unlock()
	if !begun {
		return false
	}
	res := robots.Result{Kind: robots.NoAnswer, Reason: "the request for it was given up"}
	defer func() { // also if a layer panics
		e := g.cache.Answer(origin, g.clk.Now(), res)
		if e.Rules != nil {
			g.delay(origin, e.Rules)
		}
		g.mu.Lock()
		close(g.under[origin])
		delete(g.under, origin)
		g.mu.Unlock()
	}()
	if answer := g.ask(ctx, origin+"/robots.txt"); ctx.Err() == nil {
		res = answer
	}
	return true
}

// delay sets a Crawl-delay. Both schemes of a host are paced as one, so the longer delay of the two applies to both.
func (g *gate) delay(origin string, rules *robots.Rules) {
	scheme, host, _ := strings.Cut(origin, "://")
	other := "https"
	if scheme == other {
		other = "http"
	}
	both := g.cache.Lookup(other+"://"+host, g.clk.Now()).Rules
	g.member.SetCrawlDelay(host, max(rules.Pause(), both.Pause()))
}

// ask requests a file, and follows its redirects.
func (g *gate) ask(ctx context.Context, at string) robots.Result {
	for hops := 0; ; hops++ {
		answer := g.once(ctx, at)
		answer.Hops = hops
		res := robots.FromAnswer(answer)
		if res.Kind != robots.Moved {
			return res
		}
		from, err := url.Parse(at)
		if err == nil {
			from, err = from.Parse(res.Location)
		}
		if err != nil || from.Scheme != "http" && from.Scheme != "https" {
			return robots.Result{Kind: robots.Absent, Reason: "moved to " + res.Location + ", which is no URL"}
		}
		at = from.String()
	}
}

func (g *gate) once(ctx context.Context, at string) (a robots.Answer) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return robots.Answer{Err: err}
	}
	req.Header.Set("User-Agent", g.agent)
	res, err := g.next.RoundTrip(req)
	if err != nil {
		return robots.Answer{Err: err}
	}
	defer func() { _ = res.Body.Close() }() // the body was only read
	a.Status, a.Location = res.StatusCode, res.Header.Get("Location")
	a.Body, a.Err = io.ReadAll(io.LimitReader(res.Body, robots.MaxBytes))
	return a
}

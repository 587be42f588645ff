package polite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
)

// ErrRobots is the error of a request that robots.txt forbids, or whose robots.txt cannot be fetched. Nothing was sent.
var ErrRobots = errors.New("robots.txt forbids it")

// gate lets requests pass that robots.txt allows. It requests the file of an origin at the origin's first request,
// through next, so that it is paced and retried like others.
type gate struct {
	next   http.RoundTripper
	agent  string
	source robots.Source
}

func newGate(next http.RoundTripper, agent string, m *Member) (*gate, error) {
	token, _, _ := strings.Cut(agent, " ")
	cache, err := robots.New(robots.Config{Agent: token})
	if err != nil {
		return nil, fmt.Errorf("UserAgent %q begins with no name that robots.txt could have: %w", agent, err)
	}
	g := &gate{next: next, agent: agent}
	g.source = robots.Source{Cache: cache, Now: m.now, Ask: g.ask, Obey: func(origin string, d time.Duration) {
		m.SetCrawlDelay(robots.HostOf(origin), d)
	}}
	return g, nil
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
func (g *gate) CloseIdleConnections() { (&http.Client{Transport: g.next}).CloseIdleConnections() }

// check returns nil if robots.txt allows a URL.
func (g *gate) check(ctx context.Context, u *url.URL) error {
	origin := strings.ToLower(u.Scheme + "://" + u.Host)
	e, err := g.source.Get(ctx, origin)
	switch {
	case err != nil:
		return err
	case e.Rules == nil && e.Lasting:
		return fmt.Errorf("%w: the file of %s cannot be had: %s", ErrRobots, origin, e.Reason)
	case e.Rules == nil:
		return fmt.Errorf("%w: the file of %s cannot be had until %s: %s", ErrRobots, origin, e.RetryAt.Format(time.TimeOnly), e.Reason)
	}
	if v := e.Rules.Check(u.RequestURI()); !v.Allowed {
		return fmt.Errorf("%w: %s", ErrRobots, v.Reason)
	}
	return nil
}

func (g *gate) ask(ctx context.Context, origin string) robots.Result {
	return robots.Follow(origin, func(at canonical.URL) (a robots.Answer) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
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
	})
}

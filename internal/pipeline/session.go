package pipeline

import (
	"context"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/paced"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Session is a login within which pages are fetched. Its methods are safe for concurrent use.
type Session interface {
	// Enter logs in unless that is done, by requests through send, and returns the number of the session. Zero means
	// that the URL belongs to no session. An error ends the crawl.
	Enter(ctx context.Context, u canonical.URL, send Sender) (uint64, error)
	// Lost reports whether the response shows that the session of that number is over. Then the URL has to be fetched
	// again within a new one.
	Lost(u canonical.URL, session uint64, resp *fetch.Response) bool
}

// Sender makes a request that belongs to no page. It takes a permit of the host, and repeats the request if the host
// was overloaded. No record and no archive has the request.
type Sender func(ctx context.Context, u canonical.URL, req fetch.Request) (*fetch.Response, error)

func (t *try) enter(ctx context.Context) (err error) {
	l := t.f.lease
	if t.p.cfg.Session == nil || l.Kind != frontier.Page {
		return nil
	}
	t.session, err = t.p.cfg.Session.Enter(ctx, l.URL, t.p.send)
	t.since = t.p.cfg.Clock.Now() // the time of the login is no wait for the permit
	return err
}

// outside reports whether the response shows that the session was over when it was sent. If so, the response is
// released.
func (t *try) outside() bool {
	f := t.f
	if t.session == 0 || f.err != nil || f.resp == nil || !t.p.cfg.Session.Lost(f.lease.URL, t.session, f.resp) {
		return false
	}
	t.p.stats.count(&t.p.stats.n.Retries, 1)
	f.resp.Release()
	return true
}

func (p *Pipeline) send(ctx context.Context, u canonical.URL, req fetch.Request) (*fetch.Response, error) {
	c := paced.Client{Limiter: p.cfg.Limiter, Fetch: p.cfg.Fetcher.Fetch, Clock: p.cfg.Clock, Backoff: p.cfg.Backoff, Note: func(resp *fetch.Response) {
		if resp != nil {
			p.heard.Store(true)
		}
		p.stats.count(&p.stats.n.Requests, 1)
	}}
	return c.Do(ctx, u.Host(), req)
}

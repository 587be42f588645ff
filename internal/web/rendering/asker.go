package rendering

import (
	"context"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
)

// Asker makes the requests of pages that are being rendered, as far as scope and robots.txt allow.
type Asker struct {
	Scope  *scope.Scope
	Robots *robots.Cache // the rules of origins that the crawl has; nil means that robots.txt is ignored
	// Others has the rules of origins that only rendered pages send requests to. They are in a cache of their own, as no
	// URL of the frontier waits for them.
	Others *robots.Source
	Send   func(ctx context.Context, u canonical.URL, req fetch.Request) (*fetch.Response, error)
	Refuse func(host string) error // returns why a host gets no requests; nil if it does
}

// Asks returns what makes the requests of one page. Shared says that other processes pace the other hosts.
func (a *Asker) Asks(page canonical.URL, shared bool) Ask {
	return func(ctx context.Context, s *Subrequest) (*fetch.Response, error) {
		u := s.URL
		err := a.Refuse(u.Host())
		switch own := u.Host() == page.Host(); {
		case err != nil:
			return nil, &RefusedError{err.Error()}
		case own:
		case shared:
			return nil, &RefusedError{"a process of a fleet renders with the page's host alone"}
		case !s.Code && !a.Scope.Reaches(u):
			return nil, &RefusedError{"its host is not in scope"}
		}
		if v := a.Scope.Recheck(u, true); !v.In {
			return nil, &RefusedError{v.Reason()}
		}
		if err := a.ruled(ctx, u); err != nil {
			return nil, err
		}
		// Requests to other sites carry nothing that identifies the crawl to the site of the page.
		s.Anonymous = s.Anonymous || scope.SiteOf(u) != scope.SiteOf(page)
		return a.Send(ctx, u, s.Request)
	}
}

// ruled returns an error if robots.txt disallows a request, or could not be fetched.
func (a *Asker) ruled(ctx context.Context, u canonical.URL) error {
	if a.Robots == nil {
		return nil
	}
	e := a.Robots.Lookup(u.Origin(), a.Others.Now())
	if e.Rules == nil {
		var err error
		if e, err = a.Others.Get(ctx, u.Origin()); err != nil {
			return err
		}
	}
	if e.Rules == nil {
		return &RefusedError{"robots.txt cannot be had: " + e.Reason}
	}
	if v := e.Rules.Check(u.Path()); !v.Allowed {
		return &RefusedError{v.Reason}
	}
	return nil
}

// AskRobots requests the robots.txt of an origin, for [robots.Source].
func (a *Asker) AskRobots(ctx context.Context, origin string) robots.Result {
	return robots.Follow(origin, func(at canonical.URL) robots.Answer {
		return robots.AnswerOf(a.Send(ctx, at, fetch.Request{URL: at.String(), MaxBody: robots.MaxBytes, Anonymous: true}))
	})
}

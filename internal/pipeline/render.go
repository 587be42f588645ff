package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/backend"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/scripts"
	"github.com/treadlight/crawl/record"
)

// Renderer renders pages in browsers. Its methods are safe for concurrent use.
type Renderer interface {
	// Start checks that there is a browser that can be started.
	Start(ctx context.Context) error
	// Wants returns why a page is to be rendered. Empty means that it is not.
	Wants(u canonical.URL, page []byte) string
	// Render waits for a free browser and renders the page. An error concerns this page alone, and there may be a
	// result besides it.
	Render(ctx context.Context, page *Rendering) (*Rendered, error)
	// Close ends all browsers. Pages that are being rendered fail.
	Close()
}

// Renderers has the one implementation: package render registers itself.
var Renderers = backend.New[func(RenderConfig) (Renderer, error)]("pages rendered by a browser (render.mode)", "browser")

// RenderConfig says how pages are rendered.
type RenderConfig struct {
	Always      bool           // renders every page, not only those that show signs of needing it
	Browser     string         // path of the program, or the URL of a running one; empty means where it is usually installed
	Browsers    int            // the maximum number of browsers
	Steps       []scripts.Step // what to do on each page
	Press       bool           // presses buttons that scripts listen to
	Screenshots string         // directory for screenshots and prints; empty means none
	Agent       string         // the User-Agent
	Timeout     time.Duration  // for one page, not counting waits for hosts
	MaxHTML     int64          // bounds a rendered page, in bytes
	Cookies     cookies.Keeper // nil means that no cookies are kept
	Learned     string         // what an earlier run gave to Learn; parts that cannot be read are ignored
	Learn       func(string)   // stores what was learned about pages; nil means that it is not stored
	Log         *slog.Logger   // required
}

// Rendering is a page to be rendered.
type Rendering struct {
	URL  canonical.URL
	Why  string
	Resp *fetch.Response // the response for the page, which is not requested again
	// Ask makes the requests of the page, as far as scope and robots.txt allow, at the rate of the host.
	Ask func(ctx context.Context, s *Subrequest) (*fetch.Response, error)
}

// Rendered is the result of rendering a page.
type Rendered struct {
	HTML  []byte   // in UTF-8; empty means as it was fetched
	Links []string // targets to which its scripts would have navigated
	// Truncated says that HTML is cut at RenderConfig.MaxHTML.
	Truncated bool
	Note      record.Rendered
}

// Subrequest is a request that a page makes while it is rendered.
type Subrequest struct {
	URL  canonical.URL
	Code bool // for a script or a style, which may come from any host
	fetch.Request
}

// A RefusedError says why a request of a page is not made.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "not asked for: " + e.Reason }

const classRender = "render" // error class of a page that could not be rendered

// scripted reports whether the response is a page that can be rendered: HTML with a 2xx status, requested by a safe
// method.
func (t *try) scripted() bool {
	f := t.f
	if f.resp == nil || f.resp.Status/100 != 2 || f.resp.Status == http.StatusNoContent || f.resp.Status == http.StatusResetContent || len(f.resp.Body) == 0 {
		return false
	}
	return f.lease.Kind == frontier.Page && f.err == nil && f.class == outcome.OK && !f.resp.Streamed &&
		f.resp.ContentType == "text/html" && !f.asked.Unsafe() && f.asked.Method != http.MethodHead
}

// render renders a page that needs it. It releases the permit of the host before, as each request of the page takes its
// own.
func (t *try) render(ctx context.Context) {
	p, f := t.p, t.f
	if p.cfg.Renderer == nil || !t.scripted() {
		return
	}
	why := p.cfg.Renderer.Wants(f.lease.URL, f.resp.Body)
	if why == "" {
		return
	}
	t.release()
	begin := p.cfg.Clock.Now()
	out, err := p.cfg.Renderer.Render(ctx, &Rendering{URL: f.lease.URL, Why: why, Resp: f.resp, Ask: asker{p, f.lease}.ask})
	if ctx.Err() != nil { // Processing checks that, too, and cuts the page short
		return
	}
	p.stats.count(&p.stats.n.Rendered, 1)
	if out == nil {
		out = &Rendered{Note: record.Rendered{Why: why}}
	}
	f.renderTime = p.cfg.Clock.Since(begin)
	if f.rendered = out; err != nil {
		f.renderErr = err
		p.cfg.Log.Warn("a page could not be rendered", slog.String("url", f.lease.URL.String()), slog.Any("err", err))
	}
}

// applyRendered replaces the fetched body by the rendered one. Size and digest in the record stay those of the fetched
// body.
func (f *fetched) applyRendered(rec *record.Record) {
	out := f.rendered
	if out == nil {
		return
	}
	rec.Rendered, rec.Timings.Render = &out.Note, f.renderTime
	rec.Truncated = rec.Truncated || out.Truncated
	if len(out.HTML) > 0 {
		f.raw = f.resp.Body
		f.resp.Body, f.resp.Charset = out.HTML, "utf-8"
	}
	if f.renderErr != nil && rec.Error == nil {
		rec.Error = &record.Error{Class: classRender, Message: f.renderErr.Error()}
	}
}

// followRendered follows the links to which the scripts of a page would have navigated.
func (w *processor) followRendered(r *result, f *fetched) {
	if f.rendered == nil {
		return
	}
	l := f.lease
	for _, ref := range f.rendered.Links {
		u, err := l.URL.Resolve(ref)
		if err != nil {
			continue
		}
		if u = w.p.cfg.Rules.Apply(u); u == l.URL {
			continue
		}
		if !w.p.cfg.OmitLinks {
			r.rec.Links = append(r.rec.Links, u.String())
		}
		if !w.reader.Lists() && !w.p.cfg.HandlersFollow && !w.obeys(r, &extract.Link{URL: u}) {
			it := below(r, u)
			r.follow(w.p, it, it.Fingerprint(w.p.cfg.Key), false)
		}
	}
}

// noteScripted counts a page that is empty without scripts, in a crawl that renders no pages. It checks only pages that
// have scripts and few links.
func (w *processor) noteScripted(f *fetched) {
	if w.p.cfg.Renderer == nil && f.lease.Kind == frontier.Page && w.reader.Found.Scripts && len(w.reader.Found.Links) < 10 && scripts.Empty(f.resp.Body) {
		s := &w.p.stats
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n.Scripted++
		s.n.ScriptedURL = cmp.Or(s.n.ScriptedURL, f.lease.URL.String())
	}
}

// asker makes the requests of a page that is being rendered.
type asker struct {
	p    *Pipeline
	page *frontier.Lease
}

// ask makes one request if it is allowed.
func (a asker) ask(ctx context.Context, s *Subrequest) (*fetch.Response, error) {
	p, page, u := a.p, a.page, s.URL
	switch own := u.Host() == page.Host(); {
	case p.excluded.has(u.Host()):
		return nil, &RefusedError{errExcluded.Error()}
	case own:
	case page.Tenure != nil: // other processes pace the other hosts
		return nil, &RefusedError{"a process of a fleet renders with the page's host alone"}
	case !s.Code && !p.cfg.Scope.Reaches(u):
		return nil, &RefusedError{"its host is not in scope"}
	}
	if v := p.cfg.Scope.Recheck(u, true); !v.In {
		return nil, &RefusedError{v.Reason()}
	}
	if err := a.ruled(ctx, u); err != nil {
		return nil, err
	}
	// Requests to other sites carry nothing that identifies the crawl to the site of the page.
	s.Anonymous = s.Anonymous || scope.SiteOf(u) != scope.SiteOf(page.URL)
	return p.send(ctx, u, s.Request)
}

// ruled returns an error if robots.txt disallows a request of a rendered page, or could not be fetched. The rules of
// origins that the frontier has not requested are in a cache of their own, as no URL of the frontier waits for them.
func (a asker) ruled(ctx context.Context, u canonical.URL) error {
	p := a.p
	if p.cfg.Robots == nil {
		return nil
	}
	now := p.cfg.Clock.Now()
	e := p.cfg.Robots.Lookup(u.Origin(), now)
	if e.Rules == nil {
		var err error
		if e, err = a.askRobots(ctx, u); err != nil {
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

// askRobots requests the robots.txt of an origin, unless it is cached.
func (a asker) askRobots(ctx context.Context, u canonical.URL) (robots.Entry, error) {
	p := a.p
	cache, origin := p.cfg.RenderRobots, u.Origin()
	e, err, _ := p.gate.asking.Do(origin, func() (any, error) {
		now := p.cfg.Clock.Now()
		if !cache.Begin(origin, now) {
			return cache.Lookup(origin, now), nil
		}
		res := a.fetchRobots(ctx, u)
		e := cache.Answer(origin, p.cfg.Clock.Now(), res)
		if e.Rules != nil && !p.cfg.IgnoreCrawlDelay {
			p.cfg.Limiter.SetCrawlDelay(u.Host(), e.Rules.Pause())
		}
		return e, ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		return a.askRobots(ctx, u) // the page whose request it was has ended before the response
	}
	return e.(robots.Entry), err
}

// fetchRobots makes the requests for the robots.txt of u's origin, redirects included.
func (a asker) fetchRobots(ctx context.Context, u canonical.URL) robots.Result {
	at, err := u.Resolve("/robots.txt")
	for hops := 0; err == nil; hops++ {
		var resp *fetch.Response
		in := robots.Answer{Hops: hops}
		resp, in.Err = a.p.send(ctx, at, fetch.Request{URL: at.String(), MaxBody: robots.MaxBytes, Anonymous: true})
		if resp != nil {
			in.Status, in.Body, in.Location = resp.Status, resp.Body, canonical.Location(resp.Location)
		}
		res := robots.FromAnswer(in)
		resp.Release()
		switch {
		case ctx.Err() != nil:
			return robots.Result{Kind: robots.NoAnswer, Reason: "the crawl ends"}
		case res.Kind != robots.Moved:
			return res
		}
		at, err = at.Resolve(res.Location)
	}
	return robots.Result{Kind: robots.Absent, Reason: "it has moved to no URL: " + err.Error()}
}

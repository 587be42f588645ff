package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/scripts"
	"github.com/treadlight/crawl/record"
)

const classRender = "render" // error class of a page that could not be rendered

// scripted reports whether the response is a page that can be rendered: HTML with a 2xx status, requested by a safe
// method.
func (t *try) scripted() bool {
	f := t.f
	if f.resp == nil || f.resp.Status/100 != 2 || f.resp.Status == http.StatusNoContent || f.resp.Status == http.StatusResetContent || len(f.resp.Body) == 0 {
		return false
	}
	return f.lease.Kind == frontier.Page && f.err == nil && f.class == outcome.OK && !f.resp.Streamed &&
		f.resp.ContentType == "text/html" && !fetch.Unsafe(f.asked.Method) && f.asked.Method != http.MethodHead
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
	out, err := p.cfg.Renderer.Render(ctx, &rendering.Page{
		URL: f.lease.URL, Why: why, Resp: f.resp, Ask: p.rendering.Asks(f.lease.URL, f.lease.Tenure != nil),
	})
	if ctx.Err() != nil { // Processing checks that, too, and cuts the page short
		return
	}
	p.stats.count(&p.stats.n.Rendered, 1)
	if out == nil {
		out = &rendering.Result{Note: record.Rendered{Why: why}}
	}
	out.Err, out.Took = err, p.cfg.Clock.Since(begin)
	if f.rendered = out; err != nil {
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
	rec.Rendered, rec.Timings.Render = &out.Note, out.Took
	rec.Truncated = rec.Truncated || out.Truncated
	if len(out.HTML) > 0 {
		f.raw = f.resp.Body
		f.resp.Body, f.resp.Charset = out.HTML, "utf-8"
	}
	if out.Err != nil && rec.Error == nil {
		rec.Error = &record.Error{Class: classRender, Message: out.Err.Error()}
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

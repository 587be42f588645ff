package plan

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan/estimate"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// robots reads a robots.txt, and requests some of its sitemaps, or the one at the usual place.
func (g *gatherer) robots(p *crawl.Page, h *estimate.Host) {
	r := &h.Robots
	var names []string
	switch r.Status = p.Status; {
	case p.RedirectTo != "":
		r.State, r.Reason = "absent", "it leads to "+clip(p.RedirectTo)
		return
	case p.Status/100 == 2:
		file := robots.Parse(p.Body)
		r.State, r.Reason, r.Bytes, names = "found", "", len(p.Body), file.Sitemaps()
		h.Rules = file.Agent(config.Product)
		r.Group, r.Sitemaps, r.CrawlDelaySeconds = file.Group(config.Product), len(names), h.Rules.Pause().Seconds()
		r.Rules, r.ForbiddenSeeds, r.Signals = h.Rules.Len(), nil, signals(p.Body)
		for _, seed := range h.Seeds {
			if d := h.Rules.Check(seed.Path()); !d.Allowed {
				r.ForbiddenSeeds = append(r.ForbiddenSeeds, estimate.Example{URL: seed.String(), Reason: d.Reason})
				h.Trouble = d.Reason
			}
		}
	case p.Status == 0 || p.Status >= 500 || p.Status == http.StatusTooManyRequests:
		r.State, r.Reason = "failed", fmt.Sprintf("status %d: until it is answered nothing may be asked for", p.Status)
		return
	default:
		r.State, r.Reason = "absent", fmt.Sprintf("status %d: everything is allowed", p.Status)
	}
	if g.cfg.Options.Scope.IgnoreSitemaps || g.cfg.Options.Depth < 0 {
		return
	}
	if len(names) == 0 {
		names = []string{"/sitemap.xml"}
	}
	base, roots := canonical.Restore(p.URL.String()), []string(nil)
	for _, i := range spread(len(names), max(1, maxSitemaps/len(g.report.Hosts))) {
		if u, err := base.Resolve(names[i]); err == nil {
			roots = append(roots, u.String())
		}
	}
	slices.Reverse(roots[min(1, len(roots)):]) // the first, then the last, then those between
	g.roots[h] = roots
	for range max(1, firstRoots/len(g.report.Hosts)) {
		g.askRoot(p, h)
	}
}

// askRoot requests the next sitemap that robots.txt names.
func (g *gatherer) askRoot(p *crawl.Page, h *estimate.Host) {
	if roots := g.roots[h]; len(roots) > 0 {
		g.roots[h] = roots[1:]
		g.askSitemap(p, h, &estimate.Sitemap{URL: roots[0], Guessed: h.Robots.Sitemaps == 0}, 0)
	}
}

// signals returns the lines of a robots.txt about how its pages may be used.
func signals(body []byte) (all []string) {
	for line := range strings.Lines(string(body[:min(len(body), robots.MaxBytes)])) {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name = strings.TrimSpace(name); (name == "content-signal" || name == "content-usage") && len(all) < maxExamples {
			all = append(all, clip(strings.TrimSpace(line)))
		}
	}
	return all
}

func (g *gatherer) askSitemap(p *crawl.Page, h *estimate.Host, m *estimate.Sitemap, level int) {
	if g.maps == maxSitemaps || h.Sitemap(m.URL) != nil {
		return
	}
	if p.Follow(m.URL, append(asFor(labelSitemap, h.Host, m.URL), crawl.WithMeta(metaHop, strconv.Itoa(level)))...).OK() {
		g.maps++
		h.Sitemaps = append(h.Sitemaps, m)
	}
}

// spread returns at most most indexes below n, evenly spread, with the first and the last.
func spread(n, most int) (all []int) {
	most = min(n, most)
	for i := range most {
		all = append(all, i*(n-1)/max(most-1, 1))
	}
	return all
}

// sitemap counts what a sitemap lists, checks some of it against the scope, and requests some of the sitemaps of an
// index.
func (g *gatherer) sitemap(p *crawl.Page, h *estimate.Host, m *estimate.Sitemap) {
	defer func() {
		if m.Parent == nil && m.Children == 0 { // else the sitemaps of the index use up maxSitemaps
			g.askRoot(p, h)
		}
	}()
	if m.Status = p.Status; p.Status/100 != 2 || len(p.Body) == 0 {
		m.Problem = fmt.Sprintf("status %d", p.Status)
		return
	}
	base := canonical.Restore(p.URL.String())
	var urls, children []string
	sum := sitemap.Read(sitemap.Document{Body: p.Body, Base: base, Charset: p.Charset, Truncated: p.Truncated || p.Err != nil, List: true},
		func(e sitemap.Entry) bool {
			switch {
			case e.Rel == sitemap.Page:
				urls = append(urls, e.URL.String())
			case e.Rel == sitemap.Sitemap && (e.URL.Host() == base.Host() || g.byHost[e.URL.Host()] != nil):
				children = append(children, e.URL.String())
			}
			return true
		})
	m.Format, m.URLs, m.Children, m.Problem = sum.Format.String(), len(urls), len(children), clip(sum.Problem)
	m.Cut = sum.Bound != "" || sum.Dropped > 0 || p.Truncated || p.Err != nil
	m.Read = sum.Format != sitemap.None
	looked, in := spread(len(urls), estimate.Sampled), 0
	for _, i := range looked {
		if reason, _ := g.judge(p, urls[i], pointsListed); reason == "" {
			in++
		}
	}
	for _, u := range urls {
		g.listed[u] = true
	}
	m.InScope, m.Sampled = len(urls)*in/max(len(looked), 1), len(looked) < len(urls) && in < len(looked)
	if level, _ := strconv.Atoi(p.Meta(metaHop)); level < sitemap.MaxLevel { // zero for the one at the usual place
		for _, i := range spread(len(children), someChildren) {
			g.askSitemap(p, h, &estimate.Sitemap{URL: children[i], Parent: m}, level+1)
		}
	}
}

package rules

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// own yields the URLs of the site that links or a seed led to, with what their answers are worth.
func (c *checking) own(want verdict, each func(n *node, why string)) {
	for _, n := range c.nodes {
		if n.page == nil || n.page.Kind != facts.Ordinary || n.refs.n == 0 && n.depth != 0 {
			continue
		}
		if v, why := judge(n.page); v == want {
			each(n, why)
		}
	}
}

func brokenLinks(c *checking) {
	c.own(broken, func(n *node, why string) {
		if !n.resource {
			c.linked(n, why)
		}
	})
}

func brokenResources(c *checking) {
	c.own(broken, func(n *node, why string) {
		if n.resource {
			c.linked(n, why)
		}
	})
}

func serverErrors(c *checking) {
	c.own(failing, func(n *node, why string) { c.linked(n, why) })
}

func noAnswers(c *checking) {
	c.own(unclear, func(n *node, why string) {
		if n.page.Status == 0 {
			c.linked(n, why)
		}
	})
}

func unclearLinks(c *checking) {
	c.own(unclear, func(n *node, why string) {
		if n.page.Status != 0 {
			c.linked(n, why)
		}
	})
}

func blockedLinks(c *checking) {
	c.own(forbidden, func(n *node, why string) {
		if !n.resource {
			c.linked(n, why)
		}
	})
}

func blockedResources(c *checking) {
	c.own(forbidden, func(n *node, why string) {
		if n.resource {
			c.linked(n, why)
		}
	})
}

// external yields the targets of links out of scope by what became of them. Where one redirects, its end counts.
func (c *checking) external(want verdict) {
	for id, n := range c.nodes {
		if !n.outside || n.head == nil && n.get == nil || n.page != nil && n.page.Status != 0 || !c.byPages(n) {
			continue
		}
		way, loop := c.follow(ID(id)) //nolint:gosec // see Site.id
		v, why := judge(c.nodes[way[len(way)-1]].answer())
		if loop {
			v, why = broken, "it redirects in a circle"
		}
		if v != want {
			continue
		}
		if len(way) > 1 {
			why = fmt.Sprintf("%s, behind a redirect to %s", why, c.nodes[way[len(way)-1]].url)
		}
		c.linked(n, why)
	}
}

// byPages reports whether pages link to it, not redirects of other sites alone.
func (c *checking) byPages(n *node) bool {
	return slices.ContainsFunc(n.refs.first, func(id ID) bool { return c.nodes[id].page != nil })
}

func externalBroken(c *checking)  { c.external(broken) }
func externalFailing(c *checking) { c.external(failing) }
func externalUnclear(c *checking) {
	c.external(unclear)
	c.external(forbidden)
}

// aFragment is a place in a page.
type aFragment struct {
	page     ID
	fragment int32
}

func brokenFragments(c *checking) {
	missing := make(map[aFragment]*refs)
	var order []aFragment
	for _, from := range c.pages {
		for _, e := range c.nodes[from].links {
			if e.fragment == 0 || e.kind != facts.Anchor || fragmentIsOfScripts(c.fragments[e.fragment]) {
				continue
			}
			end, _ := c.end(e.to)
			page := c.nodes[end].page
			if page == nil || page.HTML == nil || page.Cut || hasFragment(page.HTML, c.fragments[e.fragment]) {
				continue
			}
			at := aFragment{e.to, e.fragment}
			if missing[at] == nil {
				missing[at] = new(refs)
				order = append(order, at)
			}
			missing[at].add(from)
		}
	}
	for _, at := range order {
		n, r := c.nodes[at.page], missing[at]
		fragment := c.fragments[at.fragment]
		c.found(Finding{URL: n.url, About: fragment, Detail: "no element has the id " + fragment, Where: c.urls(r.first), Pages: r.n})
	}
}

// fragmentIsOfScripts reports whether a fragment is no place in the HTML: a route, a text to look for, the top.
func fragmentIsOfScripts(fragment string) bool {
	return strings.HasPrefix(fragment, "/") || strings.HasPrefix(fragment, "!") || strings.Contains(fragment, ":~:") ||
		strings.ContainsAny(fragment, "=&") || strings.EqualFold(fragment, "top")
}

func hasFragment(html *facts.HTML, fragment string) bool {
	if html.IDs.Has(fragment) {
		return true
	}
	decoded, err := url.PathUnescape(fragment)
	return err == nil && html.IDs.Has(decoded)
}

// sampled notes a finding for each page that has some of a sample.
func (c *checking) sampled(of func(*facts.HTML) *facts.Sample, what string) {
	for _, id := range c.pages {
		n := c.nodes[id]
		if sample := of(n.page.HTML); sample.N > 0 {
			more := ""
			if sample.N > len(sample.First) {
				more = " …"
			}
			c.on(n, "%s%s%s", counted(sample.N, what), strings.Join(sample.First, " "), more)
		}
	}
}

// counted is a number of things, if that says something.
func counted(n int, what string) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("%d %s: ", n, what)
}

func malformedLinks(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.BadLinks }, "links")
}

func localLinks(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.LocalLinks }, "links")
}

func linksWithoutText(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.NoText }, "links")
}

func mixedContent(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.Mixed }, "things")
}

func insecureForms(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.Forms }, "forms")
}

func missingAlt(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.NoAlt }, "images")
}

func invalidJSONLD(c *checking) {
	c.sampled(func(h *facts.HTML) *facts.Sample { return &h.BadJSON }, "blocks")
}

// redirects yields the URLs of the site that redirect.
func (c *checking) redirects(each func(id ID, n *node, way []ID, loop bool)) {
	for i, n := range c.nodes {
		id := ID(i) //nolint:gosec // see Site.id
		if n.to != none && n.page != nil && n.page.Kind == facts.Ordinary {
			way, loop := c.follow(id)
			each(id, n, way, loop)
		}
	}
}

// named reports whether pages, sitemaps or the user name a redirect, not only another redirect.
func (c *checking) named(n *node) bool {
	return n.depth == 0 || n.mapped || slices.ContainsFunc(n.refs.first, func(id ID) bool { return c.nodes[id].to == none })
}

func redirectLoops(c *checking) {
	told := make(map[ID]bool) // members of circles
	tell := func(only func(n *node) bool) {
		c.redirects(func(_ ID, n *node, way []ID, loop bool) {
			circle := way[slices.Index(way, way[len(way)-1]):]
			if !loop || told[circle[0]] || !only(n) {
				return
			}
			for _, member := range circle {
				told[member] = true
			}
			c.linked(n, strings.Join(c.urls(way), " → "))
		})
	}
	tell(c.named)
	tell(func(*node) bool { return true })
}

func redirectChains(c *checking) {
	c.redirects(func(_ ID, n *node, way []ID, loop bool) {
		if hops := len(way) - 1; hops >= chainHops && !loop && c.named(n) {
			c.linked(n, fmt.Sprintf("%d redirects: %s", hops, strings.Join(c.urls(way), " → ")))
		}
	})
}

func redirectLinks(c *checking) {
	c.redirects(func(_ ID, n *node, way []ID, loop bool) {
		permanent := n.page.Status == http.StatusMovedPermanently || n.page.Status == http.StatusPermanentRedirect
		if len(way) == 2 && permanent && !loop && n.refs.n > 0 && c.named(n) {
			c.linked(n, fmt.Sprintf("%d to %s", n.page.Status, c.nodes[n.to].url))
		}
	})
}

func metaRefreshes(c *checking) {
	for _, id := range c.pages {
		if n := c.nodes[id]; n.page.HTML.Refresh != "" && n.page.HTML.Refresh != n.url {
			c.on(n, "to %s", n.page.HTML.Refresh)
		}
	}
}

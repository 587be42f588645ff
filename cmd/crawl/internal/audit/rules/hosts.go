package rules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

func robotsInvalid(c *checking) {
	for _, f := range c.robots {
		for _, problem := range f.Problems {
			c.found(Finding{URL: f.URL, About: problem, Detail: problem})
		}
	}
}

func robotsConflict(c *checking) {
	for _, id := range c.pages {
		n := c.nodes[id]
		both := append(slices.Clone(n.page.HTML.Meta), n.page.HTML.Header...)
		if slices.Contains(both, "noindex") && (slices.Contains(both, "index") || slices.Contains(both, "all")) {
			c.on(n, "meta: %s; header: %s", strings.Join(n.page.HTML.Meta, ", "), strings.Join(n.page.HTML.Header, ", "))
		}
	}
}

func noindexCanonical(c *checking) {
	c.elsewhere(func(n *node, url string, _ *node) {
		if noindexed(n.page.HTML) {
			c.on(n, "it is noindex, and %s is its canonical URL", url)
		}
	})
}

func noindexPages(c *checking) {
	for _, id := range c.pages {
		if n := c.nodes[id]; noindexed(n.page.HTML) && n.linked {
			c.on(n, "")
		}
	}
}

// listed yields the URLs of sitemaps with what their answers are worth.
func (c *checking) listed(each func(n *node, v verdict, why string)) {
	for _, n := range c.nodes {
		if n.mapped {
			v, why := judge(n.page)
			each(n, v, why)
		}
	}
}

func sitemapBroken(c *checking) {
	c.listed(func(n *node, v verdict, why string) {
		if v == broken || v == failing {
			c.on(n, "%s", why)
		}
	})
}

func sitemapRedirect(c *checking) {
	c.listed(func(n *node, v verdict, why string) {
		if v == moved {
			c.on(n, "%s", why)
		}
	})
}

func sitemapNoindex(c *checking) {
	c.listed(func(n *node, v verdict, _ string) {
		switch {
		case v != fine || n.page.HTML == nil:
		case noindexed(n.page.HTML):
			c.on(n, "it is noindex")
		case !n.indexable():
			c.on(n, "it names another canonical URL")
		}
	})
}

func sitemapBlocked(c *checking) {
	c.listed(func(n *node, v verdict, why string) {
		if v == forbidden {
			c.on(n, "%s", why)
		}
	})
}

func sitemapForeign(c *checking) {
	c.listed(func(n *node, v verdict, _ string) {
		if v == unknown && !c.host[facts.Origin(n.url)] {
			c.on(n, "")
		}
	})
}

func orphans(c *checking) {
	if c.Partial {
		return
	}
	c.listed(func(n *node, v verdict, _ string) {
		if v == fine && !n.linked && n.depth != 0 && (n.page.HTML == nil || n.indexable()) {
			c.on(n, "")
		}
	})
}

func sitemapUnreadable(c *checking) {
	for _, id := range c.maps {
		n := c.nodes[id]
		if v, why := judge(n.page); v == broken || v == failing || v == unclear {
			c.on(n, "%s", why)
		} else if v == fine && len(n.page.Problems) > 0 && len(n.links) == 0 {
			c.on(n, "%s", n.page.Problems[0])
		}
	}
}

func sitemapInvalid(c *checking) {
	for _, id := range c.maps {
		n := c.nodes[id]
		if len(n.links) > 0 && len(n.page.Problems) > 0 {
			c.on(n, "%s", strings.Join(n.page.Problems, "; "))
		}
	}
}

func sitemapMissing(c *checking) {
	there := false
	for _, id := range c.maps {
		n := c.nodes[id]
		if v, _ := judge(n.page); v != fine && v != moved || n.page.Cut {
			return // what is in the others is not known
		}
		there = there || len(n.links) > 0
	}
	if !there {
		return
	}
	c.indexables(func(n *node, _ *facts.HTML) {
		if !n.mapped {
			c.on(n, "")
		}
	})
}

// median of the times of the pages of a host.
func (c *checking) medians() map[string]int64 {
	all := make(map[string][]int64)
	for _, id := range c.pages {
		n := c.nodes[id]
		origin := facts.Origin(n.url)
		all[origin] = append(all[origin], n.page.Millis)
	}
	half := make(map[string]int64)
	for origin, times := range all {
		slices.Sort(times)
		half[origin] = times[len(times)/2]
	}
	return half
}

func slowPages(c *checking) {
	half := c.medians()
	for _, id := range c.pages {
		n := c.nodes[id]
		if usual := half[facts.Origin(n.url)]; n.page.Millis > max(slowMillis, 3*usual) {
			c.on(n, "%.1f s; half of the pages take up to %.1f s", float64(n.page.Millis)/1000, float64(usual)/1000)
		}
	}
}

func slowSites(c *checking) {
	half := c.medians()
	for _, origin := range slices.Sorted(maps.Keys(half)) {
		if half[origin] > slowMillis {
			c.found(Finding{URL: origin + "/", Detail: fmt.Sprintf("half of its pages take more than %.1f s", float64(half[origin])/1000)})
		}
	}
}

func heavyPages(c *checking) {
	for _, id := range c.pages {
		if n := c.nodes[id]; n.page.Size > heavyHTML {
			c.on(n, "%s", size(n.page.Size))
		}
	}
}

func heavyImages(c *checking) {
	for _, n := range c.nodes {
		if n.page != nil && n.page.Status == http.StatusOK && n.page.Size > heavyImage && strings.HasPrefix(n.page.Type, "image/") {
			c.on(n, "%s", size(n.page.Size))
		}
	}
}

// weight is that of a page with what it is made of.
func (s *Site) weight(n *node) (bytes int64) {
	bytes = n.page.Size
	for _, e := range n.links {
		if part := s.nodes[e.to].page; e.kind == facts.Resource && part != nil {
			bytes += part.Size
		}
	}
	return bytes
}

func pageWeight(c *checking) {
	for _, id := range c.pages {
		if n := c.nodes[id]; c.weight(n) > heavyPage {
			c.on(n, "%s, of which the HTML has %s", size(c.weight(n)), size(n.page.Size))
		}
	}
}

func notEncrypted(c *checking) {
	hosts := make(map[string]bool)
	for _, id := range c.pages {
		if n := c.nodes[id]; strings.HasPrefix(n.url, "http://") && !facts.Local(n.url) {
			hosts[facts.Origin(n.url)] = true
		}
	}
	for _, origin := range slices.Sorted(maps.Keys(hosts)) {
		c.found(Finding{URL: origin + "/"})
	}
}

// headerRule looks for pages without a header.
func headerRule(bit facts.Protection) func(*checking) {
	return func(c *checking) {
		var pages []*node
		for _, id := range c.pages {
			if n := c.nodes[id]; bit != facts.HSTS || strings.HasPrefix(n.url, "https://") { // it is ignored elsewhere
				pages = append(pages, n)
			}
		}
		c.lacking(pages, func(n *node) bool { return n.page.HTML.Protected&bit == 0 })
	}
}

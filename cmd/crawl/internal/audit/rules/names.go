package rules

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

var notFound = regexp.MustCompile(`(?i)\b(?:page|file|document|site) (?:was |is |could )?(?:not|no longer) (?:be )?(?:found|available|exist)|^(?:error )?404\b|\bnot found\b.*\b404\b|\b404\b.*\bnot found\b|seite (?:wurde )?nicht gefunden|page introuvable|página no encontrada`)

// canonicals yields pages with the canonical URLs that count: those of the head and the header.
func (c *checking) canonicals(each func(n *node, list []facts.Canonical)) {
	for _, id := range c.pages {
		n := c.nodes[id]
		list := slices.DeleteFunc(slices.Clone(n.page.HTML.Canonicals), func(l facts.Canonical) bool { return l.Where == "body" })
		if len(list) > 0 {
			each(n, list)
		}
	}
}

// elsewhere yields pages with one canonical URL that is not their own, and what is known of it.
func (c *checking) elsewhere(each func(n *node, url string, to *node)) {
	c.canonicals(func(n *node, list []facts.Canonical) {
		if url := list[0].URL; url != "" && url != n.url && !conflicting(list) {
			each(n, url, c.pointed(url))
		}
	})
}

func conflicting(list []facts.Canonical) bool {
	return slices.ContainsFunc(list, func(l facts.Canonical) bool { return l.URL != list[0].URL })
}

func canonicalConflict(c *checking) {
	c.canonicals(func(n *node, list []facts.Canonical) {
		if conflicting(list) {
			var raw []string
			for _, l := range list {
				raw = append(raw, l.Raw+" ("+l.Where+")")
			}
			c.on(n, "%s", strings.Join(raw, ", "))
		}
	})
}

func canonicalBroken(c *checking) {
	c.elsewhere(func(n *node, url string, to *node) {
		if to == nil {
			return
		}
		end, _ := c.end(c.ids[url])
		if v, why := judge(c.nodes[end].answer()); v == broken || v == failing {
			c.on(n, "%s: %s", url, why)
		}
	})
}

func canonicalRedirect(c *checking) {
	c.elsewhere(func(n *node, url string, to *node) {
		if to == nil || to.to == none || to.page == nil {
			return
		}
		end, loop := c.end(c.ids[url])
		if v, _ := judge(c.nodes[end].answer()); loop || v != broken && v != failing {
			c.on(n, "%s redirects to %s", url, c.nodes[to.to].url)
		}
	})
}

func canonicalChain(c *checking) {
	c.elsewhere(func(n *node, url string, to *node) {
		if to == nil || to.page == nil || to.page.HTML == nil {
			return
		}
		for _, l := range to.page.HTML.Canonicals {
			if l.Where != "body" && l.URL != "" && l.URL != url {
				c.on(n, "%s → %s", url, l.URL)
				return
			}
		}
	})
}

func canonicalNoindex(c *checking) {
	c.elsewhere(func(n *node, url string, to *node) {
		if to == nil {
			return
		}
		if v, _ := judge(to.answer()); v == forbidden {
			c.on(n, "robots.txt forbids %s", url)
		} else if to.page != nil && to.page.HTML != nil && noindexed(to.page.HTML) {
			c.on(n, "%s is noindex", url)
		}
	})
}

func canonicalInvalid(c *checking) {
	c.canonicals(func(n *node, list []facts.Canonical) {
		for _, l := range list {
			if l.URL == "" || strings.Contains(l.Raw, "#") {
				c.on(n, "%q", l.Raw)
			}
		}
	})
}

func canonicalRelative(c *checking) {
	c.canonicals(func(n *node, list []facts.Canonical) {
		for _, l := range list {
			if l.URL != "" && !absolute(l.Raw) {
				c.on(n, "%q", l.Raw)
			}
		}
	})
}

// absolute reports whether a reference has a scheme.
func absolute(ref string) bool {
	lower := strings.ToLower(ref)
	return strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")
}

func canonicalMisplaced(c *checking) {
	for _, id := range c.pages {
		for _, l := range c.nodes[id].page.HTML.Canonicals {
			if l.Where == "body" {
				c.on(c.nodes[id], "%s", l.Raw)
			}
		}
	}
}

func canonicalRoot(c *checking) {
	c.elsewhere(func(n *node, url string, to *node) {
		u, err := neturl(n.url)
		if err != nil || to == nil || to.page == nil || to.page.HTML == nil || url != facts.Origin(n.url)+"/" {
			return
		}
		name := path.Base(u.Path)
		home := u.Path == "/" || strings.HasPrefix(name, "index.") || strings.HasPrefix(name, "default.")
		if !home && first(to.page.HTML.Titles) != first(n.page.HTML.Titles) {
			c.on(n, "the page is %q", first(n.page.HTML.Titles))
		}
	})
}

func neturl(s string) (*url.URL, error) { return url.Parse(s) }

func canonicalInsecure(c *checking) {
	c.elsewhere(func(n *node, url string, _ *node) {
		if strings.HasPrefix(n.url, "https://") && strings.HasPrefix(url, "http://") {
			c.on(n, "%s", url)
		}
	})
}

// languages yields the translations that pages name.
func (c *checking) languages(each func(n *node, a *facts.Alternate)) {
	for _, id := range c.pages {
		n := c.nodes[id]
		for i := range n.page.HTML.Languages {
			each(n, &n.page.HTML.Languages[i])
		}
	}
}

// about notes a finding about a translation.
func (c *checking) about(n *node, a *facts.Alternate, format string, args ...any) {
	c.found(Finding{URL: n.url, About: a.Code, Detail: a.Code + ": " + fmt.Sprintf(format, args...)})
}

// codeFault says what is wrong with the code of a language; empty: nothing.
func codeFault(code string) string {
	if strings.EqualFold(code, "x-default") {
		return ""
	}
	if strings.Contains(code, "_") {
		return "write - for _"
	}
	subtags := strings.Split(code, "-")
	base, err := language.ParseBase(subtags[0])
	if err != nil || len(subtags[0]) < 2 || len(subtags[0]) > 3 {
		return subtags[0] + " is no language of ISO 639-1"
	}
	if len(subtags[0]) == 3 && len(base.String()) == 2 {
		return "write " + base.String() + " for " + subtags[0]
	}
	rest := subtags[1:]
	if len(rest) > 0 && len(rest[0]) == 4 {
		if _, err := language.ParseScript(rest[0]); err != nil {
			return rest[0] + " is no script of ISO 15924"
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) == 0:
		return ""
	case len(rest) > 1:
		return "it has more than language, script and region"
	case len(rest[0]) == 3 && strings.Trim(rest[0], "0123456789") == "": // such as es-419, which is widely understood
		if _, err := language.ParseRegion(rest[0]); err == nil {
			return ""
		}
	}
	region, err := language.ParseRegion(rest[0])
	if union := strings.ToUpper(rest[0]); err != nil || union == "EU" || union == "UN" || len(rest[0]) != 2 || !region.IsCountry() || !strings.EqualFold(region.Canonicalize().String(), rest[0]) {
		return rest[0] + " is no country of ISO 3166-1"
	}
	return ""
}

func hreflangCode(c *checking) {
	c.languages(func(n *node, a *facts.Alternate) {
		if fault := codeFault(a.Code); fault != "" {
			c.about(n, a, "%s", fault)
		}
	})
}

func hreflangRelative(c *checking) {
	c.languages(func(n *node, a *facts.Alternate) {
		if !absolute(a.Raw) {
			c.about(n, a, "%q", a.Raw)
		}
	})
}

func hreflangBroken(c *checking) {
	c.languages(func(n *node, a *facts.Alternate) {
		if c.pointed(a.URL) == nil {
			return
		}
		end, _ := c.end(c.ids[a.URL])
		if v, why := judge(c.nodes[end].answer()); v == broken || v == failing {
			c.about(n, a, "%s: %s", a.URL, why)
		}
	})
}

func hreflangTarget(c *checking) {
	c.languages(func(n *node, a *facts.Alternate) {
		to := c.pointed(a.URL)
		if to == nil || to == n {
			return
		}
		v, why := judge(to.answer())
		switch {
		case v == moved:
			if end, _ := c.end(c.ids[a.URL]); true {
				if v, _ := judge(c.nodes[end].answer()); v != broken && v != failing {
					c.about(n, a, "%s: %s", a.URL, why)
				}
			}
		case v == forbidden:
			c.about(n, a, "%s: %s", a.URL, why)
		case to.page == nil || to.page.HTML == nil:
		case noindexed(to.page.HTML):
			c.about(n, a, "%s is noindex", a.URL)
		case !to.indexable():
			c.about(n, a, "%s has another canonical URL", a.URL)
		}
	})
}

func hreflangReturn(c *checking) {
	c.languages(func(n *node, a *facts.Alternate) {
		to := c.pointed(a.URL)
		if to == nil || to == n || to.page == nil || to.page.HTML == nil || to.page.Cut || to.variants || !to.indexable() || translates(to.page.HTML, n.url) {
			return
		}
		c.about(n, a, "%s does not name %s", a.URL, n.url)
	})
}

func hreflangSelf(c *checking) {
	for _, id := range c.pages {
		if n := c.nodes[id]; len(n.page.HTML.Languages) > 0 && n.indexable() && !n.variants && !translates(n.page.HTML, n.url) {
			c.on(n, "it names %d others", len(n.page.HTML.Languages))
		}
	}
}

func hreflangConflict(c *checking) {
	for _, id := range c.pages {
		n, urls := c.nodes[id], make(map[string]string)
		for _, a := range n.page.HTML.Languages {
			code := strings.ToLower(a.Code)
			if other, there := urls[code]; there && other != a.URL {
				c.about(n, &a, "%s and %s", other, a.URL)
			}
			urls[code] = a.URL
		}
	}
}

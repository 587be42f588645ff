package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// indexable reports whether a search engine would list a page as itself.
func (n *node) indexable() bool {
	h := n.page.HTML
	if h == nil || noindexed(h) || h.Refresh != "" && h.Refresh != n.url {
		return false
	}
	for _, to := range h.Canonicals {
		if to.URL != "" && to.URL != n.url && to.Where != "body" {
			return false
		}
	}
	return true
}

func noindexed(h *facts.HTML) bool {
	return slices.Contains(h.Meta, "noindex") || slices.Contains(h.Header, "noindex")
}

// indexables yields the pages that search engines would list and that were read to the end.
func (c *checking) indexables(each func(n *node, h *facts.HTML)) {
	for _, id := range c.pages {
		if n := c.nodes[id]; !n.page.Cut && n.indexable() {
			each(n, n.page.HTML)
		}
	}
}

// first is the first text of a list; empty: there is none.
func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func titleMissing(c *checking) {
	c.indexables(func(n *node, h *facts.HTML) {
		switch {
		case len(h.Titles) == 0 && !h.TitleBelow:
			c.on(n, "it has no title element")
		case len(h.Titles) > 0 && strings.Join(h.Titles, "") == "":
			c.on(n, "the title is empty")
		}
	})
}

func descriptionMissing(c *checking) {
	c.lacking(c.indexed(), func(n *node) bool { return strings.Join(n.page.HTML.Descriptions, "") == "" })
}

// indexed are the pages of indexables.
func (c *checking) indexed() (list []*node) {
	c.indexables(func(n *node, _ *facts.HTML) { list = append(list, n) })
	return list
}

// lacking notes pages that lack something: one finding for a host where nearly all do, else one for each.
func (c *checking) lacking(pages []*node, lacks func(n *node) bool) {
	all, without := make(map[string]int), make(map[string][]*node)
	for _, n := range pages {
		origin := facts.Origin(n.url)
		if all[origin]++; lacks(n) {
			without[origin] = append(without[origin], n)
		}
	}
	for _, origin := range slices.Sorted(maps.Keys(without)) {
		if list := without[origin]; len(list) == all[origin] && len(list) >= fewPages || len(list) > max(manyPages, all[origin]*9/10) {
			c.found(Finding{URL: origin + "/", About: "site", Detail: fmt.Sprintf("%d of %d pages", len(list), all[origin])})
		} else {
			for _, n := range list {
				c.on(n, "%d other pages have it", all[origin]-len(list))
			}
		}
	}
}

// fewPages are too few to say that something is so for the whole site, manyPages if there are exceptions.
const (
	fewPages  = 3
	manyPages = 20
)

func headingMissing(c *checking) {
	c.lacking(c.indexed(), func(n *node) bool { return strings.Join(n.page.HTML.Headings, "") == "" && !n.page.HTML.Empty })
}

// several notes pages that have more than one of a text.
func (c *checking) several(of func(*facts.HTML) []string) {
	for _, id := range c.pages {
		if list := of(c.nodes[id].page.HTML); len(list) > 1 {
			c.on(c.nodes[id], "%d: %s", len(list), strings.Join(list, " | "))
		}
	}
}

func titles(h *facts.HTML) []string       { return h.Titles }
func descriptions(h *facts.HTML) []string { return h.Descriptions }
func headings(h *facts.HTML) []string     { return h.Headings }

func titleMultiple(c *checking)       { c.several(titles) }
func descriptionMultiple(c *checking) { c.several(descriptions) }
func headingMultiple(c *checking)     { c.several(headings) }

func titleMisplaced(c *checking) {
	for _, id := range c.pages {
		if c.nodes[id].page.HTML.TitleBelow {
			c.on(c.nodes[id], "")
		}
	}
}

// long notes pages whose first text is longer than so many characters.
func (c *checking) long(of func(*facts.HTML) []string, limit int) {
	c.indexables(func(n *node, h *facts.HTML) {
		if text := first(of(h)); utf8.RuneCountInString(text) > limit {
			c.on(n, "%d characters: %s", utf8.RuneCountInString(text), text)
		}
	})
}

func titleLong(c *checking)       { c.long(titles, longTitle) }
func descriptionLong(c *checking) { c.long(descriptions, longDescription) }
func headingLong(c *checking)     { c.long(headings, longHeading) }

// maxCompared bounds the pages with one text among which translations are looked for.
const maxCompared = 1000

// shared notes pages that have a text in common with pages that are no translations of them.
func (c *checking) shared(of func(n *node, h *facts.HTML) string) {
	groups := make(map[string][]*node)
	c.indexables(func(n *node, h *facts.HTML) {
		if text := of(n, h); text != "" {
			groups[text] = append(groups[text], n)
		}
	})
	c.indexables(func(n *node, h *facts.HTML) {
		text := of(n, h)
		group := groups[text]
		if text == "" || len(group) < 2 {
			return
		}
		others, count := []string(nil), len(group)-1
		for _, m := range group[:min(len(group), maxCompared)] {
			switch {
			case m == n:
			case translates(h, m.url) || translates(m.page.HTML, n.url):
				count--
			case len(others) < maxRefs:
				others = append(others, m.url)
			}
		}
		if len(others) > 0 {
			c.found(Finding{URL: n.url, Detail: text, Where: others, Pages: count})
		}
	})
}

// translates reports whether a page names a URL as a translation of itself.
func translates(h *facts.HTML, url string) bool {
	return slices.ContainsFunc(h.Languages, func(a facts.Alternate) bool { return a.URL == url })
}

func titleDuplicate(c *checking) {
	c.shared(func(_ *node, h *facts.HTML) string { return first(h.Titles) })
}

func descriptionDuplicate(c *checking) {
	c.shared(func(_ *node, h *facts.HTML) string { return first(h.Descriptions) })
}

// headingDuplicate leaves out pages whose titles are the same too: that is told of already.
func headingDuplicate(c *checking) {
	byTitle := make(map[string]int)
	c.indexables(func(_ *node, h *facts.HTML) { byTitle[first(h.Titles)]++ })
	c.shared(func(_ *node, h *facts.HTML) string {
		if byTitle[first(h.Titles)] > 1 {
			return ""
		}
		return first(h.Headings)
	})
}

func langMissing(c *checking) {
	c.lacking(c.indexed(), func(n *node) bool { return n.page.HTML.Lang == "" && !n.page.HTML.Empty })
}

func langMismatch(c *checking) {
	for _, id := range c.pages {
		n := c.nodes[id]
		said, err := language.Parse(n.page.HTML.Lang)
		if n.page.HTML.Lang == "" || err != nil {
			continue
		}
		own, match := "", false
		for _, a := range n.page.HTML.Languages {
			if tag, err := language.Parse(a.Code); a.URL == n.url && err == nil {
				x, _ := tag.Base()
				y, _ := said.Base()
				own, match = a.Code, match || x == y
			}
		}
		if own != "" && !match {
			c.on(n, "lang is %s, hreflang %s", n.page.HTML.Lang, own)
		}
	}
}

// maxApart is in how many bits fingerprints of pages may differ that say nearly the same.
const maxApart = 3

// repeated finds pages that repeat an earlier one.
func (c *checking) repeated(each func(n, of *node, kind neardup.Kind)) {
	index, byDigest := neardup.NewIndex(maxApart), make(map[string]*node)
	c.indexables(func(n *node, h *facts.HTML) {
		if of := byDigest[n.page.Digest]; of != nil && n.page.Digest != "" {
			if !h.Empty {
				each(n, of, neardup.Exact)
			}
			return
		}
		byDigest[n.page.Digest] = n
		if h.Sim == 0 {
			return
		}
		body, _ := strconv.ParseUint(n.page.Digest, 16, 64) // a cut digest is one
		match := index.Add(n.url, body, h.Sim)
		if match.Kind == neardup.None {
			return
		}
		of := c.nodes[c.ids[match.Of]]
		less, more := min(h.Words, of.page.HTML.Words), max(h.Words, of.page.HTML.Words)
		if less >= thinWords && more-less <= more/10 && !translates(h, of.url) && !translates(of.page.HTML, n.url) {
			each(n, of, neardup.Near)
		}
	})
}

func duplicatePages(c *checking) {
	c.repeated(func(n, of *node, kind neardup.Kind) {
		if kind == neardup.Exact {
			c.found(Finding{URL: n.url, Detail: "the same as " + of.url, Where: []string{of.url}})
		}
	})
}

func nearDuplicates(c *checking) {
	c.repeated(func(n, of *node, kind neardup.Kind) {
		if kind == neardup.Near {
			c.found(Finding{URL: n.url, Detail: "nearly the same as " + of.url, Where: []string{of.url}})
		}
	})
}

func thinPages(c *checking) {
	c.indexables(func(n *node, h *facts.HTML) {
		if h.Words < thinWords && !h.Empty {
			c.on(n, "%d words", h.Words)
		}
	})
}

func emptyPages(c *checking) {
	for _, id := range c.pages {
		if n := c.nodes[id]; n.page.HTML.Empty && !n.page.Cut && (n.page.HTML.Refresh == "" || n.page.HTML.Refresh == n.url) {
			c.on(n, "%d bytes of HTML", n.page.Size)
		}
	}
}

func softNotFound(c *checking) {
	c.indexables(func(n *node, h *facts.HTML) {
		for _, text := range []string{first(h.Titles), first(h.Headings)} {
			if notFound.MatchString(text) && h.Words < 3*thinWords {
				c.on(n, "%s", text)
				return
			}
		}
	})
}

func placeholders(c *checking) {
	for _, id := range c.pages {
		if c.nodes[id].page.HTML.Filler {
			c.on(c.nodes[id], "lorem ipsum dolor sit amet")
		}
	}
}

func deepPages(c *checking) {
	if c.Partial {
		return
	}
	for _, id := range c.pages {
		if n := c.nodes[id]; n.depth > deepClicks {
			c.on(n, "%d clicks", n.depth)
		}
	}
}

// size is a number of bytes in words.
func size(n int64) string {
	if n >= 10<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

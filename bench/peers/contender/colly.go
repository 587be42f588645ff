package main

import (
	"errors"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/gocolly/colly/v2"
	"github.com/gocolly/colly/v2/queue"
)

// crawlColly is the program of colly's own examples, told to stay on the host, to obey
// robots.txt as the others do, and to have as many requests under way.
func crawlColly(o options) (counts, error) {
	if len(o.seeds) != 1 {
		return counts{}, errUsage
	}
	seed, err := url.Parse(o.seeds[0])
	if err != nil {
		return counts{}, err
	}
	c := colly.NewCollector(colly.Async(), colly.AllowedDomains(seed.Hostname(), seed.Host))
	c.IgnoreRobotsTxt = false
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: o.inFlight}); err != nil {
		return counts{}, err
	}
	var pages, found atomic.Int64
	c.OnHTML("html", func(*colly.HTMLElement) { pages.Add(1) })
	c.OnHTML("a[href], area[href]", func(e *colly.HTMLElement) {
		found.Add(1)
		// To colly a page is another one under every fragment, so that they must go.
		if href, _, _ := strings.Cut(e.Attr("href"), "#"); href != "" {
			_ = e.Request.Visit(href) // most errors say that it was visited before
		}
	})
	if err := c.Visit(o.seeds[0]); err != nil {
		return counts{}, err
	}
	c.Wait()
	if pages.Load() == 0 {
		return counts{}, errors.New("colly saw no page")
	}
	return counts{pages.Load(), found.Load()}, nil
}

// collyList asks for every URL of a list with colly's queue, as its documentation shows it.
func collyList(o options) (counts, error) {
	urls, err := lines(o.list)
	if err != nil {
		return counts{}, err
	}
	q, err := queue.New(o.inFlight, &queue.InMemoryQueueStorage{MaxSize: len(urls)})
	if err != nil {
		return counts{}, err
	}
	for _, u := range urls {
		if err := q.AddURL(u); err != nil {
			return counts{}, err
		}
	}
	var pages atomic.Int64
	c := colly.NewCollector()
	c.OnResponse(func(*colly.Response) { pages.Add(1) })
	err = q.Run(c)
	return counts{pages: pages.Load()}, err
}

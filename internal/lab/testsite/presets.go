package testsite

import "time"

// Mixed is one host of each kind a polite crawler meets, for a demonstration of some twenty
// seconds.
func Mixed() Config {
	page := Latency{Typical: 15 * time.Millisecond, Dist: distLognormal, Spread: 0.4}
	return Config{Seed: 1, Hosts: []Host{
		{Name: "fast", Pages: 60, CrossLinks: 3, HostLinks: 1, Robots: Robots{Allow: true}},
		{Name: "slow", Pages: 12, Latency: Latency{Typical: 900 * time.Millisecond, Dist: distUniform, Spread: 0.5, Body: 200 * time.Millisecond}},
		// With Retry-After, and as most servers have it: nginx's 503 without one.
		{Name: "limited", Pages: 50, Latency: page, Limit: Limit{Rate: 4, Burst: 2}, Refusal: Refusal{RetryAfter: retrySeconds, Wait: 2 * time.Second}},
		{Name: "limited-silent", Pages: 50, Latency: page, Limit: Limit{Rate: 4, Burst: 4}, Refusal: Refusal{Status: 503}},
		{Name: "flaky", Pages: 40, Latency: page, Flaky: Flaky{Probability: 0.1}},
		// Down while the crawl is in full swing, back before it ends.
		{Name: "down-a-while", Pages: 40, Latency: page, Outages: []Outage{{After: 4 * time.Second, For: 5 * time.Second, Mode: modeClose}}},
		{Name: "robots", Pages: 14, Private: 6, Latency: page, Robots: Robots{Disallow: []string{"/private/"}, CrawlDelay: time.Second}},
		{Name: "maze", Pages: 30, CrossLinks: 8, Media: 4, Redirects: 8, Missing: 6, Latency: page},
	}}
}

// Uniform is n healthy hosts of so many pages (zero means 100), of which "/" links up to
// 10000, each answered after latency: the site for measuring speed.
func Uniform(n, pages int, latency time.Duration) Config {
	return Config{Seed: 1, Hosts: []Host{
		{Name: "host", Count: n, Pages: pages, Fanout: wholeTree(pages), Latency: Latency{Typical: latency}},
	}}
}

// HeadOfLine is twenty healthy hosts of 51 pages in 20ms each, and slow hosts of 51 pages in
// 5s each after a fast "/": it shows whether slow hosts block the others.
func HeadOfLine(slow int) Config {
	const pages = 51
	cfg := Uniform(20, pages, 20*time.Millisecond)
	cfg.Hosts[0].Name = "healthy"
	if slow > 0 {
		cfg.Hosts = append(cfg.Hosts, Host{
			Name: "slow", Count: slow, Pages: pages, Fanout: wholeTree(pages),
			Latency: Latency{Typical: 5 * time.Second, FastRoot: true},
		})
	}
	return cfg
}

// wholeTree is the fanout with which "/" links to every page, within bounds.
func wholeTree(pages int) int {
	if pages == 0 {
		pages = defaultPages
	}
	return max(1, min(maxFanout, pages-1))
}

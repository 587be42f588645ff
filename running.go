package crawl

import "github.com/treadlight/crawl/internal/assembly"

// ErrNotRunning is the error of what can be done to a crawl only while it runs.
var ErrNotRunning = assembly.ErrNotRunning

// Pause has nothing further asked for until [Crawler.Resume]. What is under way is
// finished, and MaxTime runs on. It may be called at any time, but not by a hook; the
// error is [ErrNotRunning] before the crawl and once it ends.
func (c *Crawler) Pause() error { return c.inner.Pause() }

// Resume has a paused crawl go on; of any other it does nothing. See [Crawler.Pause].
func (c *Crawler) Resume() error { return c.inner.Resume() }

// Paused reports whether Pause was called last, and not Resume.
func (c *Crawler) Paused() bool { return c.inner.Paused() }

// AddSeed adds a URL to a crawl that runs, as if it had been given to [Crawler.Run]: its
// area belongs to the scope, and its host may have a private address, so that the program is
// not to pass on what comes from elsewhere. One that is known changes nothing. The error is an
// [ErrSeed], or [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) AddSeed(url string) error { return c.inner.AddSeed(url) }

// Block has nothing further asked of a host, known or not, until [Crawler.Unblock]; what is
// under way is finished. Its URLs stay queued. When only such hosts are left the crawl ends
// after MaxBlocked of the settings with [ErrBlocked]. A crawl with a state that is resumed
// has it blocked still. The host is written as records have it: with its port unless that is
// 80 or 443. The error names what is wrong with it, or is [ErrNotRunning]; see
// [Crawler.Pause].
func (c *Crawler) Block(host string) error { return c.inner.Block(host) }

// Unblock has a host asked again; of one that is not blocked it does nothing. See
// [Crawler.Block].
func (c *Crawler) Unblock(host string) error { return c.inner.Unblock(host) }

// SetCeiling has a host be asked at most rps times a second, in place of the max_rps and the
// min_delay of the settings, be it less or more; zero brings those back. What robots.txt and
// the server ask for is obeyed as before, and how much of it is used is found out as before.
// It outlives [Crawler.Reload], and a state has it for the crawl that is resumed. The errors
// are as those of [Crawler.Block].
func (c *Crawler) SetCeiling(host string, rps float64) error { return c.inner.SetCeiling(host, rps) }

// SetScope replaces the regular expressions of the scope: URLs that match one of exclude are
// left out, seeds among them, and links that match none of include, if there are any. Links
// found from then on are judged by them. URLs in the queue that they leave out are not asked
// for: each is recorded with the class of error "excluded" or "not_included" when its turn
// comes, and is done with, also if the scope is widened later. A crawl that is resumed goes
// on with the new scope. The error names the expression that is wrong, or is
// [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) SetScope(include, exclude []string) error {
	return c.inner.SetScope(include, exclude)
}

// Reload takes over what may change while the crawl runs: the rates and delays of hosts.
// Everything else stays as it was. It returns the settings that changed (the level of
// messages is among them, for whoever owns the log to follow) and those that would have
// had to; an error means that nothing changed, and names the setting. What was learned of
// hosts, and what they ordered, stays. It may be called at any time, but not by a hook.
func (c *Crawler) Reload(s *Settings) (applied, refused []Change, err error) {
	return c.inner.Reload(s)
}

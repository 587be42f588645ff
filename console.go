package crawl

import (
	"context"
	"log/slog"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
)

// ListenConfig says where a crawl is to be seen and steered. Addr is required.
type ListenConfig struct {
	// Addr is an IP address or "localhost" with a port, or a port alone, which is one of the
	// loopback address. Port 0 is any that is free.
	Addr string
	// Token is a secret of 16 bytes or more that clients bring as a bearer token. Empty means
	// none, which is refused where other computers can reach Addr.
	Token string
	// Version is told by the metrics. Empty leaves it out.
	Version string
	// Ready, if set, has /readyz fail with the error it returns; a program that has a registry of circuits asks it
	// here. It is called for every such request. Nil: only the crawl counts.
	Ready func() error
	// OnStop, if set, is called when a client has stopped the crawl, for what feeds it to end too. Nil: nothing does.
	OnStop func()
	// Log is told of every order and every refusal. Nil means nobody is.
	Log *slog.Logger
}

// Console is where a crawl is seen and steered over HTTP: health, state, events, metrics and orders, as the manual
// lists them. The socket is open from [Listen] on; requests are answered while [Console.Serve] runs.
type Console struct{ inner assembly.Console }

// Listen opens the socket of a console. Errors about the address and the token, and that the program does not import the
// package console, come before anything is opened; all others are of the socket. Give [Console.Event] to the crawl as
// [Options.OnEvent], and call Serve beside its Run, or Close.
func Listen(cfg ListenConfig) (*Console, error) {
	inner, err := assembly.Listen(assembly.ListenConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &Console{inner}, nil
}

// URL is where it is to be found from this computer, with a slash at the end.
func (l *Console) URL() string { return l.inner.URL() }

// Event passes an event on to those who listen. It never waits.
func (l *Console) Event(e Event) { l.inner.Event(e.inner()) }

// Serve answers requests about a crawl until ctx ends, which should be once [Crawler.Run]
// has returned, and closes the socket. It returns within two seconds of that and leaves
// nothing running. The error is that of the socket. It may be called once.
func (l *Console) Serve(ctx context.Context, c *Crawler) error { return l.inner.Serve(ctx, c.inner) }

// Close closes the socket of a console that was not served.
func (l *Console) Close() error { return l.inner.Close() }

// ErrNotRunning is the error of what can be done to a crawl only while it runs.
var ErrNotRunning = assembly.ErrNotRunning

// Pause stops new requests until [Crawler.Resume]. Requests under way are finished, and MaxTime runs on. It may be
// called at any time, but not by a hook; the error is [ErrNotRunning] before the crawl and once it ends.
func (c *Crawler) Pause() error { return c.inner.Pause() }

// Resume lets a paused crawl go on; on any other it does nothing. See [Crawler.Pause].
func (c *Crawler) Resume() error { return c.inner.Resume() }

// Paused reports whether the crawl is paused.
func (c *Crawler) Paused() bool { return c.inner.Paused() }

// AddSeed adds a URL to a crawl, as if it had been given to [Crawler.Run], with what it is to be asked for by: a method, a
// header, a body, and the meta and label of its page. Before Run it is one of the seeds that Run begins with, while the
// crawl runs one more. It extends the scope, and its host may have a private address: do not pass on URLs from elsewhere.
// One that is known changes nothing. The error is an [ErrSeed] if the URL or the request is none, or [ErrNotRunning] once
// the crawl has ended; see [Crawler.Pause].
func (c *Crawler) AddSeed(url string, options ...FollowOption) error {
	var q followOptions
	for _, option := range options {
		option(&q)
	}
	return c.inner.AddSeed(url, q.Request)
}

// Block stops requests to a host, known or not, until [Crawler.Unblock]; requests under way are finished, and the
// host's URLs stay queued. When only blocked hosts are left the crawl ends after [Options.MaxBlocked] with
// [ErrBlocked]. A resumed crawl still has the host blocked. The host is written as in records: with its port unless
// that is 80 or 443. The error names what is wrong with it, or is [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) Block(host string) error { return c.inner.Block(host) }

// Unblock allows requests to a blocked host again; for any other host it does nothing. See [Crawler.Block].
func (c *Crawler) Unblock(host string) error { return c.inner.Unblock(host) }

// SetCeiling bounds the rate of a host to rps requests per second, in place of MaxRPS and MinDelay
// of the options, whether that is less or more; zero restores these. Server hints and robots.txt
// are obeyed as before, and the strategy works below the ceiling as before. It outlives
// [Crawler.Reload], and a resumed crawl keeps it. The errors are as those of [Crawler.Block].
func (c *Crawler) SetCeiling(host string, rps float64) error { return c.inner.SetCeiling(host, rps) }

// SetScope replaces the regular expressions of the scope: URLs that match one of exclude are out of scope, seeds
// included, and so are links that match none of include, if there are any. They hold for links that are found from
// then on. URLs in the queue that are now out of scope are not requested: each is recorded with the error class
// "excluded" or "not_included" when its turn comes, also if the scope is widened later. A resumed crawl keeps the new
// scope. The error names the expression that is wrong, or is [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) SetScope(include, exclude []string) error {
	return c.inner.SetScope(include, exclude)
}

// Reload applies those options that may change while the crawl runs: rates and delays of hosts. It returns the changes
// that it applied and those that it refused, because they would need a new crawl, each as a line with the field, the
// old value and the new one. An error means that nothing changed, and names the field. What was learned of hosts, and
// their pauses, stay. It may be called at any time, but not by a hook.
func (c *Crawler) Reload(options Options) (applied, refused []string, err error) {
	settings, err := options.settings()
	if err != nil {
		return nil, nil, err
	}
	was, not, err := c.inner.Reload(&settings)
	return changes(was), changes(not), err
}

func changes(all []config.Change) (lines []string) {
	for _, c := range all {
		c.Path = "Options." + config.ProgramField(c.Path)
		lines = append(lines, c.String())
	}
	return lines
}

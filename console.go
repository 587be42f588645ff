package crawl

import (
	"context"
	"log/slog"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// ListenConfig configures [Listen]. Addr is required.
type ListenConfig struct {
	// Addr is an IP address or "localhost" with a port, or a port alone, which means the loopback address. Port 0 is
	// any free port.
	Addr string
	// Token is a secret of 16 bytes or more that clients must send as a bearer token. Empty means that no token is
	// needed, which is refused if other computers can reach Addr.
	Token string
	// Version is shown by the metrics. Empty shows none.
	Version string
	// Ready, if set, is called for each request of /readyz, which fails with its error, for example with that of a
	// registry of circuits. Nil means that only the crawl counts.
	Ready func() error
	// OnStop, if set, is called when a client has stopped the crawl, so that a source of seeds can end too. Nil means
	// none.
	OnStop func()
	// Log receives every command and every refused request. Nil means none.
	Log *slog.Logger
}

// Console serves a dashboard, health checks, metrics, events and an API that controls a crawl;
// docs/reference/http-api.md lists the endpoints. Its socket is open after [Listen]; requests are answered while
// [Console.Serve] runs.
type Console struct{ inner assembly.Console }

// Listen opens the socket of a console. It returns an error before it opens anything if the address or the token is
// wrong, or if the program does not import the package console of this module; any other error is of the socket. Set
// Options.OnEvent to [Console.Event], and call Serve beside Run, or Close.
func Listen(cfg ListenConfig) (*Console, error) {
	inner, err := assembly.Listen(assembly.ListenConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &Console{inner}, nil
}

// URL is the console's URL on this computer, with a slash at the end.
func (l *Console) URL() string { return l.inner.URL() }

// Event passes an event on to the clients that listen. It does not block.
func (l *Console) Event(e Event) { l.inner.Event(assembly.Convert[ratelimit.Event](e)) }

// Serve answers requests about a crawl until ctx ends, which should be after [Crawler.Run] has returned. It then closes
// the socket and returns within two seconds, with no goroutine left. The error is of the socket. Call it once.
func (l *Console) Serve(ctx context.Context, c *Crawler) error { return l.inner.Serve(ctx, c.inner) }

// Close closes the socket of a console whose Serve was not called.
func (l *Console) Close() error { return l.inner.Close() }

// ErrNotRunning is the error of methods that need a crawl that runs.
var ErrNotRunning = assembly.ErrNotRunning

// Pause stops new requests until [Crawler.Resume]. Requests under way are finished, and MaxTime goes on. It may be
// called at any time except by a hook. The error is [ErrNotRunning] if the crawl has not begun or has ended.
func (c *Crawler) Pause() error { return c.inner.Pause() }

// Resume ends a pause; otherwise it does nothing. See [Crawler.Pause].
func (c *Crawler) Resume() error { return c.inner.Resume() }

// Paused reports whether the crawl is paused.
func (c *Crawler) Paused() bool { return c.inner.Paused() }

// AddSeed adds a seed, as if it had been given to [Crawler.Run], with options of its request such as a method, a body
// or a label. Before Run it is one of the seeds that Run begins with. It extends the scope, unless [WithoutScope] is
// given, and its host may have a private address, so do not pass on URLs from elsewhere. A known URL changes nothing. The
// error wraps [ErrSeed] if the URL or the request is invalid, or is [ErrNotRunning] once the crawl has ended; see
// [Crawler.Pause].
func (c *Crawler) AddSeed(url string, options ...FollowOption) error {
	return c.inner.AddSeed(url, requestOf(options))
}

// Block stops requests to a host, known or not, until [Crawler.Unblock]. Requests under way are finished, and the
// host's URLs stay queued, also in a resumed crawl. When only blocked hosts are left, the crawl ends after
// [Options.MaxBlocked] with [ErrBlocked]. The host is written as in records, with its port unless that is 80 or 443.
// The error says what is wrong with it, or is [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) Block(host string) error { return c.inner.Block(host) }

// Unblock allows requests to a blocked host again; for any other host it does nothing. See [Crawler.Block].
func (c *Crawler) Unblock(host string) error { return c.inner.Unblock(host) }

// SetCeiling sets the most requests per second to a host, in place of MaxRPS and MinDelay of the options, whether that
// is lower or higher; zero removes it. Server hints and robots.txt are obeyed as before, and the strategy works below
// the ceiling. It outlives [Crawler.Reload], and a resumed crawl keeps it. Errors are as for [Crawler.Block].
func (c *Crawler) SetCeiling(host string, rps float64) error { return c.inner.SetCeiling(host, rps) }

// SetScope replaces the regular expressions of the scope. URLs that match one of exclude, seeds too, are out of scope,
// and so are links that match none of include, if there are any. Links found from then on are checked by them. A queued
// URL that is now out of scope is not requested: it is recorded with the error class "excluded" or "not_included" when
// it is taken from the queue, also if the scope was widened again. A resumed crawl keeps the new scope. The error names
// the invalid expression, or is [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) SetScope(include, exclude []string) error {
	return c.inner.SetScope(include, exclude)
}

// Reload applies those options that may change while the crawl runs: rates and delays of hosts. It returns the changes
// that it applied and those that it refused because they need a new crawl, each as a line with the field, the old and
// the new value. After an error nothing has changed; the error names the field. What was learned of hosts, and their
// pauses, stay. It may be called at any time except by a hook.
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
